// SPDX-License-Identifier: MIT
// Takes the samples of a measurement. Inside the library only.
#pragma once

#include "timing/context_hold.hpp"

#include <cuevent/measure.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The events of a sample, in the order of their records:
/// - `before_`: everything that was submitted to the context earlier has ended
/// - `start_` and `end_`: around the work, on the measured stream
/// - `after_`: everything that was submitted until then has ended
class Sampler {
public:
  /// Makes streams and events. `context` must be current. Driver functions: as ContextHold::create().
  Status create(const Context& context, CUstream stream, std::chrono::nanoseconds hold_limit);

  /// One sample. If the work throws, the context is let go. `in_time` is false if the hold ended before the
  /// work was submitted: the sample then says nothing.
  Status take(const MeasuredWork& work, bool hold, MeasuredSample& out, bool& in_time);

  /// Waits for all work of the context. `ran`: if there was any.
  Status settle(bool& ran) noexcept;

  /// Measures the time of no work, the resolution, and how far a lead and a tail are from 0 without work.
  Status calibrate();

  MeasuredScope scope() const noexcept {
    return whole_ ? MeasuredScope::context : MeasuredScope::blocking_streams;
  }
  DeviceTime empty_pair() const noexcept { return empty_pair_; }
  DeviceTime resolution() const noexcept { return DeviceTime(static_cast<double>(resolution_)); }
  DeviceTime margin() const noexcept { return margin_; }
  CUstream stream() const noexcept { return stream_; }
  const Context& context() const noexcept { return context_; }

private:
  Status record(DriverEvent& event, CUstream stream) noexcept;
  Status record_all(DriverEvent& event) noexcept;
  Status submit(const MeasuredWork& work);
  DeviceTime host_time_since(long long begun) const noexcept;
  /// The time between two events, which the resolution has to divide.
  Status read(const DriverEvent& from, const DriverEvent& to, DeviceTime& time) noexcept;

  Context context_;
  CUstream stream_ = nullptr;
  bool whole_ = false;
  ContextHold hold_;
  DriverEvent before_, start_, end_, after_;
  DeviceTime asking_{};     ///< between the records of `end_` and `after_`, on the host
  DriverEvent alone_, all_; ///< of settle(): on a stream where nothing else runs, and for all streams
  DeviceTime empty_pair_{}, margin_{};
  long long resolution_ = 0; // ns
};

}} // namespace cuevent::CUEVENT_ABI
