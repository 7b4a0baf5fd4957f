// SPDX-License-Identifier: MIT
// Objects that are gone, and what is forgotten of them. A program may create as many as it likes.
#include "rules/world.hpp"

namespace watch {

namespace {

constexpr std::size_t gone_kept = 2048; // a later use of an older one is not found

} // namespace

void World::note_gone(Kind kind, const StreamKey& key, std::uint64_t number) {
  gone_.push_back({kind, key, number});
  if (gone_.size() <= gone_kept) return;
  forget_gone(gone_.front());
  gone_.pop_front();
}

/// Its handle may have been given away again, and its destruction may have failed after all.
void World::forget_gone(const Gone& gone) {
  const auto is_meant = [&](const Object& object) {
    return object.number == gone.number && !object.is_alive();
  };
  const auto erase_from = [&](auto& map) {
    const auto found = map.find(gone.key.handle);
    if (found == map.end() || !is_meant(found->second)) return;
    if (gone.number != 0) forget(gone.number);
    map.erase(found);
  };
  switch (gone.kind) {
  case Kind::event:
    return erase_from(events_);
  case Kind::stream:
    if (const auto found = streams_.find(gone.key); found != streams_.end() && is_meant(found->second))
      erase_stream(found);
    return;
  case Kind::graph:
    return erase_from(graphs_);
  case Kind::exec:
    return erase_from(execs_);
  case Kind::context:
    return erase_from(contexts_);
  }
}

void World::note_thread_stream(const StreamKey& key) {
  thread_streams_.push_back(key);
  if (thread_streams_.size() <= threads_kept) return;
  if (const auto found = streams_.find(thread_streams_.front());
      found != streams_.end() && !found->second.is_capturing())
    erase_stream(found);
  thread_streams_.pop_front();
}

void World::forget(std::uint64_t number) const {
  for (const auto& observer : observers_)
    observer->forget(number);
}

void World::erase_stream(std::map<StreamKey, StreamState>::iterator stream) {
  order_.remove(stream->second);
  forget(stream->second.number);
  for (const auto& observer : observers_)
    observer->forget_stream(stream->first);
  if (last_stream_ == &*stream) last_stream_ = nullptr;
  streams_.erase(stream);
}

} // namespace watch
