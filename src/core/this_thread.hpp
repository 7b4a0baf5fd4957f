// SPDX-License-Identifier: MIT
// Identifies the calling thread. Internal to the library.
#pragma once

namespace cuevent {

/// Identifies a thread by the address of a thread-local variable. This is cheaper than
/// std::this_thread::get_id. With this TLS model, a shared library needs no function call either.
inline const void* this_thread() noexcept {
  [[gnu::tls_model("initial-exec")]] static thread_local const char here = 0;
  return &here;
}

} // namespace cuevent
