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
/// - `submitted_`, for the whole context: everything that was submitted until then has ended
/// - `joined_`, on the measured stream, which has waited for `submitted_`
///
/// The driver's time of an event for a whole context is late by up to 11 us, in steps, also if nothing else
/// runs. A stream that waits for such an event is not late if nothing else runs, so the time from `end_` to
/// `joined_` says for how long work outlasted the stream.
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

  /// Measures the time of no work, the resolution, and how late the events of an idle context are.
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
  /// How late the event of an idle context may be. Other work that ends sooner is not noticed by answer().
  static constexpr DeviceTime least_answer_margin{20'000};

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
  DriverEvent alone_, all_, start_, end_, submitted_, joined_;
  DeviceTime asking_{};  ///< between the records of `alone_` and `all_`, on the host
  DeviceTime joining_{}; ///< between the records of `end_` and `joined_`, on the host
  DeviceTime delay_{};   ///< between `alone_` and `all_` on the device, less `asking_`
  DeviceTime empty_pair_{}, margin_{}, answer_margin_ = least_answer_margin;
  long long resolution_ = 0; // ns
};

}} // namespace cuevent::CUEVENT_ABI
