// SPDX-License-Identifier: MIT
// Where callbacks are kept until they run. Inside the library only.
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
  CallbackNode* next = nullptr;        // of the inbox: the one submitted before; of its stream: the one after
  CallbackNode* newest = nullptr;      // of the oldest of a stream: the newest of it,
  CallbackNode* next_stream = nullptr; // and the oldest of another stream
  unsigned long long stream = 0;       // cuStreamGetId
  PooledEvent event;
  void (*run)(void* callback, CUresult result) = nullptr; // and destroys it
  /// The number of the submission, from 1; 0 if the callback is not there, or has been begun.
  std::atomic<std::uint64_t> submission{0};
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> next_free{0};
  alignas(std::max_align_t) std::byte callback[CompletionQueue::callback_size];
};

/// Nodes, of which the free ones are a lock-free stack. Its head and the links are indices, so that beside the
/// head there is room for a count of its changes: by that a thread notices that the node it was about to take has
/// been taken and given back meanwhile, with another below it. A node's memory stays until all end.
class CallbackNodes {
public:
  /// So many there can be.
  static constexpr std::uint32_t most() noexcept { return first_of(most_blocks); }

  CallbackNodes() = default;
  CallbackNodes(const CallbackNodes&) = delete;
  CallbackNodes& operator=(const CallbackNodes&) = delete;
  ~CallbackNodes() {
    for (std::uint32_t block = 0; block < blocks_; ++block)
      delete[] nodes_[block];
  }

  /// Null if there is no memory for more.
  CallbackNode* take() noexcept {
    CallbackNode* node = pop();
    while (node == nullptr) {
      const std::lock_guard lock(growing_);
      node = pop(); // another thread may have made some
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

  /// Whether there are that many now, those in use included.
  bool reserve(std::size_t count) noexcept {
    const std::lock_guard lock(growing_);
    while (first_of(blocks_) < count)
      if (!grow()) return false;
    return true;
  }

private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint32_t first_size =
      64; // of the first block; each is twice as large as the one before
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

  /// Under the lock.
  bool grow() noexcept {
    if (blocks_ == most_blocks) return false;
    auto* const block = new (std::nothrow) CallbackNode[size_of(blocks_)];
    if (block == nullptr) return false;
    nodes_[blocks_] = block;
    const std::uint32_t first = first_of(blocks_), size = size_of(blocks_);
    ++blocks_;
    for (std::uint32_t i = size; i-- > 0;) { // so that they are taken in the order of their addresses
      block[i].index = first + i;
      give_back(block[i]);
    }
    return true;
  }

  std::atomic<std::uint64_t> free_{none}; // the count of changes, and the index of the first
  CallbackNode* nodes_[most_blocks] = {};
  std::uint32_t blocks_ = 0;
  std::mutex growing_;
};

} // namespace cuevent
