// SPDX-License-Identifier: MIT
// The functions that stand in front of the driver's. Each calls the driver's with the same arguments,
// returns its result, and records the call.

#include "auditor/costs.hpp"
#include "auditor/graph_events.hpp"
#include "auditor/host_guards.hpp"
#include "auditor/kernel_names.hpp"
#include "auditor/pending_sources.hpp"
#include "auditor/pinned_memory.hpp"
#include "auditor/plain_launches.hpp"
#include "auditor/probes.hpp"
#include "auditor/recorder.hpp"
#include "auditor/stacks.hpp"
#include "auditor/state.hpp"
#include "auditor/tick_rate.hpp"
#include "protocol/ticks.hpp"
#include "protocol/words.hpp"

#include <cstring>

namespace watch {

namespace {

std::uint64_t current_context(const Library& library) {
  CUcontext context = nullptr;
  library.current_context(&context);
  cleared_by_fork->context.note(reinterpret_cast<std::uintptr_t>(context));
  return reinterpret_cast<std::uintptr_t>(context);
}

/// Whether an event of the context `home` can be recorded in another place: in the same context, or on the
/// same device from a primary to a green context and back. An interprocess event can be waited for there, and
/// only there. No query tells which contexts are green, so this tries it.
template <class Record>
bool can_record(const Library& library, CUcontext home, Record record) {
  const OwnCalls own(library);
  unsigned long long id = 0;
  if (library.trial.context_id == nullptr || library.trial.context_id(home, &id) != CUDA_SUCCESS) return true;
  if (library.trial.push(home) != CUDA_SUCCESS) return true;
  CUevent event = nullptr;
  const CUresult created = library.trial.create(&event, CU_EVENT_DISABLE_TIMING);
  CUcontext popped = nullptr;
  library.trial.pop(&popped);
  if (created != CUDA_SUCCESS) return true; // the driver will say why
  const CUresult result = record(event);
  library.trial.destroy(event);
  return result != CUDA_ERROR_INVALID_HANDLE;
}

/// Whether the driver would crash: an interprocess event, and a stream or context where it cannot be waited
/// for, which is not capturing.
bool must_refuse(const Library& library, const CallData& call, Verb verb, bool is_green) {
  if (verb != Verb::stream_wait && verb != Verb::context_wait) return false;
  const auto event = reinterpret_cast<CUevent>(call.words[1]);
  const CUcontext home = context_of_interprocess_event(event);
  if (home == nullptr) return false;
  if (verb == Verb::context_wait) {
    if (is_green) {
      const auto green = reinterpret_cast<GreenContext*>(call.words[0]);
      return !can_record(library, home,
                         [&](CUevent tried) { return library.trial.record_green_context(green, tried); });
    }
    const auto context = reinterpret_cast<CUcontext>(call.words[0]);
    return context != home && !can_record(library, home, [&](CUevent tried) {
             return library.trial.record_context(context, tried);
           });
  }
  if (call.words[2] != 0) return false; // the driver refuses other flags itself
  const auto stream = reinterpret_cast<CUstream>(call.words[0]);
  CUcontext context = nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return library.stream_context(stream, &context) == CUDA_SUCCESS && context != nullptr && context != home &&
         library.is_capturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE &&
         !can_record(library, home, [&](CUevent tried) { return library.trial.record(tried, stream); });
}

template <Verb verb>
void keep_interprocess_events(const CallData& call) {
  if constexpr (verb != Verb::event_create && verb != Verb::event_open) return;
  const auto event = reinterpret_cast<CUevent>(call.words[0]);
  remove_interprocess_event(event); // one that ended with its context may have had the same address
  if (verb == Verb::event_create ? (call.words[1] & CU_EVENT_INTERPROCESS) != 0
                                 : entry_data[call.entry].has(opens_event))
    add_interprocess_event(event, reinterpret_cast<CUcontext>(call.context));
}

bool has_feature(Feature feature) { return (region->features & feature) != 0; }

/// Whether only failed calls are recorded.
template <Verb verb>
bool is_unrecorded() {
  if (verb == Verb::memory_make || verb == Verb::capture_change || changes_graph(verb))
    return !has_feature(memory_use);
  if (verb == Verb::capture_ask) return false; // only those for streams that are gone come here
  return verb == Verb::other || verb == Verb::initialize || is_question(verb) || verb == Verb::memory_free;
}

/// Whether a submission may block its thread.
template <Verb verb>
bool may_block(const Thread& thread, const CallData& call) {
  if constexpr (!submits_work(verb)) return false;
  const bool is_launch = verb == Verb::work && call.count > 1 && call.words[1] != 0;
  return (is_launch && cleared_by_fork->first_launches.note(call.words[1])) || thread.has_long_queue;
}

constexpr bool uses_memory(Verb verb) {
  return verb == Verb::work || verb == Verb::copy || verb == Verb::memory_make || verb == Verb::memory_free ||
         changes_graph(verb);
}

/// Whether a report on a hang names the place of the call: the thread may stand still in it, or the stream.
template <Verb verb>
constexpr bool may_hang = may_wait(verb) || verb == Verb::name_function || verb == Verb::value_wait;

/// Kernels and copies are many, so they get stacks only while something is captured, when each makes a node,
/// if they may block their thread, and if findings may name them.
template <Verb verb>
bool wants_stack(const Thread& thread, const CallData& call) {
  if (region->stacks != Stacks::usual) [[unlikely]]
    return region->stacks == Stacks::all;
  const bool is_rare = is_question(verb) || (verb == Verb::copy ? has_feature(blocking_calls)
                                                                : !is_work(verb) && !is_unrecorded<verb>());
  return is_rare || cleared_by_fork->captures.are_active() ||
         (has_feature(probes) && (may_hang<verb> || may_block<verb>(thread, call))) ||
         (uses_memory(verb) && has_feature(memory_use));
}

/// Perhaps because its memory was freed.
template <std::size_t Index>
constexpr bool is_refused_for_memory(CUresult result) {
  constexpr Work work = entry_data[Index].work;
  return (work == Work::copy || work == Work::fill) && result == CUDA_ERROR_INVALID_VALUE;
}

/// Whether the Python frames of the thread may be wanted during the call.
template <Verb verb>
bool offers_frames(const CallData& call) {
  if constexpr (!offers_python_frames(verb)) return false;
  // A copy waits if the host's memory is not pinned.
  const bool is_copy = verb == Verb::work && call.words[1] == 0;
  return (can_block(verb) || is_copy || call.stack != 0) && has_feature(probes);
}

template <Verb verb>
void number_launches(CallData& call) {
  if constexpr (verb == Verb::graph_launch) {
    call.words[2] = count_launch(call.words[0]);
    call.count = 3;
  } else if constexpr (verb == Verb::graph_instantiate) {
    forget_launches(call.words[0]); // one that ended with its context may have had the same address
  }
}

/// Ends a context, and with it the events of probes there, and its memory.
constexpr bool ends_events(Verb verb) {
  return verb == Verb::context_destroy || verb == Verb::context_release || verb == Verb::primary_release ||
         verb == Verb::device_reset;
}

/// Before calls that end what is looked at, or wait. With Feature::probes, probe_before leaves the streams.
template <Verb verb>
void end_looks_at_sources(const Thread& thread, const CallData& call) {
  if constexpr (ends_events(verb)) forget_pinned_of(verb == Verb::context_destroy ? call.words[0] : 0);
  if constexpr (ends_events(verb) || verb == Verb::stream_destroy || begins_capture(verb))
    if (!has_feature(probes)) leave_streams(thread, call, verb);
  if constexpr (can_block(verb)) look_at_sources_before(call);
}

/// What the caller does before the driver's function. Not inline: the entries of a verb share this code.
template <Verb verb>
[[gnu::noinline, gnu::hot]] void begin(Thread& thread, unsigned library, CallData& call,
                                       std::uintptr_t address, std::uintptr_t above) {
  call.thread = thread.number;
  if (depends_on_context(call, verb)) {
    if constexpr (is_work(verb)) call.context = cleared_by_fork->context.get();
    if (call.context == 0) call.context = current_context(state.libraries[library]);
  }
  if (wants_stack<verb>(thread, call)) [[unlikely]]
    call.stack = stack_number(thread, address, above, region->overwrites == 0);
  if constexpr (verb == Verb::event_destroy)
    remove_interprocess_event(reinterpret_cast<CUevent>(call.words[0]));
  if constexpr (verb == Verb::stream_destroy) cleared_by_fork->gone_streams.add(call.words[0]);
  if (offers_frames<verb>(call)) [[unlikely]]
    offer_python_frames(thread);
  if constexpr (verb == Verb::memory_make)
    if (has_feature(memory_use)) observe_torch_allocator();
  thread.slot->begun = ticks();
  begin_call(thread, call);
  if constexpr (begins_capture(verb)) count_capture_before();
  if (has_feature(jitter)) [[unlikely]] {
    if constexpr (begins_capture(verb)) wait_for_holders();
    if constexpr (may_wait(verb)) begin_waiting();
    if constexpr (submits_work(verb)) hold_back(thread, library, call, verb, address, above);
  }
  if (has_feature(memory_use)) [[unlikely]]
    end_looks_at_sources<verb>(thread, call);
  if (!has_feature(probes)) return;
  if constexpr (verb == Verb::exec_destroy) forget_launches(call.words[0]);
  probe_before<verb>(thread, library, call);
}

/// A handle that is destroyed may belong to another object as soon as the driver has it back.
constexpr bool is_recorded_before(Verb verb) {
  return verb == Verb::event_destroy || verb == Verb::stream_destroy || verb == Verb::graph_destroy ||
         verb == Verb::exec_destroy || verb == Verb::context_destroy;
}

/// Contexts get words when they are made, and never later.
template <Verb verb>
void end_jitter(Thread& thread, unsigned library, const CallData& call, CUresult result) {
  if constexpr (may_wait(verb)) end_waiting();
  if (result != CUDA_SUCCESS) return;
  if constexpr (submits_work(verb)) wait_for_submission(thread, library, call, verb);
  if constexpr (verb == Verb::primary_retain)
    give_words(library, call.words[0], static_cast<int>(call.words[1]));
  if constexpr (verb == Verb::context_create) give_words(library, call.words[0], -1);
  if constexpr (verb == Verb::stream_destroy) forget_held_stream(call.words[0]);
  if constexpr (verb == Verb::context_destroy || verb == Verb::context_release) forget_words(call.words[0]);
  if constexpr (verb == Verb::device_reset || verb == Verb::primary_release)
    forget_primary_words(library, static_cast<int>(call.words[0]));
}

template <Verb verb>
[[gnu::noinline, gnu::hot]] void end(Thread& thread, unsigned library, CallData& call, CUresult result,
                                     std::uintptr_t address, std::uintptr_t above) {
  call.result = static_cast<std::uint32_t>(result);
  const bool has_offered = offers_frames<verb>(call);
  const bool failed = result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
  // Perhaps it failed because another context is current, or none.
  if (failed && (result == CUDA_ERROR_INVALID_CONTEXT || (is_work(verb) && depends_on_context(call, verb))))
      [[unlikely]]
    call.context = current_context(state.libraries[library]);
  if (failed && region->stacks != Stacks::none && (call.stack == 0 || region->overwrites != 0)) [[unlikely]]
    call.stack = stack_number(thread, address, above, true);
  if constexpr (can_block(verb)) call.words[3] = ticks() - thread.slot->begun;
  end_call(thread);
  if (has_feature(jitter)) [[unlikely]]
    end_jitter<verb>(thread, library, call, result);
  if (has_offered) [[unlikely]]
    withdraw_python_frames(thread);
  if constexpr (changes_captures(verb)) count_capture_after(verb, result, call.words[0]);
  const bool probed = has_feature(probes) && result == CUDA_SUCCESS;
  if (probed) number_launches<verb>(call);
  if (failed || (!is_unrecorded<verb>() && !is_recorded_before(verb))) record(call);
  if constexpr (verb == Verb::stream_create || verb == Verb::stream_create_green)
    cleared_by_fork->gone_streams.remove(call.words[0]);
  if constexpr (verb == Verb::stream_destroy)
    if (failed) cleared_by_fork->gone_streams.remove(call.words[0]);
  if (!failed) keep_interprocess_events<verb>(call);
  if constexpr (verb == Verb::context_create || verb == Verb::primary_retain)
    if (!failed) cleared_by_fork->context.note(call.words[0]);
  if (probed) probe_after<verb>(thread, call);
}

/// A call has failed that nobody has looked at before.
[[gnu::noinline, gnu::cold]] void record_refusal(unsigned library, CallData& call, CUresult result,
                                                 std::uintptr_t address, std::uintptr_t above) {
  Thread* const thread = this_thread();
  if (thread == nullptr) return;
  call.thread = thread->number;
  call.result = static_cast<std::uint32_t>(result);
  call.context = current_context(state.libraries[library]);
  if (region->stacks != Stacks::none) call.stack = stack_number(*thread, address, above, true);
  record(call);
}

/// How long the call took that has just returned. `what` is as spent_entry says.
[[gnu::noinline, gnu::cold]] void record_spent(Thread& thread, CallData& call, std::uint64_t taken,
                                               std::uint64_t what, std::uintptr_t address,
                                               std::uintptr_t above) {
  if (call.stack == 0 && region->stacks != Stacks::none)
    call.stack = stack_number(thread, address, above, true);
  CallData spent = call;
  spent.entry = spent_entry;
  spent.count = 2;
  spent.words[0] = call.entry | taken << 16U;
  spent.words[1] = what;
  record(spent);
}

template <class Found, class Library>
void name_found_kernel(Found* found, Library, const char* name) {
  name_kernel(reinterpret_cast<std::uintptr_t>(*found), name);
}
void name_found_kernel(CUfunction* found, CUkernel kernel) {
  copy_kernel_name(reinterpret_cast<std::uintptr_t>(kernel), reinterpret_cast<std::uintptr_t>(*found));
}

template <unsigned Copy, std::size_t Index, bool PerThread, class Signature>
struct Hook;

template <unsigned Copy, std::size_t Index, bool PerThread, class... Arguments>
struct Hook<Copy, Index, PerThread, CUresult(Arguments...)> {
  static constexpr Verb verb = entry_data[Index].verb;
  static_assert(verb == Verb::work || verb == Verb::value_wait || verb == Verb::value_write ||
                are_named_as_recorded<Arguments...>(entry_data[Index].words));
  // Another function may get the handle of one that is gone.
  static constexpr bool ends_functions = ends_events(verb) || entry_data[Index].has(ends_code);
  static constexpr bool asks_for_gone_streams =
      verb == Verb::capture_ask || verb == Verb::stream_ask || entry_data[Index].work == Work::other;
  static constexpr bool makes_green_context = (std::is_same_v<Arguments, GreenContext**> || ...);
  static constexpr bool is_green = (std::is_same_v<Arguments, GreenContext*> || ...);
  /// Of the first copy of libcuda, which is the only one in most programs.
  static constexpr bool is_launch = Copy == 0 && requires(Arguments... arguments) {
    launch_of<PerThread>(arguments...);
  };
  /// A plain launch finds its code in one page of memory.
  static constexpr std::size_t alignment = is_launch ? 1024 : 16;

  [[gnu::aligned(alignment)]] static CUresult CUDAAPI call(Arguments... arguments) {
    const auto address = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    const auto above = reinterpret_cast<std::uintptr_t>(__builtin_dwarf_cfa());
    if constexpr (is_launch)
      return record_if_plain(address, above, arguments...);
    else if constexpr (verb == Verb::brief || verb == Verb::name_function)
      return record_if_refused(address, above, arguments...);
    else
      return watch(address, above, arguments...);
  }

private:
  [[gnu::always_inline]] static CUresult record_if_plain(std::uintptr_t address, std::uintptr_t above,
                                                         Arguments... arguments) {
    Thread& thread = current_thread;
    const LaunchWords launch = launch_of<PerThread>(arguments...);
    const std::uint64_t context = is_default_stream(launch.stream) ? cleared_by_fork->context.get() : 0;
    if (!is_plain(thread, launch, context)) [[unlikely]]
      return watch_apart(address, above, arguments...);
    // From registers to both places: a copy of what was just stored would wait for the store.
    const auto write = [=, number = thread.number](CallData& place) {
      const std::uint64_t head = Index | std::uint64_t{PerThread ? per_thread : 0} << 16U | 2ULL << 24U |
                                 std::uint64_t{number} << 32U;
      std::memcpy(&place, &head, sizeof head);
      place.result = place.stack = 0;
      place.context = context;
      place.words[0] = launch.stream;
      place.words[1] = launch.function;
    };
    write(thread.slot->call);
    thread.slot->inside.store(1, std::memory_order_release);
    const CUresult result = function()(arguments...);
    if (result != CUDA_SUCCESS) [[unlikely]] {
      end_failed(thread, result, address, above, arguments...);
      return result;
    }
    end_call(thread);
    record_launch(thread, write);
    ++thread.uncounted; // without probes, nobody looks at it
    return result;
  }

  [[gnu::noinline]] static void end_failed(Thread& thread, CUresult result, std::uintptr_t address,
                                           std::uintptr_t above, Arguments... arguments) {
    CallData made = call_data(arguments...);
    made.marks |= mark_of_null_handle(arguments...);
    made.thread = thread.number;
    end<verb>(thread, Copy, made, result, address, above);
  }

  [[gnu::always_inline]] static CUresult record_if_refused(std::uintptr_t address, std::uintptr_t above,
                                                           Arguments... arguments) {
    if constexpr (verb == Verb::name_function) // it may load code, so a report of a hang shows it
      if (Thread* const thread = this_thread(); thread != nullptr && has_feature(probes)) [[unlikely]]
        return look_up(*thread, address, above, arguments...);
    const CUresult result = function()(arguments...);
    if (result != CUDA_SUCCESS) [[unlikely]]
      record_refusal_of(result, address, above, arguments...);
    return result;
  }

  [[gnu::noinline]] static CUresult look_up(Thread& thread, std::uintptr_t address, std::uintptr_t above,
                                            Arguments... arguments) {
    CallData lookup = call_data(arguments...);
    begin<verb>(thread, Copy, lookup, address, above);
    const CUresult result = function()(arguments...);
    end_call(thread);
    if (result != CUDA_SUCCESS)
      record_refusal_of(result, address, above, arguments...);
    else
      keep_name(arguments...);
    return result;
  }

  [[gnu::noinline, gnu::cold]] static void record_refusal_of(CUresult result, std::uintptr_t address,
                                                             std::uintptr_t above, Arguments... arguments) {
    CallData made = call_data(arguments...);
    made.marks |= mark_of_null_handle(arguments...);
    record_refusal(Copy, made, result, address, above);
  }

  [[gnu::noinline, gnu::hot]] static CUresult watch_apart(std::uintptr_t address, std::uintptr_t above,
                                                          Arguments... arguments) {
    return watch(address, above, arguments...);
  }

  static auto function() {
    return reinterpret_cast<CUresult(CUDAAPI*)(Arguments...)>(
        state.libraries[Copy].functions[Index][PerThread]);
  }

  /// Whether the call names a stream that was destroyed. Only some calls ask: others are recorded anyway.
  static bool is_stream_gone([[maybe_unused]] Arguments... arguments) {
    if (cleared_by_fork == nullptr) return false;
    [[maybe_unused]] const auto is_gone = [](auto argument) {
      if constexpr (std::is_same_v<decltype(argument), CUstream>)
        return cleared_by_fork->gone_streams.have(reinterpret_cast<std::uintptr_t>(argument));
      return false;
    };
    return (is_gone(arguments) || ...);
  }

  static CUresult watch(std::uintptr_t address, std::uintptr_t above, Arguments... arguments) {
    const Library& library = state.libraries[Copy];
    const bool is_gone = asks_for_gone_streams && is_stream_gone(arguments...);
    if (verb == Verb::capture_ask && !is_gone)
      return record_if_refused(address, above, arguments...); // some programs ask often
    Thread* const thread = this_thread();
    if (thread == nullptr) {
      if constexpr (entry_data[Index].has(makes_context)) cleared_by_fork->context.note(several_contexts);
      if constexpr (ends_events(verb)) forget_streams({}, false);
      // Not only with Feature::memory_use: there may be no region.
      if constexpr (ends_events(verb) || verb == Verb::memory_free)
        if (cleared_by_fork != nullptr) forget_pinned_of(0);
      give_back_all();
      return function()(arguments...);
    }
    CallData made = call_data(arguments...);
    if (is_gone && region->stacks != Stacks::none) [[unlikely]]
      made.stack = stack_number(*thread, address, above, region->overwrites == 0);
    begin<verb>(*thread, Copy, made, address, above);
    if constexpr (is_recorded_before(verb)) record(made);
    if constexpr (uses_memory(verb))
      if (has_feature(memory_use)) [[unlikely]] {
        tell_freed({library, made}, arguments...);
        if constexpr (verb == Verb::memory_free) record(made);
      }
    // The host may know of the work, and go on, before this thread does.
    if constexpr (verb == Verb::value_write ||
                  (verb == Verb::work && speaks_with_host(entry_data[Index].work)))
      if (has_feature(memory_use)) [[unlikely]]
        tell_host_will_know({library, made});
    // Before the call, which does not return if an event of the graph was destroyed.
    if constexpr (verb == Verb::graph_instantiate || verb == Verb::exec_update)
      record_graph_events(library, made);
    if constexpr (verb == Verb::stream_wait || verb == Verb::context_wait) {
      if (must_refuse(library, made, verb, is_green)) {
        made.marks |= Mark::refused;
        end<verb>(*thread, Copy, made, CUDA_ERROR_INVALID_HANDLE, address, above);
        return CUDA_ERROR_INVALID_HANDLE;
      }
    }
    if constexpr (ends_functions)
      forget_parameters(); // and again later, in case that another thread launches
    [[maybe_unused]] SourceProbe source;
    if constexpr (is_copy_on_stream)
      if (has_feature(memory_use)) [[unlikely]]
        source = begin_source(*thread, Copy, made, source_of(arguments...));
    [[maybe_unused]] GuardedTarget target;
    if constexpr (is_copy_on_stream)
      if (has_feature(host_uses)) [[unlikely]]
        target = begin_target(Copy, made, target_of(arguments...));
    const CUresult result = call_driver(*thread, made, address, above, arguments...);
    [[maybe_unused]] std::uint64_t number_of_source = 0;
    if constexpr (is_copy_on_stream)
      if (result == CUDA_SUCCESS) {
        number_of_source = note_source(source, made);
        note_target(*thread, target, made);
      }
    if constexpr (can_end_copies(verb))
      if (result == CUDA_SUCCESS && has_feature(host_uses)) [[unlikely]]
        give_back_reached();
    if constexpr (verb == Verb::initialize)
      if (result == CUDA_SUCCESS) state.initialized.store(1, std::memory_order_relaxed);
    if constexpr (makes_green_context) cleared_by_fork->context.note(several_contexts);
    if (verb != Verb::work && result == CUDA_SUCCESS) {
      [[maybe_unused]] std::uint8_t index = 0;
      (add_result(made, index, arguments), ...);
    }
    if (result != CUDA_SUCCESS) [[unlikely]]
      made.marks |= mark_of_null_handle(arguments...);
    if constexpr (has_cost)
      if (result == CUDA_SUCCESS && has_feature(costs)) [[unlikely]]
        tell_cost(*thread, library, made, address, above, arguments...);
    if constexpr (uses_memory(verb))
      if ((result == CUDA_SUCCESS || is_refused_for_memory<Index>(result)) && has_feature(memory_use))
          [[unlikely]]
        tell_memory({library, made}, arguments...);
    if constexpr (ends_functions) forget_parameters();
    end<verb>(*thread, Copy, made, result, address, above);
    if constexpr (is_copy_on_stream)
      if (has_feature(host_uses)) [[unlikely]] {
        guard_target(target);
        guard_source(source, number_of_source);
      }
    if (verb == Verb::stream_ask && is_gone && result == CUDA_SUCCESS) [[unlikely]]
      record(made);
    return result;
  }

  /// The program may know then that copies are done.
  static constexpr bool can_end_copies(Verb called) {
    return may_wait(called) || called == Verb::event_query || called == Verb::stream_query ||
           called == Verb::event_elapsed;
  }
  static constexpr bool is_copy_on_stream = verb == Verb::work && entry_data[Index].work == Work::copy;
  static constexpr bool has_cost =
      verb == Verb::memory_make || verb == Verb::memory_free || is_copy_on_stream;

  [[gnu::noinline, gnu::cold]] static void tell_cost(Thread& thread, const Library& library, CallData& made,
                                                     std::uintptr_t address, std::uintptr_t above,
                                                     Arguments... arguments) {
    const std::uint64_t taken = ticks() - thread.slot->begun;
    if constexpr (is_copy_on_stream) {
      if (taken > ticks_in(shortest_wait_us) && copies_pageable(library, arguments...))
        record_spent(thread, made, taken, 1, address, above);
    } else if constexpr (has_cost) {
      record_spent(thread, made, taken, memory_of(arguments...), address, above);
    }
  }

  static CUresult call_driver([[maybe_unused]] Thread& thread, [[maybe_unused]] CallData& made,
                              [[maybe_unused]] std::uintptr_t address, [[maybe_unused]] std::uintptr_t above,
                              Arguments... arguments) {
    if constexpr (verb == Verb::work && entry_data[Index].work == Work::host)
      // A node keeps the function, and tells the program which one it is.
      if (has_feature(costs) && !cleared_by_fork->captures.are_active()) [[unlikely]] {
        if (made.stack == 0 && region->stacks != Stacks::none)
          made.stack = stack_number(thread, address, above, true);
        if (HostFunction* const place = take_host_function(made)) {
          const CUresult result = submit_measured(*place, arguments...);
          if (result != CUDA_SUCCESS) give_back(place);
          return result;
        }
      }
    return function()(arguments...);
  }

  template <class... More>
  static CUresult submit_measured(HostFunction& place, CUstream stream, CUhostFn function_of_program,
                                  void* data, More... more) {
    place.function = function_of_program;
    place.data = data;
    return function()(stream, function_of_program == nullptr ? nullptr : &run_host_function, &place, more...);
  }
  static CUresult submit_measured(HostFunction& place, CUstream stream, CUstreamCallback callback, void* data,
                                  unsigned flags) {
    place.callback = callback;
    place.data = data;
    return function()(stream, callback == nullptr ? nullptr : &run_stream_callback, &place, flags);
  }

  /// Complete but for the thread, the context and the stack.
  [[gnu::always_inline]] static inline CallData call_data(Arguments... arguments) {
    CallData call{static_cast<std::uint16_t>(Index),
                  static_cast<std::uint8_t>(PerThread ? per_thread : 0),
                  0,
                  0,
                  0,
                  0,
                  0,
                  {}};
    if constexpr (verb == Verb::work) {
      add_words_of_work<PerThread>(call, arguments...);
    } else if constexpr (verb == Verb::value_wait || verb == Verb::value_write) {
      add_words_of_memory_operation<PerThread>(call, arguments...);
    } else {
      (add_word<PerThread>(call, arguments), ...);
      (add_event_of_node(call, arguments), ...);
    }
    return call;
  }

  static void keep_name(Arguments... arguments) {
    if constexpr (verb == Verb::name_function) name_found_kernel(arguments...);
  }

  /// cuGraphAddNode: the event of CUgraphNodeParams, which the headers of CUDA 12.0 lack. The type of the
  /// node comes first, and its parameters begin 16 bytes later.
  template <class T>
  static void add_event_of_node(CallData& call, T argument) {
    if constexpr (std::is_same_v<T, NodeParameters*>) {
      const auto* const bytes = reinterpret_cast<const unsigned char*>(argument);
      if (bytes == nullptr) return;
      const int type = *reinterpret_cast<const int*>(bytes);
      const void* const parameter = *reinterpret_cast<void* const*>(bytes + 16);
      const bool has_event = type == CU_GRAPH_NODE_TYPE_WAIT_EVENT || type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
      add(call, has_event ? reinterpret_cast<std::uintptr_t>(parameter) : 0);
      add(call, static_cast<std::uint32_t>(type));
    }
  }
};

/// cuGetProcAddress, whose result is replaced too.
template <unsigned Copy, std::size_t Index, class... More>
struct Lookup {
  static CUresult CUDAAPI call(const char* name, void** result, int version, cuuint64_t flags, More... more) {
    const auto function = reinterpret_cast<CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t, More...)>(
        state.libraries[Copy].functions[Index][0]);
    const CUresult code = function(name, result, version, flags, more...);
    if (code != CUDA_SUCCESS || name == nullptr || result == nullptr || *result == nullptr) return code;
    if (void* const hook = hook_for_lookup(Copy, name, flags, *result)) *result = hook;
    return code;
  }
};

template <unsigned Copy, std::size_t Index, class Signature>
struct HookOf {
  static void* of(bool per_thread_variant) {
    constexpr bool has_variant = entry_data[Index].suffix != nullptr;
    return per_thread_variant ? reinterpret_cast<void*>(&Hook<Copy, Index, has_variant, Signature>::call)
                              : reinterpret_cast<void*>(&Hook<Copy, Index, false, Signature>::call);
  }
};
template <unsigned Copy, std::size_t Index, class... More>
struct HookOf<Copy, Index, CUresult(const char*, void**, int, cuuint64_t, More...)> {
  static void* of(bool) { return reinterpret_cast<void*>(&Lookup<Copy, Index, More...>::call); }
};

template <unsigned Copy, class... Signatures, std::size_t... Index>
void* hook_in_copy(std::size_t entry, bool per_thread_variant, const EntryList<Signatures...>&,
                   std::index_sequence<Index...>) {
  using Maker = void* (*)(bool);
  static constexpr Maker makers[] = {&HookOf<Copy, Index, Signatures>::of...};
  return makers[entry](per_thread_variant);
}

} // namespace

void* hook_of(unsigned library, std::size_t entry, bool per_thread_variant) {
  constexpr std::make_index_sequence<entry_count> all;
  switch (library) {
  case 0:
    return hook_in_copy<0>(entry, per_thread_variant, entries, all);
  case 1:
    return hook_in_copy<1>(entry, per_thread_variant, entries, all);
  case 2:
    return hook_in_copy<2>(entry, per_thread_variant, entries, all);
  default:
    return hook_in_copy<3>(entry, per_thread_variant, entries, all);
  }
}

static_assert(library_limit == 4);

} // namespace watch
