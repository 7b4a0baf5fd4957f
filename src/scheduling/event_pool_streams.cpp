// SPDX-License-Identifier: MIT
#include "core/explanation.hpp"
#include "core/failure.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "scheduling/event_pool_state.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

/// Checks that `later` may wait for an event of `own` that `earlier` records.
CUresult check_streams(const Context& own, StreamRef later, StreamRef earlier) noexcept {
  const CUresult result = check_context(own, earlier);
  return result == CUDA_SUCCESS && later.context() != nullptr ? check_driver(own, *later.context()) : result;
}

bool are_one(const Context& own, StreamRef later, StreamRef earlier) noexcept {
  return later.native_handle() == earlier.native_handle() &&
         (later.context() == nullptr || *later.context() == own);
}

[[noreturn]] void fail_context(CUresult result, const char* call) {
  if (result == CUDA_ERROR_INVALID_CONTEXT) require_context(Context(), call);
  fail(ErrorCause::context_mismatch, call,
       "the events belong to the pool's context, and cannot be recorded in another "
       "context: make one pool per context");
}

} // namespace

void EventPool::wait_stream(StreamRef later, StreamRef earlier) {
  const CUresult result = try_wait_stream(later, earlier);
  if (result != CUDA_SUCCESS) fail_wait_stream(result, later, earlier);
}

CUresult EventPool::try_wait_stream(StreamRef later, StreamRef earlier) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Context& own = state_->context;
  CUresult result = check_streams(own, later, earlier);
  if (result != CUDA_SUCCESS || are_one(own, later, earlier)) return result;
  // The streams may belong to a later context with the same handle. The pool's events are then gone.
  result = own.status();
  if (result != CUDA_SUCCESS) return noted(state_, {result, "cuCtxGetId"});
  PooledEvent event;
  result = try_acquire(event);
  if (result != CUDA_SUCCESS) return result;
  result = event.try_record(earlier.native_handle());
  if (result != CUDA_SUCCESS) return noted(state_, {result, "cuEventRecord"});
  result = event.try_wait(later);
  return noted(state_, {result, "cuStreamWaitEvent"});
}

void EventPool::fail_wait_stream(CUresult result, StreamRef later, StreamRef earlier) const {
  const char* const call = "EventPool::wait_stream";
  if (state_ == nullptr) fail_empty_pool(call);
  const Context& own = state_->context;
  if (const CUresult refused = check_streams(own, later, earlier); refused != CUDA_SUCCESS)
    fail_context(refused, call);
  fail_to_wait(*state_, result, refused_call(state_, result, call), later, earlier.native_handle());
}

void fail_to_wait(EventPoolState& pool, CUresult result, const char* call, StreamRef later,
                  StreamRef earlier) {
  const bool record = is_call(call, "cuEventRecord");
  LeasedEvent* event = nullptr; // not the one that was refused, but the cause is the same
  if ((record || is_call(call, "cuStreamWaitEvent")) && pool.take_any(event)) {
    const struct Return {
      LeasedEvent* event;
      ~Return() { event->pool->give_back(event); }
    } give_back{event};
    const DriverEvent& its_event = *event;
    if (record) Explanation::fail_record(its_event, result, earlier, RecordFlags::none);
    Explanation::fail_wait(its_event, result, later, WaitFlags::none);
  }
  fail_to_take(pool.context.driver(), result, call, pool.flags);
}

}} // namespace cuevent::CUEVENT_ABI
