// SPDX-License-Identifier: MIT
// Which call invalidates whose capture, and what a capture lacks at its end.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

namespace watch {

namespace {

std::string capture_text(const Capture& capture) {
  return "the capture of thread " + std::to_string(capture.begun.thread) + " on " +
         stream_text(capture.origin());
}

class CaptureRules : public Observer {
public:
  CaptureRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (is_capture_error(call)) return blame(call);
    if (call.succeeded() && (call.verb() == Verb::capture_begin || call.verb() == Verb::capture_into_graph))
      capture_error_.reset();
    if (call.verb() != Verb::capture_end || !world_.is_capturing(call.stream())) return;
    const Capture& capture = *world_.stream(call.stream())->capture;
    if (call.result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !capture.invalidated) {
      std::vector<Earlier> earlier{{"the capture began here", capture.begun}};
      add(earlier, "this call failed before, and may be the cause", capture_error_);
      report_({Rule::capture_invalidated,
               capture_text(capture) + " was invalidated by a call that is not watched", call,
               std::move(earlier)});
    } else if (call.result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED) {
      report_unjoined(call, capture);
    }
  }

  void end(bool by_itself) override {
    for (const auto& capture : world_.captures())
      if (by_itself && !capture->invalidated)
        report_({Rule::capture_never_ended, capture_text(*capture) + " was never ended", capture->begun, {}});
  }

private:
  void report_unjoined(const Call& call, const Capture& capture) {
    const std::string end = " is not joined to " + stream_text(call.stream()) + ", which ends the capture";
    const std::uint32_t origin = capture.numbers.at(capture.origin());
    bool found = false;
    for (const auto& [other, last] : capture.last_work) {
      if (other == call.stream() || capture.order.is_before(last.point, origin)) continue;
      found = true;
      report_({Rule::capture_unjoined,
               "the work of " + stream_text(other) + end,
               call,
               {{"the last node of the branch was added here", last.call},
                {"the capture began here", capture.begun}}});
    }
    if (!found)
      report_({Rule::capture_unjoined,
               "a stream whose work is not watched" + end,
               call,
               {{"the capture began here", capture.begun}}});
  }

  void blame(const Call& call) {
    const auto harmed = world_.captures_harmed_by(call);
    if (harmed.empty()) capture_error_ = call;
    for (const auto& capture : harmed)
      if (!capture->invalidated)
        report_({call.result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? Rule::legacy_during_capture
                                                                   : Rule::capture_invalidated,
                 "thread " + std::to_string(call.thread) + " calls " + call.name() + ", which invalidates " +
                     capture_text(*capture),
                 call,
                 {{"the capture began here", capture->begun}}});
  }

  const World& world_;
  const Report report_;
  std::optional<Call> capture_error_; // the last one that harmed no known capture
};

} // namespace

Rules capture_rules(const World& world, Report report) {
  return std::make_shared<CaptureRules>(world, std::move(report));
}

} // namespace watch
