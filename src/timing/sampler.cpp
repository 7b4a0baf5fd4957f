// SPDX-License-Identifier: MIT
#include "timing/sampler.hpp"

#include "timing/elapsed.hpp"
#include "timing/sample_statistics.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

Status synchronize(const DriverEvent& event) noexcept {
  return {event.try_synchronize(), "cuEventSynchronize"};
}

} // namespace

Status Sampler::create(const Context& context, CUstream stream, std::chrono::nanoseconds hold_limit) {
  context_ = context;
  stream_ = stream;
  CUresult created = DriverEvent::try_create(submitted_, context);
  for (DriverEvent* const event : {&alone_, &all_, &start_, &end_, &joined_})
    if (created == CUDA_SUCCESS) created = DriverEvent::try_create(*event, context, EventFlags::timing);
  if (created != CUDA_SUCCESS) return {created, "cuEventCreate"};
  const CUresult result = all_.try_record_context(context);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED) return {result, "cuCtxRecordEvent"};
  whole_ = result == CUDA_SUCCESS;
  return hold_.create(context, stream, whole_, hold_limit);
}

Status Sampler::record(DriverEvent& event, CUstream stream) noexcept {
  return {event.try_record(stream), "cuEventRecord"};
}

/// Without cuCtxRecordEvent, the legacy default stream comes after all streams that synchronize with it.
Status Sampler::record_all(DriverEvent& event) noexcept {
  if (whole_) return {event.try_record_context(context_), "cuCtxRecordEvent"};
  return record(event, CU_STREAM_LEGACY);
}

Status Sampler::read(const DriverEvent& from, const DriverEvent& to, DeviceTime& time) noexcept {
  double nanoseconds = 0;
  const Status status = elapsed(from, to, nanoseconds);
  if (!status) return status;
  time = DeviceTime(nanoseconds);
  resolution_ = std::gcd(resolution_, std::llround(nanoseconds));
  return status;
}

Status Sampler::submit(const MeasuredWork& work) {
  Status status = record(start_, stream_);
  if (status) status = {work.submit(stream_), "the measured work"};
  const long long begun = context_.driver().table().clock_now();
  if (status) status = record(end_, stream_);
  if (status) status = record_all(submitted_);
  if (status) status = {submitted_.try_wait(stream_), "cuStreamWaitEvent"};
  if (status) status = record(joined_, stream_);
  joining_ = host_time_since(begun);
  return status;
}

Status Sampler::take(const MeasuredWork& work, bool hold, MeasuredSample& out, bool& in_time) {
  struct LetGo { // also if the work throws
    ContextHold& hold;
    ~LetGo() { hold.end(); }
  };
  in_time = true;
  Status status = ask();
  if (hold) {
    const LetGo let_go{hold_};
    if (status) status = hold_.begin();
    if (status) status = submit(work);
    if (status) status = await_earlier_work();
    in_time = hold_.end();
  } else {
    if (status) status = synchronize(all_);
    if (status) status = submit(work);
  }
  if (status) status = synchronize(joined_); // `start_` and `end_` come before it on the stream
  if (status) status = read(start_, end_, out.time);
  if (status) status = read(end_, joined_, out.tail);
  if (status) status = answer(out.disturbed);
  out.held = hold && in_time;
  // Without the hold, the stream can end before the host has submitted the rest.
  out.escaped = out.tail > margin_ + (out.held ? DeviceTime{} : joining_);
  return status;
}

DeviceTime Sampler::host_time_since(long long begun) const noexcept {
  return DeviceTime(static_cast<double>(context_.driver().table().clock_now() - begun));
}

Status Sampler::ask() noexcept {
  const long long begun = context_.driver().table().clock_now();
  Status status = record(alone_, hold_.stream());
  if (status) status = record_all(all_);
  asking_ = host_time_since(begun);
  return status;
}

Status Sampler::await_earlier_work() const noexcept {
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY && hold_.lasts())
    result = all_.try_synchronize_for(std::chrono::milliseconds(1));
  return {result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result, "cuEventQuery"};
}

Status Sampler::answer(bool& ran) noexcept {
  // An idle context ends the second event soon after the host has submitted it. The host's time between the
  // two records is not evidence, because the host may have been busy with something else.
  Status status = synchronize(all_);
  if (status) status = synchronize(alone_);
  DeviceTime between{};
  if (status) status = read(alone_, all_, between);
  delay_ = between - asking_;
  ran = status && delay_ > answer_margin_;
  return status;
}

Status Sampler::settle(bool& ran) noexcept {
  const Status status = ask();
  return status ? answer(ran) : status;
}

Status Sampler::calibrate() {
  constexpr int discarded = 4, rounds = 12; // the first ones meet cold caches
  constexpr DeviceTime least_margin(1000);
  const auto nothing = [] {};
  const MeasuredWork work(nothing);
  std::vector<double> times;
  DeviceTime longest_tail{}, longest_delay{};
  bool ran = false;
  Status status = settle(ran);
  for (int i = 0; status && i < discarded + rounds; ++i) {
    MeasuredSample sample;
    bool in_time = true;
    status = take(work, true, sample, in_time);
    if (!status || i < discarded) continue;
    times.push_back(sample.time.count());
    longest_tail = std::max(longest_tail, sample.tail);
    longest_delay = std::max(longest_delay, delay_);
  }
  if (!status) return status;
  empty_pair_ = DeviceTime(median_interval(times).median);
  margin_ = std::max(2 * longest_tail, least_margin);
  answer_margin_ = std::max(2 * longest_delay, least_answer_margin);
  return status;
}

}} // namespace cuevent::CUEVENT_ABI
