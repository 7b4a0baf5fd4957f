// SPDX-License-Identifier: MIT
// The order of the work of a process, as every rule may ask for it.
#include "rules/world.hpp"
#include "written_calls.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <algorithm>

namespace {

using watch::Ordered;
using watch::Point;

constexpr watch::Handle first = 0x10, second = 0x20, third = 0x30; // streams that are not blocking
constexpr watch::Handle blocking = 0x40, unseen = 0x50;            // unseen: created before the records begin
constexpr watch::Handle legacy = 1, event = 0x100, other_event = 0x110, graph = 0x500, exec = 0x600;
constexpr watch::Handle context = 0x400;

class Process {
public:
  Process() {
    for (const watch::Handle stream : {first, second, third})
      see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    see("cuStreamCreate", {blocking, CU_STREAM_DEFAULT});
    for (const watch::Handle each : {event, other_event})
      see("cuEventCreate", {each, CU_EVENT_DISABLE_TIMING});
  }

  void see(const char* symbol, const std::vector<std::uint64_t>& words, CUresult result = CUDA_SUCCESS) {
    watch::Call call = call_of(symbol, words, context);
    call.result = static_cast<std::uint32_t>(result);
    world.see(call);
  }
  /// A kernel.
  Point work(watch::Handle stream) {
    see("cuLaunchKernel", {stream, 0x900});
    REQUIRE(world.order().point().has_value());
    return *world.order().point();
  }
  void record(watch::Handle stream, watch::Handle of = event) { see("cuEventRecord", {of, stream}); }
  void wait(watch::Handle stream, watch::Handle for_event = event) {
    see("cuStreamWaitEvent", {stream, for_event, 0});
  }
  void capture(const char* kernel_or_host, watch::Handle stream) {
    see("cuStreamBeginCapture_v2", {stream, CU_STREAM_CAPTURE_MODE_RELAXED});
    see(kernel_or_host, {stream, 0x900});
    see("cuStreamEndCapture", {stream, graph});
    see("cuGraphInstantiateWithFlags", {exec, graph});
  }

  Ordered before(const Point& earlier, watch::Handle stream) const {
    const watch::StreamState* const later = world.stream(watch::key_of(stream, context, 1));
    REQUIRE(later != nullptr);
    return world.order().compare(earlier, *later);
  }
  Ordered before_record(const Point& earlier, watch::Handle of = event) const {
    return world.order().compare(earlier, *world.event(of));
  }
  Ordered host(const Point& earlier) const { return world.order().compare_with_host(earlier); }
  Ordered host_knows(watch::Handle of) const { return world.order().compare_with_host(*world.event(of)); }

  watch::World world;
};

} // namespace

TEST_CASE("work comes before later work of its stream, and of no other", "[watch][stream-order]") {
  Process process;
  const Point work = process.work(first);
  process.work(second);
  CHECK(process.before(work, first) == Ordered::before);
  CHECK(process.before(work, second) == Ordered::not_before);
  CHECK(process.host(work) == Ordered::not_before);
}

TEST_CASE("an event orders what came before its record", "[watch][stream-order]") {
  Process process;
  process.work(second); // a stream that nobody has used has an order only with its first work
  const Point work = process.work(first);
  process.record(first);
  const Point late = process.work(first);
  process.wait(second);
  CHECK(process.before_record(work) == Ordered::before);
  CHECK(process.before_record(late) == Ordered::not_before);
  CHECK(process.before(work, second) == Ordered::before);
  CHECK(process.before(late, second) == Ordered::not_before);
  process.record(second, other_event); // passes the order on
  process.work(third);
  process.wait(third, other_event);
  CHECK(process.before(work, third) == Ordered::before);
  CHECK(process.before(late, third) == Ordered::not_before);
}

TEST_CASE("a call that failed orders nothing", "[watch][stream-order]") {
  Process process;
  process.work(second);
  const Point work = process.work(first);
  process.record(first);
  process.see("cuStreamWaitEvent", {second, event, 0}, CUDA_ERROR_INVALID_HANDLE);
  process.see("cuStreamSynchronize", {first}, CUDA_ERROR_LAUNCH_FAILED);
  process.see("cuEventQuery", {event}, CUDA_ERROR_NOT_READY);
  CHECK(process.before(work, second) == Ordered::not_before);
  CHECK(process.host_knows(event) == Ordered::not_before);
}

TEST_CASE("a host wait orders the later work of all streams", "[watch][stream-order]") {
  Process process;
  process.work(second);
  const Point work = process.work(first);
  process.record(first);
  SECTION("for an event") { process.see("cuEventSynchronize", {event}); }
  SECTION("a query that says yes") { process.see("cuEventQuery", {event}); }
  SECTION("a time that can be read") { process.see("cuEventElapsedTime", {other_event, event}); }
  SECTION("for a stream") { process.see("cuStreamSynchronize", {first}); }
  SECTION("a query of a stream") { process.see("cuStreamQuery", {first}); }
  SECTION("for the context") { process.see("cuCtxSynchronize", {}); }
  SECTION("for a later event of another stream") {
    process.wait(third);
    process.record(third, other_event);
    process.see("cuEventSynchronize", {other_event});
  }
  CHECK(process.host(work) == Ordered::before);
  CHECK(process.host_knows(event) == Ordered::before);
  CHECK(process.before(work, second) == Ordered::before);
  CHECK(process.host(process.work(first)) == Ordered::not_before);
  process.record(first);
  CHECK(process.host_knows(event) == Ordered::not_before);
}

TEST_CASE("the legacy stream is ordered with the blocking streams of its context", "[watch][stream-order]") {
  Process process;
  process.work(first);
  const Point before = process.work(blocking);
  const Point on_legacy = process.work(legacy);
  CHECK(process.before(before, legacy) == Ordered::before);
  CHECK(process.before(on_legacy, blocking) == Ordered::before);
  CHECK(process.before(on_legacy, first) == Ordered::not_before);
}

TEST_CASE("to ask is no operation of a stream", "[watch][stream-order]") {
  Process process;
  process.see("cuStreamCreate", {0x60, CU_STREAM_DEFAULT});
  process.work(0x60);
  process.work(legacy);
  const Point work = process.work(blocking);
  CHECK(process.before(work, legacy) == Ordered::before); // what would be submitted there
  CHECK(process.before(work, 0x60) == Ordered::not_before);
}

TEST_CASE("a query of a stream does not prove a record that waits for the legacy stream",
          "[watch][stream-order]") {
  Process process;
  const Point work = process.work(legacy);
  process.record(blocking);
  process.see("cuStreamQuery", {blocking}); // measured: such a stream has no work left
  CHECK(process.host(work) == Ordered::unknown);
  CHECK(process.host_knows(event) == Ordered::unknown);
  process.see("cuEventQuery", {event});
  CHECK(process.host(work) == Ordered::before);
}

TEST_CASE("a stream that was made before the records begin may be blocking", "[watch][stream-order]") {
  Process process;
  const Point work = process.work(unseen);
  process.work(legacy);
  CHECK(process.before(work, legacy) == Ordered::unknown);
}

TEST_CASE("an event that others may record leaves the order unknown", "[watch][stream-order]") {
  Process process;
  const char* shape = GENERATE("shared", "opened", "not created here", "recorded by a graph");
  INFO(shape);
  watch::Handle used = 0x120;
  if (shape == std::string("shared")) process.see("cuEventCreate", {used, 6});
  if (shape == std::string("opened")) process.see("cuIpcOpenEventHandle", {used});
  if (shape == std::string("recorded by a graph")) {
    process.see("cuEventCreate", {used, 2});
    process.see("cuGraphAddEventRecordNode", {0x71, graph, used});
  }
  process.work(second);
  const Point earlier = process.work(first);
  process.record(first, used);
  const Point later = process.work(third);
  process.wait(second, used);
  CHECK(process.before(earlier, second) == Ordered::unknown);
  CHECK(process.before(later, second) == Ordered::unknown); // the stream is held
  CHECK(process.host_knows(used) == Ordered::unknown);
  process.see("cuEventSynchronize", {used});
  CHECK(process.host(later) == Ordered::unknown); // for whatever was recorded last
  process.see("cuStreamSynchronize", {second});   // the hold is over
  CHECK(process.before(process.work(third), second) == Ordered::not_before);
}

TEST_CASE("a stream that waits for a value is held until the host knows more", "[watch][stream-order]") {
  Process process;
  process.work(second);
  process.see("cuStreamWaitValue32_v2", {second, 0x9000, 1, 0});
  const Point work = process.work(first);
  process.work(second);
  CHECK(process.world.order().is_held());
  CHECK(process.before(work, second) == Ordered::unknown);
  process.see("cuStreamSynchronize", {second});
  CHECK(process.before(process.work(first), second) == Ordered::not_before);
}

TEST_CASE("what a stream tells the host may order the rest", "[watch][stream-order]") {
  Process process;
  process.work(second);
  const Point work = process.work(first);
  SECTION("by a value") { process.see("cuStreamWriteValue32_v2", {first, 0x9000, 1, 0}); }
  SECTION("by a host function") { process.see("cuLaunchHostFunc", {first}); }
  SECTION("by a copy to memory that is not known") { process.see("cuMemcpyDtoHAsync_v2", {first}); }
  CHECK(process.host(work) == Ordered::unknown);
  CHECK(process.before(work, second) == Ordered::unknown);
}

TEST_CASE("a launch of a graph is ordered as the graph was captured", "[watch][stream-order]") {
  Process process;
  process.work(third);
  const Point work = process.work(first);
  SECTION("only kernels") {
    process.capture("cuLaunchKernel", second);
    process.see("cuGraphLaunch", {exec, second});
    const Point launched = *process.world.order().point();
    CHECK(process.before(work, second) == Ordered::not_before);
    CHECK(process.before(launched, second) == Ordered::before);
    CHECK(process.before(launched, third) == Ordered::not_before);
    process.see("cuGraphLaunch", {exec, third}); // behind the launch before it
    CHECK(process.before(launched, third) == Ordered::before);
  }
  SECTION("with a host function") {
    process.capture("cuLaunchHostFunc", second);
    process.see("cuGraphLaunch", {exec, second});
    CHECK(process.before(work, second) == Ordered::unknown);
  }
  SECTION("made in a way that is not known") {
    process.see("cuGraphInstantiateWithFlags", {exec, graph});
    process.see("cuGraphLaunch", {exec, second});
    CHECK(process.before(work, second) == Ordered::unknown);
  }
}

TEST_CASE("a capture has an order of its own", "[watch][stream-order]") {
  Process process;
  process.work(second);
  process.see("cuStreamBeginCapture_v2", {first, CU_STREAM_CAPTURE_MODE_RELAXED});
  process.see("cuLaunchKernel", {first, 0x900});
  CHECK_FALSE(process.world.order().point().has_value());
  process.record(first);
  process.wait(second);
  const watch::StreamState& joined = *process.world.stream({second, 0, 0});
  REQUIRE(joined.is_capturing());
  watch::Capture& capture = *joined.capture;
  const Point node = capture.last_work.at({first, 0, 0}).point;
  CHECK(capture.order.is_before(node, capture.number({second, 0, 0})));
  process.see("cuLaunchKernel", {second, 0x900});
  CHECK_FALSE(
      capture.order.is_before(capture.last_work.at({second, 0, 0}).point, capture.number({first, 0, 0})));
  CHECK(process.host_knows(event) == Ordered::unknown); // it was recorded in a capture
}

TEST_CASE("a new stream and a new event have nothing of the old ones", "[watch][stream-order]") {
  Process process;
  process.work(second);
  const Point work = process.work(first);
  process.record(first);
  process.see("cuEventDestroy_v2", {event});
  process.see("cuEventCreate", {event, 2});
  process.wait(second);
  CHECK(process.before(work, second) == Ordered::not_before);
  process.see("cuStreamDestroy_v2", {first});
  process.see("cuStreamCreate", {first, CU_STREAM_NON_BLOCKING});
  process.work(first);
  CHECK(process.before(work, first) == Ordered::not_before);
}

TEST_CASE("an event whose destruction failed keeps its record", "[watch][stream-order]") {
  Process process;
  process.work(second);
  const Point work = process.work(first);
  process.record(first);
  process.see("cuEventDestroy_v2", {event}); // recorded before the call
  process.see("cuEventDestroy_v2", {event}, CUDA_ERROR_DEINITIALIZED);
  process.wait(second);
  CHECK(process.before(work, second) == Ordered::before);
}

TEST_CASE("nothing is certain about streams that share a number", "[watch][stream-order]") {
  Process process;
  process.work(second);
  std::vector<Point> works;
  for (watch::Handle stream = 0x10'000; stream < 0x10'000 + 3'000; ++stream) { // never destroyed
    process.see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    works.push_back(process.work(stream));
  }
  const watch::StreamState& last = *process.world.stream({0x10'000 + 2'999, 0, 0});
  const auto shared = std::ranges::find(works, *last.number_in_order, &Point::stream);
  REQUIRE(shared != works.end());
  CHECK(process.world.order().compare(*shared, last) == Ordered::unknown);
  process.see("cuStreamSynchronize", {0x10'000 + 2'999});
  CHECK(process.host(*shared) == Ordered::unknown);
}

TEST_CASE("ten thousand events of one stream share what came before them", "[watch][stream-order]") {
  Process process;
  process.work(second);
  process.record(second, other_event);
  process.wait(first, other_event);
  for (watch::Handle each = 0x20'000; each < 0x20'000 + 10'000; ++each) {
    process.see("cuEventCreate", {each, 2});
    process.work(first);
    process.record(first, each);
  }
  const auto& past = process.world.event(0x20'000)->mark->past;
  CHECK(past == process.world.event(0x20'000 + 9'999)->mark->past);
  CHECK(past->streams.size() <= 2);
}
