// SPDX-License-Identifier: MIT
// Launches that need a record and nothing more, as most do. Programs launch many kernels, and between two
// launches they use the processor's caches for other things. So such a launch needs little of what is in
// memory, and its code is in one place.
#pragma once

#include "auditor/probes.hpp"
#include "auditor/recorder.hpp"
#include "protocol/words.hpp"

namespace watch {

struct LaunchWords {
  std::uint64_t stream, function;
  bool has_attributes; // which may name events
};

template <bool PerThread>
LaunchWords launch_of(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, CUstream stream, void**, void**) {
  return {stream_word(stream, PerThread), reinterpret_cast<std::uintptr_t>(function), false};
}
template <bool PerThread>
LaunchWords launch_of(const CUlaunchConfig* how, CUfunction function, void**, void**) {
  if (how == nullptr) return {0, 0, true};
  return {stream_word(how->hStream, PerThread), reinterpret_cast<std::uintptr_t>(function),
          how->numAttrs > 0};
}

/// Whether a launch of this thread needs its record and nothing more. `context` is the one of a default
/// stream, 0 if it is not known. To be called right before the launch.
[[gnu::always_inline]] inline bool is_plain(Thread& thread, const LaunchWords& launch,
                                            std::uint64_t context) {
  const bool is_known = context != 0 || !is_default_stream(launch.stream);
  if (!is_adopted(thread) || region->launches_need_more != 0 || cleared_by_fork->captures.are_active() ||
      region->abandoned.load(std::memory_order_relaxed) != 0 || !is_known || launch.has_attributes)
    return false;
  if ((region->features & probes) == 0) [[likely]]
    return true;
  thread.slot->begun = ticks();
  return !is_due(thread) && !thread.has_long_queue &&
         cleared_by_fork->first_launches.were_before(launch.function) &&
         thread.uncounted_handle == launch.stream && thread.uncounted_context == context;
}

} // namespace watch
