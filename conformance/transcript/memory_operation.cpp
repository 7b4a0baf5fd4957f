// SPDX-License-Identifier: MIT
// Values that streams write and wait for: which addresses, and how a wait compares.

#include "everywhere.hpp"

#include <cstdint>

namespace transcript {
namespace {

using namespace std::chrono_literals;

// Two words of pinned memory that lie at a multiple of 8 bytes.
unsigned* two_words(Lab& lab) {
  unsigned* const first = lab.word();
  unsigned* const second = lab.word();
  return Lab::address(first) % 8 == 0 ? first : (lab.word(), second);
}

std::uint64_t load(const unsigned* words) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(words), __ATOMIC_ACQUIRE);
}

void addresses(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  const CUdeviceptr word = Lab::address(two_words(lab));
  lab.is("write_64.misaligned", cu.StreamWriteValue64(stream, word + 4, 1, 0));
  lab.is("wait_64.misaligned", cu.StreamWaitValue64(stream, word + 4, 0, CU_STREAM_WAIT_VALUE_GEQ));
  lab.is("write_32.misaligned", cu.StreamWriteValue32(stream, word + 2, 1, 0));
  lab.is("wait_32.misaligned", cu.StreamWaitValue32(stream, word + 2, 0, CU_STREAM_WAIT_VALUE_GEQ));
  lab.is("write_64.unknown_flags", cu.StreamWriteValue64(stream, word, 1, 0x100));
  lab.is("wait_64.unknown_flags", cu.StreamWaitValue64(stream, word, 1, 0x100));
  {
    const Current none(lab, nullptr);
    lab.is("no_context.write_64", cu.StreamWriteValue64(stream, word, 1, 0));
    lab.is("no_context.wait_64", cu.StreamWaitValue64(stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    lab.is("no_context.write_64.stream_0", cu.StreamWriteValue64(nullptr, word, 1, 0));
  }
  lab.is("synchronize", cu.StreamSynchronize(stream));
}

// Addresses that the device may not reach. Each may end in a fault.
void null_address(Lab& lab) {
  Stream stream(lab);
  lab.is("wait", lab.cu.StreamWaitValue64(stream, 0, 0, CU_STREAM_WAIT_VALUE_GEQ));
  lab.is("write", lab.cu.StreamWriteValue64(stream, 0, 1, 0));
  lab.is("synchronize", lab.cu.StreamSynchronize(stream));
}
void not_pinned(Lab& lab) {
  static std::uint64_t word = 0;
  const CUdeviceptr address = reinterpret_cast<std::uintptr_t>(&word);
  Stream stream(lab);
  lab.is("wait", lab.cu.StreamWaitValue64(stream, address, 0, CU_STREAM_WAIT_VALUE_GEQ));
  lab.is("write", lab.cu.StreamWriteValue64(stream, address, 1, 0));
  lab.is("synchronize", lab.cu.StreamSynchronize(stream));
}

// How a wait for 64 bits compares: `held` values do not release it.
void compare(Lab& lab) {
  const Api& cu = lab.cu;
  constexpr std::uint64_t half = std::uint64_t{1} << 63;
  struct Case {
    const char* name;
    unsigned flags;
    std::uint64_t memory, value;
  };
  for (const auto& [name, flags, memory, value] :
       {Case{"geq.equal", CU_STREAM_WAIT_VALUE_GEQ, 5, 5}, Case{"geq.higher", CU_STREAM_WAIT_VALUE_GEQ, 6, 5},
        Case{"geq.lower", CU_STREAM_WAIT_VALUE_GEQ, 4, 5},
        Case{"geq.higher_by_half_less_one", CU_STREAM_WAIT_VALUE_GEQ, half, 1},
        Case{"geq.higher_by_half", CU_STREAM_WAIT_VALUE_GEQ, half, 0},
        Case{"geq.half_for_the_largest", CU_STREAM_WAIT_VALUE_GEQ, half, half - 1},
        Case{"geq.around_zero", CU_STREAM_WAIT_VALUE_GEQ, 1, ~std::uint64_t{0}},
        Case{"eq.equal", CU_STREAM_WAIT_VALUE_EQ, 5, 5}, Case{"eq.higher", CU_STREAM_WAIT_VALUE_EQ, 6, 5},
        Case{"and.common_bit", CU_STREAM_WAIT_VALUE_AND, 6, 4},
        Case{"and.no_common_bit", CU_STREAM_WAIT_VALUE_AND, 6, 1},
        Case{"nor.a_zero_in_both", CU_STREAM_WAIT_VALUE_NOR, 6, 1},
        Case{"nor.no_zero_in_both", CU_STREAM_WAIT_VALUE_NOR, ~std::uint64_t{1}, 1}}) {
    Stream stream(lab);
    unsigned* const words = two_words(lab);
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(words), memory, __ATOMIC_RELEASE);
    lab.is(name, cu.StreamWaitValue64(stream, Lab::address(words), value, flags));
    std::this_thread::sleep_for(20ms);
    lab.is(std::string(name) + ".stream", cu.StreamQuery(stream));
    // Releases every kind of wait above.
    const std::uint64_t release = flags == CU_STREAM_WAIT_VALUE_NOR ? 0 : value;
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(words), release, __ATOMIC_RELEASE);
    lab.is(std::string(name) + ".released", cu.StreamSynchronize(stream));
  }
}

void order(Lab& lab) {
  const Api& cu = lab.cu;
  Stream first(lab), second(lab);
  unsigned* const words = two_words(lab);
  const CUdeviceptr word = Lab::address(words);
  Event after(lab);
  // The wait is submitted before the write.
  lab.is("wait_first", cu.StreamWaitValue64(second, word, 2, CU_STREAM_WAIT_VALUE_GEQ));
  lab.is("then_write", cu.StreamWriteValue64(second, word, 3, 0));
  cu.EventRecord(after, second);
  {
    Gate gate(lab, first);
    lab.is("write", cu.StreamWriteValue64(first, word, 2, 0));
    std::this_thread::sleep_for(20ms);
    lab.is("held", cu.EventQuery(after));
    lab.shows("held.value", load(words));
    gate.open();
  }
  lab.is("synchronize", cu.EventSynchronize(after));
  lab.shows("value", load(words));
  lab.is("lower", cu.StreamWriteValue64(first, word, 1, 0)); // a plain store
  lab.is("lower.synchronize", cu.StreamSynchronize(first));
  lab.shows("lower.value", load(words));
  lab.is("write_32", cu.StreamWriteValue32(first, word + 4, 1, 0));
  lab.is("write_32.synchronize", cu.StreamSynchronize(first));
  lab.shows("write_32.value", load(words));
}

// The operations of CUDA 8 and 9, which have the names of those of CUDA 11.7.
template <class Value>
using Operation = CUresult (*)(CUstream, CUdeviceptr, Value, unsigned);

template <class Value>
void ask_of_cuda_8(Lab& lab, const std::string& name, const char* symbol, int version) {
  void* address = nullptr;
  lab.must(lab.cu.GetProcAddress(symbol, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr),
           symbol);
  const auto call = reinterpret_cast<Operation<Value>>(address);
  Stream stream(lab);
  const CUdeviceptr words = Lab::address(two_words(lab));
  everywhere_and_captured(lab, name, [&](CUstream where) { return call(where, words, 0, 0); });
  lab.is(name, call(stream, words, 0, 0));
  lab.is(name + ".stream_0", call(nullptr, words, 0, 0));
  lab.is(name + ".unknown_flags", call(stream, words, 0, 0x100));
  lab.is(name + ".misaligned", call(stream, words + 2, 0, 0));
  lab.is(name + ".null_address", call(stream, 0, 0, 0));
}

void of_cuda_8(Lab& lab) {
  ask_of_cuda_8<cuuint32_t>(lab, "write_32", "cuStreamWriteValue32", 8000);
  ask_of_cuda_8<cuuint32_t>(lab, "wait_32", "cuStreamWaitValue32", 8000);
  ask_of_cuda_8<cuuint64_t>(lab, "write_64", "cuStreamWriteValue64", 9000);
  ask_of_cuda_8<cuuint64_t>(lab, "wait_64", "cuStreamWaitValue64", 9000);
}

} // namespace

std::vector<Scenario> memory_operation_scenarios() {
  return {{"memory_operation.addresses", addresses, Place::child},
          {"memory_operation.null_address", null_address, Place::child},
          {"memory_operation.not_pinned", not_pinned, Place::child},
          {"memory_operation.compare", compare},
          {"memory_operation.order", order},
          {"memory_operation.of_cuda_8", of_cuda_8, Place::alone}};
}

} // namespace transcript
