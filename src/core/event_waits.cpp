// SPDX-License-Identifier: MIT
#include <cuevent/event_ref.hpp>

#include "core/learned_wait.hpp"
#include "core/relaxed_mode.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

bool DriverEvent::query_relaxed() const {
  const CUresult result = try_query_relaxed();
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

CUresult DriverEvent::try_query_relaxed() const noexcept {
  RelaxedMode relaxed(table());
  const CUresult entered = relaxed.enter();
  return entered == CUDA_SUCCESS ? try_query() : entered;
}

bool DriverEvent::synchronize_for(TimeLimit timeout) const { return synchronize_until(Deadline(timeout)); }

bool DriverEvent::synchronize_until(Deadline deadline) const {
  const CUresult result = try_synchronize_until(deadline);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

CUresult DriverEvent::try_synchronize_for(TimeLimit timeout) const noexcept {
  return try_synchronize_until(Deadline(timeout));
}

CUresult DriverEvent::try_synchronize_until(Deadline deadline) const noexcept {
  const long long start = table().clock_now();
  const long long end = deadline.at(std::chrono::nanoseconds(start)).count();
  CUresult result = try_query_relaxed();
  if (result != CUDA_ERROR_NOT_READY) return result;
  LearnedWait wait(table(), event_, start);
  for (long long now = table().clock_now(); now < end; now = table().clock_now()) {
    wait.pass(now, end - now);
    result = try_query_relaxed();
    if (result == CUDA_SUCCESS) wait.ended(table().clock_now());
    if (result != CUDA_ERROR_NOT_READY) return result;
  }
  return result;
}

bool EventAccess::query_relaxed() const {
  const CUresult result = try_query_relaxed();
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

CUresult EventAccess::try_query_relaxed() const noexcept { return readable().try_query_relaxed(); }

bool EventAccess::synchronize_for(TimeLimit timeout) const { return synchronize_until(Deadline(timeout)); }

bool EventAccess::synchronize_until(Deadline deadline) const {
  const CUresult result = try_synchronize_until(deadline);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

CUresult EventAccess::try_synchronize_for(TimeLimit timeout) const noexcept {
  return try_synchronize_until(Deadline(timeout));
}

CUresult EventAccess::try_synchronize_until(Deadline deadline) const noexcept {
  return readable().try_synchronize_until(deadline);
}

}} // namespace cuevent::CUEVENT_ABI
