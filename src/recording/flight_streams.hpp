// SPDX-License-Identifier: MIT
// The streams of a flight recorder. Internal to the library.
#pragma once

#include "core/cache_line.hpp"
#include "core/fork_lock.hpp"
#include "core/this_thread.hpp"
#include "recording/mark_ring.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A wait of a stream, before the place `before`.
struct NotedWait {
  static constexpr std::uint64_t no_stream = ~std::uint64_t{0}; // a wait for a value

  Position before = 0;
  std::uint64_t stream = no_stream; // for an event: where it was recorded
  Position position = 0;
  std::uint64_t object = 0, value = 0; // for a value
  ShortName name{};
};

/// The last waits of a stream. One thread at a time adds; any thread reads.
class WaitRing {
public:
  explicit WaitRing(std::size_t size) : size_(size), slots_(std::make_unique<Slot[]>(size)) {}

  /// False if the oldest wait is still needed, because its stream has reached only `reached` places.
  bool add(const NotedWait& wait, Position reached) noexcept;
  /// After add() has failed: true now and then, for it costs queries to find out what was reached.
  bool may_look() noexcept { return failed_++ % 64 == 0; }
  /// Gives every wait that can be read to `take`.
  template <class Take>
  void each(const Take& take) const {
    for (std::size_t i = 0; i < size_; ++i) {
      const std::uint64_t number = slots_[i].number();
      Slot::Words words;
      if (number == Slot::none || !slots_[i].read(number, words)) continue;
      NotedWait wait{words[0], words[1], words[2], words[3], words[4], {}};
      std::copy(words.begin() + 5, words.end(), wait.name.words.begin());
      take(wait);
    }
  }

private:
  using Slot = PublishedWords<10>;
  std::size_t size_;
  std::unique_ptr<Slot[]> slots_;
  std::uint64_t next_ = 0, failed_ = 0; // of the thread that adds
};

/// A stream with its marks.
struct alignas(cache_line) RecordedStream {
  RecordedStream(CUstream its_handle, const void* its_thread, Context its_context, std::size_t marks)
      : handle(its_handle), thread(its_thread), context(std::move(its_context)),
        waits(std::max<std::size_t>(marks / 4, 16)) {}

  /// Whether the context is known to have ended, and whether it has ended now. Nobody may use the events of
  /// the stream afterwards, even if a later context and a later stream have the handles. Driver function:
  /// cuCtxGetId.
  bool is_over() const noexcept { return over.load(std::memory_order_relaxed); }
  bool has_ended() noexcept {
    if (!is_over() && context.status() == CUDA_ERROR_CONTEXT_IS_DESTROYED) end();
    return is_over();
  }
  void end() noexcept {
    direct.store(false, std::memory_order_relaxed);
    over.store(true, std::memory_order_relaxed);
  }

  void rename(std::string_view to) noexcept { name.publish(0, ShortName(to).words); }
  std::string_view name_in(ShortName& buffer) const noexcept {
    return name.read(0, buffer.words) ? buffer.text() : std::string_view();
  }

  const CUstream handle;
  const void* const thread; // of CU_STREAM_PER_THREAD: a different stream on each thread
  const Context context;
  std::size_t index = 0; // the number of streams that were added before
  MarkRing ring;
  WaitRing waits;
  std::atomic<std::uint64_t> dropped{0}, untraced{0}; // written by the thread that submits
  std::atomic<bool> over{false};                      // the context was found to have ended
  /// The marks of a stream that is not a default stream, of a context that others keep, are submitted without
  /// a look at the context.
  std::atomic<bool> direct{false};
  PublishedWords<6> call; // the time and the name of a FlightScope
  PublishedWords<5> name;
  std::atomic<RecordedStream*> next{nullptr};  // in the bucket
  std::atomic<RecordedStream*> newer{nullptr}; // of all streams
};

/// Finds a stream without a lock. Streams are added and never destroyed.
class RecordedStreams {
public:
  RecordedStreams() noexcept = default;
  RecordedStreams(const RecordedStreams&) = delete;
  RecordedStreams& operator=(const RecordedStreams&) = delete;
  ~RecordedStreams();

  RecordedStream* find(CUstream handle) const noexcept {
    const std::atomic<RecordedStream*>& bucket = buckets_[bucket_of(handle)];
    RecordedStream* each = bucket.load(std::memory_order_acquire);
    while (each != nullptr &&
           (each->handle != handle || (handle == CU_STREAM_PER_THREAD && each->thread != this_thread())))
      each = each->next.load(std::memory_order_acquire);
    return each;
  }
  /// Returns the stream that has the handle already, if another thread was faster. Null in a forked child
  /// that cannot have the lock.
  RecordedStream* add(std::unique_ptr<RecordedStream> stream) noexcept;
  /// From now on find() does not find the stream. Its context has ended, so its handle can name another one.
  void hide(const RecordedStream& stream) noexcept;
  /// Gives each stream to `take`, in the order of their indices. A signal handler may call this.
  template <class Take>
  void each(const Take& take) const {
    for (RecordedStream* each = oldest_.load(std::memory_order_acquire); each != nullptr;
         each = each->newer.load(std::memory_order_acquire))
      take(*each);
  }

private:
  static constexpr std::size_t buckets = 256;
  static std::size_t bucket_of(CUstream handle) noexcept {
    const auto bits = reinterpret_cast<std::uintptr_t>(handle);
    return (bits ^ (bits >> 6) ^ (bits >> 12)) % buckets;
  }

  ProcessLock lock_; // for add() and hide()
  std::array<std::atomic<RecordedStream*>, buckets> buckets_{};
  std::atomic<RecordedStream*> oldest_{nullptr};
  RecordedStream* newest_ = nullptr; // under the lock
};

}} // namespace cuevent::CUEVENT_ABI
