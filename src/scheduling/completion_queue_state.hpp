// SPDX-License-Identifier: MIT
// What a CompletionQueue and its running polls share. Internal to the library.
#pragma once

#include <cuevent/completion_queue.hpp>

#include "core/cache_line.hpp"
#include "core/fork_lock.hpp"
#include "core/status.hpp"
#include "scheduling/callback_storage.hpp"
#include "scheduling/callback_streams.hpp"
#include "scheduling/poll_schedule.hpp"
#include "scheduling/poll_turns.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Submitters push nodes onto the inbox, which is a stack. The poll that has the lists takes the
/// inbox over, sorts the nodes by stream and queries the first node of each stream. It gives the
/// lists back while it runs a callback, and the callback's stream is then busy.
///
/// Racing submissions to one stream may arrive in a different order from their records in the
/// stream. Each node is therefore queried on its own. A completed later node says nothing about an
/// earlier node.
///
/// This is one class because submitting, polling, ending and forking follow one protocol.
class CompletionQueueState final : public CallbackStorage {
public:
  explicit CompletionQueueState(const Context& context) noexcept : context_(context) {}

  const Context& context() const noexcept { return context_; }

  CUresult reserve(std::size_t callbacks) noexcept;

  /// The id of a stream that is not capturing.
  Status id_of(CUstream stream, unsigned long long& id) const noexcept;
  Status submit(const CompletionLane& lane, const CompletionLane::Source& source,
                CompletionToken* token) noexcept;

  std::size_t poll(const PollLimit& limit) noexcept;

  std::size_t wait_for(TimeLimit timeout) noexcept;
  CUresult native_handle(int& out) noexcept;
  /// CUDA_ERROR_NOT_READY if the thread has to poll again.
  CUresult arm(TimeLimit most_late) noexcept;

  /// Runs the callbacks that are left and drops the state, or leaves this to a running poll.
  void end() noexcept;
  bool ended() const noexcept { return ended_.load(std::memory_order_relaxed); }

  /// Called when the library is loaded. The child of a fork can then distinguish the polls. Polls of
  /// the thread that forked continue. Polls of other threads do not.
  [[gnu::constructor(first_constructor)]] static void watch_forks() noexcept;
  /// False if there was no memory.
  static bool watches_forks() noexcept { return watches_forks_; }

  std::size_t pending() const noexcept {
    // Load returned_ first, because it follows the number of submissions.
    const std::uint32_t returned = returned_.load(std::memory_order_acquire);
    return count_of(inbox_.load(std::memory_order_acquire)) - returned; // the numbers may wrap
  }

private:
  static inline constinit bool watches_forks_ = false;
  /// Counts the forks since the library was loaded. The count distinguishes a process from its
  /// children.
  static inline constinit std::atomic<std::uint32_t> forks{0};

  static std::uint32_t process() noexcept { return forks.load(std::memory_order_relaxed); }

  struct Poll;
  /// The polls that this thread is in, innermost first.
  static thread_local constinit Poll* polls [[gnu::tls_model("initial-exec")]];

  bool forked() const noexcept { return process_ != process(); }
  void recover() noexcept;

  Status check_capture(CUstream stream) const noexcept;
  Status query_id(CUstream stream, unsigned long long& id) const noexcept;
  CUresult make_node(CallbackNode*& out) noexcept;
  [[gnu::cold, gnu::noinline]] Status refused(const Status& status) const noexcept;
  Status submit_in_context(const CompletionLane& lane, const CompletionLane::Source& source,
                           CompletionToken* token) noexcept;
  void push(CallbackNode& node) noexcept;

  // Only for the poll that has the lists:
  void visit() noexcept;
  bool sweep(Poll& poll) noexcept;
  bool sweep_streams(Poll& poll) noexcept;
  void take_inbox() noexcept;
  CallbackNode* first_to_run(CallbackNode& oldest, const Poll& poll) const noexcept;
  bool is_done(CallbackNode& node, Poll& poll) const noexcept;
  void take_cancelled() noexcept;
  void append_cancelled(CallbackNode& node) noexcept;
  bool sweep_cancelled(Poll& poll) noexcept;
  bool run(CallbackNode& node, CUresult result, Poll& poll) noexcept;

  bool sleep_begins(long long most_late) noexcept;

  bool runs_callback() const noexcept;
  void call(CallbackNode& node, CUresult result) noexcept;
  void finish() noexcept;
  void destroy_events() noexcept;

  alignas(cache_line) Context context_;
  const std::uint32_t process_ = process(); // the driver's process
  std::atomic<bool> ended_{false};          // also in turns_, which each poll writes

  std::atomic<std::size_t> events_{0}; // in nodes

  alignas(cache_line) std::atomic<std::uint64_t> inbox_{none}; // the newest node, and the pushes so far
  std::atomic<std::uint64_t> submissions_{0};                  // numbers the nodes, and never wraps

  alignas(cache_line) PollTurns turns_{process_};
  std::atomic<std::uint32_t> returned_{0}; // the number of callbacks that have returned

  // Only for the poll that has the lists:
  alignas(cache_line) CallbackStreams streams_;
  std::uint32_t to_cancel_ = none;      // cancelled nodes, which are still in the lists, the oldest first
  std::uint32_t last_to_cancel_ = none; // only if there is one
  bool cancelled_last_ = false;         // in the next sweep
  PollSchedule schedule_;
  bool stopped_ = false;               // the last poll stopped at its limit
  std::size_t first_bucket_ = 0;       // of the next sweep
  std::uint64_t visits_ = 0;           // the number of times that a poll has taken the lists
  std::uint32_t recovered_ = process_; // the process that last put the lists in order
};

}} // namespace cuevent::CUEVENT_ABI
