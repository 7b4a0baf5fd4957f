// SPDX-License-Identifier: MIT
#include <cuevent/measure.hpp>

#include "core/capture_state.hpp"
#include "core/failure.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "timing/escape.hpp"
#include "timing/sample_statistics.hpp"
#include "timing/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr std::size_t fewest_samples = 3, most_samples = 1 << 20; // as documented in MeasureOptions
constexpr std::size_t fewest_with_interval = 6;                   // of 95 %
/// The part of the time limit for warm-up, and for an interval that is narrower than it must be.
constexpr double patient_part = 0.2;
/// When samples are precise: the width of the interval, as part of MeasureOptions::precision or in steps of
/// the clock of the events, whichever is larger.
struct Precision {
  double part, steps;
};
/// The median of 20 measurements varies by the width of their 95 % intervals, so a half has to do.
constexpr Precision ideal{0.5, 1};
/// The times of one kernel of a few microseconds differ by four steps, however many are taken.
constexpr Precision enough{1, 4};

/// What is wrong with the options, or null.
const char* wrong_with(const MeasureOptions& options) noexcept {
  if (!(options.precision > 0 && options.precision < 1))
    return "precision is not between 0 and 1, and is a part of the median: 0.005 is half a percent";
  if (options.least_samples < fewest_samples) return "least_samples is less than 3: use 3 or more";
  if (options.most_samples > most_samples)
    return "most_samples is more than 2^20, and all are kept: use fewer";
  if (options.most_samples < options.least_samples) return "most_samples is less than least_samples";
  if ((options.overwrite == 0) != (options.overwrite_bytes == 0))
    return "overwrite and overwrite_bytes belong together, and one of them is 0: set both or none";
  return nullptr;
}

/// Until when the host may take samples.
class Allowance {
public:
  Allowance(const Context& context, TimeLimit limit) noexcept
      : table_(context.driver().table()), begin_(table_.clock_now()), limit_(limit.nanoseconds().count()) {}
  /// Whether this part of the time is over.
  bool is_over(double part = 1) const noexcept {
    return static_cast<double>(table_.clock_now() - begin_) >= part * static_cast<double>(limit_);
  }

private:
  const DriverTable& table_;
  long long begin_, limit_;
};

/// The samples of one work.
class Series {
public:
  Series(Sampler& sampler, const MeasuredWork& work, const MeasureOptions& options) noexcept
      : sampler_(sampler), work_(work), options_(options) {}

  /// Takes samples until they do not get faster any more.
  Status warm_up(const Allowance& allowance) {
    constexpr std::size_t window = 5;
    constexpr double still_faster = 0.99;
    std::vector<double> now;
    std::optional<double> before;
    Status status;
    while (status && !(warm_up_ > 0 && allowance.is_over(patient_part))) {
      MeasuredSample sample;
      status = take(sample);
      ++warm_up_;
      now.push_back(sample.time.count());
      if (now.size() < window) continue;
      const double median = median_interval(std::exchange(now, {})).median;
      if (before && median >= *before * still_faster - sampler_.resolution().count()) break;
      before = median;
    }
    return status;
  }

  Status add() {
    MeasuredSample sample;
    const Status status = take(sample);
    if (status) samples_.push_back(sample);
    return status;
  }

  std::vector<double> times() const {
    std::vector<double> times;
    times.reserve(samples_.size());
    for (const MeasuredSample& sample : samples_)
      times.push_back(sample.time.count());
    return times;
  }

  bool precise(Precision needed) const {
    const MedianInterval interval = median_interval(times());
    const double allowed = std::max(needed.part * options_.precision * interval.median,
                                    needed.steps * sampler_.resolution().count());
    return interval.high - interval.low <= allowed;
  }

  bool drifts() const { return drifts(drift(times())); }

  /// The times had not settled: the first third of the samples was warm-up.
  void extend_warm_up() {
    const std::size_t third = samples_.size() / 3;
    samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(third));
    warm_up_ += third;
  }
  std::size_t size() const noexcept { return samples_.size(); }

  Measurement result(MeasuredEnd end) && {
    Measurement result;
    result.late = leave_out_late(samples_);
    std::vector<double> values = times();
    const MedianInterval interval = median_interval(values);
    const Drift change = drift(values);
    result.trend = change.trend;
    result.drifts = drifts(change);
    std::sort(values.begin(), values.end());
    result.median = DeviceTime(interval.median);
    result.low = DeviceTime(interval.low);
    result.high = DeviceTime(interval.high);
    result.minimum = DeviceTime(values.front());
    result.first_quartile = DeviceTime(quantile(values, 0.25));
    result.third_quartile = DeviceTime(quantile(values, 0.75));
    result.maximum = DeviceTime(values.back());
    result.outliers = outliers(values);
    result.warm_up = warm_up_;
    result.empty_pair = sampler_.empty_pair();
    result.resolution = sampler_.resolution();
    result.margin = sampler_.margin();
    for (const MeasuredSample& sample : samples_) {
      result.escaped += sample.escaped ? 1 : 0;
      result.disturbed += sample.disturbed ? 1 : 0;
      result.unheld += sample.held ? 0 : 1;
    }
    result.samples = std::move(samples_);
    result.scope = sampler_.scope();
    result.end = end;
    return result;
  }

private:
  static constexpr int chances = 2; // the host may have been busy once

  bool drifts(const Drift& change) const noexcept {
    return change.clear && std::abs(change.trend) > options_.precision;
  }

  Status take(MeasuredSample& sample) {
    Status status = prepare();
    for (bool in_time = false; status && !in_time;) {
      const bool first = !std::exchange(called_, true); // may load modules or compile: it is not held
      status = sampler_.take(work_, !first && late_ < chances, sample, in_time);
      if (!in_time) ++late_;
      bool ran = false;
      if (status) status = sampler_.settle(ran);
      sample.disturbed |= ran;
      if (status && !in_time) status = prepare();
    }
    return status;
  }

  Status prepare() {
    if (!options_.between && options_.overwrite == 0) return {};
    if (options_.overwrite != 0) {
      const CUresult result = sampler_.context().driver().table().cuMemsetD8Async_v3020(
          options_.overwrite, 0, options_.overwrite_bytes, sampler_.stream());
      if (result != CUDA_SUCCESS) return {result, "cuMemsetD8Async"};
    }
    if (options_.between) options_.between(sampler_.stream());
    bool expected = false;
    return sampler_.settle(expected);
  }

  Sampler& sampler_;
  const MeasuredWork& work_;
  const MeasureOptions& options_;
  std::vector<MeasuredSample> samples_;
  std::size_t warm_up_ = 0;
  int late_ = 0;        // how often the hold did not last
  bool called_ = false; // the work, at least once
};

/// When to ask whether the samples are precise, which sorts them.
class Questions {
public:
  explicit Questions(std::size_t first) noexcept : next_(first) {}
  bool due(std::size_t count) noexcept {
    if (count < next_) return false;
    next_ = count + 1 + count / 10;
    return true;
  }

private:
  std::size_t next_;
};

std::vector<double> ratios(const Series& a, const Series& b) {
  std::vector<double> ratios = a.times();
  const std::vector<double> below = b.times();
  for (std::size_t i = 0; i < ratios.size(); ++i)
    ratios[i] /= std::max(below[i], 1.0); // no time is less than a nanosecond
  return ratios;
}

/// Takes a turn at a time, each a sample of every series, until `precise(needed)`.
template <class Turn, class Precise>
Status repeat(const MeasureOptions& options, const Allowance& allowance,
              std::initializer_list<Series*> all_series, Turn turn, Precise precise, MeasuredEnd& end) {
  const Series& any = **all_series.begin();
  Questions questions(options.least_samples);
  for (std::size_t turns = 1;; ++turns) {
    if (const Status status = turn(turns); !status) return status;
    const std::size_t count = any.size();
    const bool over = count >= fewest_samples && allowance.is_over(), last = count == options.most_samples;
    if (questions.due(count) || last || (over && count >= fewest_with_interval)) {
      const bool patient = !last && !allowance.is_over(patient_part);
      if (precise(patient ? ideal : enough)) {
        const auto drifts = [](const Series* each) { return each->drifts(); };
        if (!patient || std::none_of(all_series.begin(), all_series.end(), drifts)) {
          end = MeasuredEnd::precise;
          return {};
        }
        for (Series* const each : all_series)
          each->extend_warm_up();
        questions = Questions(options.least_samples);
        continue;
      }
    }
    if (over || last) {
      end = over ? MeasuredEnd::time_limit : MeasuredEnd::most_samples;
      return {};
    }
  }
}

constexpr const char* measuring = "measure"; // for errors

/// The stream can be measured: it belongs to the context, which is current, and is not captured.
Status check(const Context& context, StreamRef stream) noexcept {
  const CUresult named = check_context(context, stream);
  if (named == CUDA_ERROR_INVALID_HANDLE) return {named, measuring, Reason::other_context};
  if (named != CUDA_SUCCESS) return {named, measuring};
  if (const Status home = check_home(context, stream.native_handle()); !home) return home;
  const CaptureState capture = capture_state(context.driver().table(), stream.native_handle());
  if (capture.result != CUDA_SUCCESS) return {capture.result, "cuStreamIsCapturing"};
  return capture.capturing() ? Status{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, measuring} : Status{};
}

Status begin(Sampler& sampler, const Context& context, StreamRef stream, const MeasureOptions& options) {
  Status status = check(context, stream);
  if (status) status = sampler.create(context, stream.native_handle(), options.hold_limit.nanoseconds());
  if (status) status = sampler.calibrate();
  return status;
}

Status sample(const Context& context, StreamRef stream, const MeasuredWork& work,
              const MeasureOptions& options, Measurement& out) {
  const Allowance allowance(context, options.time_limit);
  Sampler sampler;
  Status status = begin(sampler, context, stream, options);
  Series series(sampler, work, options);
  if (status) status = series.warm_up(allowance);
  MeasuredEnd end{};
  if (status)
    status = repeat(
        options, allowance, {&series}, [&](std::size_t) { return series.add(); },
        [&](Precision needed) { return series.precise(needed); }, end);
  if (status) out = std::move(series).result(end);
  return status;
}

Status sample(const Context& context, StreamRef stream, const MeasuredWork& work_a,
              const MeasuredWork& work_b, const MeasureOptions& options, Comparison& out) {
  const Allowance allowance(context, options.time_limit);
  Sampler sampler;
  Status status = begin(sampler, context, stream, options);
  Series a(sampler, work_a, options), b(sampler, work_b, options);
  if (status) status = a.warm_up(allowance);
  if (status) status = b.warm_up(allowance);
  const auto turn = [&](std::size_t turns) { // each begins every other time
    Series& first = turns % 2 != 0 ? a : b;
    const Status done = first.add();
    return done ? (&first == &a ? b : a).add() : done;
  };
  const auto ratio = [&] { return median_interval(ratios(a, b)); };
  const auto precise = [&](Precision needed) {
    const MedianInterval found = ratio();
    return a.precise(needed) && b.precise(needed) &&
           found.high - found.low <= needed.part * options.precision * found.median;
  };
  MeasuredEnd end{};
  if (status) status = repeat(options, allowance, {&a, &b}, turn, precise, end);
  if (!status) return status;
  const MedianInterval found = ratio();
  out.ratio = found.median;
  out.low = found.low;
  out.high = found.high;
  out.a = std::move(a).result(end);
  out.b = std::move(b).result(end);
  return status;
}

[[noreturn, gnu::cold]] void fail_measure(const Context& context, const Status& status) {
  if (status.reason == Reason::other_context)
    throw_error(ErrorCause::context_mismatch, status.call, name_its_context);
  if (status.result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && is_call(status.call, measuring))
    throw_error(
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, measuring,
        "the stream is being captured, and captured work does not run: measure a launch of the graph");
  context.driver().fail(status.result, status.call);
}

template <class Result, class... Works>
Result measured(const Context& context, StreamRef stream, const MeasureOptions& options,
                const Works&... works) {
  require_context(context, measuring);
  if (const char* const wrong = wrong_with(options)) throw_error(CUDA_ERROR_INVALID_VALUE, measuring, wrong);
  if (!(static_cast<bool>(works) && ...)) fail_null_callback(measuring);
  const ContextGuard guard(context);
  Result result;
  if (const Status status = sample(context, stream, works..., options, result); !status)
    fail_measure(context, status);
  return result;
}

template <class Result, class... Works>
CUresult try_measured(Result& out, const Context& context, StreamRef stream, const MeasureOptions& options,
                      const Works&... works) noexcept {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (wrong_with(options) != nullptr || !(static_cast<bool>(works) && ...)) return CUDA_ERROR_INVALID_VALUE;
  return result_of([&] {
    CUresult result = CUDA_SUCCESS;
    const ContextGuard guard(context, result);
    if (result != CUDA_SUCCESS) return result;
    Result measured;
    result = sample(context, stream, works..., options, measured).result;
    if (result == CUDA_SUCCESS) out = std::move(measured);
    return result;
  });
}

} // namespace

Measurement measure_work(const Context& context, StreamRef stream, MeasuredWork work,
                         const MeasureOptions& options) {
  return measured<Measurement>(context, stream, options, work);
}

Comparison compare_works(const Context& context, StreamRef stream, MeasuredWork a, MeasuredWork b,
                         const MeasureOptions& options) {
  return measured<Comparison>(context, stream, options, a, b);
}

CUresult result_of_measuring(Measurement& out, const Context& context, StreamRef stream, MeasuredWork work,
                             const MeasureOptions& options) noexcept {
  return try_measured(out, context, stream, options, work);
}

CUresult result_of_comparing(Comparison& out, const Context& context, StreamRef stream, MeasuredWork a,
                             MeasuredWork b, const MeasureOptions& options) noexcept {
  return try_measured(out, context, stream, options, a, b);
}

}} // namespace cuevent::CUEVENT_ABI
