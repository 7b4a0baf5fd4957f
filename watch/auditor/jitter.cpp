// SPDX-License-Identifier: MIT
#include "auditor/jitter.hpp"

#include "auditor/captures.hpp"
#include "auditor/held_streams.hpp"
#include "auditor/jitter_opener.hpp"
#include "auditor/kernel_calls.hpp"
#include "auditor/probes.hpp"
#include "auditor/stacks.hpp"
#include "auditor/state.hpp"

#include <cstdlib>
#include <cstring>

namespace watch {

namespace {

/// The run may be held for a fifth of its time, and any run for this long.
constexpr std::int64_t always_allowed_us = 200'000;
/// How long the host waits for one submission, and for all of them together.
constexpr std::int64_t longest_wait_us = 100'000, longest_waits_us = 20'000'000;
constexpr std::uint32_t submissions_between_marks = 64; // without a hold, a write tells how far the stream is

bool read_number(const char*& text, std::uint64_t& number) {
  const char* const begin = text;
  for (number = 0; *text >= '0' && *text <= '9'; ++text)
    number = number * 10 + static_cast<std::uint64_t>(*text - '0');
  return text != begin;
}

bool read_hold(const char*& text, Hold& hold) {
  std::uint64_t numbers[3] = {};
  constexpr char ends[] = {'.', ':', ','};
  for (unsigned i = 0; i < 3; ++i) {
    if (!read_number(text, numbers[i])) return false;
    if (*text == ends[i])
      ++text;
    else if (i < 2)
      return false;
  }
  hold = {static_cast<std::uint32_t>(numbers[0]), static_cast<std::uint32_t>(numbers[1]),
          static_cast<std::uint32_t>(numbers[2] < longest_hold_us ? numbers[2] : longest_hold_us)};
  return true;
}

bool read_plan(const char* text) {
  JitterPlan& plan = state.jitter_plan;
  plan.is_listed = *text == '=';
  plan.waits = std::strcmp(text, waiting_plan) == 0;
  if (plan.waits) return true;
  if (!plan.is_listed) return read_number(text, plan.seed) && *text == '\0';
  for (++text; *text != '\0' && plan.count < hold_limit; ++plan.count)
    if (!read_hold(text, plan.holds[plan.count])) return false;
  return *text == '\0';
}

std::uint32_t planned(std::uint32_t stream, std::uint32_t submission) {
  const JitterPlan& plan = state.jitter_plan;
  if (!plan.is_listed) return hold_of_seed(plan.seed, stream, submission);
  for (std::uint32_t i = 0; i < plan.count; ++i)
    if (plan.holds[i].stream == stream && plan.holds[i].submission == submission)
      return plan.holds[i].microseconds;
  return 0;
}

/// Whether the run may be held for so much longer. If so, that time is used up.
bool use_time(std::int64_t now, std::uint32_t microseconds) {
  const Locked lock(cleared_by_fork->held.lock);
  const std::int64_t end = now + microseconds,
                     before = cleared_by_fork->held.held_up_to.load(std::memory_order_relaxed);
  const std::int64_t more = end - (before > now ? before : now);
  if (more <= 0) return true; // something else is held for longer
  const std::int64_t run = now - cleared_by_fork->held.begun_us.load(std::memory_order_relaxed);
  const std::int64_t allowed = run / 5 > always_allowed_us ? run / 5 : always_allowed_us;
  if (cleared_by_fork->held.held_us.load(std::memory_order_relaxed) + more > allowed) return false;
  cleared_by_fork->held.held_us.fetch_add(more, std::memory_order_relaxed);
  cleared_by_fork->held.held_up_to.store(end, std::memory_order_relaxed);
  return true;
}

/// Tells the reader which submission was held, or with 0 that it overtook one that is held.
void tell(const CallData& made, const HeldStream& stream, std::uint32_t microseconds, std::uint32_t stack) {
  CallData call = made;
  call.entry = hold_entry;
  call.count = 4;
  call.stack = stack;
  call.words[1] = stream.number | std::uint64_t{stream.submissions} << 32U;
  call.words[2] = microseconds;
  const std::int64_t time =
      microseconds_now() - cleared_by_fork->held.begun_us.load(std::memory_order_relaxed);
  call.words[3] = made.entry | static_cast<std::uint64_t>(time) << 32U;
  call.words[0] = stream.handle.load(std::memory_order_relaxed);
  record(call);
}

/// Findings name the place of a call, so that it can be held in another run.
void tell_place(const CallData& made, const HeldStream& stream) {
  CallData place{};
  place.entry = memory_entry;
  place.count = 3;
  place.thread = made.thread;
  place.words[0] = static_cast<std::uint64_t>(MemoryPart::place);
  place.words[1] = stream.number;
  place.words[2] = stream.submissions;
  record(place);
}

bool may_hold() {
  return cleared_by_fork->held.ended.load(std::memory_order_seq_cst) == 0 &&
         cleared_by_fork->held.waiting.load(std::memory_order_seq_cst) == 0 &&
         !cleared_by_fork->captures.are_active();
}

/// Submits a wait, if there is something to hold, and a write. The caller has the lock of the stream.
bool submit(unsigned library, HeldStream& stream, std::uint32_t microseconds) {
  const auto& functions = state.libraries[library].jitter;
  const auto handle = reinterpret_cast<CUstream>(stream.handle.load(std::memory_order_relaxed));
  const std::uint32_t issued = stream.issued.load(std::memory_order_relaxed);
  stream.due_us[issued % waits_limit].store(microseconds == 0 ? 0 : microseconds_now() + microseconds,
                                            std::memory_order_relaxed);
  stream.submissions_at[issued % waits_limit] = stream.submissions - 1;
  stream.issued.store(issued + 1, std::memory_order_seq_cst); // from now on it counts as closed
  if (microseconds != 0) wake_opener();
  const CUdeviceptr words = stream.address;
  CUresult result = CUDA_SUCCESS;
  if (microseconds != 0) result = functions.wait(handle, words, issued + 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (result == CUDA_SUCCESS)
    result = functions.write(handle, words + offsetof(StreamWords, passed), issued + 1, 0);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_NOT_SUPPORTED) region->cannot_hold.store(1, std::memory_order_relaxed);
  end_holds();
  return false;
}

/// Bounds for what is pending: the last write that the stream has reached tells how far it is.
struct Pending {
  std::uint32_t waits, submissions;
};
Pending pending(const HeldStream& stream) {
  const std::uint32_t passed = stream.words->passed.load(std::memory_order_acquire);
  const std::uint32_t reached = passed == 0 ? 0 : stream.submissions_at[(passed - 1) % waits_limit];
  return {stream.issued.load(std::memory_order_relaxed) - passed, stream.submissions - reached};
}

bool has_closed_words() {
  return cleared_by_fork->held.held_up_to.load(std::memory_order_relaxed) > microseconds_now();
}

/// Null if the submission cannot be held.
HeldStream* stream_to_hold(const Thread& thread, unsigned library, const CallData& call, Verb verb) {
  if (cleared_by_fork->held.ended.load(std::memory_order_relaxed) != 0) return nullptr;
  const Library& here = state.libraries[library];
  const std::uint64_t handle = stream_of(call, verb);
  CUcontext context = reinterpret_cast<CUcontext>(call.context);
  if (!is_default_stream(handle)) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const auto stream = reinterpret_cast<CUstream>(handle);
    if (here.is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE ||
        here.stream_context(stream, &context) != CUDA_SUCCESS)
      return nullptr;
  }
  const bool per_thread = handle == reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
  return held_stream(handle, reinterpret_cast<std::uintptr_t>(context), per_thread ? thread.number : 0);
}

} // namespace

bool prepare_jitter() {
  const char* const text = std::getenv(jitter_variable);
  return text != nullptr && read_plan(text);
}

void give_words(unsigned library, std::uint64_t context, int device) {
  const Library& here = state.libraries[library];
  if (here.jitter.wait == nullptr || here.jitter.write == nullptr || here.jitter.pin == nullptr ||
      here.jitter.address == nullptr || here.probing.exchange_mode == nullptr)
    return region->cannot_hold.store(1, std::memory_order_relaxed);
  const Locked lock(cleared_by_fork->held.contexts_lock);
  ContextWords* free = nullptr;
  for (ContextWords& words : cleared_by_fork->held.contexts) {
    if (words.context.load(std::memory_order_relaxed) == context) return;
    if (words.words == nullptr && free == nullptr) free = &words;
  }
  if (cleared_by_fork->held.begun_us.load(std::memory_order_relaxed) == 0)
    cleared_by_fork->held.begun_us.store(microseconds_now(), std::memory_order_relaxed);
  constexpr std::size_t size = sizeof(StreamWords) * held_stream_limit;
  void* const memory = free == nullptr ? nullptr : memory_cleared_by_fork(size);
  if (memory == nullptr || here.trial.push(reinterpret_cast<CUcontext>(context)) != CUDA_SUCCESS) return;
  const OwnCalls own(here);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  here.probing.exchange_mode(&mode);
  CUdeviceptr address = 0;
  const bool is_pinned =
      here.jitter.pin(memory, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) ==
          CUDA_SUCCESS &&
      here.jitter.address(&address, memory, 0) == CUDA_SUCCESS;
  here.probing.exchange_mode(&mode);
  CUcontext popped = nullptr;
  here.trial.pop(&popped);
  free->words = static_cast<StreamWords*>(memory);
  free->address = address;
  free->device = device;
  if (is_pinned)
    free->context.store(context, std::memory_order_release);
  else
    region->cannot_hold.store(1, std::memory_order_relaxed);
}

void forget_words(std::uint64_t context) {
  for (ContextWords& words : cleared_by_fork->held.contexts)
    if (std::uint64_t known = context; words.context.compare_exchange_strong(known, 0))
      forget_held_streams(0, context);
}

void forget_primary_words(unsigned library, int device) {
  unsigned flags = 0;
  int is_active = 0;
  const auto ask = state.libraries[library].jitter.primary_state;
  if (ask != nullptr && ask(device, &flags, &is_active) == CUDA_SUCCESS && is_active != 0) return;
  for (ContextWords& words : cleared_by_fork->held.contexts)
    if (const std::uint64_t context = words.context.load(); context != 0 && words.device == device)
      forget_words(context);
}

void forget_held_stream(std::uint64_t handle) {
  if (!is_default_stream(handle)) forget_held_streams(handle, 0);
}

void hold_back(Thread& thread, unsigned library, const CallData& call, Verb verb, std::uintptr_t address,
               std::uintptr_t above) {
  HeldStream* const stream = stream_to_hold(thread, library, call, verb);
  if (stream == nullptr) return;
  const TryLocked lock(stream->lock, longest_hold_us); // another thread may be blocked in a full queue
  if (!lock) return;
  ++stream->submissions;
  if ((region->features & memory_use) != 0) tell_place(call, *stream);
  if (stream->words == nullptr) return;
  std::uint32_t microseconds = planned(stream->number, stream->submissions);
  const Pending before = pending(*stream);
  const bool is_mark_due = stream->submissions % submissions_between_marks == 0;
  const bool overtakes = state.jitter_plan.is_listed && microseconds == 0 && has_closed_words();
  const auto stack = [&] {
    return call.stack != 0 ? call.stack : stack_number(thread, address, above, true);
  };
  if (overtakes) tell(call, *stream, 0, stack());
  if ((microseconds == 0 && !is_mark_due) || before.waits + 1 >= waits_limit) return;
  if (microseconds != 0 &&
      (before.submissions > pending_limit || !use_time(microseconds_now(), microseconds)))
    microseconds = 0;
  if (microseconds != 0) start_opener();
  cleared_by_fork->held.holding.fetch_add(1, std::memory_order_seq_cst);
  const bool is_held = may_hold() && submit(library, *stream, microseconds) && microseconds != 0;
  cleared_by_fork->held.holding.fetch_sub(1, std::memory_order_seq_cst);
  if (is_held) tell(call, *stream, microseconds, stack());
}

void wait_for_submission(Thread& thread, unsigned library, const CallData& call, Verb verb) {
  if (!state.jitter_plan.waits) return;
  HeldStream* const stream = stream_to_hold(thread, library, call, verb);
  if (stream == nullptr || stream->words == nullptr) return;
  HeldStreams& held = cleared_by_fork->held;
  const std::int64_t begun = microseconds_now();
  std::uint32_t expected = 0;
  {
    const TryLocked lock(stream->lock, longest_hold_us);
    if (!lock || pending(*stream).waits + 1 >= waits_limit ||
        held.waited_us.load(std::memory_order_relaxed) > longest_waits_us)
      return;
    held.holding.fetch_add(1, std::memory_order_seq_cst);
    const bool is_marked = may_hold() && submit(library, *stream, 0);
    held.holding.fetch_sub(1, std::memory_order_seq_cst);
    if (!is_marked) return;
    expected = stream->issued.load(std::memory_order_relaxed);
  }
  const auto is_done = [&] {
    return static_cast<std::int32_t>(stream->words->passed.load(std::memory_order_acquire) - expected) >= 0;
  };
  while (!is_done() && microseconds_now() - begun < longest_wait_us)
    sleep_microseconds(20);
  held.waited_us.fetch_add(microseconds_now() - begun, std::memory_order_relaxed);
}

void begin_waiting() {
  cleared_by_fork->held.waiting.fetch_add(1, std::memory_order_seq_cst);
  constexpr long pause_us = 50, patience_us = 10'000;
  for (long waited = 0; waited < patience_us; waited += pause_us) {
    if (open_words(false) == 0 && cleared_by_fork->held.holding.load(std::memory_order_seq_cst) == 0) return;
    sleep_microseconds(pause_us);
  }
  open_words(true);
}

void end_waiting() { cleared_by_fork->held.waiting.fetch_sub(1, std::memory_order_seq_cst); }

void wait_for_holders() {
  for (int i = 0; i < 500 && cleared_by_fork->held.holding.load(std::memory_order_seq_cst) != 0; ++i)
    sleep_microseconds(20);
}

} // namespace watch
