// SPDX-License-Identifier: MIT
#include <cuevent/ipc.hpp>

#include "core/bits.hpp"
#include "core/driver_log.hpp"
#include "core/require_context.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr std::size_t handle_digits = 2 * sizeof(IpcHandle);

/// The value of a hexadecimal digit, or 16 for any other character.
unsigned value_of(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return unsigned(digit - '0');
  if (digit >= 'a' && digit <= 'f') return unsigned(digit - 'a') + 10;
  if (digit >= 'A' && digit <= 'F') return unsigned(digit - 'A') + 10;
  return 16;
}

} // namespace

std::string IpcHandle::to_string() const {
  std::string text;
  text.reserve(handle_digits);
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[unsigned(byte) >> 4];
    text += "0123456789abcdef"[unsigned(byte) & 15];
  }
  return text;
}

IpcHandle IpcHandle::parse(std::string_view text) {
  IpcHandle handle;
  if (try_parse(handle, text) == CUDA_SUCCESS) return handle;
  std::string advice =
      "an IPC handle is " + std::to_string(handle_digits) + " hexadecimal digits, and this text ";
  if (text.size() != handle_digits) {
    advice += "has " + std::to_string(text.size());
  } else {
    std::size_t wrong = 0;
    while (value_of(text[wrong]) < 16)
      ++wrong;
    advice += "has another character at position " + std::to_string(wrong);
  }
  advice += ": pass the complete result of to_string()";
  fail(CUDA_ERROR_INVALID_VALUE, "IpcHandle::parse", "%s", advice.c_str());
}

CUresult IpcHandle::try_parse(IpcHandle& out, std::string_view text) noexcept {
  if (text.size() != handle_digits) return CUDA_ERROR_INVALID_VALUE;
  IpcHandle handle;
  for (std::size_t i = 0; i < handle.bytes.size(); ++i) {
    const unsigned high = value_of(text[2 * i]), low = value_of(text[2 * i + 1]);
    if (high > 15 || low > 15) return CUDA_ERROR_INVALID_VALUE;
    handle.bytes[i] = std::byte(high << 4 | low);
  }
  out = handle;
  return CUDA_SUCCESS;
}

IpcHandle DriverEvent::ipc_handle() const {
  const char* const call = "cuIpcGetEventHandle";
  IpcHandle handle;
  const CUresult result = try_ipc_handle(handle);
  if (result == CUDA_SUCCESS) return handle;
  if (event_ == nullptr)
    fail(ErrorCause::empty_event, call, "the event is empty: make an event with EventFlags::interprocess");
  if (on_lease())
    fail(CUDA_ERROR_NOT_SUPPORTED, call,
         "the event returns to its pool while other processes use it: call PooledEvent::ipc_handle() or "
         "PooledEvent::detach() instead of Lease::event()");
  if (result == CUDA_ERROR_INVALID_HANDLE)
    throw_refused(result, call,
                  (flags_ & EventFlags::interprocess) == EventFlags::none
                      ? "the event cannot be exported: make it with EventFlags::interprocess"
                      : "an imported event cannot be exported: pass on the handle that it was opened with");
  context_.driver().fail(result, call);
}

CUresult DriverEvent::try_ipc_handle(IpcHandle& out) const noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (on_lease()) return CUDA_ERROR_NOT_SUPPORTED;
  // Checked even if the context is current. Exporting an event of a destroyed context crashes.
  CUresult result = context_.status();
  if (result != CUDA_SUCCESS) return result;
  const ContextGuard guard(context_, result);
  if (result != CUDA_SUCCESS) return result;
  CUipcEventHandle handle;
  result = table().cuIpcGetEventHandle_v4010(&handle, event_);
  if (result == CUDA_SUCCESS) out = same_bytes<IpcHandle>(handle);
  return result;
}

DriverEvent DriverEvent::from_ipc_handle(const Context& context, const IpcHandle& handle) {
  const char* const call = "cuIpcOpenEventHandle";
  DriverEvent event;
  const CUresult result = try_from_ipc_handle(event, context, handle);
  if (result == CUDA_SUCCESS) return event;
  require_context(context, call);
  if (result == CUDA_ERROR_INVALID_CONTEXT)
    throw_refused(result, call, "this process exported the event itself: use the event that it exported");
  if (result == CUDA_ERROR_MAP_FAILED)
    throw_refused(
        result, call,
        "no other process exports an event with this handle: check that the exporter still runs and "
        "that all bytes of the handle arrived");
  context.driver().fail(result, call);
}

CUresult DriverEvent::try_from_ipc_handle(DriverEvent& out, const Context& context,
                                          const IpcHandle& handle) noexcept {
  CUresult result = CUDA_SUCCESS;
  const ContextGuard guard(context, result);
  if (result != CUDA_SUCCESS) return result;
  CUevent event = nullptr;
  result = context.driver().table().cuIpcOpenEventHandle_v4010(&event, same_bytes<CUipcEventHandle>(handle));
  if (result == CUDA_SUCCESS) out = DriverEvent(context, event, EventFlags::interprocess, Ownership::owned);
  return result;
}

}} // namespace cuevent::CUEVENT_ABI
