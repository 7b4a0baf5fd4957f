// SPDX-License-Identifier: MIT
// What a CompletionQueue and its running poll share. Internal to the library.
#pragma once

#include <cuevent/completion_queue.hpp>

#include "core/cache_line.hpp"
#include "core/status.hpp"
#include "scheduling/callback_nodes.hpp"
#include "scheduling/callback_streams.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cuevent {

/// Submitters push nodes onto the inbox, which is a stack. The running poll takes the inbox over,
/// and no other thread then accesses those nodes. The poll sorts the nodes by stream and queries
/// the first node of each stream.
///
/// Racing submissions to one stream may arrive in a different order from their records in the
/// stream. Each node is therefore queried on its own. A completed later node says nothing about an
/// earlier node.
///
/// This is one class because submitting, polling, ending and forking follow one protocol.
class CompletionQueue::State : CallbackStack {
public:
  explicit State(const Context& context) noexcept : context_(context) {}

  const Context& context() const noexcept { return context_; }

  CUresult reserve(std::size_t callbacks) noexcept;

  /// The id of a stream that is not capturing.
  Status id_of(CUstream stream, unsigned long long& id) const noexcept;
  Status submit(const Target& target, const Source& source) noexcept;

  std::size_t poll(const PollLimit& limit) noexcept;

  /// Destroys the state, or leaves its destruction to the running poll.
  void end() noexcept {
    const Phase before = phase_.exchange(Phase::ended, std::memory_order_acq_rel);
    if (before != polling()) finish();
  }

  bool ended() const noexcept { return phase_.load(std::memory_order_relaxed) == Phase::ended; }

  /// After this call, the child of a fork can distinguish the polls. Polls of the thread that
  /// forked continue. Polls of other threads do not. Returns false if there is no memory.
  static bool watch_forks() noexcept;

  std::size_t pending() const noexcept {
    // Load returned_ first, because it follows the number of submissions.
    const std::uint32_t returned = returned_.load(std::memory_order_acquire);
    return count_of(inbox_.load(std::memory_order_acquire)) - returned; // the numbers may wrap
  }

private:
  /// Counts the forks since the first queue was made. The count distinguishes a process from its
  /// children.
  static inline constinit std::atomic<std::uint32_t> forks{0};

  /// After `ended`, the thread that was polling does the rest. If no thread was polling, the
  /// thread that ended the queue does. All other values come from polling() and differ between
  /// processes. A value of the parent refers to a thread that the child does not have.
  enum class Phase : std::uint32_t { idle, ended };
  static Phase polling() noexcept { return Phase{2 + forks.load(std::memory_order_relaxed)}; }

  /// The polls that this thread is in, innermost first.
  struct Poll {
    explicit Poll(State& its) noexcept : state(its), outer(polls) { polls = this; }
    Poll(const Poll&) = delete;
    Poll& operator=(const Poll&) = delete;
    ~Poll() { polls = outer; }
    State& state;
    Poll* const outer;
  };
  static thread_local constinit Poll* polls [[gnu::tls_model("initial-exec")]];

  bool forked() const noexcept { return process_ != forks.load(std::memory_order_relaxed); }
  void recover() noexcept;

  Status check_capture(CUstream stream) const noexcept;
  Status query_id(CUstream stream, unsigned long long& id) const noexcept;
  CUresult make_node(CallbackNode*& out) noexcept;
  Status submit_in_context(const Target& target, const Source& source) noexcept;
  void push(CallbackNode& node) noexcept;

  // Only for the polling thread:
  std::size_t sweep(const PollLimit& limit) noexcept;
  void take_inbox() noexcept;
  void run(CallbackNode& node, CUresult result) noexcept;
  void finish() noexcept;
  void destroy_events() noexcept;

  Context context_;
  const std::uint32_t process_ = forks.load(std::memory_order_relaxed); // the driver's process

  std::atomic<std::size_t> events_{0}; // in nodes
  CallbackNodes nodes_;

  alignas(cache_line) std::atomic<std::uint64_t> inbox_{none}; // the newest node, and the submissions so far

  alignas(cache_line) std::atomic<Phase> phase_{Phase::idle};
  std::uint32_t recovered_ = process_;     // the process that last put the members below in order
  std::atomic<std::uint32_t> returned_{0}; // written by the polling thread
  CallbackStreams streams_;
  std::size_t first_bucket_ = 0; // of the next sweep
};

} // namespace cuevent
