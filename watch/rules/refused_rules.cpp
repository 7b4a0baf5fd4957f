// SPDX-License-Identifier: MIT
// Calls that the driver refuses for a reason that is known, and objects that a failed call has not changed.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

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
      if (!refused_waits_.empty()) go_on(call);
      return;
    }
    std::vector<Earlier> earlier;
    if (const std::string reason = reason_of(call, earlier); !reason.empty())
      report_refusal({Rule::refused_call, call.name() + " fails: " + reason, call, std::move(earlier)});
    else if (is_wait(call.verb()) && is_unexplained(call))
      refused_waits_.insert_or_assign(call.thread, call);
  }

private:
  /// A thread may ask whether a context is current, and then make one so. If it goes on, that was a mistake.
  void report_refusal(Finding finding) {
    if (finding.call.result != CUDA_ERROR_INVALID_CONTEXT) return report_(std::move(finding));
    const std::uint32_t thread = finding.call.thread;
    if (finding.call.has(tells_context) && finding.call.named_context == 0) {
      asked_.try_emplace(thread, std::move(finding));
      return;
    }
    if (const auto asked = asked_.find(thread); asked != asked_.end()) {
      report_(std::move(asked->second));
      asked_.erase(asked);
    }
    report_(std::move(finding));
  }

  /// Empty if it is not certain.
  std::string reason_of(const Call& call, std::vector<Earlier>& earlier) const {
    const std::string reason = special_reason_of(call, earlier);
    if (!reason.empty()) return reason;
    if (const std::string null = text_of_null_handle(call); !null.empty()) return "the " + null + " is null";
    // The release of a primary context that is not retained is refused in the same way.
    if (call.result == CUDA_ERROR_INVALID_CONTEXT && call.context == 0 && call.named_context == 0 &&
        call.verb() != Verb::primary_release)
      return "no context is current on this thread";
    return {};
  }

  /// The handle that is null, and that the call needs.
  static std::string text_of_null_handle(const Call& call) {
    if (!call.is_of_the_program()) return {};
    // The destruction of a null handle is often ignored on purpose.
    if (call.has(ends_object)) return {};
    const bool is_refused =
        call.result == CUDA_ERROR_INVALID_HANDLE || call.result == CUDA_ERROR_INVALID_VALUE;
    // The event of a node of any kind is not among the arguments.
    const auto& words = entry_data[call.entry].words;
    if (is_refused && call.event == 0 && call.null_handle == HandleKind::none &&
        std::find(words.begin(), words.end(), Field::node_type) != words.end() &&
        (call.node_type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ||
         call.node_type == CU_GRAPH_NODE_TYPE_EVENT_RECORD))
      return "event";
    switch (call.null_handle) {
    case HandleKind::none:
      return {};
    case HandleKind::context: // for many functions, null stands for the current context
      return call.result == CUDA_ERROR_INVALID_CONTEXT && call.context != 0 ? "context" : "";
    case HandleKind::green_context:
      return call.result == CUDA_ERROR_INVALID_CONTEXT ? "green context" : "";
    default:
      return is_refused ? name_of(call.null_handle) : "";
    }
  }

  static const char* name_of(HandleKind kind) {
    switch (kind) {
    case HandleKind::event:
      return "event";
    case HandleKind::graph:
      return "graph";
    case HandleKind::exec:
      return "executable graph";
    case HandleKind::node:
      return "node";
    case HandleKind::function:
      return "function";
    case HandleKind::module:
      return "module";
    case HandleKind::library:
      return "library";
    case HandleKind::kernel:
      return "kernel";
    case HandleKind::pool:
      return "memory pool";
    case HandleKind::user_object:
      return "user object";
    case HandleKind::array:
      return "array";
    case HandleKind::mipmapped_array:
      return "mipmapped array";
    case HandleKind::graphics_resource:
      return "graphics resource";
    case HandleKind::external_semaphore:
      return "semaphore";
    default:
      return "";
    }
  }

  // ---- Waits that are refused, and whose failure is ignored ----

  static bool is_stream_wait(Verb verb) {
    return verb == Verb::stream_wait || verb == Verb::value_wait || verb == Verb::context_wait;
  }
  static bool is_host_wait(Verb verb) { return can_block(verb) && verb != Verb::copy; }
  static bool is_wait(Verb verb) { return is_stream_wait(verb) || is_host_wait(verb); }

  /// Whether no other rule says why the wait is refused.
  bool is_unexplained(const Call& call) const {
    const EventState* const event = world_.event(call.event);
    return is_of_interest(world_, call) && !world_.is_external_outside_capture(call) &&
           call.result != CUDA_ERROR_NOT_INITIALIZED && call.result != CUDA_ERROR_DEINITIALIZED &&
           (call.marks & Mark::refused) == 0 && (event == nullptr || event->capture == nullptr);
  }

  /// A thread whose wait was refused makes a call that succeeds. If it waits in another way, nothing is lost.
  void go_on(const Call& call) {
    const auto found = refused_waits_.find(call.thread);
    if (found == refused_waits_.end()) return;
    const Call& refused = found->second;
    const bool of_host = is_host_wait(refused.verb());
    const bool is_same_stream = refused.verb() == Verb::context_wait || call.stream() == refused.stream();
    const bool waits_instead = is_host_wait(call.verb()) || call.verb() == Verb::event_query ||
                               call.verb() == Verb::stream_query ||
                               (!of_host && is_stream_wait(call.verb()) && is_same_stream);
    const bool needs_wait = submits_work(call.verb()) && (of_host || is_same_stream);
    if (!waits_instead && !needs_wait) return;
    if (needs_wait && !waits_instead && !may_be_a_trial(refused))
      report_({Rule::refused_call,
               refused.name() + (of_host ? " fails, and the thread goes on without the wait"
                                         : " fails, and the stream goes on without the wait"),
               refused,
               {{"work that does not wait was submitted here", call}}});
    refused_waits_.erase(found);
  }

  /// A program may try once whether the driver has the function.
  bool may_be_a_trial(const Call& refused) {
    return refused.result == CUDA_ERROR_NOT_SUPPORTED && tried_.insert(refused.entry).second;
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
  std::unordered_map<std::uint32_t, Finding> asked_;      // by thread: the first question about its context
  std::unordered_map<std::uint32_t, Call> refused_waits_; // by thread, until it makes a call that tells
  std::unordered_set<std::uint16_t> tried_;               // functions that are not supported
};

} // namespace

Rules refused_rules(const World& world, Report report) {
  return std::make_shared<RefusedRules>(world, std::move(report));
}

} // namespace watch
