// SPDX-License-Identifier: MIT
// The classes of the kit timing.
#include "situations.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/measure.hpp>
#include <cuevent/rank_report.hpp>
#include <cuevent/stage_timer.hpp>
#include <cuevent/time_limit.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace situations {

namespace {

using namespace cuevent;

constexpr const char* nothing_to_read = "it reads no event if there is nothing to read";

constexpr StageTimerOptions small{.events_per_stream = 8, .spans = 16};

struct OfStageTimer {
  World& w;
  StageTimer timer{w.context, small};
  StageId stage = timer.stage("stage");
  FlightRecorder recorder{w.context, {.marks_per_stream = 8}};
  DriverEvent event = told_event();

  DriverEvent told_event() {
    timer.set_flight_recorder(&recorder);
    return DriverEvent(w.context);
  }
  StageTimer& object() { return timer; }
  std::vector<Operation> operations() {
    return {
        Operation(
            "open, close", Does::submits,
            [this] {
              const CUresult result = timer.try_open(w.given(), stage);
              return result == CUDA_SUCCESS ? timer.try_close(w.given()) : result;
            },
            [this] {
              if (timer.open(w.given(), stage)) timer.close(w.given());
            })
            .named()
            .not_called(In::full_queue, "the first stage of a stream creates events")
            .but(In::captured, CUDA_SUCCESS),
        BOTH(Does::submits, timer, record, event, w.given()).named().but(In::captured, CUDA_SUCCESS),
        BOTH(Does::submits, timer, wait, event, w.given()).named().works(In::captured, In::other_device),
        Operation("add_stream", Does::nothing, {}, [this] { timer.add_stream(w.given()); }) // it is known
            .named()
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE),
        Operation("stage", Does::nothing, {}, [this] { timer.stage("another"); })
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE),
        Operation("report", Does::nothing, {}, [this] { timer.report(); })
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE),
        GIVES(Does::asks, std::size_t, timer, poll).not_called(In::faulted, nothing_to_read),
        GIVES(Does::asks, std::size_t, timer, collect).not_called(In::faulted, nothing_to_read),
        BOTH(Does::asks, timer, calibrate),
        CREATES(Does::makes, StageTimer, w.context, small),
    };
  }
};

struct OfTimedGraph {
  World& w;
  StageTimer timer{w.context, small};
  TimedGraph graph = captured();

  TimedGraph captured() {
    const StageId stage = timer.stage("stage");
    StreamCapture capture(w.context, w.other);
    timer.open(w.other, stage);
    timer.close(w.other);
    return timer.instantiate(capture.end());
  }
  TimedGraph& object() { return graph; }
  std::vector<Operation> operations() {
    return {Operation("launch", Does::submits, {}, [this] { graph.launch(w.target); })
                .but(In::captured, breaks_capture)
                .but(In::lost, CUDA_ERROR_CONTEXT_IS_DESTROYED)
                .not_called(In::other_device, "what the driver answers was not measured"),
            Operation("graph", Does::nothing, {}, [this] {
              static_cast<void>(graph.graph());
            }).but(In::empty, CUDA_ERROR_INVALID_HANDLE)};
  }
};

struct OfFlightRecorder {
  World& w;
  FlightRecorder recorder = with_a_mark();
  DriverEvent event{w.context};
  std::optional<Graph> graph{};
  FlightGraph number = captured();

  FlightRecorder with_a_mark() {
    FlightRecorder made(w.context, {.marks_per_stream = 8, .graph_marks = GraphMarks::events_and_memory});
    made.add_stream(w.stream);
    made.add_stream(w.other);
    made.mark(w.stream, "before");
    return made;
  }
  FlightGraph captured() {
    StreamCapture capture(w.context, w.other);
    const FlightGraph named = recorder.name_capture(w.other, "graph");
    recorder.mark(w.other, "in the graph");
    graph = capture.end();
    return named;
  }
  FlightRecorder& object() { return recorder; }
  std::vector<Operation> operations() {
    return {
        BOTH(Does::submits, recorder, mark, w.target, "mark").works(In::captured, In::other_device),
        BOTH(Does::submits, recorder, add_stream, w.given()).named().works(In::captured, In::other_device),
        Operation("dump", Does::nothing,
                  [this] {
                    recorder.dump(-1);
                    return CUDA_SUCCESS;
                  })
            .async_signal_safe(),
        BOTH(Does::submits, recorder, record, event, w.target).but(In::captured, CUDA_SUCCESS),
        BOTH(Does::submits, recorder, wait, event, w.target).works(In::captured, In::other_device),
        BOTH(Does::submits, recorder, launched, w.target, number).works(In::captured, In::other_device),
        BOTH(Does::submits, recorder, note_signal, w.target, this, 1).works(In::captured, In::other_device),
        BOTH(Does::submits, recorder, note_wait, w.target, this, 1, "value")
            .works(In::captured, In::other_device),
        Operation(
            "report", Does::nothing,
            [this] {
              FlightReport report;
              const CUresult result = recorder.try_report(report);
              // Only a fault of the device is a fault.
              const bool fault = report.fault != CUDA_SUCCESS ||
                                 std::any_of(report.findings.begin(), report.findings.end(), [](auto& each) {
                                   return each.kind == FlightFinding::Kind::fault;
                                 });
              return fault && !w.faulted ? CUDA_ERROR_UNKNOWN : result;
            },
            [this] { recorder.report(); })
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE)
            .but(In::forked, CUDA_ERROR_NOT_INITIALIZED),
        CREATES(Does::nothing, FlightRecorder, w.context),
    };
  }
};

struct OfMeasure {
  World& w;
  MeasureOptions few = few_samples();
  Measurement found{};

  /// As few driver calls as possible, because each of them fails in turn.
  static MeasureOptions few_samples() {
    MeasureOptions options;
    options.least_samples = options.most_samples = 3;
    options.time_limit = TimeLimit(); // one sample is the warm-up
    return options;
  }
  static void nothing() {}
  /// The functions need no object, and ask about the context before they use the stream.
  static Operation without_object(Operation operation) {
    return std::move(operation)
        .named()
        .works(In::empty)
        .not_called(In::full_queue, "the function waits for all work of the context")
        .but(In::capturing, breaks_capture)
        .but(In::lost, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }

  Measurement& object() { return found; }
  std::vector<Operation> operations() {
    return {without_object({"measure", Does::submits,
                            [this] { return try_measure(found, w.context, w.given(), nothing, few); },
                            [this] { found = measure(w.context, w.given(), nothing, few); }}),
            without_object(
                {"compare", Does::submits,
                 [this] {
                   Comparison compared;
                   return try_compare(compared, w.context, w.given(), nothing, nothing, few);
                 },
                 [this] { static_cast<void>(compare(w.context, w.given(), nothing, nothing, few)); }})};
  }
};

struct OfRankReport {
  World& w;
  RankReport report{RankIdentity{}};

  RankReport& object() { return report; }
  std::vector<Operation> operations() {
    return {Operation("add", Does::nothing, {}, [this] { report.add(StageReport{}); })
                .but(In::empty, CUDA_ERROR_INVALID_HANDLE),
            Operation("take", Does::nothing, {}, [this] {
              static_cast<void>(report.take());
            }).but(In::empty, CUDA_ERROR_INVALID_HANDLE)};
  }
};

} // namespace

std::vector<Class> timing_classes() {
  return {
      {.name = "StageTimer", .make = make<OfStageTimer>},
      {.name = "TimedGraph", .make = make<OfTimedGraph>},
      {.name = "measure", .make = make<OfMeasure>},
      {.name = "FlightRecorder", .make = make<OfFlightRecorder>, .concurrent = true},
      {.name = "RankReport", .make = make<OfRankReport>},
  };
}

} // namespace situations
