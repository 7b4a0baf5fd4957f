// SPDX-License-Identifier: MIT
// Whether this process has one context only, as most have. Work on a default stream is then on that one, and
// the driver need not be asked for each launch: its answer comes from code that no cache holds.
#pragma once

#include <atomic>
#include <cstdint>

namespace watch {

inline constexpr std::uint64_t several_contexts = ~std::uint64_t{0};

class OnlyContext {
public:
  /// 0 if no context is known yet, or if there were several.
  std::uint64_t get() const {
    const std::uint64_t known = known_.load(std::memory_order_relaxed);
    return known == several_contexts ? 0 : known;
  }

  /// A context was made, or is current in some thread. 0 stands for none.
  void note(std::uint64_t context) {
    std::uint64_t known = known_.load(std::memory_order_relaxed);
    if (known == context || context == 0) return;
    if (known != 0 || !known_.compare_exchange_strong(known, context, std::memory_order_relaxed))
      known_.store(several_contexts, std::memory_order_relaxed);
  }

private:
  std::atomic<std::uint64_t> known_;
};

} // namespace watch
