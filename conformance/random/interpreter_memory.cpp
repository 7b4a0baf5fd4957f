// SPDX-License-Identifier: MIT
// What only programs with memory use: allocations, copies and fills of four bytes, and host functions.
#include "interpreter.hpp"

#include <algorithm>

namespace conformance {
namespace {

constexpr std::size_t bytes = 4; // of each copy and fill
unsigned char pageable[bytes];

} // namespace

std::string Interpreter::allocate(const Call& call) {
  const int slot = call.arguments[0];
  if (slot != no_object && memory_[slot].address != 0) return not_made;
  const bool host = call.op == Op::memHostAlloc;
  CUdeviceptr address = 0;
  void* pinned = nullptr;
  const CUresult result =
      host ? cu_.MemHostAlloc(slot == no_object ? nullptr : &pinned, memory_bytes, call.flags)
           : cu_.MemAlloc(slot == no_object ? nullptr : &address, memory_bytes);
  if (host) address = reinterpret_cast<CUdeviceptr>(pinned);
  if (result == CUDA_SUCCESS && slot != no_object)
    memory_[slot] = {.address = address, .context = current(call), .host = host};
  return short_form(result);
}

/// Left out while work is held, because the call may wait for it.
std::string Interpreter::free(const Call& call) {
  const int slot = call.arguments[0];
  if (anything_held()) return not_made;
  if (slot != no_object && memory_[slot].in_a_graph) return not_made;
  const CUdeviceptr address = slot == no_object ? 0 : memory_[slot].address;
  const CUresult result =
      call.op == Op::memFree ? cu_.MemFree(address) : cu_.MemFreeHost(reinterpret_cast<void*>(address));
  if (result == CUDA_SUCCESS && slot != no_object) memory_[slot] = {};
  return short_form(result);
}

void Interpreter::submit_transfer(const Call& call, int stream, std::initializer_list<int> memory) {
  if (!capturing(stream)) {
    for (const int slot : memory)
      used(slot, stream);
    return submit(call, stream, 0);
  }
  note_captured_node(stream, {.kind = memory.size() != 0 ? Node::Kind::captured : Node::Kind::plain});
  for (const int slot : memory)
    if (slot != no_object) memory_[slot].in_a_graph = true;
}

/// The answer to a copy or fill without a stream. A device may return before it is done, and does it in the
/// legacy stream of the current context, or of the memory's.
std::string Interpreter::without_stream(const Call& call, CUresult result) {
  if (result == CUDA_SUCCESS) {
    if (current(call) != no_object) legacy_[current(call)].dirty = true;
    for (const Memory& memory : memory_)
      if (memory.address != 0) legacy_[memory.context].dirty = true;
  }
  return short_form(result);
}

std::string Interpreter::transfer_call(const Call& call) {
  const auto& [first, second, third] = call.arguments;
  const auto address = [this](int slot) { return slot == no_object ? 0 : memory_[slot].address; };
  const bool held = held_here(call);
  CUresult result = CUDA_SUCCESS;
  switch (call.op) {
  case Op::memAlloc:
  case Op::memHostAlloc:
    return allocate(call);
  case Op::memFree:
  case Op::memFreeHost:
    return free(call);
  case Op::memcpy:
    return held ? not_made : without_stream(call, cu_.Memcpy(address(first), address(second), bytes));
  case Op::memset:
    return held ? not_made : without_stream(call, cu_.MemsetD8(address(first), 1, bytes));
  case Op::memcpyAsync:
    result = cu_.MemcpyAsync(address(first), address(second), bytes, stream_handle(third));
    if (result == CUDA_SUCCESS) submit_transfer(call, third, {first, second});
    return short_form(result);
  case Op::memcpyPageable:
    result = cu_.MemcpyAsync(address(first), reinterpret_cast<CUdeviceptr>(pageable), bytes,
                             stream_handle(second));
    if (result == CUDA_SUCCESS) submit_transfer(call, second, {first});
    return short_form(result);
  case Op::memsetAsync:
    result = cu_.MemsetD8Async(address(first), 1, bytes, stream_handle(second));
    if (result == CUDA_SUCCESS) submit_transfer(call, second, {first});
    return short_form(result);
  default:
    result = cu_.LaunchHostFunc(
        stream_handle(first), [](void*) {}, nullptr);
    if (result == CUDA_SUCCESS) submit_transfer(call, first, {});
    return short_form(result);
  }
}

void Interpreter::free_memory() {
  for (Memory& memory : memory_) {
    if (memory.address == 0) continue;
    cu_.CtxSetCurrent(contexts_[memory.context]);
    memory.host ? cu_.MemFreeHost(reinterpret_cast<void*>(memory.address)) : cu_.MemFree(memory.address);
    memory = {};
  }
  cu_.CtxSetCurrent(nullptr);
}

} // namespace conformance
