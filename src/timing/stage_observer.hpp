// SPDX-License-Identifier: MIT
// Who is told of the records and waits of a StageTimer. Inside the library only.
#pragma once

#include "core/status.hpp"

#include <cuevent/event_ref.hpp>

#include <memory>

namespace cuevent { inline namespace CUEVENT_ABI {

class FlightRecorder;

class StageObserver {
public:
  StageObserver() noexcept = default;
  StageObserver(const StageObserver&) = delete;
  StageObserver& operator=(const StageObserver&) = delete;
  virtual ~StageObserver() = default;

  /// The timer is about to record the event.
  virtual void before_record(EventRef event) noexcept = 0;
  /// The stream, of the timer's context, has just recorded the event, or has been told to wait for it.
  virtual Status recorded(const Context& context, EventRef event, CUstream stream) noexcept = 0;
  virtual Status waited(const Context& context, EventRef event, CUstream stream) noexcept = 0;
};

/// An observer that tells the recorder. Defined by the kit of the recorder, which knows both.
std::unique_ptr<StageObserver> observer_for(FlightRecorder& recorder);

}} // namespace cuevent::CUEVENT_ABI
