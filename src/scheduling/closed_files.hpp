// SPDX-License-Identifier: MIT
// How the kernel tells that a process has closed a shared file, for example because it died. Internal to the
// library.
#pragma once

#include <cuevent/version.hpp>

#include <cstdint>
#include <sys/inotify.h>
#include <unistd.h>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Watches memfds with inotify. The end of each open file of a memfd is an event, in whichever process it
/// ends. The lock of the file is gone some microseconds later. The system may have no watches left, or lack
/// inotify: then watch() fails, and the caller has to ask for itself. The caller orders all calls.
class ClosedFiles {
public:
  ClosedFiles() = default;
  ClosedFiles(const ClosedFiles&) = delete;
  ClosedFiles& operator=(const ClosedFiles&) = delete;
  ~ClosedFiles() { close(); }

  static constexpr int none = -1;
  /// Returns the number of the watch, which is the same for the same file, or none. After a failure, all
  /// later calls fail.
  int watch(int file) noexcept;
  void forget(int watch) noexcept { inotify_rm_watch(descriptor_, watch); }

  /// For poll(); -1 if nothing is watched.
  int descriptor() const noexcept { return descriptor_; }
  /// Forgets all watches.
  void close() noexcept {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  /// Calls `closed` with the watches of files that were closed, or with `none` if any may have been. Returns
  /// whether there was any.
  template <class Closed>
  bool take(Closed closed) noexcept {
    alignas(inotify_event) char events[4096];
    const ssize_t size = descriptor_ >= 0 ? read(descriptor_, events, sizeof events) : 0;
    for (ssize_t at = 0; at < size;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(events + at);
      if ((event->mask & IN_IGNORED) == 0) closed(event->wd); // wd is -1 if the kernel dropped events
      at += static_cast<ssize_t>(sizeof *event + event->len);
    }
    return size > 0;
  }

private:
  enum class Can : std::uint8_t { unknown, yes, no };

  int try_watch(int file) noexcept;

  int descriptor_ = -1;
  Can can_ = Can::unknown;
};

}} // namespace cuevent::CUEVENT_ABI
