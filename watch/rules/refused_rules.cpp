// SPDX-License-Identifier: MIT
// Calls that the driver refuses for a reason that is known, and objects that a failed call has not changed.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <algorithm>

namespace watch {

namespace {

class RefusedRules : public Observer {
public:
  RefusedRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (!call.returned) return;
    if (call.succeeded()) {
      if (call.verb() == Verb::event_export) has_exported_ = true;
      if (const ExecState* const exec = world_.exec(call.exec);
          call.verb() == Verb::graph_launch && exec != nullptr && exec->failed_update)
        report_(
            {Rule::use_after_error,
             "the last update of executable graph " + hexadecimal(call.exec) + " failed, and it is launched",
             call,
             {{"the update failed here", *exec->failed_update}}});
      return;
    }
    std::vector<Earlier> earlier;
    if (const std::string reason = reason_of(call, earlier); !reason.empty())
      report_({Rule::refused_call, call.name() + " fails: " + reason, call, std::move(earlier)});
  }

private:
  /// Empty if it is not certain.
  std::string reason_of(const Call& call, std::vector<Earlier>& earlier) const {
    const std::string reason = special_reason_of(call, earlier);
    if (!reason.empty()) return reason;
    if (call.result == CUDA_ERROR_INVALID_CONTEXT && call.context == 0 && call.named_context == 0)
      return "no context is current on this thread";
    if (call.result != CUDA_ERROR_INVALID_HANDLE && call.result != CUDA_ERROR_INVALID_VALUE) return {};
    if (makes_or_ends(call.verb())) return {};
    for (const Field field : entry_data[call.entry].words) {
      if (field == Field::event && call.event == 0 && needs_event(call)) return "the event is null";
      if (field == Field::exec && call.exec == 0) return "the executable graph is null";
      if (field == Field::graph && call.graph == 0) return "the graph is null";
    }
    return {};
  }

  /// The functions for nodes of any kind also take nodes without an event, and launches need no event.
  static bool needs_event(const Call& call) {
    if (submits_work(call.verb())) return false;
    const auto& words = entry_data[call.entry].words;
    return std::find(words.begin(), words.end(), Field::node_type) == words.end() ||
           call.node_type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ||
           call.node_type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  }

  /// A failed creation has no handle. The destruction of a null handle is often ignored on purpose.
  static bool makes_or_ends(Verb verb) {
    return verb == Verb::event_create || verb == Verb::event_open || verb == Verb::event_destroy ||
           verb == Verb::graph_create || verb == Verb::graph_destroy || verb == Verb::graph_instantiate ||
           verb == Verb::exec_destroy;
  }

  std::string special_reason_of(const Call& call, std::vector<Earlier>& earlier) const {
    const StreamState* const stream = world_.stream(call.stream());
    switch (call.verb()) {
    case Verb::event_create:
      if (call.result == CUDA_ERROR_INVALID_VALUE && (call.flags & CU_EVENT_INTERPROCESS) != 0 &&
          (call.flags & CU_EVENT_DISABLE_TIMING) == 0)
        return "CU_EVENT_INTERPROCESS needs CU_EVENT_DISABLE_TIMING too";
      return {};
    case Verb::event_export:
      if (const EventState* const event = world_.event(call.event);
          call.result == CUDA_ERROR_INVALID_HANDLE && event != nullptr && event->created && !event->shared) {
        add(earlier, "the event was created here", event->created);
        return event_text(call.event) + " was created without CU_EVENT_INTERPROCESS";
      }
      return {};
    case Verb::event_open:
      if (call.result == CUDA_ERROR_INVALID_CONTEXT && call.context != 0 && has_exported_)
        return "the process that exports an event cannot open it";
      return {};
    case Verb::capture_begin:
    case Verb::capture_into_graph:
      if (call.result == CUDA_ERROR_ILLEGAL_STATE && stream != nullptr && stream->is_capturing()) {
        earlier.push_back({"its capture began here", stream->capture->begun});
        return stream_text(call.stream()) + " is being captured already";
      }
      return call.result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && call.stream_handle == 1
                 ? "the legacy default stream cannot be captured"
                 : "";
    case Verb::capture_end:
      if (call.result != CUDA_ERROR_ILLEGAL_STATE || stream == nullptr || !stream->capture ||
          !stream->capture->ended)
        return {};
      earlier.push_back({"its capture was ended here", *stream->capture->ended});
      return stream_text(call.stream()) + " is not being captured any more";
    default:
      return {};
    }
  }

  const World& world_;
  const Report report_;
  bool has_exported_ = false;
};

} // namespace

Rules refused_rules(const World& world, Report report) {
  return std::make_shared<RefusedRules>(world, std::move(report));
}

} // namespace watch
