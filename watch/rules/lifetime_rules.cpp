// SPDX-License-Identifier: MIT
// Objects that are used after their end.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <unordered_map>
#include <unordered_set>

namespace watch {

namespace {

/// An object that a call uses although it is gone.
struct Gone {
  const Object* object = nullptr;
  std::string text;
};

bool is_destruction(Verb verb) {
  return verb == Verb::event_destroy || verb == Verb::stream_destroy || verb == Verb::exec_destroy ||
         verb == Verb::graph_destroy;
}

bool makes_event(Verb verb) { return verb == Verb::event_create || verb == Verb::event_open; }

std::optional<Gone> gone_object_of(const World& world, const Call& call) {
  const Verb verb = call.verb();
  // A destruction that failed, or did not return, was recorded before as if it would succeed.
  if (is_destruction(verb) && !call.succeeded()) return std::nullopt;
  if (!call.is_of_the_program()) return std::nullopt;
  // A child graph, whose handle comes from no watched call, may have the handle and be used rightly.
  if (call.graph != 0 && (verb == Verb::graph_destroy || !call.succeeded()))
    if (const GraphState* const graph = world.graph(call.graph); graph != nullptr && graph->destroyed)
      return Gone{graph, "graph " + hexadecimal(call.graph)};
  // Programs often destroy objects after their context, which does no harm.
  const auto is_gone = [&](const Object* object) {
    return object != nullptr && (object->destroyed || (object->context_end && !is_destruction(verb)));
  };
  if (!makes_event(verb))
    for (const Handle handle : call.events())
      if (const EventState* const event = world.event(handle); is_gone(event))
        return Gone{event, event_text(handle)};
  if (call.has_stream() && verb != Verb::stream_create && verb != Verb::stream_create_green)
    if (const StreamState* const stream = world.stream(call.stream()); is_gone(stream))
      return Gone{stream, stream_text(call.stream())};
  if (verb != Verb::graph_instantiate)
    if (const ExecState* const exec = world.exec(call.exec); is_gone(exec))
      return Gone{exec, "executable graph " + hexadecimal(call.exec)};
  return std::nullopt;
}

class LifetimeRules : public Observer {
public:
  LifetimeRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (const auto gone = gone_object_of(world_, call)) return report_(use_of(call, *gone));
    if (call.verb() == Verb::event_destroy) destroy_event(call);
    if (call.verb() == Verb::exec_destroy && call.succeeded()) destroy_exec(call);
    if (call.verb() == Verb::graph_launch && !destroyed_in_graphs_.empty()) launch(call);
    // The driver may crash in the instantiation of a graph that refers to a destroyed event.
    if (call.verb() == Verb::graph_instantiate && (call.succeeded() || !call.returned))
      if (const GraphState* const graph = world_.graph(call.graph)) check_events_of(call, *graph);
  }

private:
  /// After the end of the context it reads memory that the driver has freed. Many programs do it at their
  /// exit; Filter drops that.
  void destroy_event(const Call& call) {
    const EventState* const event = world_.event(call.event);
    if (event == nullptr || event->destroyed) return;
    if (!event->context_end) {
      if (call.succeeded()) check_graphs_with(call, *event);
    } else if (!call.returned || call.succeeded()) { // a failed one was recorded before
      report_(use_of(call, {event, event_text(call.event)}));
    }
  }

  /// Its events are not used by it any more.
  void destroy_exec(const Call& call) {
    const ExecState* const ended = world_.exec(call.exec);
    if (ended == nullptr || destroyed_in_graphs_.empty()) return;
    std::unordered_set<std::uint64_t> numbers;
    for (const EventNode& node : ended->events)
      if (destroyed_in_graphs_.contains(node.number)) numbers.insert(node.number);
    if (numbers.empty()) return;
    for (const auto& [handle, exec] : world_.execs())
      if (&exec != ended && !exec.destroyed)
        for (const EventNode& node : exec.events)
          numbers.erase(node.number);
    for (const std::uint64_t number : numbers)
      destroyed_in_graphs_.erase(number);
  }

  static Finding use_of(const Call& call, const Gone& gone) {
    const bool is_destroyed = gone.object->destroyed.has_value();
    const Call& end = is_destroyed ? *gone.object->destroyed : *gone.object->context_end;
    std::vector<Earlier> earlier;
    add(earlier, "it was created here", gone.object->created);
    earlier.push_back({is_destroyed ? "it was destroyed here" : "its context ended here", end});
    std::string sentence = gone.text + " is used after ";
    sentence += is_destroyed                       ? "it was destroyed"
                : end.verb() == Verb::device_reset ? "its context was reset"
                                                   : "its context was destroyed";
    return {is_destroyed ? Rule::use_after_destroy : Rule::use_after_context,
            sentence + (call.returned ? "" : ", and the process ended in this call"), call,
            std::move(earlier)};
  }

  void check_events_of(const Call& call, const GraphState& graph) {
    for (const EventNode& node : graph.events) {
      const EventState* const event = world_.event(node.event);
      if (event == nullptr || !event->destroyed) continue;
      std::vector<Earlier> earlier;
      add(earlier, "the graph refers to the event since here", node.put_there);
      earlier.push_back({"the event was destroyed here", *event->destroyed});
      report_({Rule::destroyed_in_graph,
               event_text(node.event) + " was destroyed before this instantiation" +
                   (call.returned ? "" : ", and the process ended in this call"),
               call, std::move(earlier)});
    }
  }

  void check_graphs_with(const Call& call, const EventState& event) {
    for (const auto& [handle, exec] : world_.execs()) {
      if (exec.destroyed) continue;
      for (const EventNode& node : exec.events)
        if (node.number == event.number) {
          std::vector<Earlier> earlier;
          add(earlier, "the graph refers to the event since here", node.put_there);
          add(earlier, "the graph was instantiated here", exec.created);
          Finding finding{Rule::destroyed_in_graph,
                          event_text(call.event) + " is destroyed, but an executable graph refers to it",
                          call, std::move(earlier)};
          if (!is_in_flight(exec)) {
            destroyed_in_graphs_.insert_or_assign(event.number, std::move(finding));
            return;
          }
          return report_(std::move(finding));
        }
    }
  }

  bool is_in_flight(const ExecState& exec) const {
    return exec.last_launch &&
           world_.order().compare_with_host(exec.last_launch->last) == Ordered::not_before;
  }

  /// It is too late for the destruction only if something still uses the event.
  void launch(const Call& call) {
    const ExecState* const exec = world_.exec(call.exec);
    if (exec == nullptr) return;
    for (const EventNode& node : exec->events)
      if (const auto found = destroyed_in_graphs_.find(node.number); found != destroyed_in_graphs_.end()) {
        found->second.earlier.push_back({"the graph is launched after that", call});
        report_(std::move(found->second));
        destroyed_in_graphs_.erase(found);
      }
  }

  const World& world_;
  const Report report_;
  std::unordered_map<std::uint64_t, Finding> destroyed_in_graphs_; // by the number of the event
};

} // namespace

Rules lifetime_rules(const World& world, Report report) {
  return std::make_shared<LifetimeRules>(world, std::move(report));
}

bool is_of_interest(const World& world, const Call& call) {
  return call.returned && !is_capture_error(call) && !is_fault(call) && !gone_object_of(world, call);
}

} // namespace watch
