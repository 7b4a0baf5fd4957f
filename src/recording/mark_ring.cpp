// SPDX-License-Identifier: MIT
#include "recording/mark_ring.hpp"

#include "core/bits.hpp"
#include "core/relaxed_mode.hpp"

#include <algorithm>

namespace cuevent { inline namespace CUEVENT_ABI {

Status MarkRing::create(const Context& context, std::size_t least) {
  const std::size_t size = power_of_two_from(least);
  events_.reserve(size);
  slots_ = std::make_unique<Slot[]>(size);
  for (std::size_t i = 0; i < size; ++i) {
    const CUresult result = DriverEvent::try_create(events_.emplace_back(), context);
    if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};
    handles_.push_back(events_.back().native_handle());
  }
  table_ = &context.driver().table();
  size_ = size;
  mask_ = size - 1;
  return {};
}

Status MarkRing::find_room(bool& has_room) noexcept {
  has_room = false;
  if (drop_ != 0) {
    --drop_;
    return {};
  }
  const CUresult result = make_room();
  has_room = result == CUDA_SUCCESS;
  if (!has_room) drop_ = first_wait;
  return {result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result, "cuEventQuery"};
}

bool MarkRing::read(Position position, MarkedPlace& place) const noexcept {
  Slot::Words words;
  if (!slots_[position & mask_].read(position, words)) return false;
  place = {.time = static_cast<long long>(words[0]), .graph = words[1]};
  if (place.graph != 0)
    place.replay = words[2];
  else
    std::copy(words.begin() + 2, words.end(), place.name.words.begin());
  return true;
}

CUresult MarkRing::look(Position submitted, Position& reached) noexcept {
  reached = seen();
  // No place from `end` on was reached. The steps double until a place was not reached, so that a fault,
  // which makes the driver silent, is met as late as possible.
  Position end = submitted, step = 1;
  CUresult result = context_status();
  if (result != CUDA_SUCCESS) {
    if (result != CUDA_ERROR_CONTEXT_IS_DESTROYED) return result;
    note_reached(reached = submitted); // the context has ended all its work
    return result;
  }
  while (reached < end) {
    const Position asked = std::min(reached + step, end) - 1;
    result = query(asked);
    if (result == CUDA_SUCCESS) {
      reached = asked + 1;
      step = end == submitted ? 2 * step : (end - reached + 1) / 2;
    } else if (result == CUDA_ERROR_NOT_READY) {
      end = asked;
      step = (end - reached + 1) / 2;
    } else if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
      reached = submitted;
    } else {
      break;
    }
  }
  note_reached(reached);
  return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult MarkRing::query(Position position) const noexcept {
  const CUresult result = table().cuEventQuery_v2000(handles_[position & mask_]);
  // An event that was reused answers for a later place. It was reused because it had been reached.
  return slots_[position & mask_].is(position) ? result : CUDA_SUCCESS;
}

void MarkRing::note_reached(Position reached) noexcept {
  Position known = seen();
  while (known < reached && !reached_.compare_exchange_weak(known, reached, std::memory_order_relaxed)) {
  }
}

/// Looks for the largest part of the ring that was reached: half of it, a quarter and so on.
CUresult MarkRing::make_room() noexcept {
  const Position oldest = seen();
  // A report may have found room since the caller looked. Then some places below were not submitted yet.
  if (next_.load(std::memory_order_relaxed) - oldest < size_) return CUDA_SUCCESS;
  CUresult result = context_status();
  if (result != CUDA_SUCCESS) return result;
  RelaxedMode relaxed(table()); // the thread may be capturing another stream
  result = relaxed.enter();
  if (result != CUDA_SUCCESS) return result;
  for (std::size_t part = std::max<std::size_t>(size_ / 2, 1); part != 0; part /= 2) {
    result = query(oldest + part - 1);
    if (result == CUDA_SUCCESS) note_reached(oldest + part);
    if (result != CUDA_ERROR_NOT_READY) break;
  }
  return result;
}

}} // namespace cuevent::CUEVENT_ABI
