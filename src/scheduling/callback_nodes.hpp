// SPDX-License-Identifier: MIT
// Storage for callbacks until they run, and their events. Internal to the library.
#pragma once

#include "core/bits.hpp"
#include "core/cache_line.hpp"

#include <cuevent/completion_lane.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A callback that waits for its event. A node keeps its event when it is free.
struct alignas(cache_line) CallbackNode {
  enum class Phase : std::uint32_t { free, pending, cancelled };

  CallbackNode* next = nullptr; // in the list of a stream: the next node
  union {
    CallbackNode* newest = nullptr; // in the oldest node of a stream: the stream's newest node
    CallbackNode* previous;         // in the other nodes of a stream
  };
  CallbackNode* next_stream = nullptr; // in the oldest node of a stream: another stream's oldest
  unsigned long long stream = 0;       // cuStreamGetId, of the last submission
  CUevent event = nullptr;
  CompletionLane::Run run = nullptr;
  std::uint64_t not_before = 0;       // only polls that began after this visit to the lists query the event
  std::atomic<std::uint64_t> life{0}; // the number of the submission among all of the queue, and the phase
  std::uint32_t index = 0;
  std::atomic<std::uint32_t> below{0}; // the index of the next free node, or of the previous submission
  std::atomic<std::uint32_t> cancelled_before{0}; // the index of the next cancelled node
  alignas(std::max_align_t) std::byte callback[CompletionLane::callback_size];

  static constexpr Phase phase_of(std::uint64_t life) noexcept { return static_cast<Phase>(life & 3); }
  static constexpr std::uint64_t in(std::uint64_t life, Phase phase) noexcept {
    return (life & ~std::uint64_t{3}) | static_cast<std::uint64_t>(phase);
  }
  Phase phase() const noexcept { return phase_of(life.load(std::memory_order_acquire)); }

  /// The owner of a free node submits it. The number has 62 bits and never wraps.
  void begin(std::uint64_t submission) noexcept {
    life.store(in(submission << 2, Phase::pending), std::memory_order_release); // last, for a forked child
  }
  /// A poll is about to run the callback. Returns false if the callback has been cancelled.
  bool claim() noexcept {
    std::uint64_t now = life.load(std::memory_order_relaxed);
    return phase_of(now) == Phase::pending &&
           life.compare_exchange_strong(now, in(now, Phase::free), std::memory_order_relaxed);
  }
  /// A poll is about to run the cancelled callback.
  void claim_cancelled() noexcept {
    life.store(in(life.load(std::memory_order_acquire), Phase::free), std::memory_order_relaxed);
  }
};

/// The head of a lock-free stack of nodes: the index of the first node, and a count of changes. The
/// count tells a thread that the node it was about to take has been taken and given back with
/// another node below it.
struct CallbackStack {
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  /// No node, and whoever pushes one has to wake a thread. Only for the inbox of a CompletionQueue.
  static constexpr std::uint32_t none_asleep = none - 1;
  static constexpr std::uint32_t index_of(std::uint64_t head) noexcept {
    return static_cast<std::uint32_t>(head);
  }
  static constexpr std::uint32_t count_of(std::uint64_t head) noexcept {
    return static_cast<std::uint32_t>(head >> 32);
  }
  static constexpr bool is_empty(std::uint64_t head) noexcept { return index_of(head) >= none_asleep; }
  static constexpr bool is_asleep(std::uint64_t head) noexcept { return index_of(head) == none_asleep; }
  static constexpr std::uint64_t asleep(std::uint64_t head) noexcept {
    return (head >> 32) << 32 | none_asleep;
  }
  static constexpr std::uint64_t changed(std::uint64_t head, std::uint32_t index) noexcept {
    return ((head >> 32) + 1) << 32 | index;
  }
};

/// A set of nodes. The memory of a node stays allocated until the set is destroyed.
///
/// The free nodes that have an event form several lock-free stacks. A node goes back to the stack of
/// the stream for which it was used last. So threads that submit to different streams do not wait
/// for each other, and the driver's memory of an event stays with one thread.
class CallbackNodes : CallbackStack {
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

  /// A node with an event, for a stream with this id. Returns null if there was a moment at which no
  /// node with an event was free.
  CallbackNode* take(unsigned long long stream) noexcept {
    std::uint64_t seen = 0;
    CallbackNode* const node = take_from(stack_of(stream), seen);
    return node != nullptr ? node : take_any();
  }
  /// The node has an event.
  void give_back(CallbackNode& node) noexcept {
    Head& free = stack_of(node.stream);
    std::uint64_t head = free.load(std::memory_order_relaxed);
    do {
      node.below.store(index_of(head), std::memory_order_relaxed);
    } while (!free.compare_exchange_weak(head, changed(head, node.index), std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  }

  /// A node without an event. Returns null if there is no memory for more nodes.
  CallbackNode* take_new() noexcept {
    const std::lock_guard lock(growing_);
    if (new_ == nullptr && !grow()) return nullptr;
    CallbackNode* const node = new_;
    new_ = node->next;
    return node;
  }
  /// The node still has no event.
  void give_back_new(CallbackNode& node) noexcept {
    const std::lock_guard lock(growing_);
    node.next = new_;
    new_ = &node;
  }

  CallbackNode& at(std::uint32_t index) noexcept {
    const std::uint32_t block = width_of(index / first_size + 1) - 1;
    return nodes_[block][index - first_of(block)];
  }

  /// Calls `each` with every node.
  template <class Each>
  void for_each(Each each) noexcept {
    for (std::uint32_t block = 0; block < most_blocks && nodes_[block] != nullptr; ++block)
      for (std::uint32_t i = 0; i < size_of(block); ++i)
        each(nodes_[block][i]);
  }

private:
  using Head = std::atomic<std::uint64_t>;
  struct alignas(cache_line) Stack {
    Head free{none};
  };
  static constexpr std::size_t stacks = 16;

  Head& stack_of(unsigned long long stream) noexcept { return free_[stream % stacks].free; }

  /// Returns null if the stack was empty. Its head was then `seen`.
  CallbackNode* take_from(Head& free, std::uint64_t& seen) noexcept {
    std::uint64_t head = free.load(std::memory_order_acquire);
    while (index_of(head) != none) {
      CallbackNode& node = at(index_of(head));
      const std::uint32_t next = node.below.load(std::memory_order_relaxed);
      if (free.compare_exchange_weak(head, changed(head, next), std::memory_order_acq_rel,
                                     std::memory_order_acquire))
        return &node;
    }
    seen = head;
    return nullptr;
  }
  /// Looks at all stacks. Nodes may move from stack to stack meanwhile, so it looks again until no
  /// stack has changed since it was empty.
  [[gnu::noinline]] CallbackNode* take_any() noexcept {
    std::array<std::uint64_t, stacks> seen{};
    bool changes = true;
    while (changes) {
      for (std::size_t i = 0; i < stacks; ++i)
        if (CallbackNode* const node = take_from(free_[i].free, seen[i])) return node;
      changes = false;
      for (std::size_t i = 0; i < stacks; ++i)
        changes |= free_[i].free.load(std::memory_order_relaxed) != seen[i];
    }
    return nullptr;
  }

  static constexpr std::uint32_t first_size =
      64; // the size of the first block; each block is twice as large as the previous one
  static constexpr std::uint32_t most_blocks = 25;
  static constexpr std::uint32_t first_of(std::uint32_t block) noexcept {
    return first_size * ((std::uint32_t{1} << block) - 1);
  }
  static constexpr std::uint32_t size_of(std::uint32_t block) noexcept { return first_size << block; }

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
      block[i].next = new_;
      new_ = &block[i];
    }
    return true;
  }

  std::array<Stack, stacks> free_;
  alignas(cache_line) CallbackNode* nodes_[most_blocks] = {};
  std::uint32_t blocks_ = 0;
  CallbackNode* new_ = nullptr; // the first node without an event; each links to the next
  /// No fork handler takes it, because no forked child does: reserve() and submissions fail there before.
  std::mutex growing_;
};

}} // namespace cuevent::CUEVENT_ABI
