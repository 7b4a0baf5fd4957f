// SPDX-License-Identifier: MIT
// Whether this process has one context only, as most have. Work on a default stream is then on that one, and
// the driver need not be asked for each launch: its answer comes from code that no cache holds.
#pragma once

#include "auditor/after_fork.hpp"

namespace watch {

inline constexpr std::uint64_t several_contexts = ~std::uint64_t{0};

/// 0 if no context is known yet, or if there were several.
inline std::uint64_t only_context() {
  const std::uint64_t known = cleared_by_fork->context.load(std::memory_order_relaxed);
  return known == several_contexts ? 0 : known;
}

/// A context was made, or is current in some thread. 0 stands for none.
inline void note_context(std::uint64_t context) {
  std::uint64_t known = cleared_by_fork->context.load(std::memory_order_relaxed);
  if (known == context || context == 0) return;
  if (known != 0 ||
      !cleared_by_fork->context.compare_exchange_strong(known, context, std::memory_order_relaxed))
    cleared_by_fork->context.store(several_contexts, std::memory_order_relaxed);
}

} // namespace watch
