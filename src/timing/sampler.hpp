// SPDX-License-Identifier: MIT
// Takes the samples of a measurement. Inside the library only.
#pragma once

#include "timing/context_hold.hpp"

#include <cuevent/measure.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The events of a sample, in the order of their records:
/// - `alone_`, on a stream where nothing else runs, and `all_`: everything that was submitted to the context
///   earlier has ended. The context is held after these two, and let go when `all_` has completed.
/// - `start_` and `end_`: around the work, on the measured stream
/// - `after_`: everything that was submitted until then has ended
/// - `own_`, on the measured stream: says which part of the time from `end_` to `after_` is the stream's
///
/// Next to a copy from the host, an event of the context that was recorded before the copy can end as late as
/// the copy. So nothing of the sample runs until `all_` has completed. Work that another thread submits
/// between `all_` and the hold is neither waited for nor held: it is found if it outlasts the sample.
class Sampler {
public:
  /// Makes streams and events. `context` must be current. Driver functions: as ContextHold::create().
  Status create(const Context& context, CUstream stream, std::chrono::nanoseconds hold_limit);

  /// One sample. If the work throws, the context is let go. `in_time` is false if the hold ended before the
  /// work was submitted: the sample then says nothing.
  Status take(const MeasuredWork& work, bool hold, MeasuredSample& out, bool& in_time);

  /// Waits for all work of the context. `ran`: if there was any.
  Status settle(bool& ran) noexcept;

  /// Measures the time of no work, the resolution, and how late the event of an idle context is.
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
  /// Asks the device whether work of the context is running. Does not wait.
  Status ask() noexcept;
  /// Waits for `all_` while the context is held, so that earlier work is not part of the sample.
  Status await_earlier_work() const noexcept;
  Status answer(bool& ran) noexcept;
  DeviceTime host_time_since(long long begun) const noexcept;
  /// The time between two events, which the resolution has to divide.
  Status read(const DriverEvent& from, const DriverEvent& to, DeviceTime& time) noexcept;

  Context context_;
  CUstream stream_ = nullptr;
  bool whole_ = false;
  ContextHold hold_;
  DriverEvent alone_, all_, start_, end_, after_, own_;
  DeviceTime asking_{}; ///< between the records of `alone_` and `all_`, on the host
  DeviceTime ending_{}; ///< between the records of `end_` and `after_`, on the host
  DeviceTime empty_pair_{}, margin_{}, excess_{};
  long long resolution_ = 0; // ns
};

}} // namespace cuevent::CUEVENT_ABI
