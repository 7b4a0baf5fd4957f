// SPDX-License-Identifier: MIT
// Objects of the parent in a forked child: those that the child has not made.
#include "rules/fork_rules.hpp"

#include "rules/object_text.hpp"
#include "rules/rules.hpp"

namespace watch {

namespace {

class ForkRules : public Observer {
public:
  ForkRules(const World& world, Report report, Fork fork)
      : world_(world), report_(std::move(report)), fork_(fork) {}

  void before(const Call& call) override {
    if (is_told_ || !call.is_of_the_program()) return;
    if (call.returned && call.result == CUDA_ERROR_NOT_INITIALIZED) {
      // A parent that has only loaded the driver leaves it to the child to call cuInit first.
      if (fork_.before == had_initialized || call.verb() == Verb::initialize) report_unusable(call);
      return;
    }
    if (is_left_out(call.verb())) return;
    std::string what;
    for (const Handle handle : call.events())
      if (const EventState* const event = world_.event(handle);
          handle != 0 && (event == nullptr || !event->created))
        what = event_text(handle);
    if (const StreamState* const stream = world_.stream(call.stream());
        call.has_stream() && !is_default_stream(call.stream_handle) &&
        (stream == nullptr || !stream->created))
      what = stream_text(call.stream());
    if (what.empty()) return;
    is_told_ = true; // one cause
    report_({Rule::used_after_fork,
             what + " of the parent is used in a forked child" +
                 (call.returned ? "" : ", and the process ended in this call"),
             call,
             {}});
  }

private:
  /// No call of the child can work any more.
  void report_unusable(const Call& call) {
    is_told_ = true;
    report_({Rule::used_after_fork,
             call.name() + " fails in a forked child, because its parent, process " +
                 std::to_string(fork_.parent) + ", had used the driver before the fork",
             call,
             {}});
  }

  /// A child also destroys what it has inherited, for example when Python collects garbage.
  static bool is_left_out(Verb verb) {
    return verb == Verb::event_create || verb == Verb::event_open || verb == Verb::event_destroy ||
           verb == Verb::stream_create || verb == Verb::stream_create_green || verb == Verb::stream_destroy;
  }

  const World& world_;
  const Report report_;
  const Fork fork_;
  bool is_told_ = false;
};

} // namespace

Rules fork_rules(const World& world, Report report, Fork fork) {
  return std::make_shared<ForkRules>(world, std::move(report), fork);
}

} // namespace watch
