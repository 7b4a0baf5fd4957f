// SPDX-License-Identifier: MIT
#include <cuevent/timeline_fence.hpp>

#include "core/capture_state.hpp"
#include "core/failure.hpp"
#include "core/on_stream.hpp"
#include "core/require_context.hpp"
#include "scheduling/fence_slots.hpp"
#include "scheduling/memory_operations.hpp"
#include "scheduling/poll_until.hpp"

#include <algorithm>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* no_fence =
    "the fence is empty, because it was default-constructed or moved from: make it with a Context";
constexpr const char* no_operations =
    "the device does not support the stream memory operations of fences: use a DriverEvent";

/// 0 and CU_STREAM_LEGACY name the same stream.
CUstream one_name(CUstream stream) noexcept { return stream == nullptr ? CU_STREAM_LEGACY : stream; }

} // namespace

TimelineFence::TimelineFence(const Context& context, CUstream stream) {
  const CUresult result = try_create(*this, context, stream);
  if (result != CUDA_SUCCESS) fail_create(result, context);
}

void TimelineFence::fail_create(CUresult result, const Context& context) {
  const char* const call = "cuMemHostAlloc";
  require_context(context, call);
  if (result == CUDA_ERROR_INVALID_HANDLE)
    throw_error(ErrorCause::context_mismatch, "cuStreamGetCtx", name_its_context);
  context.driver().fail(result, call);
}

CUresult TimelineFence::try_create(TimelineFence& out, const Context& context, CUstream stream) noexcept {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  TimelineFence fence;
  CUresult result = check_home(context, stream).result;
  if (result == CUDA_SUCCESS) result = take_slot(context, fence.slot_);
  if (result != CUDA_SUCCESS) return result;
  fence.context_ = context;
  fence.stream_ = stream;
  fence.narrow_ = fence.slot_->narrow;
  if (!fence.narrow_) fence.counter_ = fence.slot_->wide();
  out = std::move(fence);
  return result;
}

TimelineFence::~TimelineFence() {
  if (slot_ != nullptr) slot_->in_use.store(false, std::memory_order_release);
}

void TimelineFence::swap(TimelineFence& other) noexcept {
  context_.swap(other.context_);
  std::swap(stream_, other.stream_);
  std::swap(counter_, other.counter_);
  std::swap(slot_, other.slot_);
  std::swap(narrow_, other.narrow_);
}

std::uint64_t TimelineFence::signal() {
  std::uint64_t ticket = 0;
  const CUresult result = try_signal(ticket);
  if (result != CUDA_SUCCESS) fail_signal(result);
  return ticket;
}

CUresult TimelineFence::try_signal(std::uint64_t& ticket) noexcept {
  if (slot_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return on_stream(context_, stream_, [&] { return submit_signal(ticket); });
}

CUresult TimelineFence::submit_signal(std::uint64_t& ticket) noexcept {
  CUresult result = refuse_capture(table(), stream_);
  unsigned long long id = FenceSlot::no_stream;
  if (result == CUDA_SUCCESS) result = find_id(id);
  if (result != CUDA_SUCCESS) return result;
  const std::uint64_t next = slot_->signalled.load(std::memory_order_relaxed) + 1;
  // By default, the host and other devices see this write after all earlier writes of the stream.
  constexpr unsigned flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  const CUdeviceptr address = slot_->address();
  if (narrow_)
    result = table().cuStreamWriteValue32_v11070(stream_, address, static_cast<cuuint32_t>(next), flags);
  else
    result = table().cuStreamWriteValue64_v11070(stream_, address, next, flags);
  if (result != CUDA_SUCCESS) return end_or(result, context_);
  slot_->stream_id.store(id, std::memory_order_relaxed);
  slot_->signalled.store(next, std::memory_order_release);
  ticket = next;
  return result;
}

/// Finds the id of the stream that signals. No other stream ever has this id. The id is queried
/// once. For the per-thread stream it is queried each time, because the calling thread may be a
/// different one. The legacy stream needs no id, because no other stream has its handle.
CUresult TimelineFence::find_id(unsigned long long& id) const noexcept {
  const unsigned long long known = slot_->stream_id.load(std::memory_order_relaxed);
  id = known;
  const bool per_thread = stream_ == CU_STREAM_PER_THREAD;
  if (one_name(stream_) == CU_STREAM_LEGACY || (known != FenceSlot::no_stream && !per_thread))
    return CUDA_SUCCESS;
  const CUresult result = table().cuStreamGetId_v12000(stream_, &id);
  if (result != CUDA_SUCCESS) return result;
  return known == FenceSlot::no_stream || known == id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

std::uint64_t TimelineFence::completed_narrow() const noexcept { return slot_->completed(); }

std::uint64_t TimelineFence::signalled() const noexcept {
  if (slot_ == nullptr) return 0;
  const std::uint64_t signalled = slot_->signalled.load(std::memory_order_acquire);
  // The device may reach a ticket before try_signal() has stored it. It is stored only then, because a
  // submission can fail, and a stream that waited for its ticket would wait forever.
  return std::max(signalled, completed());
}

void TimelineFence::wait(CUstream stream, std::uint64_t ticket) const {
  const CUresult result = try_wait(stream, ticket);
  if (result != CUDA_SUCCESS) fail_wait(result, ticket);
}

CUresult TimelineFence::try_wait(CUstream stream, std::uint64_t ticket) const noexcept {
  if (slot_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (ticket > signalled()) return CUDA_ERROR_INVALID_VALUE;
  return on_stream(context_, stream, [&] { return submit_wait(stream, ticket); });
}

CUresult TimelineFence::submit_wait(CUstream stream, std::uint64_t ticket) const noexcept {
  // Checked first, so that refusing a capture does not depend on the progress of the device.
  CUresult result = refuse_capture(table(), stream);
  if (result != CUDA_SUCCESS || reached(ticket)) return result;
  bool own = false;
  result = find_own(stream, own);
  if (result != CUDA_SUCCESS || own) return result;
  const CUdeviceptr address = slot_->address();
  constexpr unsigned flags = CU_STREAM_WAIT_VALUE_GEQ; // cyclic, for both widths
  if (narrow_)
    result = table().cuStreamWaitValue32_v11070(stream, address, static_cast<cuuint32_t>(ticket), flags);
  else
    result = table().cuStreamWaitValue64_v11070(stream, address, ticket, flags);
  return result == CUDA_SUCCESS ? result : end_or(result, context_);
}

CUresult TimelineFence::find_own(CUstream stream, bool& own) const noexcept {
  own = one_name(stream) == one_name(stream_);
  if (!own || one_name(stream) == CU_STREAM_LEGACY) return CUDA_SUCCESS;
  // The handle may now name another stream. CU_STREAM_PER_THREAD names a different stream on each
  // thread.
  unsigned long long id = FenceSlot::no_stream;
  const CUresult result = table().cuStreamGetId_v12000(stream, &id);
  own = id == slot_->stream_id.load(std::memory_order_relaxed);
  return result;
}

bool TimelineFence::wait_for(std::uint64_t ticket, TimeLimit timeout) const {
  const CUresult result = try_wait_for(ticket, timeout);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_NOT_READY) return false;
  fail_wait_for(result);
}

void TimelineFence::fail_wait_for(CUresult result) const {
  if (slot_ == nullptr) throw_error(CUDA_ERROR_INVALID_HANDLE, "TimelineFence::wait_for", no_fence);
  context_.driver().fail(result, "cuStreamIsCapturing");
}

CUresult TimelineFence::try_wait_for(std::uint64_t ticket, TimeLimit timeout) const noexcept {
  if (slot_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (reached(ticket)) return CUDA_SUCCESS;
  return poll_until(
      table(), slot_, timeout, [&] { return reached(ticket) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; },
      [this] { return status(); }, [this](long long sleep) { table().pause(sleep); });
}

CUresult TimelineFence::status() const noexcept {
  if (slot_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = context_.status();
  if (result != CUDA_SUCCESS) return result;
  result = on_stream(context_, stream_, [this] { return capture_state(table(), stream_).result; });
  // The fence's legacy stream cannot be queried while another stream is captured. This is no
  // error.
  return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? CUDA_SUCCESS : result;
}

void TimelineFence::fail_signal(CUresult result) const {
  const char* const call = narrow_ ? "cuStreamWriteValue32" : "cuStreamWriteValue64";
  const char* advice = nullptr;
  if (slot_ == nullptr) throw_error(CUDA_ERROR_INVALID_HANDLE, call, no_fence);
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    advice =
        "a fence cannot be signalled in a capture, because each launch of the graph would reset the fence to "
        "this ticket; the capture is still valid: record a DriverEvent with RecordFlags::external";
  if (result == CUDA_ERROR_INVALID_HANDLE && stream_ == CU_STREAM_PER_THREAD)
    advice =
        "CU_STREAM_PER_THREAD is another stream on each thread, and the fence belongs to the thread that "
        "first signalled it: make one fence per thread";
  if (result == CUDA_ERROR_NOT_SUPPORTED) advice = no_operations;
  context_.driver().fail(result, call, advice);
}

void TimelineFence::fail_wait(CUresult result, std::uint64_t ticket) const {
  const char* const call = narrow_ ? "cuStreamWaitValue32" : "cuStreamWaitValue64";
  const char* advice = nullptr;
  if (slot_ == nullptr) throw_error(CUDA_ERROR_INVALID_HANDLE, call, no_fence);
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    advice =
        "a stream cannot wait for a fence in a capture; the capture is still valid: wait for a DriverEvent "
        "with WaitFlags::external";
  if (result == CUDA_ERROR_INVALID_VALUE && ticket > signalled())
    advice =
        "signal() has not returned this ticket yet, so the streams could wait for each other forever: call "
        "signal() first";
  if (result == CUDA_ERROR_NOT_SUPPORTED) advice = no_operations;
  context_.driver().fail(result, call, advice);
}

}} // namespace cuevent::CUEVENT_ABI
