// Events across processes: a handle to send, and to open at the other end.
#pragma once

#include <cuevent/driver_event.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#pragma GCC visibility push(default)
namespace cuevent {

/// What DriverEvent::ipc_handle() exports and DriverEvent::from_ipc_handle() opens in another process on the
/// same machine: 64 bytes to copy, compare, write to a pipe or print. It owns nothing: the exporting process
/// keeps the event.
///
/// Thread-safety: a plain value. Context, and during capture: harmless; no driver call.
struct IpcHandle {
  std::array<std::byte, CU_IPC_HANDLE_SIZE> bytes{};

  /// The bytes as 128 hexadecimal digits.
  std::string to_string() const;

  /// The handle that to_string() printed. Throws InvalidValue, saying what is wrong, for another length or
  /// a character that is no hexadecimal digit.
  static IpcHandle parse(std::string_view text);
  /// The twin: CUDA_ERROR_INVALID_VALUE. `out` is assigned on success only.
  static CUresult try_parse(IpcHandle& out, std::string_view text) noexcept;

  friend constexpr bool operator==(const IpcHandle& a, const IpcHandle& b) noexcept {
    for (std::size_t i = 0; i != a.bytes.size(); ++i)
      if (a.bytes[i] != b.bytes[i]) return false;
    return true;
  }
  friend constexpr bool operator!=(const IpcHandle& a, const IpcHandle& b) noexcept { return !(a == b); }
};
static_assert(sizeof(IpcHandle) == 64 && std::is_trivially_copyable_v<IpcHandle>);

} // namespace cuevent
#pragma GCC visibility pop
