// SPDX-License-Identifier: MIT
// The marks of one stream: a ring of untimed events. Internal to the library.
#pragma once

#include "core/position.hpp"
#include "core/status.hpp"
#include "recording/published_words.hpp"
#include "recording/short_name.hpp"

#include <cuevent/driver_event.hpp>

#include <memory>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A place in the work of a stream, and what the program said about it.
struct MarkedPlace {
  long long time = 0;       // when it was submitted, on the driver's clock
  std::uint64_t graph = 0;  // if it follows a launch: the graph's number, from 1
  std::uint64_t replay = 0; // the number of that launch, from 1
  ShortName name{};         // only without a graph; empty: the place has no name
};

/// Each place records one event of the ring. An event is reused only after it was reached.
///
/// One thread at a time submits. All other members may be called from any thread meanwhile, and
/// those without driver calls also from a signal handler.
class MarkRing {
public:
  /// The size is rounded up to a power of two. Driver function: cuEventCreate.
  Status create(const Context& context, std::size_t least);

  /// The next place: records its event on the stream, in the current context if that is a default
  /// stream. `has_room` is false if the oldest event of the ring was not reached yet. Driver
  /// functions: cuEventRecord; for a full ring also cuCtxGetId, cuThreadExchangeStreamCaptureMode,
  /// cuEventQuery.
  Status submit(CUstream stream, const MarkedPlace& place, bool& has_room) noexcept {
    const Position position = next_.load(std::memory_order_relaxed);
    has_room = true;
    if (position - seen() >= size_) [[unlikely]]
      if (const Status status = find_room(has_room); !has_room) return status;
    Slot& slot = slots_[position & mask_];
    slot.retract(); // before the event stands for another place
    entered_.store(place.time, std::memory_order_relaxed);
    const CUresult result = table_->cuEventRecord_v2000(handles_[position & mask_], stream);
    entered_.store(0, std::memory_order_relaxed);
    if (result != CUDA_SUCCESS) [[unlikely]]
      return {result, "cuEventRecord"};
    const auto& name = place.name.words;
    slot.publish(position, {static_cast<std::uint64_t>(place.time), place.graph,
                            place.graph != 0 ? place.replay : name[0], name[1], name[2], name[3], name[4]});
    next_.store(position + 1, std::memory_order_release);
    // The driver's locks would make the next mark wait for the line of its slot.
    __builtin_prefetch(&slots_[(position + 1) & mask_], 1);
    return {};
  }

  /// The number of places that were submitted.
  Position submitted() const noexcept { return next_.load(std::memory_order_acquire); }
  /// The number of places that were reached when somebody last looked.
  Position seen() const noexcept { return reached_.load(std::memory_order_relaxed); }
  /// When the thread that submits entered the driver; zero if it is not there. On a full launch queue it
  /// stays there.
  long long entered() const noexcept { return entered_.load(std::memory_order_relaxed); }
  /// The oldest place that can still be read.
  Position oldest() const noexcept {
    const Position next = submitted();
    return next < size_ ? 0 : next - size_;
  }
  bool read(Position position, MarkedPlace& place) const noexcept;

  /// Finds out how many of the first `submitted` places were reached. If the result is an error, nothing is
  /// known about the places from `reached` on, except that CUDA_ERROR_CONTEXT_IS_DESTROYED means that
  /// all of them are over. The thread must be in relaxed capture mode.
  /// Driver functions: cuCtxGetId, and cuEventQuery at most twice the logarithm of the number of places.
  CUresult look(Position submitted, Position& reached) noexcept;

private:
  const DriverTable& table() const noexcept { return *table_; }
  /// Asks before the queries whether the context exists: the driver crashes if an event is queried after its
  /// context was reset and retained again.
  CUresult context_status() const noexcept { return events_.front().context().status(); }
  CUresult query(Position position) const noexcept;
  void note_reached(Position reached) noexcept;
  Status find_room(bool& has_room) noexcept;
  CUresult make_room() noexcept;

  /// A number and seven words: a cache line. A launch has no name, so its number is in the first word of the
  /// name.
  using Slot = PublishedWords<7>;
  static constexpr unsigned first_wait = 64; // places that are dropped before the next look for room

  const DriverTable* table_ = nullptr;
  std::size_t size_ = 0, mask_ = 0;
  std::vector<DriverEvent> events_;
  std::vector<CUevent> handles_; // of the events, close together
  std::unique_ptr<Slot[]> slots_;
  unsigned drop_ = 0; // places to drop without a look
  std::atomic<Position> next_{0}, reached_{0};
  std::atomic<long long> entered_{0};
};

}} // namespace cuevent::CUEVENT_ABI
