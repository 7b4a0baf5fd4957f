// SPDX-License-Identifier: MIT
#include "recording/flight_recorder_state.hpp"
#include "timing/stage_observer.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

/// Tells a FlightRecorder what a StageTimer records and waits for. Asks for the state each time, because the
/// recorder may be assigned or moved from.
class TimerObserver final : public StageObserver {
public:
  explicit TimerObserver(FlightRecorder& recorder) noexcept : recorder_(recorder) {}

  void before_record(EventRef event) noexcept override {
    if (recorder_) recorder_.state_->events.forget(event.native_handle());
  }
  Status recorded(const Context& context, EventRef event, CUstream stream) noexcept override {
    RecordedStream* known = nullptr;
    CUresult result = find(context, stream, known);
    if (known != nullptr) result = recorder_.state_->note_record(event, *known).result;
    return {result, "FlightRecorder::record"};
  }
  Status waited(const Context& context, EventRef event, CUstream stream) noexcept override {
    RecordedStream* known = nullptr;
    CUresult result = find(context, stream, known);
    if (known != nullptr) result = recorder_.state_->note_wait(event, *known).result;
    return {result, "FlightRecorder::wait"};
  }

private:
  CUresult find(const Context& context, CUstream stream, RecordedStream*& known) noexcept {
    // A default stream of another context cannot be marked.
    if (!recorder_ || (is_default_stream(stream) && context != recorder_.context())) return CUDA_SUCCESS;
    return recorder_.state_->find_or_add(stream, known).result;
  }

  FlightRecorder& recorder_;
};

std::unique_ptr<StageObserver> observer_for(FlightRecorder& recorder) {
  return std::make_unique<TimerObserver>(recorder);
}

}} // namespace cuevent::CUEVENT_ABI
