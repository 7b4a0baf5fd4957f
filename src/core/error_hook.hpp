// SPDX-License-Identifier: MIT
// The hook that receives what destructors cannot throw. Internal to the library.
#pragma once

#include <cuevent/error.hpp>

#include <atomic>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A hook that was installed at least once. Never freed: a report on another thread may still read it.
struct KnownHook {
  ErrorHook hook;
  KnownHook* older;
};
extern constinit KnownHook default_hook;
extern constinit std::atomic<const KnownHook*> installed_hook;

}} // namespace cuevent::CUEVENT_ABI
