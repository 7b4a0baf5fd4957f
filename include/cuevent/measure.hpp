// SPDX-License-Identifier: MIT
/// \file
/// \brief measure(): how long work takes on the device, with the proof that all of it was timed.
///
/// A measurement takes samples. For each sample, the whole context is held while the host submits the work,
/// so that the device never waits for the host. When all earlier work has ended, the context is let go. One
/// event is recorded before the work and one after it, on the stream of the caller. Then this stream waits
/// for the whole context, and a third event says whether the work ended later than the stream.
///
/// docs/timing.md explains what makes times wrong, and how each case is found.
#pragma once

#include <cuevent/callback.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/stage_report.hpp>
#include <cuevent/stream_ref.hpp>
#include <cuevent/time_limit.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

struct MeasureOptions {
  /// By which part of the median repeated measurements may differ. Samples are taken until the 95 %
  /// confidence interval of the median is half as wide, or as narrow as the resolution of the events. From a
  /// fifth of `time_limit` on, and with the last sample, an interval as wide as this is enough, or one of
  /// four times the resolution.
  double precision = 0.005;
  std::size_t least_samples = 20;    ///< at least 3
  std::size_t most_samples = 10'000; ///< at most 2^20
  /// When to stop if the samples do not become precise enough, as time of the host with the warm-up. At least
  /// 3 samples are taken in any case. If 6 or more are precise enough by then, that is precise, also with
  /// less than `least_samples`.
  TimeLimit time_limit = std::chrono::seconds(5);
  /// For how long one sample may hold the context. If the submission takes longer, the work probably waits
  /// for the device, or fills a launch queue. If earlier work takes longer, another thread has submitted it.
  /// The context is let go, and from the second time on, all other samples are taken without the hold.
  TimeLimit hold_limit = std::chrono::milliseconds(500);
  /// Called before each sample, with the stream. What it submits to the context has ended when the sample
  /// begins, and is not timed.
  std::function<void(CUstream)> between = nullptr;
  /// Device memory that is overwritten before each sample, so that the work finds a cold L2 cache. Use at
  /// least twice the size of the cache. Driver function: cuMemsetD8Async.
  CUdeviceptr overwrite = 0;
  std::size_t overwrite_bytes = 0;
};

/// For which streams a measurement knows that no work escaped.
enum class MeasuredScope : unsigned char {
  context,          ///< all streams of the context, and of the green contexts that belong to it
  blocking_streams, ///< the measured stream, and those that synchronize with the legacy default stream:
                    ///< the driver is older than CUDA 12.5
};

/// Why no more samples were taken.
enum class MeasuredEnd : unsigned char { precise, time_limit, most_samples };

/// One sample. All times are from the device.
struct MeasuredSample {
  DeviceTime time{}; ///< from the record before the work to the record after it
  /// From the record after the work until the measured stream had waited for everything that was submitted
  /// to the context until then. Without an escape, this is the time of two records.
  DeviceTime tail{};
  bool held = false; ///< the device did not wait for the host
  /// The tail is longer than the margin, and without the hold longer than the margin and the time that the
  /// host took to submit these records.
  bool escaped = false;
  /// Right before or right after the sample, other work of the context was running, for at least 20 us.
  bool disturbed = false;
};

/// The result of measure(). The median is the time; everything else says how good it is.
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct Measurement {
  /// In the order in which they were taken, without the warm-up and without those that were late.
  std::vector<MeasuredSample> samples;

  DeviceTime median{};
  DeviceTime low{}, high{}; ///< the 95 % confidence interval of the median
  DeviceTime minimum{}, first_quartile{}, third_quartile{}, maximum{};
  std::size_t outliers = 0; ///< samples more than 1.5 interquartile ranges outside of the quartiles
  /// The change from the first third of the samples to the last, as part of the median: a device that gets
  /// hot or changes its clock.
  double trend = 0;
  bool drifts = false; ///< the trend is larger than the precision, and the intervals of the thirds are apart

  std::size_t warm_up = 0; ///< samples that were taken before the times had settled, and are not counted
  DeviceTime empty_pair{}; ///< the time of no work. It is part of every sample, and is not subtracted.
  DeviceTime resolution{}; ///< all times seen are multiples of this
  DeviceTime margin{};     ///< of a sample's tail: twice the longest one without work, and 1 us at least
  std::size_t escaped = 0; ///< samples in which work outlasted the record after it
  /// Samples that are not counted either. Their tails were longer than the margin, but at most 16 us, and
  /// there was one of at least 20 samples, or 1 % of more than 100: a device can be that late by itself.
  std::size_t late = 0;
  std::size_t disturbed = 0; ///< samples around which other work was running
  std::size_t unheld = 0;    ///< samples in which the device may have waited for the host
  MeasuredScope scope = MeasuredScope::context;
  MeasuredEnd end = MeasuredEnd::precise;

  /// Whether all work of all samples lies between its records, nothing else ran, the device never waited for
  /// the host, and the samples agree. For the streams in `scope`.
  bool proved() const noexcept {
    return !samples.empty() && escaped == 0 && disturbed == 0 && unheld == 0 && !drifts &&
           end == MeasuredEnd::precise;
  }
  /// Why it is not proved, in sentences. Empty if it is.
  std::string doubt() const;
};

/// The result of compare().
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct Comparison {
  Measurement a, b;
  /// The median of the time of `a` over the time of `b` in the same turn. Above 1, `a` takes longer.
  double ratio = 0;
  double low = 0, high = 0; ///< the 95 % confidence interval of the ratio

  bool proved() const noexcept { return a.proved() && b.proved(); }
  /// Why it is not proved, in sentences about `a` and `b`. Empty if it is.
  std::string doubt() const;
};

/// Work as measure() calls it. Made from a callable object, a function or a GraphExec.
class MeasuredWork {
public:
  /// `work` must outlive this.
  template <class Work>
  explicit MeasuredWork(Work& work) noexcept
      : object_(address_of(work)), submit_(is_null_callback(work) ? nullptr : call<Work>) {
    static_assert(can_call<Work>, "the work is called as work(stream) or work(), and a const one as such");
  }

  /// Whether there is something to call.
  explicit operator bool() const noexcept { return submit_ != nullptr; }
  CUresult submit(CUstream stream) const { return submit_(object_, stream); }

private:
  template <class Work>
  static void* address_of(Work& work) noexcept {
    if constexpr (std::is_function_v<Work>)
      return reinterpret_cast<void*>(&work);
    else
      return const_cast<void*>(static_cast<const volatile void*>(std::addressof(work)));
  }
  template <class Work>
  static CUresult call(void* object, CUstream stream) {
    Work& work = *reinterpret_cast<Work*>(object);
    if constexpr (std::is_same_v<Work, GraphExec>)
      return work.try_launch(stream);
    else if constexpr (std::is_invocable_v<Work&, CUstream>)
      return result_of([&]() -> decltype(auto) { return work(stream); });
    else
      return result_of(work);
  }
  template <class Work>
  static constexpr bool can_call =
      std::is_same_v<Work, GraphExec> || std::is_invocable_v<Work&, CUstream> || std::is_invocable_v<Work&>;
  template <class Submit>
  static CUresult result_of(Submit&& submit) {
    if constexpr (std::is_same_v<decltype(submit()), CUresult>) {
      return submit();
    } else {
      submit();
      return CUDA_SUCCESS;
    }
  }

  void* object_;
  CUresult (*submit_)(void* object, CUstream stream);
};

/// \name For the library only: see the templates below
/// @{
Measurement measure_work(const Context& context, StreamRef stream, MeasuredWork work,
                         const MeasureOptions& options);
Comparison compare_works(const Context& context, StreamRef stream, MeasuredWork a, MeasuredWork b,
                         const MeasureOptions& options);
[[nodiscard]] CUresult result_of_measuring(Measurement& out, const Context& context, StreamRef stream,
                                           MeasuredWork work, const MeasureOptions& options) noexcept;
[[nodiscard]] CUresult result_of_comparing(Comparison& out, const Context& context, StreamRef stream,
                                           MeasuredWork a, MeasuredWork b,
                                           const MeasureOptions& options) noexcept;
/// @}

/// Measures how long `work` takes on the device. `work` is a GraphExec, or a callable object that submits to
/// the stream: `work(stream)` or `work()`. It may return a CUresult; another result is ignored. It is called
/// once for each sample, some dozen times at least, and must do the same each time. It may use any number of
/// streams, if the measured stream waits for them at the end. The first call is warm-up without the hold,
/// because it may load modules or compile.
///
///     const Measurement copying = measure(context, stream, [&](CUstream on) { submit(on); });
///     assert(copying.proved());
///     std::puts(to_string(copying).c_str());
///
/// - The call waits for all work of the context, several times. While a sample is submitted, later work of
///   the whole context waits on the device, also work of other threads.
/// - A copy that blocks, a synchronization, or more submissions than a launch queue takes are found by
///   MeasureOptions::hold_limit. Such work is then measured without the hold, and is not proved.
/// - Work in other contexts is neither held nor seen.
///
/// Driver functions: cuCtxGetId, cuStreamGetCtx, cuStreamIsCapturing, cuStreamCreate, cuEventCreate,
/// cuMemHostRegister once; cuStreamWaitValue32, cuCtxWaitEvent, cuCtxRecordEvent, cuEventRecord,
/// cuStreamWaitEvent, cuEventQuery, cuEventSynchronize and cuEventElapsedTime for each sample. Throws:
/// - InvalidValue for options out of their ranges, and for a null `work`.
/// - ContextMismatch if the stream belongs to another context, InvalidContext for an empty Context.
/// - StreamCaptureUnsupported if the stream is being captured.
/// - OutOfMemory if no thread can be started.
/// - The error that `work` returned, and what the driver refuses.
///
/// `work` and MeasureOptions::between may fork. The parent goes on to measure. In the child, measure() fails
/// with NOT_INITIALIZED after the callback that forked.
///
/// An exception of `work` passes through measure(), and the context is let go. The non-throwing overload is
/// for work that throws nothing.
///
/// Thread-safety: any thread; one measurement of a context at a time.
/// Context: the given one, which is current while `work` runs. The caller's stays unchanged.
/// During capture: if any stream of the context is being captured, throws StreamCaptureUnsupported and
/// invalidates every such capture, as DriverEvent::record_context() does.
template <class Work>
[[nodiscard]] Measurement measure(const Context& context, StreamRef stream, Work&& work,
                                  const MeasureOptions& options = {}) {
  return measure_work(context, stream, MeasuredWork(work), options);
}
/// `out` is assigned on success only.
template <class Work>
[[nodiscard]] CUresult try_measure(Measurement& out, const Context& context, StreamRef stream, Work&& work,
                                   const MeasureOptions& options = {}) noexcept {
  return result_of_measuring(out, context, stream, MeasuredWork(work), options);
}

/// Measures two works in turns, so that what changes on the device meets both. As measure(), and stops when
/// the ratio is precise too.
///
/// Thread-safety: as measure().
/// Context: as measure().
/// During capture: as measure().
template <class A, class B>
[[nodiscard]] Comparison compare(const Context& context, StreamRef stream, A&& a, B&& b,
                                 const MeasureOptions& options = {}) {
  return compare_works(context, stream, MeasuredWork(a), MeasuredWork(b), options);
}
/// `out` is assigned on success only.
template <class A, class B>
[[nodiscard]] CUresult try_compare(Comparison& out, const Context& context, StreamRef stream, A&& a, B&& b,
                                   const MeasureOptions& options = {}) noexcept {
  return result_of_comparing(out, context, stream, MeasuredWork(a), MeasuredWork(b), options);
}

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
