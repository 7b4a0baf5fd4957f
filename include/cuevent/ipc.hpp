// SPDX-License-Identifier: MIT
// IpcHandle: an event handle to send to another process.
#pragma once

#include <cuevent/driver_event.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// The handle of an interprocess event: 64 bytes to copy, compare, print or send to another
/// process on the same machine. It owns nothing. The exporting process keeps the event alive.
///
///     const DriverEvent exported(context, EventFlags::interprocess);
///     const std::string text = exported.ipc_handle().to_string(); // send this
///     assert(IpcHandle::parse(text) == exported.ipc_handle()); // for from_ipc_handle()
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct IpcHandle {
  std::array<std::byte, CU_IPC_HANDLE_SIZE> bytes{};

  /// The bytes as 128 hexadecimal digits.
  [[nodiscard]] std::string to_string() const;

  /// Parses the text that to_string() returned. Throws InvalidValue if the length is wrong or a
  /// character is not a hexadecimal digit. The text says which.
  [[nodiscard]] static IpcHandle parse(std::string_view text);
  /// The non-throwing overload. Returns CUDA_ERROR_INVALID_VALUE instead. `out` is assigned on
  /// success only.
  [[nodiscard]] static CUresult try_parse(IpcHandle& out, std::string_view text) noexcept;

  friend constexpr bool operator==(const IpcHandle& a, const IpcHandle& b) noexcept {
    for (std::size_t i = 0; i != a.bytes.size(); ++i)
      if (a.bytes[i] != b.bytes[i]) return false;
    return true;
  }
  friend constexpr bool operator!=(const IpcHandle& a, const IpcHandle& b) noexcept { return !(a == b); }
};
static_assert(sizeof(IpcHandle) == 64 && std::is_trivially_copyable_v<IpcHandle>);

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
