// SPDX-License-Identifier: MIT
// The pending callbacks of a CompletionQueue, sorted by stream. Internal to the library.
#pragma once

#include "scheduling/callback_nodes.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Belongs to the thread that polls. A bucket holds the streams with equal hashes: the oldest node
/// of a stream links to the oldest node of another stream.
class CallbackStreams {
public:
  void append(CallbackNode& node) noexcept {
    CallbackNode** oldest = &buckets_[node.stream % buckets_.size()];
    while (*oldest != nullptr && (*oldest)->stream != node.stream)
      oldest = &(*oldest)->next_stream;
    node.next = nullptr;
    if (*oldest != nullptr) {
      node.previous = (*oldest)->newest;
      (*oldest)->newest = node.previous->next = &node;
    } else {
      node.newest = &node;
      node.next_stream = nullptr;
      *oldest = &node;
    }
  }

  /// Removes the oldest node of a stream. `oldest` is the link to it, and then links to the
  /// stream's next node, or to the next stream.
  static CallbackNode& pop(CallbackNode*& oldest) noexcept {
    CallbackNode& node = *oldest;
    oldest = node.next != nullptr ? node.next : node.next_stream;
    if (node.next != nullptr) {
      node.next->newest = node.newest;
      node.next->next_stream = node.next_stream;
    }
    return node;
  }

  /// Removes a node from anywhere in the list of its stream.
  void remove(CallbackNode& node) noexcept {
    CallbackNode** oldest = &bucket(node.stream);
    while ((*oldest)->stream != node.stream)
      oldest = &(*oldest)->next_stream;
    if (*oldest == &node) {
      pop(*oldest);
      return;
    }
    CallbackNode* const previous = node.previous;
    previous->next = node.next;
    (node.next != nullptr ? node.next->previous : (*oldest)->newest) = previous;
  }

  /// Moves a stream behind the other streams of its bucket. `oldest` is the link to it, and then
  /// links to the bucket's next stream.
  static void move_to_end(CallbackNode*& oldest) noexcept {
    CallbackNode* const node = std::exchange(oldest, oldest->next_stream);
    node->next_stream = nullptr;
    CallbackNode** last = &oldest;
    while (*last != nullptr)
      last = &(*last)->next_stream;
    *last = node;
  }

  static constexpr std::size_t buckets = 64;
  CallbackNode*& bucket(std::size_t number) noexcept { return buckets_[number % buckets]; }
  bool empty() const noexcept {
    return std::all_of(buckets_.begin(), buckets_.end(), [](const CallbackNode* each) { return !each; });
  }
  CallbackNode** begin() noexcept { return buckets_.begin(); }
  CallbackNode** end() noexcept { return buckets_.end(); }

private:
  std::array<CallbackNode*, buckets> buckets_{};
};

}} // namespace cuevent::CUEVENT_ABI
