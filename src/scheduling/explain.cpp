// SPDX-License-Identifier: MIT
#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>
#include <cuevent/explain.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include "core/explanation.hpp"
#include "core/text_of.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

std::string explain_create_pool(CUresult result, const Context& context, EventFlags flags) {
  return text_of(result, "EventPool", [&] { Explanation::fail_create<EventPool>(result, context, flags); });
}

std::string explain_acquire(CUresult result, const EventPool& pool) {
  return text_of(result, "EventPool::acquire", [&] { Explanation::fail_acquire(pool, result); });
}

std::string explain_acquire(CUresult result, const EventPools& pools, StreamRef stream) {
  return text_of(result, "EventPools::acquire", [&] { Explanation::fail_acquire(pools, result, stream); });
}

std::string explain_reserve(CUresult result, const EventPool& pool, std::size_t count) {
  return text_of(result, "EventPool::reserve", [&] { Explanation::fail_reserve(pool, result, count); });
}

std::string explain_reserve(CUresult result, const EventPools& pools, const Context& context,
                            std::size_t count) {
  return text_of(result, "EventPools::reserve",
                 [&] { Explanation::fail_reserve(pools, result, context, count); });
}

std::string explain_wait_stream(CUresult result, const EventPool& pool, StreamRef later, StreamRef earlier) {
  return text_of(result, "EventPool::wait_stream",
                 [&] { Explanation::fail_wait_stream(pool, result, later, earlier); });
}

std::string explain_wait_stream(CUresult result, const EventPools& pools, StreamRef later,
                                StreamRef earlier) {
  return text_of(result, "EventPools::wait_stream",
                 [&] { Explanation::fail_wait_stream(pools, result, later, earlier); });
}

std::string explain_create_queue(CUresult result, const Context& context) {
  return text_of(result, "CompletionQueue::CompletionQueue",
                 [&] { Explanation::fail_create<CompletionQueue>(result, context); });
}

std::string explain_reserve(CUresult result, const CompletionQueue& queue) {
  return text_of(result, "cuEventCreate", [&] { Explanation::fail_reserve(queue, result); });
}

std::string explain_when_complete(CUresult result, const CompletionQueue& queue, StreamRef stream) {
  return text_of(result, "CompletionQueue::when_complete",
                 [&] { Explanation::fail_when_complete(queue, result, stream); });
}

std::string explain_when_complete(CUresult result, const CompletionLane& lane) {
  return text_of(result, "CompletionQueue::when_complete",
                 [&] { Explanation::fail_when_complete(lane, result); });
}

std::string explain_arm(CUresult result, const CompletionQueue& queue) {
  return text_of(result, "timerfd_create", [&] { Explanation::fail_timer(queue, result); });
}

std::string explain_create_fence(CUresult result, const Context& context) {
  return text_of(result, "cuMemHostAlloc", [&] { Explanation::fail_create<TimelineFence>(result, context); });
}

std::string explain_signal(CUresult result, const TimelineFence& fence) {
  return text_of(result, "cuStreamWriteValue64", [&] { Explanation::fail_signal(fence, result); });
}

std::string explain_wait(CUresult result, const TimelineFence& fence, std::uint64_t ticket) {
  return text_of(result, "cuStreamWaitValue64", [&] { Explanation::fail_wait(fence, result, ticket); });
}

std::string explain_wait_for(CUresult result, const TimelineFence& fence) {
  return text_of(result, "TimelineFence::wait_for", [&] { Explanation::fail_wait_for(fence, result); });
}

std::string explain_create_semaphore(CUresult result, const Context& context) {
  return text_of(result, "TimelineSemaphore",
                 [&] { Explanation::fail_create<TimelineSemaphore>(result, context); });
}

std::string explain_import_semaphore(CUresult result, const Context& context) {
  return text_of(result, "TimelineSemaphore::import",
                 [&] { Explanation::fail_import<TimelineSemaphore>(result, context); });
}

std::string explain_close(CUresult result, const TimelineSemaphore& semaphore) {
  return text_of(result, "cuMemHostUnregister", [&] { Explanation::fail_close(semaphore, result); });
}

std::string explain_signal(CUresult result, const TimelineSemaphore& semaphore, std::uint64_t value) {
  return text_of(result, "cuStreamWriteValue64", [&] { Explanation::fail_signal(semaphore, result, value); });
}

std::string explain_wait(CUresult result, const TimelineSemaphore& semaphore, std::uint64_t value) {
  return text_of(result, "cuStreamWaitValue64", [&] { Explanation::fail_wait(semaphore, result, value); });
}

std::string explain_wait_for(CUresult result, const TimelineSemaphore& semaphore) {
  return text_of(result, "TimelineSemaphore::wait_for",
                 [&] { Explanation::fail_wait_for(semaphore, result); });
}

std::string explain_wait_all(CUresult result, ArrayView<TimelinePoint> points) {
  const char* const call = "TimelineSemaphore::wait_all";
  return text_of(result, call, [&] { Explanation::fail_points<TimelineSemaphore>(result, points, call); });
}

std::string explain_wait_any(CUresult result, ArrayView<TimelinePoint> points) {
  const char* const call = "TimelineSemaphore::wait_any";
  return text_of(result, call, [&] { Explanation::fail_points<TimelineSemaphore>(result, points, call); });
}

std::string explain_export_handle(CUresult result, const TimelineSemaphore& semaphore) {
  return text_of(result, "TimelineSemaphore::export_handle",
                 [&] { Explanation::fail_export(semaphore, result); });
}

std::string explain_abandon_on_death(CUresult result, const TimelineSemaphore& semaphore) {
  return text_of(result, "TimelineSemaphore::abandon_on_death",
                 [&] { Explanation::fail_abandon_on_death(semaphore, result); });
}

}} // namespace cuevent::CUEVENT_ABI
