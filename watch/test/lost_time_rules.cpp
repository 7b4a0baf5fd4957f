// SPDX-License-Identifier: MIT
#include "written_calls.hpp"

using namespace watch;
using namespace std::chrono_literals;

namespace {

constexpr Handle stream = 0x200, other_stream = 0x300;
constexpr std::uint64_t memory = 0x1000;

struct Process : WrittenProcess {
  Process() : WrittenProcess(lost_time_rules) {}

  /// What the auditor measured of a call, with a tick of a nanosecond.
  void spend(const char* symbol, std::chrono::nanoseconds time, std::vector<std::uint64_t> more) {
    watch::CallData data{};
    data.entry = spent_entry;
    data.thread = thread;
    data.stack = stack;
    data.context = context;
    data.count = 4;
    data.words[0] = entry_named(symbol) | static_cast<std::uint64_t>(time.count()) << 16U;
    std::copy(more.begin(), more.end(), data.words + 1);
    watch::Call call = decoded(data);
    call.duration = time;
    see_call(call);
  }

  void copy(std::chrono::nanoseconds time = 1ms) {
    spend("cuMemcpyDtoHAsync_v2", time, {1});
    see("cuMemcpyDtoHAsync_v2", {stream});
  }
  void allocate(std::uint64_t address) { spend("cuMemAlloc_v2", 5us, {address}); }
  void free(std::uint64_t address) { spend("cuMemFree_v2", 20us, {address}); }
  /// A function that was submitted and ran at these times.
  void run(Handle on, std::chrono::nanoseconds submitted, std::chrono::nanoseconds began,
           std::chrono::nanoseconds time) {
    spend("cuLaunchHostFunc", time,
          {static_cast<std::uint64_t>(began.count()), static_cast<std::uint64_t>(submitted.count()), on});
  }
};

} // namespace

TEST_CASE("copies of pageable memory that wait are counted with their time", "[watch][cost]") {
  Process process;
  process.repeat(100, [&] {
    process.copy();
    process.see("cuLaunchKernel", {stream, 0x900});
  });
  CHECK(process.end() == "pageable-copy 100: the thread lost 100 ms in 100 copies that were submitted here, "
                         "because their memory is pageable");
}

TEST_CASE("a thread that waits right after a copy has lost nothing", "[watch][cost]") {
  for (const char* const wait : {"cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoH_v2"}) {
    Process process;
    process.repeat(200, [&] {
      process.copy();
      process.see("cuEventRecord", {0x100, stream});
      process.see(wait, {stream});
    });
    CHECK(process.end().empty());
  }
}

TEST_CASE("few copies, or copies that are staged at once, cost little", "[watch][cost]") {
  Process few, staged, of_two_threads;
  few.repeat(29, [&] { few.copy(), few.see("cuLaunchKernel", {stream, 0x900}); });
  staged.repeat(500, [&] { staged.copy(9us), staged.see("cuLaunchKernel", {stream, 0x900}); });
  of_two_threads.repeat(100, [&] {
    of_two_threads.thread = 1;
    of_two_threads.copy();
    of_two_threads.thread = 2; // whose work says nothing about the first thread
    of_two_threads.see("cuLaunchKernel", {stream, 0x900});
    of_two_threads.thread = 1;
    of_two_threads.see("cuStreamSynchronize", {stream});
  });
  for (Process* const process : {&few, &staged, &of_two_threads})
    CHECK(process->end().empty());
}

TEST_CASE("memory that is allocated and freed in a loop is counted, with the time of both", "[watch][cost]") {
  Process process;
  process.repeat(200, [&] {
    process.stack = 1;
    process.allocate(memory);
    process.stack = 2;
    process.free(memory);
  });
  CHECK(process.end() ==
        "allocated-in-a-loop 200: memory was allocated here and freed 200 times; at most 1 of "
        "the blocks lived at a time. These calls took 5 ms; it was freed here");
}

TEST_CASE("memory that lives, or few blocks, are no loop", "[watch][cost]") {
  Process living, few, unknown;
  for (const int freed : {0, 1})
    for (std::uint64_t i = 0; i < 200; ++i)
      freed != 0 ? living.free(memory + i) : living.allocate(memory + i);
  few.repeat(99, [&] { few.allocate(memory), few.free(memory); });
  unknown.repeat(200, [&] { unknown.free(memory); }); // it was allocated before anybody looked
  for (Process* const process : {&living, &few, &unknown})
    CHECK(process->end().empty());
}

TEST_CASE("functions that wait for functions of other streams are counted", "[watch][cost]") {
  Process process;
  auto now = 0ns;
  process.repeat(100, [&] {
    process.run(stream, now, now, 1ms);
    process.run(other_stream, now + 250us, now + 1001us, 1ms);
    now += 3ms;
  });
  CHECK(process.end() ==
        "serial-host-functions 100: functions that were submitted here waited 75 ms for functions of other "
        "streams on the same thread, in 100 cases; so did their streams; a function that ran meanwhile was "
        "submitted here");
}

TEST_CASE("functions that need not wait for others cost nothing", "[watch][cost]") {
  Process same_stream, later, on_threads, brief;
  auto now = 0ns;
  for (int i = 0; i < 200; ++i, now += 5ms) {
    same_stream.run(stream, now, now, 1ms), same_stream.run(stream, now, now + 1001us, 1ms);
    later.run(stream, now, now, 1ms),
        later.run(other_stream, now, now + 2ms, 1ms); // it had other work before
    brief.run(stream, now, now, 3us), brief.run(other_stream, now, now + 4us, 3us);
    on_threads.thread = 1, on_threads.run(stream, now, now, 1ms);
    on_threads.thread = 2, on_threads.run(other_stream, now, now + 1001us, 1ms);
  }
  for (Process* const process : {&same_stream, &later, &on_threads, &brief})
    CHECK(process->end().empty());
}
