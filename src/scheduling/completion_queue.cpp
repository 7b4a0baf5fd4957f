// SPDX-License-Identifier: MIT
#include <cuevent/completion_queue.hpp>

#include <cuevent/event_pool.hpp>

#include "core/cache_line.hpp"
#include "core/capture_state.hpp"
#include "core/on_stream.hpp"
#include "core/relaxed_mode.hpp"
#include "core/require_context.hpp"
#include "core/stream_context.hpp"
#include "scheduling/callback_nodes.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <pthread.h>
#include <utility>
#include <vector>

namespace cuevent {

namespace {

/// Counts the forks since the first queue was made. The count distinguishes a process from its
/// children.
constinit std::atomic<std::uint32_t> forks{0};

} // namespace

/// Submitters push nodes onto the inbox, which is a stack. The running poll takes the inbox over,
/// and no other thread then accesses those nodes. The poll sorts the nodes by stream and queries
/// the first node of each stream.
///
/// Racing submissions to one stream may arrive in a different order from their records in the
/// stream. Each node is therefore queried on its own. A completed later node says nothing about an
/// earlier node.
class CompletionQueue::State {
public:
  State(const Context& context, EventPool&& pool) noexcept : context_(context), pool_(std::move(pool)) {}

  const Context& context() const noexcept { return context_; }

  CUresult reserve(std::size_t callbacks) noexcept {
    if (forked()) return CUDA_ERROR_NOT_INITIALIZED; // a thread of the parent may hold the lock
    if (callbacks > CallbackNodes::most()) return CUDA_ERROR_INVALID_VALUE;
    if (!nodes_.reserve(callbacks)) return CUDA_ERROR_OUT_OF_MEMORY;
    return pool_.try_reserve(callbacks);
  }

  Status submit(CUstream stream, const Source& source) noexcept;

  std::size_t poll() noexcept;

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
    // Load returned_ first, because it follows submitted_.
    const std::size_t returned = returned_.load(std::memory_order_acquire);
    return submitted_.load(std::memory_order_acquire) - returned;
  }

private:
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

  Status submit_in_context(CUstream stream, const Source& source) noexcept;
  void push(CallbackNode& node) noexcept;

  // Only for the polling thread:
  std::size_t sweep() noexcept;
  void take_inbox() noexcept;
  void append(CallbackNode& node) noexcept;
  static CallbackNode& pop(CallbackNode*& oldest) noexcept;
  void run(CallbackNode& node, CUresult result) noexcept;
  void finish() noexcept;

  Context context_;
  EventPool pool_;
  CallbackNodes nodes_;
  const std::uint32_t process_ = forks.load(std::memory_order_relaxed); // the driver's process

  alignas(cache_line) std::atomic<CallbackNode*> inbox_{nullptr}; // the newest node
  std::atomic<std::size_t> submitted_{0};

  alignas(cache_line) std::atomic<Phase> phase_{Phase::idle};
  std::uint32_t recovered_ = process_;   // the process that last put the members below in order
  std::atomic<std::size_t> returned_{0}; // written by the polling thread
  // The streams with pending callbacks, by stream id. Each entry links the oldest node of a stream
  // to the oldest node of another stream.
  std::array<CallbackNode*, 64> streams_{};
};

Status CompletionQueue::State::submit(CUstream stream, const Source& source) noexcept {
  if (ended()) return {CUDA_ERROR_ILLEGAL_STATE, "CompletionQueue::when_complete"};
  return on_stream(context_, stream, [&] { return submit_in_context(stream, source); });
}

Status CompletionQueue::State::submit_in_context(CUstream stream, const Source& source) noexcept {
  const DriverTable& table = context_.driver().table();
  // Checked first, because a query of a stream's id invalidates the stream's capture.
  const CaptureState capture = capture_state(table, stream);
  if (capture.result != CUDA_SUCCESS) return {capture.result, "cuStreamIsCapturing"};
  if (capture.invalidated()) return {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamIsCapturing"};
  if (capture.capturing()) return {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamIsCapturing"};

  unsigned long long id = 0; // at poll time, the handle may belong to a later stream
  CUresult result = table.cuStreamGetId_v12000(stream, &id);
  if (result != CUDA_SUCCESS) return {result, "cuStreamGetId"};

  PooledEvent event;
  result = pool_.try_acquire(event);
  if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};

  CallbackNode* const node = nodes_.take();
  if (node == nullptr) return {CUDA_ERROR_OUT_OF_MEMORY, "CompletionQueue::when_complete"};
  result = event.try_record(stream);
  if (result != CUDA_SUCCESS) {
    nodes_.give_back(*node);
    return {result, "cuEventRecord"};
  }
  node->stream = id;
  node->event = std::move(event);
  node->run = source.run;
  source.move(node->callback, source.from);
  push(*node);
  return {};
}

void CompletionQueue::State::push(CallbackNode& node) noexcept {
  const std::uint64_t submission = submitted_.fetch_add(1, std::memory_order_relaxed) + 1;
  node.submission.store(submission, std::memory_order_release); // last, for recover()
  node.next = inbox_.load(std::memory_order_relaxed);
  while (
      !inbox_.compare_exchange_weak(node.next, &node, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

std::size_t CompletionQueue::State::poll() noexcept {
  if (pending() == 0) return 0;
  Phase phase = Phase::idle;
  while (!phase_.compare_exchange_strong(phase, polling(), std::memory_order_acquire))
    if (phase == Phase::ended || phase == polling()) return 0;
  std::size_t count = 0;
  {
    const Poll here(*this);
    count = sweep();
  }
  phase = polling();
  if (!phase_.compare_exchange_strong(phase, Phase::idle, std::memory_order_acq_rel)) finish();
  return count;
}

thread_local constinit CompletionQueue::State::Poll* CompletionQueue::State::polls = nullptr;

bool CompletionQueue::State::watch_forks() noexcept {
  static const bool watched = pthread_atfork(nullptr, nullptr, [] {
                                forks.fetch_add(1, std::memory_order_relaxed);
                                for (const Poll* poll = polls; poll != nullptr; poll = poll->outer)
                                  if (!poll->state.ended()) poll->state.phase_ = polling();
                              }) == 0;
  return watched;
}

/// Runs in the child of a fork, where threads in the middle of a submission or a poll do not
/// continue. Looks at all nodes to find the callbacks that have not run.
void CompletionQueue::State::recover() noexcept {
  std::vector<CallbackNode*> left;
  nodes_.for_each([&](CallbackNode& node) {
    if (node.submission.load(std::memory_order_relaxed) != 0) left.push_back(&node);
  });
  std::sort(left.begin(), left.end(), [](const CallbackNode* a, const CallbackNode* b) {
    return a->submission.load(std::memory_order_relaxed) < b->submission.load(std::memory_order_relaxed);
  });
  inbox_.store(nullptr, std::memory_order_relaxed);
  streams_ = {};
  for (CallbackNode* const node : left)
    append(*node);
  returned_.store(submitted_.load(std::memory_order_relaxed) - left.size(), std::memory_order_release);
}

std::size_t CompletionQueue::State::sweep() noexcept {
  if (recovered_ != forks.load(std::memory_order_relaxed)) [[unlikely]] {
    recover();
    recovered_ = forks.load(std::memory_order_relaxed);
  }
  take_inbox();
  const std::size_t before = returned_.load(std::memory_order_relaxed);
  RelaxedMode relaxed(context_.driver().table());
  const bool usable = !forked();
  CUresult result = usable ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  for (CallbackNode*& bucket : streams_) {
    for (CallbackNode** oldest = &bucket; *oldest != nullptr;) {
      if (usable && (result == CUDA_SUCCESS || !is_sticky(result))) { // sticky errors apply to all
        result = relaxed.enter();
        if (result == CUDA_SUCCESS) result = (*oldest)->event.try_query();
      }
      if (result == CUDA_ERROR_NOT_READY) {
        oldest = &(*oldest)->next_stream;
      } else {
        relaxed.leave();
        run(pop(*oldest), result);
      }
    }
  }
  return returned_.load(std::memory_order_relaxed) - before;
}

void CompletionQueue::State::take_inbox() noexcept {
  CallbackNode* oldest = nullptr;
  for (CallbackNode* node = inbox_.exchange(nullptr, std::memory_order_acquire); node != nullptr;) {
    CallbackNode* const older = node->next;
    node->next = oldest;
    oldest = node;
    node = older;
  }
  while (oldest != nullptr) {
    CallbackNode& node = *oldest;
    oldest = node.next;
    append(node);
  }
}

void CompletionQueue::State::append(CallbackNode& node) noexcept {
  CallbackNode** oldest = &streams_[node.stream % streams_.size()];
  while (*oldest != nullptr && (*oldest)->stream != node.stream)
    oldest = &(*oldest)->next_stream;
  node.next = nullptr;
  if (*oldest != nullptr) {
    (*oldest)->newest = (*oldest)->newest->next = &node;
  } else {
    node.newest = &node;
    node.next_stream = nullptr;
    *oldest = &node;
  }
}

CallbackNode& CompletionQueue::State::pop(CallbackNode*& oldest) noexcept {
  CallbackNode& node = *oldest;
  oldest = node.next != nullptr ? node.next : node.next_stream;
  if (node.next != nullptr) {
    node.next->newest = node.newest;
    node.next->next_stream = node.next_stream;
  }
  return node;
}

void CompletionQueue::State::run(CallbackNode& node, CUresult result) noexcept {
  node.event = PooledEvent(); // back in the pool, for submissions by the callback
  node.submission.store(0, std::memory_order_relaxed);
  try {
    node.run(node.callback, result);
  } catch (const DriverError& error) {
    report_error(error.result(), "CompletionQueue::poll");
  } catch (...) {
    report_error(CUDA_ERROR_UNKNOWN, "CompletionQueue::poll");
  }
  nodes_.give_back(node);
  returned_.store(returned_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void CompletionQueue::State::finish() noexcept {
  sweep();
  for (CallbackNode*& oldest : streams_)
    while (oldest != nullptr)
      run(pop(oldest), CUDA_ERROR_NOT_READY);
  delete this;
}

CompletionQueue::CompletionQueue(const Context& context) {
  const CUresult result = try_create(*this, context);
  if (result == CUDA_SUCCESS) return;
  const char* const call = "CompletionQueue::CompletionQueue";
  require_context(context, call);
  context.driver().fail(result, call);
}

CUresult CompletionQueue::try_create(CompletionQueue& out, const Context& context) noexcept {
  if (!State::watch_forks()) return CUDA_ERROR_OUT_OF_MEMORY;
  EventPool pool; // max_idle covers every node, because destroying an event can block forever
  const CUresult result = EventPool::try_create(pool, context, EventFlags::none, CallbackNodes::most());
  if (result != CUDA_SUCCESS) return result;
  auto* const state = new (std::nothrow) State(context, std::move(pool));
  if (state == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  out = CompletionQueue(state);
  return CUDA_SUCCESS;
}

void CompletionQueue::end() noexcept { state_->end(); }

void CompletionQueue::reserve(std::size_t callbacks) {
  const CUresult result = try_reserve(callbacks);
  if (result != CUDA_SUCCESS) fail(result, "cuEventCreate", nullptr);
}

CUresult CompletionQueue::try_reserve(std::size_t callbacks) noexcept {
  return state_ != nullptr ? state_->reserve(callbacks) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CompletionQueue::check(const Context& context) const noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : check_context(state_->context(), context);
}

CUresult CompletionQueue::submit(CUstream stream, const Source& source, const char*& call) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Status status = state_->submit(stream, source);
  call = status.call;
  return status.result;
}

std::size_t CompletionQueue::poll() noexcept { return state_ != nullptr ? state_->poll() : 0; }

std::size_t CompletionQueue::pending() const noexcept { return state_ != nullptr ? state_->pending() : 0; }

void CompletionQueue::fail_context(CUresult result) const {
  const char* const call = "CompletionQueue::when_complete";
  if (state_ == nullptr) fail(result, call, nullptr);
  if (result == CUDA_ERROR_INVALID_CONTEXT) require_context(Context(), call);
  throw ContextMismatch(call,
                        "the stream is of another context than the queue: make a queue for each context");
}

void CompletionQueue::fail(CUresult result, const char* call, CUstream stream) const {
  if (state_ == nullptr)
    throw InvalidHandle("CompletionQueue", "the queue is empty: it was never made, or was moved from");
  const Driver& driver = state_->context().driver();
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    throw StreamCaptureUnsupported(
        call, "the stream is being captured, and what it is given completes with each launch of the graph: "
              "submit to the stream that the graph is launched on, after each launch");
  if (result == CUDA_ERROR_ILLEGAL_STATE && state_->ended())
    throw IllegalState(call, "the queue is being destroyed, and takes no more");
  if (result == CUDA_ERROR_INVALID_HANDLE && !is_default_stream(stream)) {
    CUcontext const other = context_of(driver.table(), stream);
    if (other != nullptr && other != state_->context().native_handle())
      throw ContextMismatch(call,
                            "the stream is of another context than the queue: make a queue for each context");
  }
  driver.fail(result, call);
}

} // namespace cuevent
