// SPDX-License-Identifier: MIT
// Words of host memory that graphs write as they go. Internal to the library.
#pragma once

#include "core/fork_lock.hpp"
#include "core/status.hpp"

#include <cuevent/context.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A page of pinned memory. The page is freed with its context, because cuMemFreeHost waits until all streams
/// of the context are idle, and because a graph may write to it for as long as the graph exists.
class MarkWords {
public:
  /// Driver function: cuMemHostAlloc.
  Status create(const Context& context) noexcept;

  /// Whether the page is still there. Driver function: cuCtxGetId.
  bool exists() const noexcept { return context_.status() == CUDA_SUCCESS; }

  /// A word that nobody uses, with value 0. Null if there is none. Driver function: cuCtxGetId.
  std::uint32_t* take() noexcept;
  void give_back(std::uint32_t* word) noexcept;

  /// What a device has written there last.
  static std::uint32_t read(const std::uint32_t* word) noexcept {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
  }

private:
  static constexpr std::size_t words = 1024;

  Context context_;
  ProcessLock lock_;
  std::vector<std::uint32_t*> free_; // has room for all words
};

}} // namespace cuevent::CUEVENT_ABI
