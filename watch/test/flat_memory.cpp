// SPDX-License-Identifier: MIT
// A process may create as many objects as it likes: what is known of them takes no more memory.
#include "report/hang_threads.hpp"
#include "report/process_rules.hpp"
#include "rules/stream_work.hpp"
#include "written_calls.hpp"

#include <malloc.h>

namespace {

#ifdef __has_feature
constexpr bool is_sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool is_sanitized = false;
#endif

constexpr watch::Handle first = 0x10, second = 0x20; // streams
constexpr std::uint64_t segment = std::uint64_t{1} << 40U;

/// A process whose calls are seen by all rules, as with all options. No handle is given away again.
class Process {
public:
  Process() {
    watch::add_rules(world_, {true, true, {}, watch::OrderOptions{true, true, &blind_}},
                     [](const watch::Finding&) {});
    world_.add(std::make_shared<watch::StreamWork>(world_));
    world_.add(std::make_shared<watch::LastCalls>());
    for (const watch::Handle stream : {first, second})
      see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    see(watch::MemoryPart::allocated, segment, 0x200'0000);
    see("cuMemAlloc_v2", {});
  }

  watch::Handle fresh() { return last_ += 0x100; }

  void see(const char* symbol, const std::vector<std::uint64_t>& words, CUresult result = CUDA_SUCCESS) {
    watch::Call call = call_of(symbol, words);
    call.result = static_cast<std::uint32_t>(result);
    call.thread = thread;
    call.stack = 1;
    call.time = std::chrono::nanoseconds(last_);
    world_.see(call);
  }

  void see(watch::MemoryPart part, std::uint64_t address, std::uint64_t size = 0, std::uint64_t flags = 0) {
    watch::CallData data{};
    data.entry = watch::memory_entry;
    data.count = 4;
    data.thread = thread;
    data.words[0] = static_cast<std::uint64_t>(part);
    data.words[1] = address;
    data.words[2] = size;
    data.words[3] = flags;
    world_.see(watch::decoded(data));
  }

  watch::Handle event(std::uint64_t flags = CU_EVENT_DISABLE_TIMING) {
    const watch::Handle made = fresh();
    see("cuEventCreate", {made, flags});
    return made;
  }
  void work(watch::Handle stream) { see("cuLaunchKernel", {stream, 0x900}); }
  void record(watch::Handle event, watch::Handle stream) { see("cuEventRecord", {event, stream}); }
  void destroy(watch::Handle event) { see("cuEventDestroy_v2", {event}); }

  std::uint32_t thread = 1;

private:
  watch::World world_;
  watch::OrderBlindness blind_;
  watch::Handle last_ = 0x10000;
};

/// Blocks of all sizes, of which some are split, some are joined, and some are of a graph.
void live_in_turn(Process& of) {
  const watch::Handle number = of.fresh() / 0x100;
  const auto random = [&](std::uint64_t of_number, unsigned below) {
    return (of_number * 0x9E37'79B9'7F4A'7C15U >> 40U) % below;
  };
  const auto begin = [&](std::uint64_t of_number) { return segment + 512 * random(of_number, 0x4000); };
  constexpr unsigned behind = 100; // newer blocks than the one that is freed
  of.see(watch::MemoryPart::block_allocated, begin(number), 512 * (1 + random(number + 1, 64)),
         number % 8 == 0);
  of.see(watch::MemoryPart::pointers, begin(number));
  of.work(number % 2 == 0 ? first : second);
  of.see(watch::MemoryPart::block_freed, begin(number - behind));
}

struct Life {
  const char* name;
  void (*live)(Process&);
  bool is_waited_for = true; // by the host
};

const Life lives[] = {
    {"a block of PyTorch's allocator",
     [](Process& of) {
       const watch::Handle block = of.fresh() % 0x100'0000 + segment;
       of.see(watch::MemoryPart::block_allocated, block, 512);
       for (const watch::Handle stream : {first, second}) {
         of.see(watch::MemoryPart::pointers, block);
         of.work(stream);
       }
       of.see(watch::MemoryPart::block_freed, block, 512);
     }},
    {"blocks that are split and joined", live_in_turn},
    {"blocks that the host never waits for", live_in_turn, false},
    {"an event that is recorded",
     [](Process& of) {
       const watch::Handle event = of.event();
       of.work(first);
       of.record(event, first);
       of.destroy(event);
     }},
    {"an event that streams and the host wait for",
     [](Process& of) {
       const watch::Handle event = of.event();
       of.work(first);
       of.record(event, first);
       of.work(first);
       of.see("cuStreamWaitEvent", {second, event, 0});
       of.see("cuEventQuery", {event}, CUDA_ERROR_NOT_READY);
       of.see("cuEventQuery", {event});
       of.see("cuEventQuery", {event});
       of.destroy(event);
     }},
    {"an event that two streams record",
     [](Process& of) {
       const watch::Handle event = of.event();
       for (const watch::Handle stream : {first, second, first, second}) {
         of.work(stream);
         of.record(event, stream);
       }
       of.destroy(event);
     }},
    {"an event that is never recorded",
     [](Process& of) {
       const watch::Handle event = of.event();
       of.see("cuStreamWaitEvent", {second, event, 0});
       of.destroy(event);
     }},
    {"an event whose record fails",
     [](Process& of) {
       const watch::Handle event = of.event();
       of.see("cuEventRecord", {event, first}, CUDA_ERROR_INVALID_HANDLE);
       of.see("cuEventQuery", {event});
       of.destroy(event);
     }},
    {"events that measure a time",
     [](Process& of) {
       const watch::Handle start = of.event(0), end = of.event(0);
       of.record(start, first);
       of.work(first);
       of.record(end, first);
       of.see("cuEventElapsedTime", {start, end}, CUDA_ERROR_NOT_READY);
       of.see("cuEventSynchronize", {end});
       of.see("cuEventElapsedTime", {start, end});
       of.destroy(start);
       of.destroy(end);
     }},
    {"a stream",
     [](Process& of) {
       const watch::Handle stream = of.fresh(), event = of.event();
       of.see("cuStreamCreate", {stream, CU_STREAM_DEFAULT});
       of.work(stream);
       of.record(event, stream);
       of.see("cuStreamSynchronize", {stream});
       of.see("cuStreamDestroy_v2", {stream});
       of.destroy(event);
     }},
    {"a captured graph",
     [](Process& of) {
       const watch::Handle graph = of.fresh(), exec = of.fresh(), copy = of.fresh();
       of.see("cuStreamBeginCapture_v2", {first, CU_STREAM_CAPTURE_MODE_RELAXED});
       of.work(first);
       of.see("cuStreamEndCapture", {first, graph});
       of.see("cuGraphClone", {copy, graph});
       of.see("cuGraphInstantiateWithFlags", {exec, graph});
       of.see("cuGraphLaunch", {exec, first});
       of.see("cuGraphExecDestroy", {exec});
       of.see("cuGraphDestroy", {graph});
       of.see("cuGraphDestroy", {copy});
     }},
    {"a thread",
     [](Process& of) {
       ++of.thread;
       of.see("cuThreadExchangeStreamCaptureMode", {CU_STREAM_CAPTURE_MODE_RELAXED});
       of.work(2);
       of.work(first);
     }},
};

} // namespace

/// As many lives as are kept, and then some more.
void check_memory(const Life& life, int enough, int more) {
  INFO(life.name);
  Process process;
  const auto live = [&] {
    life.live(process);
    for (const watch::Handle stream : {first, second})
      if (life.is_waited_for) process.see("cuStreamSynchronize", {stream}); // what is pending is known
  };
  for (int i = 0; i < enough; ++i)
    live();
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < more; ++i)
    live();
  const std::size_t after = mallinfo2().uordblks;
  CHECK(after < before + before / 8); // if nothing were forgotten, several times as much
}

TEST_CASE("what is known of objects that are gone takes no more and more memory", "[memory]") {
  if (is_sanitized) SKIP("mallinfo2() does not know the sanitizer's memory");
  for (const Life& life : lives)
    check_memory(life, 10'000, 20'000);
}

// Takes minutes.
TEST_CASE("ten million blocks of PyTorch's allocator take no more and more memory", "[.][ten-million]") {
  if (is_sanitized) SKIP("mallinfo2() does not know the sanitizer's memory");
  for (const Life& life : lives)
    if (std::string(life.name).starts_with("block")) check_memory(life, 100'000, 10'000'000);
}
