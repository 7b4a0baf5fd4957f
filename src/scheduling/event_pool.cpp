// SPDX-License-Identifier: MIT
#include <cuevent/event_pool.hpp>

#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "scheduling/event_pool_state.hpp"

#include <cuevent/ipc.hpp>

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

[[noreturn]] void fail_empty_pool(const char* call) {
  throw InvalidContext(
      call,
      "the EventPool is empty, because it was default-constructed or moved from: make it with a Context");
}

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
  throw ContextMismatch(call, "the events belong to the pool's context, and cannot be recorded in another "
                              "context: make one pool per context");
}

} // namespace

void Lease::give_back(LeasedEvent& event) noexcept {
  if (event.exported) [[unlikely]]
    event.pool->retire(&event);
  else
    event.pool->give_back(&event);
}

DriverEvent PooledEvent::detach() && noexcept {
  if (!*this) return {};
  LeasedEvent& leased = leased_event();
  DriverEvent event = std::move(static_cast<DriverEvent&>(leased));
  leased.pool->forget(&leased);
  forget();
  return event;
}

IpcHandle PooledEvent::ipc_handle() {
  const IpcHandle handle = borrowed().ipc_handle(); // event() refuses it
  leased_event().exported = true;
  return handle;
}

CUresult PooledEvent::try_ipc_handle(IpcHandle& out) noexcept {
  const CUresult result = borrowed().try_ipc_handle(out);
  if (result == CUDA_SUCCESS) leased_event().exported = true;
  return result;
}

EventPool::EventPool(const Context& context, EventFlags flags, FreshLease fresh, std::size_t max_idle) {
  const CUresult result = try_create(*this, context, flags, fresh, max_idle);
  if (result != CUDA_SUCCESS) fail_create(result, context, flags);
}

CUresult EventPool::try_create(EventPool& out, const Context& context, EventFlags flags, FreshLease fresh,
                               std::size_t max_idle) noexcept {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  EventPool pool;
  const Status status = EventPoolState::make(pool.state_, context, flags, fresh, max_idle);
  if (status) out = std::move(pool);
  return noted(nullptr, status);
}

void EventPool::fail_create(CUresult result, const Context& context, EventFlags flags) {
  const char* const call = "EventPool";
  require_context(context, call);
  fail_to_take(context.driver(), result, refused_call(nullptr, result, call), flags);
}

void EventPool::close() noexcept { state_->close(); }

PooledEvent EventPool::acquire() {
  if (state_ != nullptr) [[likely]]
    if (LeasedEvent* const event = state_->take()) [[likely]]
      return PooledEvent(*event);
  return acquire_slow();
}

PooledEvent EventPool::acquire_slow() {
  PooledEvent event;
  const CUresult result = try_acquire(event);
  if (result != CUDA_SUCCESS) fail_acquire(result);
  return event;
}

CUresult EventPool::try_acquire(PooledEvent& out) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  LeasedEvent* event = nullptr;
  if (const Status status = state_->take_any(event); !status) [[unlikely]]
    return noted(state_, status);
  out = PooledEvent(*event);
  return CUDA_SUCCESS;
}

void EventPool::fail_acquire(CUresult result) const {
  const char* const call = "EventPool::acquire";
  if (state_ == nullptr) fail_empty_pool(call);
  fail_to_take(state_->context.driver(), result, refused_call(state_, result, "cuEventCreate"),
               state_->flags);
}

void EventPool::reserve(std::size_t count) {
  const CUresult result = try_reserve(count);
  if (result != CUDA_SUCCESS) fail_reserve(result, count);
}

CUresult EventPool::try_reserve(std::size_t count) noexcept {
  return state_ != nullptr ? noted(state_, state_->reserve(count)) : CUDA_ERROR_INVALID_CONTEXT;
}

void EventPool::fail_reserve(CUresult result, std::size_t count) const {
  const char* const call = "EventPool::reserve";
  if (state_ == nullptr) fail_empty_pool(call);
  fail_to_reserve(state_->context.driver(), result, refused_call(state_, result, call), state_->flags, count,
                  state_->max_idle);
}

void EventPool::trim() noexcept {
  if (state_ != nullptr) state_->trim();
}

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

EventPool::Counters EventPool::counters() const noexcept {
  return state_ != nullptr ? state_->counters() : Counters();
}

Context EventPool::context() const noexcept { return state_ != nullptr ? state_->context : Context(); }
EventFlags EventPool::flags() const noexcept { return state_ != nullptr ? state_->flags : EventFlags::none; }
std::size_t EventPool::max_idle() const noexcept { return state_ != nullptr ? state_->max_idle : 0; }
FreshLease EventPool::fresh() const noexcept {
  return state_ != nullptr ? state_->fresh() : FreshLease::refuses;
}

}} // namespace cuevent::CUEVENT_ABI
