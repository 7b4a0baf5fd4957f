// SPDX-License-Identifier: MIT
// The classes of the kit graphs.
#include "situations.hpp"

#include <cuevent/capture_fork.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

namespace situations {

namespace {

using namespace cuevent;

constexpr const char* capture_is_gone = "its capture ends with the context, and so must its scope";

struct OfStreamCapture {
  World& w;
  std::optional<StreamCapture> capture{std::in_place, w.context, w.other};

  StreamCapture& object() { return *capture; }
  void end_scope() { capture.reset(); }
  std::vector<Operation> operations() {
    return {Operation("StreamCapture, record, end", Does::submits, {},
                      [this] {
                        StreamCapture made(w.context, w.target);
                        made.record(DriverEvent(w.context), w.target);
                        made.end();
                      })
                .not_called(In::full_queue, "beginning a capture can wait")
                .but(In::captured, CUDA_ERROR_ILLEGAL_STATE)
                .not_called(In::other_device, "what the driver answers was not measured")};
  }
};

struct OfCaptureModeGuard {
  World& w;
  std::optional<CaptureModeGuard> guard{std::in_place, w.context.driver()};

  CaptureModeGuard& object() { return *guard; }
  void end_scope() { guard.reset(); }
  std::vector<Operation> operations() {
    return {Operation("CaptureModeGuard", Does::asks, {}, [this] {
              const CaptureModeGuard made(w.context.driver());
            }).works(In::lost, In::faulted)};
  }
};

struct OfCaptureInfo {
  World& w;
  CaptureInfo info{};

  CaptureInfo& object() { return info; }
  std::vector<Operation> operations() {
    return {Operation(
                "capture_info", Does::submits, [this] { return try_capture_info(info, w.context, w.target); },
                [this] { info = capture_info(w.context, w.target); })
                .not_called(In::empty, "it is not a member")
                .works(In::other_device, In::captured),
            Operation("graph", Does::nothing, {}, [this] {
              info.graph();
            }).but(In::working, CUDA_ERROR_ILLEGAL_STATE)};
  }
};

struct OfCaptureFork {
  World& w;
  StreamCapture capture{w.context, w.other};
  std::optional<CaptureFork> fork{std::in_place, w.context, w.other};

  CaptureFork& object() { return *fork; }
  std::vector<Operation> operations() {
    return {
        Operation("next_branch", Does::asks, {}, [this] { fork->next_branch(); }),
        Operation("CaptureFork", Does::submits, {}, [this] { const CaptureFork made(w.context, w.target); })
            .but(In::working, CUDA_ERROR_ILLEGAL_STATE) // the stream is not being captured
            .but(In::other_device, CUDA_ERROR_ILLEGAL_STATE)
            .but(In::captured, CUDA_SUCCESS),
    };
  }
};

struct OfGraph {
  World& w;
  DriverEvent event{w.context};
  Graph graph{w.context};

  Graph& object() { return graph; }
  std::vector<Operation> operations() {
    return {
        Operation("Graph", Does::makes, {}, [this] { const Graph made(w.context); })
            .works(In::lost, In::faulted, In::full_queue),
        Operation("add_record", Does::asks, {}, [this] { graph.add_record(event); })
            .but(In::faulted, CUDA_SUCCESS)
            .not_called(In::lost, "the event has ended with its context"),
        Operation("event_nodes", Does::asks, {}, [this] { graph.event_nodes(); })
            .works(In::lost, In::faulted),
        Operation("instantiate", Does::makes, {}, [this] { static_cast<void>(graph.instantiate()); })
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE)
            .but(In::captured, breaks_capture)
            .but(In::capturing, breaks_capture),
        Operation("retain", Does::makes, {}, [this] { graph.retain(DriverEvent(w.context)); })
            .not_called(In::empty, "it makes an event"),
        Operation("when_destroyed", Does::asks, {}, [this] { graph.when_destroyed([] {}); })
            .works(In::lost, In::faulted),
        Operation("end_notice", Does::asks, {}, [this] { static_cast<void>(graph.end_notice()); })
            .works(In::lost, In::faulted),
    };
  }
};

struct OfGraphExec {
  World& w;
  DriverEvent event{w.context};
  Graph graph{w.context};
  EventRecordNode node = graph.add_record(event);
  GraphExec exec = graph.instantiate();

  GraphExec& object() { return exec; }
  std::vector<Operation> operations() {
    return {
        Operation("launch", Does::submits, {}, [this] { exec.launch(w.target); })
            .but(In::captured, breaks_capture)
            .not_called(In::other_device, "what the driver answers was not measured")
            .not_called(In::lost, "the exec has ended with its context"),
        Operation("set_event", Does::asks, {}, [this] { exec.set_event(node, event); })
            .but(In::faulted, CUDA_SUCCESS)
            .not_called(In::lost, "the exec has ended with its context"),
    };
  }
};

} // namespace

std::vector<Class> graph_classes() {
  return {
      {.name = "StreamCapture", .make = make<OfStreamCapture>, .scoped = true},
      {.name = "CaptureModeGuard", .make = make<OfCaptureModeGuard>, .scoped = true},
      {.name = "CaptureInfo", .make = make<OfCaptureInfo>},
      {.name = "CaptureFork",
       .make = make<OfCaptureFork>,
       .scoped = true,
       .except = {{"context destroyed", capture_is_gone},
                  {"primary context reset", capture_is_gone},
                  {"reset and retained again", capture_is_gone}}},
      {.name = "Graph", .make = make<OfGraph>},
      {.name = "GraphExec", .make = make<OfGraphExec>},
  };
}

} // namespace situations
