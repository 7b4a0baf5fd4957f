// SPDX-License-Identifier: MIT
// How the polls of a CompletionQueue share its lists, and who ends the queue. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cuevent { inline namespace CUEVENT_ABI {

/// One poll at a time has the lists of pending callbacks, and queries events. While a callback runs,
/// the lists are free for other polls, and the callback's stream is busy. After end(), the thread
/// that comes last does the rest: the thread that ended the queue, or the last poll.
///
/// All of this is one word: whether a poll has the lists, whether the queue has ended, a bit for
/// each running callback, and the process. After a fork, the polls of the parent's other threads do
/// not exist, so a child ignores a word of its parent.
class PollTurns {
public:
  using Word = std::uint64_t;
  static constexpr Word lists = 1, ended = 2;
  static constexpr unsigned most_callbacks = 32; // documented in CompletionQueue::poll()

  explicit PollTurns(std::uint32_t process) noexcept : word_(of(process)) {}

  /// Tries to take the lists.
  bool take(std::uint32_t process) noexcept {
    Word now = word_.load(std::memory_order_relaxed), mine = 0;
    do {
      mine = same(now, process) ? now : of(process) | (now & ended);
      if ((mine & (lists | ended)) != 0) return false;
    } while (!word_.compare_exchange_weak(now, mine | lists, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    return true;
  }
  /// Gives the lists back. Returns true if the caller has to finish the queue.
  bool leave() noexcept { return last(word_.fetch_sub(lists, std::memory_order_acq_rel) - lists); }

  /// Gives the lists back while a callback of `stream` runs. Returns the callback's bit. The caller
  /// has the lists, and not all bits are in use.
  Word begin_callback(unsigned long long stream) noexcept {
    const Word idle = ~word_.load(std::memory_order_relaxed) & callbacks;
    const Word callback = idle & (~idle + 1); // the lowest bit
    streams_[number_of(callback)] = stream;
    word_.fetch_add(callback - lists, std::memory_order_release);
    return callback;
  }
  enum class After { has_lists, left, has_to_finish };
  /// Takes the lists back if they are free and the queue has not ended.
  After end_callback(Word callback) noexcept {
    Word now = word_.load(std::memory_order_relaxed), after = 0;
    do {
      after = now & ~callback;
      if ((after & (lists | ended)) == 0) after |= lists;
    } while (!word_.compare_exchange_weak(now, after, std::memory_order_acq_rel, std::memory_order_relaxed));
    if (last(after)) return After::has_to_finish;
    return (now & lists) == 0 && (after & lists) != 0 ? After::has_lists : After::left;
  }

  /// Returns true if the caller has to finish the queue.
  bool end(std::uint32_t process) noexcept {
    const Word before = word_.fetch_or(ended, std::memory_order_acq_rel);
    if (!same(before, process)) continue_in_child(process, 0);
    return !same(before, process) || last(before | ended);
  }

  /// Whether a callback of `stream` runs. Only for the poll that has the lists.
  bool busy(unsigned long long stream) const noexcept {
    for (Word left = word_.load(std::memory_order_acquire) & callbacks; left != 0; left &= left - 1)
      if (streams_[number_of(left)] == stream) return true;
    return false;
  }
  bool all_in_use() const noexcept {
    return (word_.load(std::memory_order_relaxed) & callbacks) == callbacks;
  }
  /// The number of running callbacks. It is 0 in a child that has not polled yet.
  unsigned running(std::uint32_t process) const noexcept {
    const Word now = word_.load(std::memory_order_relaxed);
    return same(now, process) ? static_cast<unsigned>(__builtin_popcountll(now & callbacks)) : 0;
  }

  /// In the child of a fork: keeps only what the thread that forked has.
  void continue_in_child(std::uint32_t process, Word own) noexcept {
    word_.store(of(process) | own | (word_.load(std::memory_order_relaxed) & ended),
                std::memory_order_relaxed);
  }

private:
  static constexpr unsigned first_callback = 2, first_of_process = first_callback + most_callbacks;
  static constexpr Word callbacks = ((Word{1} << most_callbacks) - 1) << first_callback;

  static constexpr Word of(std::uint32_t process) noexcept { return Word{process} << first_of_process; }
  static constexpr bool same(Word word, std::uint32_t process) noexcept {
    return word >> first_of_process == of(process) >> first_of_process;
  }
  /// Of the lowest callback.
  static constexpr std::size_t number_of(Word word) noexcept {
    return static_cast<std::size_t>(__builtin_ctzll(word)) - first_callback;
  }
  static constexpr bool last(Word word) noexcept { return (word & (lists | ended | callbacks)) == ended; }

  std::atomic<Word> word_;
  std::array<unsigned long long, most_callbacks> streams_{}; // of the running callbacks
};

}} // namespace cuevent::CUEVENT_ABI
