// SPDX-License-Identifier: MIT
#include "auditor/probes.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/looker.hpp"
#include "auditor/probed_streams.hpp"
#include "auditor/tick_rate.hpp"
#include "protocol/ticks.hpp"

namespace watch {

namespace {

constexpr std::uint64_t time_of_probe_us = 100;        // at most one in this time
constexpr std::uint64_t time_of_quiet_probe_us = 2000; // in quiet mode
constexpr std::uint64_t share_of_probes = 256;         // or in this many times what it has taken
constexpr std::uint64_t longest_time_us = 1000;        // of one that has taken long, as its thread was paused
constexpr std::uint64_t burst = 64;                    // probes that may follow each other at once
// Records and waits should be next to a probe. They use up the probes of the time to come.
constexpr std::uint64_t long_burst = 256;
constexpr std::uint64_t calls_between_queries = 16;
constexpr std::uint64_t long_queue = 512;
// A launch queue is full after about 1,020 submissions. If a thread is blocked there, a record waits for it.
constexpr std::uint64_t nearly_full_queue = 900;
constexpr std::uint64_t blocked_us = 1000;

/// The tick up to which all probes are used up.
std::atomic<std::uint64_t>& used_up_to() { return cleared_by_fork->streams.probes_used_up_to; }

std::uint64_t ticks_of_probe() {
  return ticks_in(region->overwrites != 0 ? time_of_quiet_probe_us : time_of_probe_us);
}

/// The first tick at which there may be a probe, if none is recorded until then.
std::uint64_t first_tick_of_probe(std::uint64_t at_once) {
  const std::uint64_t used = used_up_to().load(std::memory_order_relaxed), ahead = at_once * ticks_of_probe();
  return used > ahead ? used - ahead : 0;
}

bool may_probe(std::uint64_t tick, std::uint64_t at_once) { return tick >= first_tick_of_probe(at_once); }

void use_up_one(std::uint64_t begun) {
  const std::uint64_t now = ticks();
  const std::uint64_t share = (now - begun) * share_of_probes, longest = ticks_in(longest_time_us);
  std::uint64_t step = ticks_of_probe();
  if (step < share) step = share < longest ? share : longest;
  std::uint64_t before = used_up_to().load(std::memory_order_relaxed);
  while (!used_up_to().compare_exchange_weak(before, (before > now ? before : now) + step,
                                             std::memory_order_relaxed)) {
  }
}

StreamName name_of(std::uint64_t handle, std::uint64_t context, std::uint32_t thread) {
  const bool per_thread_stream = handle == reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
  return {handle, is_default_stream(handle) ? context : 0, per_thread_stream ? thread : 0};
}

/// False if the call names no stream that exists.
bool name_stream(const CallData& call, Verb verb, StreamName& name) {
  const std::uint64_t handle = stream_of(call, verb);
  if (handle == 0 || (is_default_stream(handle) && call.context == 0)) return false;
  name = name_of(handle, call.context, call.thread);
  return true;
}

/// Null if it is not known. Sets its name otherwise.
Stream* find_stream(const CallData& call, Verb verb, StreamName& name) {
  return name_stream(call, verb, name) ? find_stream(name) : nullptr;
}

Stream* find_stream(const CallData& call, Verb verb) {
  StreamName name{};
  return find_stream(call, verb, name);
}

/// How many calls there were since then. Another thread may count while this reads both numbers.
std::uint64_t calls_since(const Stream& stream, const std::atomic<std::uint64_t>& then) {
  const std::uint64_t calls = stream.calls.load(std::memory_order_relaxed);
  const std::uint64_t before = then.load(std::memory_order_relaxed);
  return calls > before ? calls - before : 0;
}

/// As far as known.
std::uint64_t unreached_calls(const Stream& stream) { return calls_since(stream, stream.reached_calls); }

/// Whether the launch queue of the stream may be nearly full.
bool finds_nearly_full_queue(const CallData& call, Verb verb) {
  const Stream* const stream = find_stream(call, verb);
  return stream != nullptr && unreached_calls(*stream) > nearly_full_queue;
}

/// Asks about the last probe, and if it is not reached, about the middle one of those that are under way. Not
/// at every call.
void ask_how_far(Stream& stream) {
  const ProbedStream& told = shown(stream);
  const std::uint64_t recorded = told.recorded.load(std::memory_order_relaxed);
  const std::uint64_t reached = told.reached.load(std::memory_order_relaxed);
  if (recorded == reached || calls_since(stream, stream.asked_calls) < calls_between_queries) return;
  stream.asked_calls.store(stream.calls.load(std::memory_order_relaxed), std::memory_order_relaxed);
  const auto exchange = state.libraries[stream.library].probing.exchange_mode;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (exchange(&mode) != CUDA_SUCCESS) return;
  if (query_probe(stream, recorded) == CUDA_ERROR_NOT_READY && recorded - reached > 1)
    query_probe(stream, reached + (recorded - reached) / 2);
  exchange(&mode);
}

/// Whether another thread is in a call that submits work, and seems to wait there for room. The driver then
/// lets nobody create or destroy events of that context.
bool another_thread_is_blocked(const ThreadSlot* own) {
  const std::uint64_t now = ticks(), limit = ticks_in(blocked_us);
  for (const ThreadSlot& slot : region->threads) {
    if (slot.thread.load(std::memory_order_relaxed) == 0) return false; // slots are taken in order
    if (&slot == own || slot.inside.load(std::memory_order_acquire) == 0) continue;
    const CallData call = slot.call;
    const Verb verb = call.entry < entry_count ? entry_data[call.entry].verb : Verb::other;
    const bool takes_long = slot.begun < now && now - slot.begun > limit;
    if (submits_work(verb) && (takes_long || finds_nearly_full_queue(call, verb))) return true;
  }
  return false;
}

/// Makes the events of the stream, in its context. The caller holds the lock.
bool create_events(const ThreadSlot* own, Stream& stream) {
  if (another_thread_is_blocked(own)) return false;
  const Library& library = state.libraries[stream.library];
  const auto context = reinterpret_cast<CUcontext>(shown(stream).context);
  CUcontext current = nullptr;
  if (library.current_context(&current) != CUDA_SUCCESS) return false;
  if (current != context && library.trial.push(context) != CUDA_SUCCESS) {
    stream.stopped = true;
    return false;
  }
  stream.creating.store(1, std::memory_order_seq_cst);
  std::size_t count = 0;
  while (count < ring_size &&
         library.trial.create(&stream.events[count], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
    ++count;
  stream.stopped = count < ring_size;
  for (; stream.stopped && count > 0; --count)
    library.trial.destroy(stream.events[count - 1]);
  if (stream.stopped)
    for (CUevent& event : stream.events)
      event = nullptr;
  if (current != context) library.trial.pop(&current);
  stream.creating.store(0, std::memory_order_seq_cst);
  return !stream.stopped;
}

bool is_capturing(const Library& library, const StreamName& name) {
  if (is_default_stream(name.handle)) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return library.is_capturing(reinterpret_cast<CUstream>(name.handle), &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// Who records a probe: a thread of the program, after its submission, or the looker.
struct Prober {
  const ThreadSlot* slot; // null for the looker
  std::uint32_t thread;
};

void tell(const Prober& prober, const Stream& stream, std::uint64_t number) {
  const ProbedStream& told = shown(stream);
  CallData call{};
  call.entry = probe_entry;
  call.count = 4;
  call.thread = prober.thread;
  call.context = told.context;
  call.words[0] = told.handle;
  call.words[1] = number;
  call.words[2] = place_of(stream);
  call.words[3] = prober.slot == nullptr ? 1 : 0;
  record(call);
}

/// Records the next probe, if nothing speaks against it. The caller holds the lock.
void probe_locked(const Prober& prober, Stream& stream, const StreamName& name) {
  if (stream.stopped || !stream.is(name) || cleared_by_fork->captures.are_active()) return;
  const Library& library = state.libraries[stream.library];
  const OwnCalls own(library);
  std::uint64_t begun = ticks();
  if (is_capturing(library, name)) return;
  if (stream.events[0] == nullptr) {
    if (!create_events(prober.slot, stream) || !stream.is(name) || cleared_by_fork->captures.are_active() ||
        is_capturing(library, name)) // that may have taken long
      return;
    begun = ticks();
  }
  ProbedStream& told = shown(stream);
  const std::uint64_t number = told.recorded.load(std::memory_order_relaxed) + 1;
  const auto has_room = [&] {
    const std::uint64_t under_way = number - 1 - told.reached.load(std::memory_order_relaxed);
    return under_way == 0 || (under_way < ring_size && unreached_calls(stream) < nearly_full_queue);
  };
  if (!has_room()) ask_how_far(stream);
  if (!has_room()) return;
  const std::uint64_t calls = stream.calls.load(std::memory_order_relaxed);
  stream.has_work.store(0, std::memory_order_relaxed);
  stream.has_wait.store(0, std::memory_order_relaxed);
  const CUresult result =
      library.trial.record(stream.events[(number - 1) % ring_size], reinterpret_cast<CUstream>(name.handle));
  if (result != CUDA_SUCCESS) {
    told.result.store(static_cast<std::uint32_t>(result), std::memory_order_relaxed);
    stream.stopped = true;
    return;
  }
  stream.calls_at[(number - 1) % ring_size] = calls;
  stream.probed_calls.store(calls, std::memory_order_relaxed);
  told.recorded.store(number, std::memory_order_release);
  if ((region->features & probes) == 0) return; // nobody asks how far the stream is
  tell(prober, stream, number);
  if (prober.slot != nullptr) use_up_one(begun);
}

void probe(const Thread& thread, Stream& stream, const StreamName& name) {
  const TryLocked lock(stream.lock, 0); // else the looker has it, or somebody who probes
  if (lock) probe_locked({thread.slot, thread.number}, stream, name);
}

/// Makes the stream known, if that is possible now. It asks the driver, so it runs before the program's call:
/// afterwards, another thread may destroy the stream.
void know_stream(unsigned library, const CallData& call, Verb verb) {
  StreamName name{};
  if (!name_stream(call, verb, name) || find_stream(name) != nullptr ||
      cleared_by_fork->captures.are_active())
    return;
  CUcontext context = reinterpret_cast<CUcontext>(call.context);
  if (!is_default_stream(name.handle) &&
      state.libraries[library].stream_context(reinterpret_cast<CUstream>(name.handle), &context) !=
          CUDA_SUCCESS)
    return;
  if (context != nullptr) add_stream(name, reinterpret_cast<std::uintptr_t>(context), library);
}

/// The stream of the thread's submissions counts those that are not counted yet.
void count_submissions(Thread& thread) {
  if (thread.uncounted == 0) return;
  if (Stream* const stream =
          find_stream(name_of(thread.uncounted_handle, thread.uncounted_context, thread.number))) {
    stream->has_work.store(1, std::memory_order_relaxed);
    stream->calls.fetch_add(thread.uncounted, std::memory_order_relaxed);
  }
  thread.uncounted = 0;
}

void before_mark(Thread& thread, const CallData& call, Verb verb) {
  count_submissions(thread);
  StreamName name{};
  Stream* const stream = find_stream(call, verb, name);
  if (stream == nullptr) return;
  const bool has_news = stream->has_work.load(std::memory_order_relaxed) != 0 ||
                        (verb == Verb::event_record && stream->has_wait.load(std::memory_order_relaxed) != 0);
  if (has_news && !cleared_by_fork->captures.are_active() && may_probe(thread.slot->begun, long_burst))
    probe(thread, *stream, name);
}

/// After a submission that is due.
void count_and_probe(Thread& thread, const CallData& call, Verb verb) {
  count_submissions(thread);
  StreamName name{};
  Stream* const stream = find_stream(call, verb, name);
  if (stream == nullptr) return;
  const bool late = calls_since(*stream, stream->probed_calls) > long_queue / 2;
  if (may_probe(thread.slot->begun, late ? long_burst : burst)) probe(thread, *stream, name);
  if (unreached_calls(*stream) > long_queue / 2) { // most of them may be done, and nobody has asked
    const TryLocked lock(stream->lock, 0);
    if (lock && stream->is(name) && stream->events[0] != nullptr) ask_how_far(*stream);
  }
  thread.has_long_queue = unreached_calls(*stream) > long_queue;
}

} // namespace

void prepare_probe(Thread& thread, unsigned library, const CallData& call, Verb verb) {
  if (submits_work(verb) &&
      thread.is_due) { // a guess; if it is right, the stream must be known before the call
    thread.no_probe_before = first_tick_of_probe(burst);
    thread.is_due = is_due(thread);
  }
  // Also a stream that gets no probe now, for the looker may have to record one later.
  if (verb == Verb::stream_wait || submits_work(verb)) know_stream(library, call, verb);
  switch (verb) {
  case Verb::event_record:
  case Verb::stream_wait:
  case Verb::value_wait:
  case Verb::stream_query: // the program may ask again and again, and never wait
    return before_mark(thread, call, verb);
  default:
    return leave_streams(thread, call, verb);
  }
}

void leave_streams(const Thread& thread, const CallData& call, Verb verb) {
  switch (verb) {
  case Verb::capture_begin:
  case Verb::capture_into_graph:
    return wait_for_recorders();
  case Verb::stream_destroy:
    if (!is_default_stream(call.words[0]))
      forget_streams({call.words[0], 0, library_limit}, !another_thread_is_blocked(thread.slot));
    return;
  case Verb::context_destroy: // the driver destroys its events
    return forget_streams({0, call.words[0], library_limit}, false);
  case Verb::context_release:
  case Verb::primary_release:
  case Verb::device_reset: // nothing tells which streams end, so all are forgotten; all events are valid yet
    return forget_streams({}, !another_thread_is_blocked(thread.slot));
  default:
    return;
  }
}

void know_stream(unsigned library, const CallData& call) { know_stream(library, call, Verb::work); }

Stream* record_probe(Thread& thread, unsigned library, const CallData& call, std::uint64_t& number) {
  know_stream(library, call);
  return record_probe_behind(thread, call, number);
}

Stream* record_probe_behind(Thread& thread, const CallData& call, std::uint64_t& number) {
  constexpr long patience_us = 50'000; // the looker has the lock for a moment, on a machine that is busy
  StreamName name{};
  Stream* const stream = find_stream(call, Verb::work, name);
  if (stream == nullptr) return nullptr;
  const TryLocked lock(stream->lock, patience_us);
  if (!lock) return nullptr;
  const std::uint64_t before = shown(*stream).recorded.load(std::memory_order_relaxed);
  probe_locked({thread.slot, thread.number}, *stream, name);
  number = shown(*stream).recorded.load(std::memory_order_relaxed);
  return number != before ? stream : nullptr;
}

bool add_late_probe(Stream& stream) {
  const ProbedStream& told = shown(stream);
  const StreamName name{stream.handle.load(std::memory_order_relaxed),
                        stream.context.load(std::memory_order_relaxed),
                        stream.thread.load(std::memory_order_relaxed)};
  // A record on a legacy stream would wait for what other streams have got since. A per-thread stream can be
  // named by its own thread only.
  const std::uint64_t before = told.recorded.load(std::memory_order_relaxed);
  if (name.handle == 0 || is_default_stream(name.handle) ||
      before != told.reached.load(std::memory_order_relaxed) || another_thread_is_blocked(nullptr))
    return false;
  probe_locked({nullptr, thread_number()}, stream, name);
  return told.recorded.load(std::memory_order_relaxed) != before;
}

void note_call(Thread& thread, const CallData& call, Verb verb) {
  const auto note = [&](std::atomic<std::uint32_t> Stream::*what) {
    if (Stream* const stream = find_stream(call, verb)) (stream->*what).store(1, std::memory_order_relaxed);
  };
  if (verb == Verb::stream_wait) return note(&Stream::has_wait);
  start_looker();
  if (cleared_by_fork->captures.are_active()) return note(&Stream::has_work); // it may be a node
  const std::uint64_t handle = stream_of(call, verb);
  const std::uint64_t context = is_default_stream(handle) ? call.context : 0;
  if (handle != thread.uncounted_handle || context != thread.uncounted_context) {
    count_submissions(thread);
    thread.uncounted_handle = handle;
    thread.uncounted_context = context;
  }
  ++thread.uncounted;
  if (thread.is_due) count_and_probe(thread, call, verb);
}

} // namespace watch
