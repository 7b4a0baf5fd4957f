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
  for (RecordedStream* each = newest(); each != nullptr;)
    delete std::exchange(each, each->older);
}

RecordedStream* RecordedStreams::add(std::unique_ptr<RecordedStream> stream) noexcept {
  const auto lock = lock_.hold();
  if (!lock) return nullptr;
  if (RecordedStream* const same = find(stream->handle)) return same;
  RecordedStream& added = *stream.release(); // owned by the list from here on
  std::atomic<RecordedStream*>& bucket = buckets_[bucket_of(added.handle)];
  added.next = bucket.load(std::memory_order_relaxed);
  added.older = newest();
  added.index = added.older == nullptr ? 0 : added.older->index + 1;
  bucket.store(&added, std::memory_order_release);
  newest_.store(&added, std::memory_order_release);
  return &added;
}

}} // namespace cuevent::CUEVENT_ABI
