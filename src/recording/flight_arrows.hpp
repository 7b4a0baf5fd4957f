// SPDX-License-Identifier: MIT
// Where events were recorded and values are written. Internal to the library.
#pragma once

#include "core/fork_lock.hpp"
#include "core/position.hpp"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A place of a stream, by the stream's index.
struct StreamPlace {
  std::size_t stream = 0;
  Position position = 0;
};

/// The places of the last records of about a thousand events.
class RecordedEvents {
public:
  void record(CUevent event, StreamPlace place) noexcept {
    Shard& shard = shard_of(event);
    const auto lock = shard.lock.hold();
    if (!lock) return;
    Entry* entry = shard.find(event);
    if (entry == nullptr) entry = &shard.entries[shard.next++ % shard.entries.size()];
    *entry = {event, place};
  }
  /// The next wait for the event is for something that nobody has noted.
  void forget(CUevent event) noexcept {
    Shard& shard = shard_of(event);
    const auto lock = shard.lock.hold();
    if (!lock) return;
    if (Entry* const entry = shard.find(event)) *entry = {};
  }
  std::optional<StreamPlace> find(CUevent event) noexcept {
    Shard& shard = shard_of(event);
    const auto lock = shard.lock.hold();
    const Entry* const entry = lock ? shard.find(event) : nullptr;
    return entry == nullptr ? std::nullopt : std::optional(entry->place);
  }

private:
  struct Entry {
    CUevent event = nullptr;
    StreamPlace place;
  };
  struct Shard {
    Entry* find(CUevent event) noexcept {
      for (Entry& each : entries)
        if (each.event == event) return &each;
      return nullptr;
    }

    ProcessLock lock;
    std::array<Entry, 16> entries{};
    std::size_t next = 0;
  };

  Shard& shard_of(CUevent event) noexcept {
    const auto bits = reinterpret_cast<std::uintptr_t>(event);
    return shards_[(bits ^ (bits >> 6) ^ (bits >> 12)) % shards_.size()];
  }

  std::array<Shard, 64> shards_; // so that threads seldom meet
};

/// The places of the last 1,024 signals.
class NotedSignals {
public:
  bool is_whole() const noexcept { return static_cast<bool>(lock_.hold()); }
  void add(const void* object, std::uint64_t value, StreamPlace place) {
    const auto lock = lock_.hold();
    if (!lock) return;
    if (signals_.size() < most)
      signals_.push_back({object, value, place});
    else
      forget(std::exchange(signals_[next_++ % most], {object, value, place}));
  }
  /// Whether a signal that find() no longer knows may have set the object to at least this value.
  bool may_have_forgotten(const void* object, std::uint64_t value) const noexcept {
    const auto lock = lock_.hold();
    if (!lock) return true;
    for (std::size_t i = 0; i < forgotten_objects_; ++i)
      if (forgotten_[i].object == object) return forgotten_[i].highest >= value;
    return others_forgotten_ && *others_forgotten_ >= value;
  }
  /// The places that set the object to at least this value, the lowest value first.
  std::vector<StreamPlace> find(const void* object, std::uint64_t value) const {
    std::multimap<std::uint64_t, StreamPlace> found;
    {
      const auto lock = lock_.hold();
      if (!lock) return {};
      for (const Signal& each : signals_)
        if (each.object == object && each.value >= value) found.emplace(each.value, each.place);
    }
    std::vector<StreamPlace> places;
    places.reserve(found.size());
    for (const auto& each : found)
      places.push_back(each.second);
    return places;
  }

private:
  struct Signal {
    const void* object;
    std::uint64_t value;
    StreamPlace place;
  };
  struct Forgotten {
    const void* object;
    std::uint64_t highest;
  };
  static constexpr std::size_t most = 1024;

  void forget(const Signal& signal) noexcept {
    for (std::size_t i = 0; i < forgotten_objects_; ++i) {
      if (forgotten_[i].object != signal.object) continue;
      forgotten_[i].highest = std::max(forgotten_[i].highest, signal.value);
      return;
    }
    if (forgotten_objects_ < forgotten_.size())
      forgotten_[forgotten_objects_++] = {signal.object, signal.value};
    else
      others_forgotten_ = std::max(others_forgotten_.value_or(0), signal.value);
  }

  ProcessLock lock_;
  std::vector<Signal> signals_; // a ring once it is full
  std::size_t next_ = 0;
  std::array<Forgotten, 64> forgotten_{}; // the highest value of each object
  std::size_t forgotten_objects_ = 0;
  std::optional<std::uint64_t> others_forgotten_; // the highest value of all other objects
};

}} // namespace cuevent::CUEVENT_ABI
