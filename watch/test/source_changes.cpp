// SPDX-License-Identifier: MIT
// Changed sources of copies: when nothing but the host can be the cause.
#include "rules/order_rules.hpp"
#include "written_calls.hpp"

#include <catch2/generators/catch_generators.hpp>

using watch::MemoryPart;

namespace {

constexpr std::uint64_t first = 0x10, second = 0x20; // streams
constexpr std::uint64_t source = 0x10'0000, other = 0x20'0000, memory = 0x30'0000;
constexpr std::uint64_t no_call = 0xFFFF;

class Copies : public WrittenProcess {
public:
  Copies()
      : WrittenProcess([](const watch::World& world, watch::Report report) {
          return watch::order_rules(world, std::move(report), {});
        }) {
    for (const std::uint64_t stream : {first, second})
      see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    for (const std::uint64_t address : {source, other}) {
      see(MemoryPart::allocated_host, {address, 4096});
      see("cuMemHostAlloc", {});
    }
    see(MemoryPart::allocated, {memory, 8192});
    see("cuMemAlloc_v2", {});
  }

  void copy(std::uint64_t number, std::uint64_t stream = first, std::uint64_t from = source) {
    see(MemoryPart::read, {from, 2048, 1 | 1U << 30U});
    see(MemoryPart::written, {memory, 2048, 1});
    see(MemoryPart::source, {number});
    see("cuMemcpyHtoDAsync_v2", {stream});
  }
  void download(std::uint64_t to, std::uint64_t stream) {
    see(MemoryPart::read, {memory + 4096, 2048, 1});
    see(MemoryPart::written, {to, 2048, 1 | 1U << 30U});
    see("cuMemcpyDtoHAsync_v2", {stream});
  }
  void launch(std::uint64_t stream, std::uint64_t pointer) {
    see(MemoryPart::pointers, {pointer});
    see("cuLaunchKernel", {stream, 0x77});
  }
  void order(std::uint64_t event, std::uint64_t from, std::uint64_t to) {
    see("cuEventCreate", {event, CU_EVENT_DISABLE_TIMING});
    see("cuEventRecord", {event, from});
    see("cuStreamWaitEvent", {to, event, 0});
  }
  void change(std::uint64_t number) { see(MemoryPart::source_changed, {number, no_call, 0}); }
  bool finds_a_change() { return end().find("source-changed") == 0; }
};

} // namespace

TEST_CASE("a source that changes before its copy begins is found, with the call that was next", "[order]") {
  Copies alone, noticed;
  alone.copy(1);
  alone.change(1);
  CHECK(alone.end() == "source-changed 1: the source of a copy on stream 0x10 has changed, and the copy has "
                       "not begun: nothing orders the change behind the copy; the memory was allocated here");
  noticed.copy(1);
  noticed.see(MemoryPart::source_changed, {1, entry_named("cuStreamSynchronize"), 5});
  CHECK(noticed.end().find("; the change was seen when this call began; ") != std::string::npos);
}

TEST_CASE("each copy is judged alone, and once", "[order]") {
  Copies process;
  process.copy(1);
  process.copy(2, second, other);
  process.change(2);
  process.change(2);
  process.change(7);
  CHECK(process.end().find("a copy on stream 0x20") != std::string::npos);
}

TEST_CASE("work before the copy may write its source", "[order]") {
  Copies process;
  const bool waits = GENERATE(false, true);
  SECTION("a copy to it") { process.download(source, first); }
  SECTION("a copy to it on another stream") {
    process.download(source, second);
    process.order(0x50, second, first);
  }
  SECTION("a kernel that gets memory of the host") { process.launch(first, other); }
  SECTION("such a kernel on another stream") {
    process.launch(second, other);
    process.order(0x50, second, first);
  }
  SECTION("a kernel whose parameters are not known") {
    process.see(MemoryPart::unknown, {});
    process.see("cuLaunchKernel", {first, 0x77});
  }
  SECTION("a host function") { process.see("cuLaunchHostFunc", {first}); }
  SECTION("a wait for a value") { process.see("cuStreamWaitValue32_v2", {first, other, 1, 0}); }
  SECTION("a graph that is not known") { process.see("cuGraphLaunch", {0x600, first}); }
  if (waits) { // then all of it is done
    process.see("cuStreamSynchronize", {first, 0, 0, 0});
    process.see("cuStreamSynchronize", {second, 0, 0, 0});
  }
  process.copy(1);
  process.change(1);
  CHECK(process.finds_a_change() == waits);
}

TEST_CASE("other work does not hide a change", "[order]") {
  Copies process;
  SECTION("a copy to other memory") { process.download(other, first); }
  SECTION("a kernel that gets memory of the device") { process.launch(first, memory); }
  SECTION("a download on a stream that nothing orders before") { process.download(other, second); }
  process.copy(1);
  process.change(1);
  CHECK(process.finds_a_change());
}

TEST_CASE("a source is not judged if the device has written to it since", "[order]") {
  Copies process;
  process.copy(1);
  SECTION("a copy") { process.download(source, second); }
  SECTION("a kernel") { process.launch(second, source); }
  SECTION("it was freed, and other memory has the address") {
    process.see(MemoryPart::freed, {source, 0});
    process.see("cuMemFreeHost", {});
    process.see(MemoryPart::allocated_host, {source, 4096});
    process.see("cuMemHostAlloc", {});
  }
  process.change(1);
  CHECK(process.end().find("source-changed") == std::string::npos);
}

TEST_CASE("sources that nobody could look at are counted", "[order]") {
  watch::World world;
  watch::OrderBlindness blind;
  world.add(watch::order_rules(world, [](const watch::Finding&) {}, {false, false, &blind}));
  world.see(call_of("cuStreamCreate", {first, CU_STREAM_NON_BLOCKING}));
  watch::CallData data{};
  data.entry = watch::memory_entry;
  data.count = 2;
  data.thread = 1;
  data.words[0] = static_cast<std::uint64_t>(MemoryPart::source);
  world.see(watch::decoded(data));
  world.see(call_of("cuMemcpyHtoDAsync_v2", {first}));
  CHECK(blind.sources == 1);
}

TEST_CASE("the host uses the target of a copy that is not done", "[order]") {
  Copies read, written;
  for (Copies* const process : {&read, &written}) {
    process->see(MemoryPart::target, {3});
    process->download(other, first);
  }
  read.see(MemoryPart::target_used, {3, 0, 9});
  read.see(MemoryPart::target_used, {3, 0, 9}); // of a copy that was reported
  read.see(MemoryPart::target_used, {4, 0, 9}); // of one that is not known
  CHECK(read.end() ==
        "used-before-copied 1: the host reads memory that a copy on stream 0x10 writes, and the "
        "copy is not done: the host has not waited for it; the copy was submitted here; the "
        "memory was allocated here");
  written.see(MemoryPart::target_used, {3, 1, 9});
  CHECK(written.end().find("the host writes to memory") != std::string::npos);
}

TEST_CASE("the place of a write to a source is shown", "[order]") {
  Copies process;
  process.copy(1);
  process.see(MemoryPart::source_changed, {1, watch::changed_here, 5});
  CHECK(process.end().find("; the host writes here; ") != std::string::npos);
}
