// SPDX-License-Identifier: MIT
// Host threads that wait for semaphores.
#include <cuevent/timeline_semaphore.hpp>

#include "core/failure.hpp"
#include "core/kept_table.hpp"
#include "core/on_stream.hpp"
#include "scheduling/memory_operations.hpp"
#include "scheduling/poll_until.hpp"
#include "scheduling/semaphore_state.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

/// Sleeps until a host signals, a signal is submitted, or the time is over. `check` is asked again before
/// the thread sleeps, so that it misses no wake.
template <class Check>
void doze(const DriverTable& table, cuevent_timeline_page& page, long long nanoseconds, Check check) {
  if (!has_real_clock(table)) return table.pause(nanoseconds);
  const std::uint32_t seen = cuevent_timeline_begin_sleep(&page);
  if (check() == CUDA_ERROR_NOT_READY) cuevent_timeline_sleep(&page, seen, nanoseconds);
  cuevent_timeline_end_sleep(&page);
}

} // namespace

/// Whether the context can still make progress. The driver reports a fault for any stream, and does not
/// harm a capture. Looks for a death too, because on a busy machine this thread may run before the one that
/// guards semaphores.
CUresult TimelineSemaphore::fault() const noexcept {
  if (state_ != nullptr) abandon_if_died(*state_);
  CUresult result = context_.status();
  if (result != CUDA_SUCCESS) return result;
  result = on_stream(context_, CU_STREAM_LEGACY,
                     [this] { return capture_state(table(), CU_STREAM_LEGACY).result; });
  // The legacy stream cannot be asked while another stream is captured. This is no error.
  return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? CUDA_SUCCESS : result;
}

/// What a wait for `value` has come to.
CUresult TimelineSemaphore::outcome(std::uint64_t value) const noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool reached = this->reached(value);
  // Asked last, because a stream that was released by force may have signalled.
  if (state_->abandoned()) return CUDA_ERROR_ILLEGAL_STATE;
  if (value > max_value) return CUDA_ERROR_INVALID_VALUE;
  return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

bool TimelineSemaphore::wait_for(std::uint64_t value, TimeLimit timeout) const {
  const CUresult result = try_wait_for(value, timeout);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_NOT_READY) return false;
  fail_wait_for(result);
}

void TimelineSemaphore::fail_wait_for(CUresult result) const { fail(result, "TimelineSemaphore::wait_for"); }

CUresult TimelineSemaphore::try_wait_for(std::uint64_t value, TimeLimit timeout) const noexcept {
  const auto check = [&] { return outcome(value); };
  if (const CUresult found = check(); found != CUDA_ERROR_NOT_READY) return found;
  return poll_until(
      table(), state_, timeout, check, [this] { return fault(); },
      [&](long long sleep) { doze(table(), state_->page(), sleep, check); });
}

bool TimelineSemaphore::wait_when_submitted(StreamRef stream, std::uint64_t value, TimeLimit timeout) const {
  const CUresult result = try_wait_when_submitted(stream, value, timeout);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_NOT_READY) return false;
  fail_wait(result, value);
}

CUresult TimelineSemaphore::try_wait_when_submitted(StreamRef stream, std::uint64_t value,
                                                    TimeLimit timeout) const noexcept {
  const auto check = [&] {
    const CUresult found = outcome(value);
    return found == CUDA_ERROR_NOT_READY && submitted() >= value ? CUDA_SUCCESS : found;
  };
  CUresult found = check();
  if (found == CUDA_ERROR_NOT_READY)
    found = poll_until(
        table(), word_, timeout, check, [this] { return fault(); },
        [&](long long sleep) { doze(table(), state_->page(), sleep, check); });
  return found == CUDA_SUCCESS ? try_wait(stream, value) : found;
}

/// Waits until `check` finds something, for several semaphores. They belong to one driver.
template <class Check>
CUresult TimelineSemaphore::wait_for_points(ArrayView<TimelinePoint> points, TimeLimit timeout,
                                            Check check) noexcept {
  if (const CUresult found = check(); found != CUDA_ERROR_NOT_READY) return found;
  const TimelineSemaphore& first = *points.data()->semaphore;
  const auto fault = [&] {
    for (const TimelinePoint& point : points)
      if (const CUresult result = point.semaphore->fault(); result != CUDA_SUCCESS) return result;
    return CUDA_SUCCESS;
  };
  return poll_until(first.table(), points.data(), timeout, check, fault,
                    [&](long long sleep) { first.table().pause(sleep); });
}

bool TimelineSemaphore::wait_all(ArrayView<TimelinePoint> points, TimeLimit timeout) {
  const CUresult result = try_wait_all(points, timeout);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_NOT_READY) return false;
  fail_points(result, points, "TimelineSemaphore::wait_all");
}

CUresult TimelineSemaphore::try_wait_all(ArrayView<TimelinePoint> points, TimeLimit timeout) noexcept {
  return wait_for_points(points, timeout, [&] {
    CUresult all = CUDA_SUCCESS;
    for (const TimelinePoint& point : points) {
      const CUresult one = point.semaphore->outcome(point.value);
      if (one != CUDA_SUCCESS && one != CUDA_ERROR_NOT_READY) return one;
      if (one == CUDA_ERROR_NOT_READY) all = one;
    }
    return all;
  });
}

std::size_t TimelineSemaphore::wait_any(ArrayView<TimelinePoint> points, TimeLimit timeout) {
  std::size_t index = none;
  const CUresult result = try_wait_any(index, points, timeout);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return index;
  fail_points(result, points, "TimelineSemaphore::wait_any");
}

CUresult TimelineSemaphore::try_wait_any(std::size_t& index, ArrayView<TimelinePoint> points,
                                         TimeLimit timeout) noexcept {
  index = none;
  if (points.size() == 0) return CUDA_ERROR_INVALID_VALUE; // it would wait forever
  return wait_for_points(points, timeout, [&] {
    CUresult failed = CUDA_ERROR_NOT_READY;
    for (const TimelinePoint& point : points) {
      const CUresult one = point.semaphore->outcome(point.value);
      if (one == CUDA_SUCCESS) {
        index = static_cast<std::size_t>(&point - points.data());
        return one;
      }
      if (one != CUDA_ERROR_NOT_READY) failed = one;
    }
    return failed;
  });
}

void TimelineSemaphore::fail_points(CUresult result, ArrayView<TimelinePoint> points, const char* call) {
  if (points.size() == 0)
    throw_error(CUDA_ERROR_INVALID_VALUE, call, "there are no points to wait for: pass at least one");
  for (const TimelinePoint& point : points) // the semaphore that refuses, or the first
    if (point.semaphore->outcome(point.value) == result) point.semaphore->fail(result, call);
  points.data()->semaphore->fail(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
