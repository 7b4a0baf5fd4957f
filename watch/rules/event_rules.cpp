// SPDX-License-Identifier: MIT
// Records that fail, and waits and queries that fail or follow a failed record.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <unordered_set>

namespace watch {

namespace {

class EventRules : public Observer {
public:
  EventRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (!is_of_interest(world_, call)) return;
    switch (call.verb()) {
    case Verb::event_record:
    case Verb::context_record:
    case Verb::work:
      if (!call.succeeded()) check_failed_record(call);
      break;
    case Verb::exec_set_event:
      check_event_of_node(call);
      break;
    case Verb::event_synchronize:
    case Verb::event_query:
      use(call, call.event);
      break;
    case Verb::stream_wait:
    case Verb::context_wait:
      wait(call);
      break;
    case Verb::event_elapsed:
      for (const Handle handle : call.events())
        if (const EventState* const each = world_.event(handle);
            each != nullptr && (each->failed_record || each->capture))
          return use(call, handle);
      break;
    default:
      break;
    }
  }

  void forget(std::uint64_t number) override { told_.erase(number); }

private:
  void check_failed_record(const Call& call) {
    if (world_.is_external_outside_capture(call))
      return report_({Rule::external_outside_capture,
                      event_text(call.event) + " is recorded with CU_EVENT_RECORD_EXTERNAL on " +
                          stream_text(call.stream()) + ", which is not capturing",
                      call,
                      {}});
    if (call.result != CUDA_ERROR_INVALID_HANDLE) return;
    const StreamState* const on = world_.stream(call.stream());
    const Handle theirs = on != nullptr       ? on->context
                          : call.has_stream() ? call.stream().context
                                              : call.named_context;
    for (const Handle handle : call.events()) { // of a launch perhaps two
      const EventState* const event = world_.event(handle);
      if (event == nullptr || !event->created || theirs == 0 || theirs == event->context) continue;
      std::vector<Earlier> earlier;
      add(earlier, "the event was created here", event->created);
      if (on != nullptr) add(earlier, "the stream was created here", on->created);
      return report_(
          {Rule::record_in_other_context,
           event_text(handle) + " is recorded on a stream of " + places_text(theirs, event->context), call,
           std::move(earlier)});
    }
  }

  /// The event of a node may only be replaced by one of the same context.
  void check_event_of_node(const Call& call) {
    const EventState* const event = world_.event(call.event);
    const ExecState* const exec = world_.exec(call.exec);
    if (call.result != CUDA_ERROR_INVALID_VALUE || event == nullptr || !event->created || exec == nullptr)
      return;
    for (const EventNode& node : exec->events) {
      const EventState* const old = world_.event(node.event);
      if (node.node != call.node || old == nullptr || old->number != node.number || !old->created ||
          old->context == event->context)
        continue;
      std::vector<Earlier> earlier;
      add(earlier, "the event was created here", event->created);
      add(earlier, "the event of the node was created here", old->created);
      add(earlier, "the graph refers to that event since here", node.put_there);
      const std::string sentence = event_text(call.event) + " is put into a node whose event is one of " +
                                   places_text(old->context, event->context);
      if (!node.waits) return report_({Rule::record_in_other_context, sentence, call, std::move(earlier)});
      return report_({Rule::refused_call, call.name() + " fails: " + sentence, call, std::move(earlier)});
    }
  }

  /// "context 0x1, but belongs to context 0x2", or the devices, if they differ.
  std::string places_text(Handle there, Handle home) const {
    const ContextState* const of_event = world_.context(home);
    const ContextState* const other = world_.context(there);
    if (of_event != nullptr && other != nullptr && of_event->device != other->device)
      return "device " + std::to_string(other->device) + ", but belongs to device " +
             std::to_string(of_event->device);
    return "context " + hexadecimal(there) + ", but belongs to context " + hexadecimal(home);
  }

  void use(const Call& call, Handle handle) {
    const EventState* const event = world_.event(handle);
    if (event == nullptr) return;
    std::vector<Earlier> earlier;
    add(earlier, "the event was created here", event->created);
    if (event->failed_record) {
      if (!told_.insert(event->number).second) return;
      earlier.push_back({"the record failed here", *event->failed_record});
      return report_({Rule::use_after_error, "the last record of " + event_text(handle) + " failed", call,
                      std::move(earlier)});
    }
    told_.erase(event->number);
    if (call.result == CUDA_ERROR_INVALID_VALUE && event->capture && event->capture->over) {
      add(earlier, "the event was recorded here, during a capture", event->record);
      earlier.push_back({"the capture began here", event->capture->begun});
      report_({Rule::recorded_in_capture_only,
               event_text(handle) + " was last recorded in a capture that is over", call,
               std::move(earlier)});
    }
  }

  void wait(const Call& call) {
    const EventState* const event = world_.event(call.event);
    if ((call.marks & refused) != 0) {
      std::vector<Earlier> earlier;
      if (event != nullptr) add(earlier, "the event was created here", event->created);
      return report_({Rule::interprocess_wait,
                      "interprocess " + event_text(call.event) + " is waited for in another context", call,
                      std::move(earlier)});
    }
    if (world_.is_external_outside_capture(call))
      return report_({Rule::external_outside_capture,
                      stream_text(call.stream()) + " is not capturing, but waits with CU_EVENT_WAIT_EXTERNAL",
                      call,
                      {}});
    if (event == nullptr || (call.succeeded() && (call.flags & CU_EVENT_WAIT_EXTERNAL) != 0)) return;
    use(call, call.event);
  }

  const World& world_;
  const Report report_;
  std::unordered_set<std::uint64_t> told_; // events whose failed record was reported
};

} // namespace

Rules event_rules(const World& world, Report report) {
  return std::make_shared<EventRules>(world, std::move(report));
}

} // namespace watch
