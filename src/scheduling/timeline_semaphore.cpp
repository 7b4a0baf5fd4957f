// SPDX-License-Identifier: MIT
#include <cuevent/timeline_semaphore.hpp>

#include "core/failure.hpp"
#include "core/on_stream.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "scheduling/memory_operations.hpp"
#include "scheduling/semaphore_guard.hpp"
#include "scheduling/semaphore_state.hpp"

#include <algorithm>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

static_assert(TimelineSemaphore::max_value == UINT64_MAX / 2 &&
              TimelineSemaphore::released_value == UINT64_MAX / 2 + 1);

namespace {

constexpr const char* too_high =
    "the value is above TimelineSemaphore::max_value, which is 2^63 - 1: use a lower one";
constexpr const char* cannot_share =
    "the device lacks 64-bit stream memory operations, or needs another address for the page: use a "
    "TimelineFence or a DriverEvent";

constexpr const char* create = "TimelineSemaphore";
constexpr const char* import_handle = "TimelineSemaphore::import";
constexpr const char* register_memory = "cuMemHostRegister";

/// Notes whether the page or the driver refused.
CUresult noted(const PageResult& failed, const char* call) noexcept {
  return noted(nullptr, Status{failed.result, failed.error != 0 ? call : register_memory});
}

[[noreturn, gnu::cold]] void fail_to_open(const Context& context, CUresult result, const char* own) {
  const char* const call = refused_call(nullptr, result, register_memory);
  const char* advice = nullptr;
  require_context(context, own);
  if (!is_call(call, own)) {
    if (result == CUDA_ERROR_NOT_SUPPORTED) advice = cannot_share;
    if (result == CUDA_ERROR_OPERATING_SYSTEM)
      advice =
          "the thread that guards shared semaphores cannot start: raise the limit of threads (ulimit -u)";
  } else if (is_call(own, create)) {
    advice = result == CUDA_ERROR_INVALID_VALUE
                 ? too_high
                 : "the memfd of the semaphore could not be made: raise the limits of "
                   "descriptors and memory (ulimit -n)";
  } else if (result == CUDA_ERROR_INVALID_VALUE) { // as result_of_page() translates
    advice = "the descriptor is not one from export_handle(), or it cannot be written to: pass the "
             "descriptor as it was received";
  } else if (result == CUDA_ERROR_NOT_SUPPORTED) {
    advice = "the semaphore was made by a version of cuevent with another layout of the page: use the same "
             "version of cuevent in both processes";
  } else if (result == CUDA_ERROR_INVALID_HANDLE) {
    advice =
        "the handle was imported before, or its lock is lost: call export_handle() once for each process";
  } else {
    advice = "the descriptor could not be opened again: /proc must be mounted, and the limit of descriptors "
             "not reached (ulimit -n)";
  }
  context.driver().fail(result, call, advice);
}

/// A stream for PendingSignals. The context names its legacy stream: asking the driver would harm a capture
/// that another thread has just begun.
CUresult id_of(const Context& context, CUstream stream, unsigned long long& id) noexcept {
  if (stream == nullptr || stream == CU_STREAM_LEGACY) {
    id = ~context.id();
    return CUDA_SUCCESS;
  }
  return context.driver().table().cuStreamGetId_v12000(stream, &id);
}

} // namespace

TimelineSemaphore::TimelineSemaphore(const Context& context, SemaphoreState& state) noexcept
    : context_(context), word_(&state.page().word), state_(&state) {}

TimelineSemaphore::TimelineSemaphore(const Context& context, std::uint64_t initial) {
  const CUresult result = try_create(*this, context, initial);
  if (result != CUDA_SUCCESS) fail_create(result, context);
}

CUresult TimelineSemaphore::try_create(TimelineSemaphore& out, const Context& context,
                                       std::uint64_t initial) noexcept {
  SemaphoreState* state = nullptr;
  const PageResult opened = make_semaphore(context, initial, state);
  if (opened.result == CUDA_SUCCESS) out = TimelineSemaphore(context, *state);
  return noted(opened, create);
}

TimelineSemaphore TimelineSemaphore::import(const Context& context, int descriptor) {
  TimelineSemaphore semaphore;
  const CUresult result = try_import(semaphore, context, descriptor);
  if (result != CUDA_SUCCESS) fail_import(result, context);
  return semaphore;
}

CUresult TimelineSemaphore::try_import(TimelineSemaphore& out, const Context& context,
                                       int descriptor) noexcept {
  SemaphoreState* state = nullptr;
  const PageResult opened = import_semaphore(context, descriptor, state);
  if (opened.result == CUDA_SUCCESS) out = TimelineSemaphore(context, *state);
  return noted(opened, import_handle);
}

void TimelineSemaphore::fail_create(CUresult result, const Context& context) {
  fail_to_open(context, result, create);
}
void TimelineSemaphore::fail_import(CUresult result, const Context& context) {
  fail_to_open(context, result, import_handle);
}

TimelineSemaphore::~TimelineSemaphore() {
  if (state_ != nullptr) Semaphores::instance().retire(*state_);
}

void TimelineSemaphore::swap(TimelineSemaphore& other) noexcept {
  context_.swap(other.context_);
  std::swap(word_, other.word_);
  std::swap(state_, other.state_);
}

void TimelineSemaphore::close() {
  const CUresult result = try_close();
  if (result != CUDA_SUCCESS) fail_close(result);
}

void TimelineSemaphore::fail_close(CUresult result) const { fail(result, "cuMemHostUnregister"); }

CUresult TimelineSemaphore::try_close() noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = close_semaphore(context_, *state_);
  if (result != CUDA_SUCCESS) return result;
  state_ = nullptr;
  *this = TimelineSemaphore();
  return result;
}

void TimelineSemaphore::signal(StreamRef stream, std::uint64_t value) {
  const CUresult result = try_signal(stream, value);
  if (result != CUDA_SUCCESS) fail_signal(result, value);
}

CUresult TimelineSemaphore::try_signal(StreamRef stream, std::uint64_t value) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Context& context = stream.context_or(context_);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  return on_stream(context, stream.native_handle(),
                   [&] { return submit_signal(context, stream.native_handle(), value); });
}

CUresult TimelineSemaphore::submit_signal(const Context& context, CUstream stream,
                                          std::uint64_t value) noexcept {
  // Checked first, so that refusing a capture does not depend on the progress of the device.
  CUresult result = refuse_capture(table(), stream);
  if (result != CUDA_SUCCESS) return result;
  cuevent_timeline_page& page = state_->page();
  const int entry = cuevent_timeline_announce(&page, value);
  if (entry < 0) return end_or(result_of_page(-entry), context_); // signals of a lost context stay pending
  unsigned long long id = 0;
  result = id_of(context, stream, id);
  if (result == CUDA_SUCCESS)
    result = result_of([&] {
      if (state_->pending.add(id, value)) return CUDA_SUCCESS;
      return state_->abandoned() ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE;
    });
  // By default, hosts and other devices see this write after all earlier writes of the stream.
  if (result == CUDA_SUCCESS)
    result = table().cuStreamWriteValue64_v11070(stream, reinterpret_cast<std::uintptr_t>(&page.word), value,
                                                 CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result != CUDA_SUCCESS) {
    state_->pending.remove(value);
    cuevent_timeline_take_back(&page, entry, value);
    return end_or(result, context_);
  }
  cuevent_timeline_raise(&page.submitted, value);
  cuevent_timeline_wake(&page); // for threads in wait_when_submitted()
  return CUDA_SUCCESS;
}

void TimelineSemaphore::signal(std::uint64_t value) {
  const CUresult result = try_signal(value);
  if (result != CUDA_SUCCESS) fail_signal(result, value);
}

CUresult TimelineSemaphore::try_signal(std::uint64_t value) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int error = cuevent_timeline_signal(&state_->page(), value);
  return error == 0 ? CUDA_SUCCESS : end_or(result_of_page(-error), context_);
}

void TimelineSemaphore::wait(StreamRef stream, std::uint64_t value, WaitOrder order) const {
  const CUresult result = try_wait(stream, value, order);
  if (result != CUDA_SUCCESS) fail_wait(result, value);
}

CUresult TimelineSemaphore::try_wait(StreamRef stream, std::uint64_t value, WaitOrder order) const noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Context& context = stream.context_or(context_);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  return on_stream(context, stream.native_handle(),
                   [&] { return submit_wait(stream.native_handle(), value, order); });
}

CUresult TimelineSemaphore::submit_wait(CUstream stream, std::uint64_t value,
                                        WaitOrder order) const noexcept {
  if (const CUresult result = refuse_capture(table(), stream); result != CUDA_SUCCESS) return result;
  if (state_->abandoned()) return CUDA_ERROR_ILLEGAL_STATE;
  if (value > max_value) return CUDA_ERROR_INVALID_VALUE;
  if (reached(value)) return CUDA_SUCCESS;
  if (order == WaitOrder::after_signal && submitted() < value)
    return end_or(CUDA_ERROR_INVALID_VALUE, context_);
  const auto address = reinterpret_cast<std::uintptr_t>(word_);
  const CUresult result =
      table().cuStreamWaitValue64_v11070(stream, address, value, CU_STREAM_WAIT_VALUE_GEQ);
  return result == CUDA_SUCCESS ? result : end_or(result, context_);
}

std::uint64_t TimelineSemaphore::submitted() const noexcept {
  if (state_ == nullptr) return 0;
  const std::uint64_t submitted = __atomic_load_n(&state_->page().submitted, __ATOMIC_ACQUIRE);
  // A process may have died between its signal and the note that it made the signal.
  return std::max(submitted, value());
}

int TimelineSemaphore::export_handle() {
  int descriptor = -1;
  const CUresult result = try_export_handle(descriptor);
  if (result != CUDA_SUCCESS) fail_export(result);
  return descriptor;
}

void TimelineSemaphore::fail_export(CUresult result) const {
  fail(result, "TimelineSemaphore::export_handle",
       "no handle could be made: at most 63 processes can join a semaphore, /proc must be mounted, and the "
       "limit of "
       "descriptors not reached (ulimit -n)");
}

CUresult TimelineSemaphore::try_export_handle(int& descriptor) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!Semaphores::instance().guard(*state_)) return CUDA_ERROR_OPERATING_SYSTEM;
  return result_of_page(Semaphores::instance().export_handle(*state_, descriptor));
}

TimelineStatus TimelineSemaphore::status() const noexcept {
  if (state_ == nullptr) return TimelineStatus::active;
  if (state_->abandoned()) return TimelineStatus::abandoned;
  return cuevent_timeline_participant_died(&state_->timeline) != 0 ? TimelineStatus::participant_died
                                                                   : TimelineStatus::active;
}

void TimelineSemaphore::abandon() noexcept {
  if (state_ == nullptr) return;
  state_->pending.none(); // forgets what is reached, which the word does not show afterwards
  cuevent_timeline_abandon(&state_->page());
  // A shared semaphore is guarded already. Otherwise only queued signals of this process can lower it.
  if (!state_->pending.none()) Semaphores::instance().guard(*state_);
}

void TimelineSemaphore::abandon_on_death() {
  const CUresult result = try_abandon_on_death();
  if (result != CUDA_SUCCESS) fail_abandon_on_death(result);
}

void TimelineSemaphore::fail_abandon_on_death(CUresult result) const {
  fail(result, "TimelineSemaphore::abandon_on_death");
}

CUresult TimelineSemaphore::try_abandon_on_death() noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  state_->abandon_on_death = true; // the thread that looks starts when the semaphore is shared
  return CUDA_SUCCESS;
}

void TimelineSemaphore::fail(CUresult result, const char* call, const char* advice) const {
  if (state_ == nullptr)
    throw_error(CUDA_ERROR_INVALID_HANDLE, call,
                "the semaphore is empty, because it was default-constructed, closed or moved "
                "from: make it with a Context");
  if (result == CUDA_ERROR_ILLEGAL_STATE)
    throw_error(ErrorCause::semaphore_abandoned, call,
                "the semaphore is abandoned, and its values no longer mean anything: make a new one");
  context_.driver().fail(result, call, advice);
}

void TimelineSemaphore::fail_signal(CUresult result, std::uint64_t value) const {
  const char* advice = nullptr;
  if (result == CUDA_ERROR_INVALID_VALUE)
    advice =
        value > max_value
            ? too_high
            : "the signal would lower the semaphore: the value is already reached, or not above an earlier "
              "signal of this stream, or a signal of a stream is pending that this one would pass: signal "
              "rising values";
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    advice =
        "the driver has no memory, or 1,992 signals of this semaphore are pending: wait for some of them";
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    advice =
        "a semaphore cannot be signalled in a capture, because each launch of the graph would set it back "
        "to this value; the capture is still valid: signal after each launch";
  fail(result, "cuStreamWriteValue64", advice);
}

void TimelineSemaphore::fail_wait(CUresult result, std::uint64_t value) const {
  const char* advice = nullptr;
  if (result == CUDA_ERROR_INVALID_VALUE)
    advice = value > max_value
                 ? too_high
                 : "no signal of this value is submitted yet, so the stream could wait forever: "
                   "use wait_when_submitted(), or pass WaitOrder::before_signal";
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    advice =
        "a stream cannot wait for a semaphore in a capture, because each launch of the graph would wait for "
        "this value; the capture is still valid: wait before each launch";
  fail(result, "cuStreamWaitValue64", advice);
}

}} // namespace cuevent::CUEVENT_ABI
