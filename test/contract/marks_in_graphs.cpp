// SPDX-License-Identifier: MIT
// Marks that become nodes of a graph, and reports of what a replay is doing.
#include "destroyed.hpp"
#include "eventually.hpp"
#include "fixture.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

using namespace cuevent;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using test::Stream;

namespace {

/// Gates inside graphs: a replay waits until the word is 1, and sets it to 0 again.
class GraphGateFixture : public test::Fixture {
public:
  GraphGateFixture() {
    const ContextGuard guard(unfailing_);
    void* memory = nullptr;
    REQUIRE(test::call<PFN_cuMemHostAlloc_v2020>("cuMemHostAlloc", 2020)(&memory, sizeof *word_, 0) ==
            CUDA_SUCCESS);
    word_ = static_cast<std::atomic<std::uint32_t>*>(memory);
    *word_ = 0;
  }
  ~GraphGateFixture() {
    test::destroyed_down_to(events_, destroy_retired);
    const ContextGuard guard(unfailing_);
    const CUresult freed = test::call<PFN_cuMemFreeHost_v2000>("cuMemFreeHost", 2000)(word_);
    CHECK(freed == CUDA_SUCCESS);
  }

protected:
  void add_gate(CUstream stream) {
    const auto address = reinterpret_cast<CUdeviceptr>(word_);
    REQUIRE(test::call<PFN_cuStreamWaitValue32_v11070>("cuStreamWaitValue32", 11070)(
                stream, address, 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
    REQUIRE(test::call<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32", 11070)(stream, address, 0,
                                                                                       0) == CUDA_SUCCESS);
  }
  /// Lets one replay pass.
  void open_gate() {
    *word_ = 1;
    CHECK(test::eventually([&] {
      driver.table().pause(1000);
      return *word_ == 0;
    }));
  }
  /// Opens the gate for all replays at the end of a scope, also after an exception.
  struct AllOpen {
    explicit AllOpen(GraphGateFixture& fixture, CUstream stream) : its(fixture), last(stream) {}
    ~AllOpen() {
      const auto query = test::call<PFN_cuStreamQuery_v2000>("cuStreamQuery", 2000);
      while (query(last) == CUDA_ERROR_NOT_READY)
        *its.word_ = 1;
    }
    GraphGateFixture& its;
    CUstream last;
  };

  static FlightReport report_of(const FlightRecorder& recorder) {
    FlightReport report = recorder.report();
    CHECK(report.fault == CUDA_SUCCESS);
    CHECK(report.no_answer == CUDA_SUCCESS);
    return report;
  }
  /// A graph with the marks "before" and "behind" around a gate, and "last".
  Graph gated_graph(FlightRecorder& recorder, CUstream stream, FlightGraph& number) {
    StreamCapture capture(context, stream);
    number = recorder.name_capture(stream, "step");
    recorder.mark(stream, "before");
    add_gate(stream);
    recorder.mark(stream, "behind");
    recorder.mark(stream, "last");
    return capture.end();
  }

  static bool becomes_cause(const FlightRecorder& recorder, const std::string& cause) {
    return test::eventually([&] {
      const FlightReport report = report_of(recorder);
      return !report.findings.empty() && report.findings[0].text.starts_with(cause);
    });
  }

  /// Launches a gated graph three times, and calls `check` with "replay 1 of " and so on, while that replay
  /// is at its gate.
  template <class Check>
  void launch_three(FlightRecorder& recorder, CUstream stream, const Check& check) {
    FlightGraph number{};
    const Graph graph = gated_graph(recorder, stream, number);
    GraphExec exec = graph.instantiate();
    const AllOpen open(*this, stream);
    for (int i = 0; i < 3; ++i)
      recorder.launch(exec, stream, number);
    for (int replay = 1; replay <= 3; ++replay) {
      check("replay " + std::to_string(replay) + " of ");
      open_gate();
    }
  }

  /// Few events, because the tests create and destroy all of them each time.
  static constexpr FlightRecorderOptions small{.marks_per_stream = 16};

private:
  const Context unfailing_ = Context::borrow(context.native_handle(), test::unfailing_driver());
  std::atomic<std::uint32_t>* word_ = nullptr;
  const int events_ = test::live_handles().events;
};

} // namespace

TEST_CASE_METHOD(GraphGateFixture, "a report says which replay is where") {
  const Stream stream(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(stream, "main");
  FlightGraph number{};
  const Graph graph = gated_graph(recorder, stream, number);
  GraphExec exec = graph.instantiate();
  CHECK(report_of(recorder).streams.size() == 1); // nothing is in flight
  const AllOpen open(*this, stream);
  for (int replay = 1; replay <= 3; ++replay) {
    recorder.launch(exec, stream, number);
    std::string text;
    CHECK(test::eventually([&] {
      text = to_text(report_of(recorder));
      return text.find("last reached 'before'") != std::string::npos;
    }));
    const std::string name = "replay " + std::to_string(replay) + " of ";
    CHECK_THAT(text, ContainsSubstring("stream 'main in " + name + "step' has not reached 'behind'"));
    CHECK_THAT(text, ContainsSubstring("stream 'main' waits at '" + name +
                                       "'step'' for 'last' on stream 'main in " + name + "step', which"));
    const FlightReport report = report_of(recorder);
    REQUIRE(report.streams.size() == 2);
    CHECK(report.findings.size() == 1);
    CHECK(report.streams[1].pending == 2);
    open_gate();
    CHECK(test::eventually([&] { return report_of(recorder).findings.empty(); }));
  }
}

TEST_CASE_METHOD(GraphGateFixture, "a replay that has not begun is not the cause") {
  const Stream stuck(context), stream(context);
  DriverEvent event(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(stuck, "stuck");
  recorder.add_stream(stream, "main");
  FlightGraph number{};
  const Graph graph = [&] {
    StreamCapture capture(context, stream);
    number = recorder.name_capture(stream, "step");
    recorder.mark(stream, "mark");
    return capture.end();
  }();
  GraphExec exec = graph.instantiate();
  const AllOpen open(*this, stuck);
  add_gate(stuck);
  recorder.record(event, stuck);
  SECTION("it waits for another stream") { recorder.wait(event, stream); }
  SECTION("earlier work of its stream waits") {
    recorder.wait(event, stream);
    recorder.mark(stream, "earlier");
  }
  recorder.launch(exec, stream, number);
  const FlightReport report = report_of(recorder);
  REQUIRE(report.findings.size() == 1);
  CHECK_THAT(report.findings[0].text, ContainsSubstring("stream 'stuck' has not reached"));
  open_gate();
  CHECK(test::eventually([&] { return report_of(recorder).findings.empty(); }));
}

TEST_CASE_METHOD(GraphGateFixture, "with several launches in flight the oldest is named, and not its marks") {
  const Stream stream(context);
  FlightRecorder recorder(context, small);
  launch_three(recorder, stream, [&](const std::string& replay) {
    const bool is_last = replay == "replay 3 of ";
    const std::string cause = is_last ? "stream 'stream 0 in replay 3 of step' has not reached 'behind'"
                                      : "stream 'stream 0' has not reached '" + replay + "'step''";
    CHECK(becomes_cause(recorder, cause));
    CHECK(report_of(recorder).streams.size() == (is_last ? 2 : 1));
  });
}

TEST_CASE_METHOD(GraphGateFixture, "numbers in memory say where the oldest of several launches is") {
  const Stream stream(context);
  FlightRecorder recorder(context, {.marks_per_stream = 16, .graph_marks = GraphMarks::events_and_memory});
  launch_three(recorder, stream, [&](const std::string& replay) {
    CHECK(becomes_cause(recorder, "stream 'stream 0 in " + replay + "step' has not reached 'behind'"));
  });
  CHECK(test::eventually([&] { return report_of(recorder).findings.empty(); }));
}

TEST_CASE_METHOD(GraphGateFixture, "numbers in memory are used again after their graph") {
  const Stream stream(context);
  FlightRecorder recorder(context, {.marks_per_stream = 16, .graph_marks = GraphMarks::events_and_memory});
  recorder.add_stream(stream);
  FlightGraph number{};
  for (int i = 0; i < (test::fault_is_planned() ? 2 : 1100); ++i) { // more graphs than numbers
    const int before = test::live_handles().events;
    gated_graph(recorder, stream, number);
    CHECK(test::destroyed_down_to(before, destroy_retired));
  }
  const Graph graph = gated_graph(recorder, stream, number);
  GraphExec exec = graph.instantiate();
  const AllOpen open(*this, stream);
  for (int i = 0; i < 2; ++i)
    recorder.launch(exec, stream, number);
  CHECK(test::eventually([&] { return report_of(recorder).streams.size() == 2; }));
}

TEST_CASE_METHOD(GraphGateFixture, "a replay that nobody has noted is reported too") {
  const Stream stream(context), other(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(stream, "captured");
  FlightGraph number{};
  const Graph graph = gated_graph(recorder, stream, number);
  GraphExec exec = graph.instantiate();
  const AllOpen open(*this, other);
  exec.launch(other);
  CHECK(test::eventually([&] { return report_of(recorder).streams.size() == 2; }));
  const FlightReport report = report_of(recorder);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].text ==
        "stream 'captured in a replay of step' has not reached 'behind'; the last mark reached is 'before'");
}

TEST_CASE_METHOD(GraphGateFixture, "the events of marks end with their graph, and its number too") {
  const Stream stream(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(stream);
  destroy_retired();
  const int before = test::live_handles().events;
  FlightGraph number{};
  {
    const Graph graph = gated_graph(recorder, stream, number);
    CHECK(test::live_handles().events == before + 3);
    report_of(recorder);
  }
  CHECK(test::destroyed_down_to(before, destroy_retired));
  CHECK(report_of(recorder).streams.size() == 1);
  CHECK(recorder.try_launched(stream, number) == CUDA_ERROR_INVALID_VALUE);
  gated_graph(recorder, stream, number); // forgets the graphs that have ended
  CHECK_THROWS_AS(recorder.launched(stream, FlightGraph(1)), InvalidValue);
  CHECK_THROWS_AS(recorder.launched(stream, FlightGraph(7)), InvalidValue);
  CHECK(test::destroyed_down_to(before, destroy_retired));
}

TEST_CASE_METHOD(GraphGateFixture, "a launch with a wrong number does not begin") {
  const Stream stream(context);
  DriverEvent event(context, EventFlags::timing);
  FlightRecorder recorder(context, small);
  FlightGraph number{};
  const Graph graph = gated_graph(recorder, stream, number);
  GraphExec exec = graph.instantiate();
  const AllOpen open(*this, stream);
  CHECK_THROWS_AS(recorder.launch(exec, stream, FlightGraph(7)), InvalidValue);
  CHECK(report_of(recorder).streams.size() == 1);
  CHECK_FALSE(report_of(recorder).streams[0].call);
  event.record(stream);
  CHECK(event.synchronize_for(1min)); // there is no closed gate before it
}

TEST_CASE_METHOD(GraphGateFixture, "a graph with marks may outlive the recorder") {
  const Stream stream(context);
  std::optional<FlightRecorder> recorder(FlightRecorder(context, small));
  FlightGraph number{};
  const Graph graph = gated_graph(*recorder, stream, number);
  GraphExec exec = graph.instantiate();
  recorder.reset();
  const AllOpen open(*this, stream);
  exec.launch(stream);
  open_gate();
  DriverEvent done(context);
  done.record(stream);
  CHECK(done.synchronize_for(1min));
}

TEST_CASE_METHOD(GraphGateFixture, "marks refuse captures that are invalidated, and names need a capture") {
  const Stream stream(context);
  FlightRecorder recorder(context, small);
  CHECK_THROWS_AS(recorder.name_capture(stream, "step"), IllegalState);
  StreamCapture capture(context, stream);
  DriverEvent captured(context);
  captured.record(stream);
  CHECK(captured.try_query_relaxed() == CUDA_ERROR_CAPTURED_EVENT); // invalidates the capture
  CHECK_THROWS_AS(recorder.mark(stream, "mark"), StreamCaptureInvalidated);
  FlightGraph number{};
  CHECK(recorder.try_name_capture(number, stream, "step") == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE_METHOD(GraphGateFixture, "marks and reports break no capture in any mode") {
  const Stream stream(context);
  FlightRecorder recorder(context, small);
  std::atomic<bool> stop = false;
  std::atomic<int> reports = 0, faults = 0;
  const CaptureMode mode = GENERATE(CaptureMode::global, CaptureMode::per_thread, CaptureMode::relaxed);
  std::thread reporter([&] {
    while (!stop) {
      FlightReport report;
      const CUresult result = recorder.try_report(report);
      if (result != CUDA_SUCCESS || report.fault != CUDA_SUCCESS || report.no_answer != CUDA_SUCCESS)
        ++faults;
      ++reports;
    }
  });
  const int captures = test::fault_is_planned() ? 2 : 200;
  int whole = 0;
  try {
    for (int i = 0; i < captures; ++i) {
      StreamCapture capture(context, stream, mode);
      recorder.mark(stream, "first");
      recorder.mark(stream, "second");
      const Graph graph = capture.end();
      if (graph.event_nodes().records.size() == 2) ++whole;
      destroy_retired();
    }
  } catch (const DriverError&) {
    stop = true;
    reporter.join();
    throw;
  }
  CHECK(test::eventually([&] { return reports != 0; }));
  stop = true;
  reporter.join();
  CHECK(whole == captures);
  CHECK(faults == 0);
  destroy_retired();
}
