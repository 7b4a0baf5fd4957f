// SPDX-License-Identifier: MIT
// Storage for callbacks until they run. Internal to the library.
#pragma once

#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pool.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace cuevent {

/// A callback that waits for its event.
struct CallbackNode {
  CallbackNode* next = nullptr;        // inbox: the previous submission; stream list: the next one
  CallbackNode* newest = nullptr;      // in the oldest node of a stream: the stream's newest node
  CallbackNode* next_stream = nullptr; // in the oldest node of a stream: another stream's oldest
  unsigned long long stream = 0;       // cuStreamGetId
  PooledEvent event;
  void (*run)(void* callback, CUresult result) = nullptr; // also destroys the callback
  /// The number of the submission, starting at 1. The number is 0 if the node holds no callback,
  /// or if the callback has begun.
  std::atomic<std::uint64_t> submission{0};
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> next_free{0};
  alignas(std::max_align_t) std::byte callback[CompletionQueue::callback_size];
};

/// A set of nodes. The free nodes form a lock-free stack. The head and the links are indices,
/// which leaves room next to the head for a count of changes. The count tells a thread that the
/// node it was about to take has been taken and given back with another node below it. The memory
/// of a node stays allocated until the set is destroyed.
class CallbackNodes {
public:
  /// The maximum number of nodes.
  static constexpr std::uint32_t most() noexcept { return first_of(most_blocks); }

  CallbackNodes() = default;
  CallbackNodes(const CallbackNodes&) = delete;
  CallbackNodes& operator=(const CallbackNodes&) = delete;
  ~CallbackNodes() {
    for (std::uint32_t block = 0; block < blocks_; ++block)
      delete[] nodes_[block];
  }

  /// Returns null if there is no memory for more nodes.
  CallbackNode* take() noexcept {
    CallbackNode* node = pop();
    while (node == nullptr) {
      const std::lock_guard lock(growing_);
      node = pop(); // another thread may have added nodes
      if (node == nullptr && !grow()) return nullptr;
    }
    return node;
  }

  void give_back(CallbackNode& node) noexcept {
    std::uint64_t head = free_.load(std::memory_order_relaxed);
    do {
      node.next_free.store(index_of(head), std::memory_order_relaxed);
    } while (!free_.compare_exchange_weak(head, changed(head, node.index), std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
  }

  /// Calls `each` with every node.
  template <class Each>
  void for_each(Each each) noexcept {
    for (std::uint32_t block = 0; block < most_blocks && nodes_[block] != nullptr; ++block)
      for (std::uint32_t i = 0; i < size_of(block); ++i)
        each(nodes_[block][i]);
  }

  /// Ensures that at least `count` nodes exist, including nodes in use. Returns false if it
  /// cannot.
  bool reserve(std::size_t count) noexcept {
    const std::lock_guard lock(growing_);
    while (first_of(blocks_) < count)
      if (!grow()) return false;
    return true;
  }

private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint32_t first_size =
      64; // the size of the first block; each block is twice as large as the previous one
  static constexpr std::uint32_t most_blocks = 25;
  static constexpr std::uint32_t first_of(std::uint32_t block) noexcept {
    return first_size * ((std::uint32_t{1} << block) - 1);
  }
  static constexpr std::uint32_t size_of(std::uint32_t block) noexcept { return first_size << block; }
  static std::uint32_t index_of(std::uint64_t head) noexcept { return static_cast<std::uint32_t>(head); }
  static std::uint64_t changed(std::uint64_t head, std::uint32_t index) noexcept {
    return ((head >> 32) + 1) << 32 | index;
  }

  CallbackNode& at(std::uint32_t index) noexcept {
    const auto block = static_cast<std::uint32_t>(std::bit_width(index / first_size + 1) - 1);
    return nodes_[block][index - first_of(block)];
  }

  CallbackNode* pop() noexcept {
    std::uint64_t head = free_.load(std::memory_order_acquire);
    while (index_of(head) != none) {
      CallbackNode& node = at(index_of(head));
      const std::uint32_t next = node.next_free.load(std::memory_order_relaxed);
      if (free_.compare_exchange_weak(head, changed(head, next), std::memory_order_acq_rel,
                                      std::memory_order_acquire))
        return &node;
    }
    return nullptr;
  }

  /// The caller must hold the lock.
  bool grow() noexcept {
    if (blocks_ == most_blocks) return false;
    auto* const block = new (std::nothrow) CallbackNode[size_of(blocks_)];
    if (block == nullptr) return false;
    nodes_[blocks_] = block;
    const std::uint32_t first = first_of(blocks_), size = size_of(blocks_);
    ++blocks_;
    for (std::uint32_t i = size; i-- > 0;) { // so that nodes are taken in address order
      block[i].index = first + i;
      give_back(block[i]);
    }
    return true;
  }

  std::atomic<std::uint64_t> free_{none}; // the count of changes, and the index of the first node
  CallbackNode* nodes_[most_blocks] = {};
  std::uint32_t blocks_ = 0;
  std::mutex growing_;
};

} // namespace cuevent
