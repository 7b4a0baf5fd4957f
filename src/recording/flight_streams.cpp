// SPDX-License-Identifier: MIT
#include "recording/flight_streams.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

bool WaitRing::add(const NotedWait& wait, Position reached) noexcept {
  Slot& slot = slots_[next_ % size_];
  Slot::Words old;
  const bool is_needed = slot.number() != Slot::none && slot.read(slot.number(), old) && old[0] >= reached;
  if (is_needed) return false;
  failed_ = 0;
  const auto& name = wait.name.words;
  slot.retract();
  slot.publish(next_++, {wait.before, wait.stream, wait.position, wait.object, wait.value, name[0], name[1],
                         name[2], name[3], name[4]});
  return true;
}

RecordedStreams::~RecordedStreams() {
  for (RecordedStream* each = oldest_.load(std::memory_order_relaxed); each != nullptr;)
    delete std::exchange(each, each->newer.load(std::memory_order_relaxed));
}

RecordedStream* RecordedStreams::add(std::unique_ptr<RecordedStream> stream) noexcept {
  const auto lock = lock_.hold();
  if (!lock) return nullptr;
  if (RecordedStream* const same = find(stream->handle)) return same;
  RecordedStream& added = *stream.release(); // owned by the list from here on
  std::atomic<RecordedStream*>& bucket = buckets_[bucket_of(added.handle)];
  added.next.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
  added.index = newest_ == nullptr ? 0 : newest_->index + 1;
  bucket.store(&added, std::memory_order_release);
  (newest_ == nullptr ? oldest_ : newest_->newer).store(&added, std::memory_order_release);
  newest_ = &added;
  return &added;
}

void RecordedStreams::hide(const RecordedStream& stream) noexcept {
  const auto lock = lock_.hold();
  if (!lock) return;
  // The stream keeps its `next`, for threads that are looking at it.
  for (std::atomic<RecordedStream*>* link = &buckets_[bucket_of(stream.handle)];;) {
    RecordedStream* const each = link->load(std::memory_order_relaxed);
    if (each == nullptr) return; // another thread was faster
    if (each == &stream)
      return link->store(each->next.load(std::memory_order_relaxed), std::memory_order_release);
    link = &each->next;
  }
}

}} // namespace cuevent::CUEVENT_ABI
