// SPDX-License-Identifier: MIT
// Choosing the hook. A source of its own: most programs report to the default hook only.
#include "core/error_hook.hpp"

#include <atomic>
#include <new>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constinit std::atomic<KnownHook*> newest_hook{&default_hook};

/// The entry of `wanted`, a new one if it is not known. Null if there is no memory.
const KnownHook* known(const ErrorHook& wanted) noexcept {
  KnownHook* newest = newest_hook.load();
  for (const KnownHook* each = newest; each != nullptr; each = each->older)
    if (each->hook == wanted) return each;
  auto* const added = new (std::nothrow) KnownHook{wanted, newest};
  if (added == nullptr) return nullptr;
  while (!newest_hook.compare_exchange_weak(added->older, added)) {
  }
  return added;
}

} // namespace

ErrorHook set_error_hook(const ErrorHook& next) noexcept {
  const KnownHook* const entry = next.function != nullptr ? known(next) : &default_hook;
  return (entry != nullptr ? installed_hook.exchange(entry) : installed_hook.load())->hook;
}

}} // namespace cuevent::CUEVENT_ABI
