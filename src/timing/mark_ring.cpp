// SPDX-License-Identifier: MIT
#include "timing/mark_ring.hpp"

#include "core/relaxed_mode.hpp"

#include <algorithm>

namespace cuevent {

Status MarkRing::create(const Context& context, std::size_t size) {
  events_.reserve(size);
  slots_ = std::make_unique<Slot[]>(size);
  for (std::size_t i = 0; i < size; ++i) {
    const CUresult result = DriverEvent::try_create(events_.emplace_back(), context);
    if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};
  }
  context_ = context;
  size_ = size;
  return {};
}

Status MarkRing::submit(CUstream stream, const MarkedPlace& place, bool& has_room) noexcept {
  const Position position = next_.load(std::memory_order_relaxed);
  has_room = true;
  if (position - seen() >= size_) [[unlikely]] {
    if (drop_ != 0) {
      --drop_;
      has_room = false;
      return {};
    }
    const CUresult result = make_room();
    has_room = result == CUDA_SUCCESS;
    if (!has_room) drop_ = first_wait;
    if (result == CUDA_ERROR_NOT_READY) return {};
    if (!has_room) return {result, "cuEventQuery"};
  }
  Slot& slot = slots_[position % size_];
  slot.retract(); // before the event stands for another place
  const CUresult result =
      table().cuEventRecord_v2000(events_[position % size_].native_handle(), stream);
  if (result != CUDA_SUCCESS) [[unlikely]]
    return {result, "cuEventRecord"};
  const auto& name = place.name.words;
  slot.publish(position, {static_cast<std::uint64_t>(place.time), place.graph, place.replay, name[0], name[1],
                          name[2], name[3], name[4]});
  next_.store(position + 1, std::memory_order_release);
  return {};
}

bool MarkRing::read(Position position, MarkedPlace& place) const noexcept {
  Slot::Words words;
  if (!slots_[position % size_].read(position, words)) return false;
  place.time = static_cast<long long>(words[0]);
  place.graph = words[1];
  place.replay = words[2];
  std::copy(words.begin() + 3, words.end(), place.name.words.begin());
  return true;
}

CUresult MarkRing::look(Position submitted, Position& reached) noexcept {
  reached = seen();
  // No place from `end` on was reached. The steps double until a place was not reached, so that a fault,
  // which makes the driver silent, is met as late as possible.
  Position end = submitted, step = 1;
  CUresult result = CUDA_SUCCESS;
  while (reached < end) {
    const Position asked = std::min(reached + step, end) - 1;
    result = query(asked);
    if (result == CUDA_SUCCESS) {
      reached = asked + 1;
      step = end == submitted ? 2 * step : (end - reached + 1) / 2;
    } else if (result == CUDA_ERROR_NOT_READY) {
      end = asked;
      step = (end - reached + 1) / 2;
    } else {
      break;
    }
  }
  note_reached(reached);
  return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult MarkRing::query(Position position) const noexcept {
  const CUresult result = table().cuEventQuery_v2000(events_[position % size_].native_handle());
  // An event that was reused answers for a later place. It was reused because it had been reached.
  return slots_[position % size_].is(position) ? result : CUDA_SUCCESS;
}

void MarkRing::note_reached(Position reached) noexcept {
  Position known = seen();
  while (known < reached && !reached_.compare_exchange_weak(known, reached, std::memory_order_relaxed)) {
  }
}

/// Looks for the largest part of the ring that was reached: half of it, a quarter and so on.
CUresult MarkRing::make_room() noexcept {
  RelaxedMode relaxed(table()); // the thread may be capturing another stream
  CUresult result = relaxed.enter();
  if (result != CUDA_SUCCESS) return result;
  const Position oldest = seen();
  for (std::size_t part = std::max<std::size_t>(size_ / 2, 1); part != 0; part /= 2) {
    result = query(oldest + part - 1);
    if (result == CUDA_SUCCESS) note_reached(oldest + part);
    if (result != CUDA_ERROR_NOT_READY) break;
  }
  return result;
}

} // namespace cuevent
