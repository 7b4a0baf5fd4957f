// SPDX-License-Identifier: MIT
#include "auditor/probed_streams.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/pending_sources.hpp"
#include "auditor/state.hpp"

namespace watch {

namespace {

constexpr unsigned longest_chain = 64; // a chain that is being changed may lead astray

std::atomic<std::uint32_t>& bucket_of(const StreamName& name) {
  const std::uint64_t mixed =
      (name.handle ^ (name.context << 1U) ^ (std::uint64_t{name.thread} << 32U)) * 0x9E37'79B9'7F4A'7C15U;
  return cleared_by_fork->streams.buckets[(mixed >> 40U) % Streams::bucket_count];
}

/// A place for one more stream; the caller holds the lock of the table.
Stream* take_place() {
  const std::uint32_t count = cleared_by_fork->streams.count.load(std::memory_order_relaxed);
  if (count < stream_limit) {
    cleared_by_fork->streams.count.store(count + 1, std::memory_order_release);
    return &cleared_by_fork->streams.places[count];
  }
  for (std::uint32_t i = 0; i < stream_limit; ++i)
    if (region->streams[i].used.load(std::memory_order_relaxed) == 2)
      return &cleared_by_fork->streams.places[i];
  cleared_by_fork->streams.full.store(1, std::memory_order_relaxed);
  return nullptr;
}

StreamName name_of(const Stream& stream) {
  return {stream.handle.load(std::memory_order_relaxed), stream.context.load(std::memory_order_relaxed),
          stream.thread.load(std::memory_order_relaxed)};
}

void unlink(const Stream& stream, const StreamName& name) {
  const Locked lock(cleared_by_fork->streams.lock);
  const std::uint32_t number = place_of(stream) + 1;
  std::atomic<std::uint32_t>* link = &bucket_of(name);
  for (std::uint32_t next = link->load(std::memory_order_relaxed); next != 0;
       next = link->load(std::memory_order_relaxed)) {
    Stream& there = cleared_by_fork->streams.places[next - 1];
    if (next == number) {
      link->store(there.next.load(std::memory_order_relaxed), std::memory_order_release);
      return;
    }
    link = &there.next;
  }
}

/// False if the lock is held by a thread that creates events, which may last forever. When they are created,
/// that thread looks again whether it may go on.
bool take_lock(Stream& stream) {
  while (stream.lock.exchange(1, std::memory_order_seq_cst) != 0) {
    if (stream.creating.load(std::memory_order_seq_cst) != 0) return false;
    sleep_microseconds(20);
  }
  return true;
}

void release_lock(Stream& stream) { stream.lock.store(0, std::memory_order_release); }

bool is_selected(const Stream& stream, const Selection& which) {
  const std::uint64_t handle = stream.handle.load(std::memory_order_relaxed);
  return handle != 0 && (which.handle == 0 || which.handle == handle) &&
         (which.context == 0 || which.context == shown(stream).context) &&
         (which.library == library_limit || which.library == stream.library);
}

void forget(Stream& stream, bool destroy_events) {
  const StreamName name = name_of(stream);
  if (name.handle == 0 || stream.handle.exchange(0, std::memory_order_seq_cst) == 0) return;
  unlink(stream, name);
  forget_sources_of(stream);
  give_back_guards_of(stream);
  if (take_lock(stream)) {
    const auto destroy = state.libraries[stream.library].trial.destroy;
    for (CUevent& event : stream.events) {
      if (event != nullptr && destroy_events) destroy(event);
      event = nullptr;
    }
    release_lock(stream);
  }
  shown(stream).used.store(2, std::memory_order_release);
  cleared_by_fork->streams.full.store(0, std::memory_order_relaxed);
}

} // namespace

std::uint32_t place_of(const Stream& stream) {
  return static_cast<std::uint32_t>(&stream - cleared_by_fork->streams.places);
}

ProbedStream& shown(const Stream& stream) { return region->streams[place_of(stream)]; }

Stream* find_stream(const StreamName& name) {
  Stream*& last_found = current_thread.last_stream;
  if (last_found != nullptr && last_found->is(name)) return last_found;
  std::uint32_t next = bucket_of(name).load(std::memory_order_acquire);
  for (unsigned i = 0; next != 0 && i < longest_chain; ++i) {
    Stream& stream = cleared_by_fork->streams.places[next - 1];
    if (stream.is(name)) return last_found = &stream;
    next = stream.next.load(std::memory_order_acquire);
  }
  return nullptr;
}

Stream* add_stream(const StreamName& name, std::uint64_t context, unsigned library) {
  if (cleared_by_fork->streams.full.load(std::memory_order_relaxed) != 0) return nullptr;
  const TryLocked lock(cleared_by_fork->streams.lock, 0);
  if (!lock) return nullptr;
  if (Stream* const known = find_stream(name)) return known;
  Stream* const stream = take_place();
  if (stream == nullptr) return nullptr;
  const TryLocked events(stream->lock, 1000); // of a stream that was here before
  if (!events) return nullptr;
  ProbedStream& told = shown(*stream);
  told.used.store(0, std::memory_order_release);
  told.thread = name.thread;
  told.handle = name.handle;
  told.context = context;
  for (auto* number : {&told.recorded, &told.reached})
    number->store(0, std::memory_order_relaxed);
  for (auto* number : {&told.result, &told.looked, &told.probe_wanted})
    number->store(0, std::memory_order_relaxed);
  for (auto* number : {&stream->calls, &stream->probed_calls, &stream->reached_calls, &stream->asked_calls})
    number->store(0, std::memory_order_relaxed);
  for (auto* flag : {&stream->has_work, &stream->has_wait})
    flag->store(0, std::memory_order_relaxed);
  for (CUevent& event : stream->events)
    event = nullptr;
  stream->library = library;
  stream->stopped = false;
  stream->context.store(name.context, std::memory_order_relaxed);
  stream->thread.store(name.thread, std::memory_order_relaxed);
  stream->handle.store(name.handle, std::memory_order_release);
  std::atomic<std::uint32_t>& bucket = bucket_of(name);
  stream->next.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
  bucket.store(place_of(*stream) + 1, std::memory_order_release);
  told.used.store(1, std::memory_order_release);
  return stream;
}

CUresult query_probe(Stream& stream, std::uint64_t number) {
  const std::uint64_t index = (number - 1) % ring_size;
  const CUresult result = state.libraries[stream.library].probing.query(stream.events[index]);
  if (result == CUDA_SUCCESS) {
    stream.reached_calls.store(stream.calls_at[index], std::memory_order_relaxed);
    shown(stream).reached.store(number, std::memory_order_release);
  } else if (result != CUDA_ERROR_NOT_READY) {
    shown(stream).result.store(static_cast<std::uint32_t>(result), std::memory_order_relaxed);
  }
  return result;
}

void forget_streams(const Selection& which, bool destroy_events) {
  const std::uint32_t count = cleared_by_fork->streams.count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i)
    if (is_selected(cleared_by_fork->streams.places[i], which))
      forget(cleared_by_fork->streams.places[i], destroy_events);
}

void wait_for_recorders() {
  const std::uint32_t count = cleared_by_fork->streams.count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i)
    if (Stream& stream = cleared_by_fork->streams.places[i];
        stream.handle.load(std::memory_order_relaxed) != 0 && take_lock(stream))
      release_lock(stream);
}

} // namespace watch
