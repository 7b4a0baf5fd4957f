// SPDX-License-Identifier: MIT
#include "scheduling/closed_files.hpp"

#include <cuevent/timeline_participant.h>

#include <cstdio>

namespace cuevent { inline namespace CUEVENT_ABI {

int ClosedFiles::watch(int file) noexcept {
  if (can_ == Can::no) return none;
  const int watch = try_watch(file);
  if (watch == none) can_ = Can::no; // the caller asks about this file as often as about others
  return watch;
}

int ClosedFiles::try_watch(int file) noexcept {
  if (descriptor_ < 0) descriptor_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (descriptor_ < 0) return none;
  char name[32];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  const int watch = inotify_add_watch(descriptor_, name, IN_CLOSE_WRITE);
  if (watch < 0 || can_ == Can::yes) return watch;
  const int again = cuevent_timeline_reopen(file); // whether this kernel reports it
  if (again >= 0) ::close(again);
  take([&](int closed) {
    if (closed == watch) can_ = Can::yes;
  });
  return can_ == Can::yes ? watch : none;
}

}} // namespace cuevent::CUEVENT_ABI
