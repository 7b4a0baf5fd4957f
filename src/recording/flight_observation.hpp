// SPDX-License-Identifier: MIT
// What is known about streams at one moment, before anybody draws a conclusion. Internal to the library.
//
// A recorder fills this in. So can any other observer of a program's driver calls.
#pragma once

#include "core/position.hpp"

#include <cuevent/error.hpp>
#include <cuevent/flight_report.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A place in the work of a stream. Places are numbered from 0 in the order of submission, and are
/// reached in that order.
struct FlightPoint {
  std::size_t stream = 0; // in FlightObservation::streams
  Position position = 0;
};

/// A place that has a name.
struct ObservedMark {
  Position position = 0;
  FlightMark mark;
};

/// The work from the place `before` on waits until one of `signals` is reached.
struct ObservedWait {
  Position before = 0;
  std::string what{}; // "value 5 of 'gate'"; empty for an event, which has one signal
  std::vector<FlightPoint> signals{};
};

struct ObservedStream {
  std::string name;
  Position reached = 0;              // the number of places that were reached
  Position submitted = 0;            // the number of places
  std::vector<ObservedMark> marks{}; // in order: the last one reached, if known, and all later ones
  std::vector<ObservedWait> waits{};
  std::optional<FlightCall> call{};
  std::uint64_t dropped = 0;
  bool exact = true;
  bool ended = false;       // with its context
  bool may_be_done = false; // nobody knows whether the marks behind `submitted` were reached
};

struct FlightObservation {
  /// The driver does not say how far a stream is. Only an error of the device is a fault: the driver also
  /// answers nothing once the process exits.
  void refused(CUresult result) noexcept {
    CUresult& first = kind_of(result) == ErrorKind::device_fault ? fault : no_answer;
    if (first == CUDA_SUCCESS) first = result;
  }
  bool has_answers() const noexcept { return fault == CUDA_SUCCESS && no_answer == CUDA_SUCCESS; }

  CUresult fault = CUDA_SUCCESS, no_answer = CUDA_SUCCESS; // the first one of each kind
  std::vector<ObservedStream> streams{};
  std::uint64_t progress = 0; // places reached by all streams since they are known
  std::uint64_t untraced_waits = 0;
  std::chrono::nanoseconds blocked_after{}; // a call that takes longer is blocked
};

}} // namespace cuevent::CUEVENT_ABI
