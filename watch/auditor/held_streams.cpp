// SPDX-License-Identifier: MIT
#include "auditor/held_streams.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/state.hpp"

namespace watch {

namespace {

/// Room for the words of one more stream of this context. The caller holds the lock.
void give_words_to(HeldStream& stream) {
  stream.words = nullptr;
  for (ContextWords& words : cleared_by_fork->held.contexts) {
    if (words.context.load(std::memory_order_acquire) != stream.context) continue;
    const std::uint32_t index = words.used.load(std::memory_order_relaxed);
    if (index >= held_stream_limit) return;
    words.used.store(index + 1, std::memory_order_relaxed);
    stream.words = words.words + index;
    stream.address = words.address + index * sizeof(StreamWords);
    return;
  }
}

} // namespace

HeldStream* held_stream(std::uint64_t handle, std::uint64_t context, std::uint32_t thread) {
  HeldStreams& held = cleared_by_fork->held;
  const Locked lock(held.lock);
  const std::uint32_t count = held.count.load(std::memory_order_relaxed);
  HeldStream* free = nullptr;
  for (std::uint32_t i = 0; i < count; ++i) {
    HeldStream& stream = held.streams[i];
    const std::uint64_t there = stream.handle.load(std::memory_order_relaxed);
    if (there == handle && stream.context == context && stream.thread == thread) return &stream;
    if (there == 0 && free == nullptr) free = &stream;
  }
  if (free == nullptr && count < held_stream_limit) free = &held.streams[count];
  if (free == nullptr || free->lock.load(std::memory_order_relaxed) != 0) return nullptr;
  free->context = context;
  free->thread = thread;
  free->number = held.numbers.fetch_add(1, std::memory_order_relaxed);
  free->submissions = 0;
  free->issued.store(0, std::memory_order_relaxed);
  free->opened.store(0, std::memory_order_relaxed);
  give_words_to(*free);
  free->handle.store(handle, std::memory_order_release);
  if (free == &held.streams[count]) held.count.store(count + 1, std::memory_order_release);
  return free;
}

void forget_held_streams(std::uint64_t handle, std::uint64_t context) {
  HeldStreams& held = cleared_by_fork->held;
  const Locked lock(held.lock);
  for (std::uint32_t i = 0; i < held.count.load(std::memory_order_relaxed); ++i) {
    HeldStream& stream = held.streams[i];
    if ((handle == 0 || stream.handle.load(std::memory_order_relaxed) == handle) &&
        (context == 0 || stream.context == context))
      stream.handle.store(0, std::memory_order_relaxed);
  }
}

std::int64_t open_words(bool all) {
  HeldStreams& held = cleared_by_fork->held;
  const Locked lock(held.lock);
  const std::int64_t now = microseconds_now();
  std::int64_t next = 0;
  for (std::uint32_t i = 0; i < held.count.load(std::memory_order_acquire); ++i) {
    HeldStream& stream = held.streams[i];
    const std::uint32_t issued = stream.issued.load(std::memory_order_acquire);
    std::uint32_t opened = stream.opened.load(std::memory_order_relaxed);
    if (opened == issued) continue;
    const auto due = [&] { return stream.due_us[opened % waits_limit].load(std::memory_order_relaxed); };
    while (opened != issued && (all || due() <= now))
      ++opened;
    if (opened != issued && (next == 0 || due() < next)) next = due();
    stream.words->open.store(opened, std::memory_order_release);
    stream.opened.store(opened, std::memory_order_release);
  }
  return next;
}

std::int64_t microseconds_now() {
  const timespec now = time_since_start();
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

} // namespace watch
