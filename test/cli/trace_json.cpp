// SPDX-License-Identifier: MIT
#include "trace_json.hpp"

#include "parsed_trace.hpp"
#include "training_model.hpp"

#include <cuevent/sim.hpp>

#include <catch2/catch_test_macros.hpp>

namespace {

using cli::Recording;
using cuevent::DeviceTime;
using cuevent::HostTime;
using cuevent::StageId;
using cuevent::StreamId;
using test::ParsedSlice;
using test::ParsedTrace;
using namespace std::chrono_literals;
using Names = std::vector<std::string>;

ParsedTrace traced(const Recording& recording) {
  return ParsedTrace(cli::trace_json(recording, cli::timeline_of(recording)));
}

/// A recording written by hand: two streams, and stages a, b and c.
class Written {
public:
  Written() {
    for (const char* name : {"a", "b", "c"})
      recording.report.stages.push_back({.name = name});
    recording.report.streams = {{.name = "one"}, {.name = "two"}};
  }
  std::uint64_t span(unsigned stream, unsigned stage, unsigned depth, double begin, double end) {
    const std::uint64_t number = recording.report.spans.size() + 1;
    recording.report.spans.push_back({.number = number,
                                      .stage = StageId(stage),
                                      .stream = StreamId(stream),
                                      .depth = depth,
                                      .begin = DeviceTime(begin),
                                      .end = DeviceTime(end)});
    return number;
  }
  void submitted(std::chrono::nanoseconds opened, std::chrono::nanoseconds closed) {
    recording.report.spans.back().opened = HostTime(opened);
    recording.report.spans.back().closed = HostTime(closed);
  }
  void wait(std::uint64_t from, std::uint64_t to, double departure, double arrival) {
    recording.report.waits.push_back({.from = from,
                                      .to = to,
                                      .from_stream = StreamId(0),
                                      .to_stream = StreamId(1),
                                      .departure = DeviceTime(departure),
                                      .arrival = DeviceTime(arrival)});
  }

  Recording recording{.title = "by hand", .device = "none"};
};

} // namespace

TEST_CASE("the slices in the trace of a training loop nest, and every wait has both ends") {
  constexpr std::size_t steps = 20;
  cuevent::sim::Machine machine;
  const gpu::Gpu gpu{cuevent::Driver(cuevent::sim::get_proc_address)};
  training::Model model(gpu);
  for (int i = 0; i < static_cast<int>(steps); ++i)
    model.step(i);
  model.timer().collect();

  const ParsedTrace trace = traced({.title = "loop", .device = gpu.name(), .report = model.timer().report()});
  CHECK(trace.count("copying", "copy in") == steps);
  for (const char* stage : {"forward", "backward", "optimizer"})
    CHECK(trace.count("computing", stage) == steps);
  CHECK(trace.slices.size() == 8 * steps); // and the host's slice of each

  // The first two copies find their buffers free.
  CHECK(trace.flows.size() == steps + (steps - 2));
  for (const test::ParsedFlow& flow : trace.flows)
    CHECK((flow.from == "copy in" ? flow.to == "forward" : flow.from == "backward" && flow.to == "copy in"));
}

TEST_CASE("a stage is traced inside the stages that were open") {
  cuevent::sim::Machine machine;
  const gpu::Gpu gpu{cuevent::Driver(cuevent::sim::get_proc_address)};
  const gpu::Stream stream = gpu.stream();
  cuevent::StageTimer timer(gpu.context);
  timer.add_stream(stream, "only");
  timer.open(stream, timer.stage("step"));
  timer.open(stream, timer.stage("forward"));
  timer.open(stream, timer.stage("layer"));
  timer.close(stream);
  timer.close(stream);
  timer.next(stream, timer.stage("next step"));
  timer.close(stream);
  timer.collect();

  const ParsedTrace trace = traced({.report = timer.report()});
  for (const char* track : {"only", "host"}) {
    CHECK(trace.slice(track, "step").around.empty());
    CHECK(trace.slice(track, "forward").around == Names{"step"});
    CHECK(trace.slice(track, "layer").around == Names{"step", "forward"});
    CHECK(trace.slice(track, "next step").around.empty());
    CHECK(trace.slice(track, "next step").begin == trace.slice(track, "step").end);
  }
}

TEST_CASE("times that rounding put out of order are traced in order") {
  Written written;
  written.span(0, 1, 1, 100, 205); // ends later than the slice around it
  written.span(0, 0, 0, 100, 200);
  const auto from = written.span(0, 2, 0, 197, 300); // begins before the previous slice ends
  const auto to = written.span(1, 0, 0, 298, 400);
  written.wait(from, to, 300, 298);
  const ParsedTrace trace = traced(written.recording);
  CHECK(trace.slice("one", "b").around == Names{"a"});
  CHECK(trace.slice("one", "c").around.empty());
  CHECK(trace.slice("one", "c").begin == trace.slice("one", "a").end);
  REQUIRE(trace.flows.size() == 1);
  CHECK(trace.flows[0].from == "c");
  CHECK(trace.flows[0].to == "a");
}

TEST_CASE("a stage is traced even if the stage around it was not timed") {
  Written written;
  written.span(0, 0, 0, 0, 10);
  written.span(0, 1, 1, 20, 30);
  written.span(0, 2, 0, 40, 50);
  const ParsedTrace trace = traced(written.recording);
  for (const ParsedSlice& slice : trace.slices)
    CHECK(slice.around.empty());
  CHECK(trace.slice("one", "b").begin - trace.slice("one", "a").begin == 0.020);
}

TEST_CASE("stages without length are traced") {
  Written written;
  const auto from = written.span(0, 0, 0, 10, 10);
  written.span(0, 1, 0, 10, 20);
  const auto to = written.span(1, 2, 0, 10, 10);
  written.wait(from, to, 10, 10);
  const ParsedTrace trace = traced(written.recording);
  CHECK(trace.slices.size() == 3);
  REQUIRE(trace.flows.size() == 1);
  CHECK(trace.flows[0].from == "a");
  CHECK(trace.flows[0].to == "c");
}

TEST_CASE("host spans that overlap without nesting have tracks of their own") {
  Written written;
  written.span(0, 0, 0, 0, 10);
  written.submitted(0ns, 20ns);
  written.span(1, 1, 0, 0, 10);
  written.submitted(10ns, 30ns);
  written.recording.host_spans.push_back({"step", HostTime(0ns), HostTime(25ns)});
  const ParsedTrace trace = traced(written.recording);
  CHECK(trace.slice("host", "a").around == Names{"step"});
  CHECK(trace.slice("host 2", "b").around.empty());
}

TEST_CASE("the stages of a launched graph are on their streams only, not on the host's track") {
  Written written;
  written.span(0, 0, 0, 0, 10);
  written.submitted(5ns, 5ns);
  const ParsedTrace trace = traced(written.recording);
  REQUIRE(trace.slices.size() == 1);
  CHECK(trace.slices[0].track == "one");
}

TEST_CASE("a trace can be parsed even if names contain any bytes") {
  Written written;
  written.recording.device = "\"quoted\" \xff\n";
  written.recording.report.stages[0].name = "a\\\"<\xc3\xbc>";
  written.span(0, 0, 0, 0, 10);
  CHECK(traced(written.recording).count("one", "a\\\"<\xc3\xbc>") == 1);
}

TEST_CASE("an empty recording gives an empty trace") { CHECK(traced({}).slices.empty()); }
