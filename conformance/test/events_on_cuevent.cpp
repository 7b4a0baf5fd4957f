// SPDX-License-Identifier: MIT
#include "events_on_cuevent.hpp"

#include "program_event.hpp"
#include "program_pools.hpp"

#include <cuevent/ipc.hpp>
#include <cuevent/retired_events.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

namespace on_cuevent {
namespace {

using cuevent::Context;
using cuevent::DriverEvent;
using cuevent::EventRef;
using cuevent::PooledEvent;
using cuevent::RecordFlags;
using cuevent::WaitFlags;

std::map<CUevent, ProgramEvent> events; // by the program's name
std::uint64_t turn = 0;
long leases = 0, leases_of_new_events = 0;

/// The event with that name, or an empty one.
ProgramEvent& event_of(CUevent name) {
  static ProgramEvent empty;
  const auto found = events.find(name);
  return found != events.end() ? found->second : empty;
}

/// What the driver has to be given for that name.
CUevent handle_of(CUevent name) {
  const auto found = events.find(name);
  return found != events.end() ? found->second.handle() : name;
}

/// Bits that mean something else to cuevent than to the driver: `timing`, `external_in_capture`.
bool has_own_bits(unsigned flags) { return (flags & 0xf00) != 0; }

CUresult create_lease(CUevent* out, unsigned flags, Pools from) {
  CUevent stand_in = nullptr;
  const CUresult expected = plain.EventCreate(&stand_in, flags);
  PooledEvent lease;
  asked = {};
  const CUresult result = with_the_same_context("acquire", [&] { return acquire(lease, flags, from); });
  if (result != expected) report("acquire", "not what the driver answers for a new event", result);
  if (asked.calls > 1) report("acquire", "the driver was asked more than once", result);
  if (!lease) {
    if (stand_in != nullptr) plain.EventDestroy(stand_in);
    return result;
  }
  ++leases;
  leases_of_new_events += asked.calls;
  ProgramEvent event(std::move(lease), stand_in);
  if (turn % 3 == 0) event.share();
  has_to_refuse("query of an unrecorded lease", CUDA_ERROR_INVALID_HANDLE,
                [&] { return event.lease().try_query(); });
  *out = stand_in;
  events.emplace(stand_in, std::move(event));
  return result;
}

CUresult CUDAAPI create(CUevent* out, unsigned flags) {
  if (out == nullptr || has_own_bits(flags)) return plain.EventCreate(out, flags);
  // A record of an interprocess event comes after a pending record by the user before, so a program would
  // not get the answers of a new event. Pools of such events are for programs that know their users.
  const std::uint64_t kind = (flags & CU_EVENT_INTERPROCESS) != 0 ? 0 : ++turn % 5;
  if (kind == 1 || kind == 2) return create_lease(out, flags, Pools::of_a_context);
  if (kind == 3 || kind == 4) return create_lease(out, flags, Pools::of_all_contexts);
  DriverEvent event;
  const CUresult result = both(
      "cuEventCreate", nullptr, [&] { return DriverEvent::try_create(event, current(), flags_of(flags)); },
      [&] { return plain.EventCreate(out, flags); });
  if (!event) return result;
  *out = event.native_handle();
  events.emplace(*out, ProgramEvent(std::move(event)));
  return result;
}

CUresult CUDAAPI destroy(CUevent name) {
  const auto found = events.find(name);
  if (found == events.end() || found->second.stand_in() == nullptr) {
    const CUresult result = both(
        "cuEventDestroy", name, [&] { return event_of(name).own().try_close(); },
        [&] { return plain.EventDestroy(name); });
    if (result == CUDA_SUCCESS) events.erase(name);
    return result;
  }
  const int calls = found->second.leased() ? 0 : 1; // the end of a lease asks nothing
  asked = {};
  with_the_same_context("the end of a lease", [&] { return events.erase(found); });
  if (asked.calls != calls) report("the end of a lease", "the driver was asked", asked.result);
  return plain.EventDestroy(name);
}

/// After a plain record, which the lease does not see. cuevent had refused to make it.
CUresult recorded_plainly(ProgramEvent& event, CUresult result) {
  if (result == CUDA_SUCCESS && event.leased()) event.mark_recorded();
  return result;
}

CUresult record(const char* call, CUevent name, CUstream stream, unsigned flags) {
  if (has_own_bits(flags)) return plain.EventRecordWithFlags(handle_of(name), stream, flags);
  ProgramEvent& event = event_of(name);
  const auto how = RecordFlags(flags);
  if (event.leased() && flags != 0) {
    has_to_refuse(call, CUDA_ERROR_NOT_SUPPORTED, [&] { return event.lease().try_record(stream, how); });
    event.keep_for_a_graph();
    if (event.leased()) return plain.EventRecordWithFlags(event.handle(), stream, flags);
  }
  if (event.leased()) {
    const EventRef lease = event.lease();
    const CUevent handle = lease.native_handle();
    return both(
        call, handle,
        [&] {
          return is_default(stream) ? lease.try_record({current(), stream}, how)
                                    : lease.try_record(stream, how);
        },
        [&] { return recorded_plainly(event, plain.EventRecordWithFlags(handle, stream, flags)); });
  }
  DriverEvent& own = event.own();
  return both(
      call, own.native_handle(),
      [&] {
        return is_default(stream) ? own.try_record({current(), stream}, how) : own.try_record(stream, how);
      },
      [&] { return plain.EventRecordWithFlags(own ? own.native_handle() : name, stream, flags); });
}

CUresult CUDAAPI record_plainly(CUevent event, CUstream stream) {
  return record("cuEventRecord", event, stream, 0);
}
CUresult CUDAAPI record_with_flags(CUevent event, CUstream stream, unsigned flags) {
  return record("cuEventRecordWithFlags", event, stream, flags);
}

/// Makes a call with an event through the lease or through the DriverEvent.
template <class Call, class Plain>
CUresult ask(const char* call, CUevent name, const Call& make, const Plain& plainly) {
  const ProgramEvent& event = event_of(name);
  const CUevent handle = handle_of(name);
  if (event.leased() && !event.recorded()) {
    has_to_refuse(call, CUDA_ERROR_INVALID_HANDLE, [&] { return make(event.lease()); });
    return plainly(handle);
  }
  return both(
      call, handle, [&] { return event.leased() ? make(event.lease()) : make(event.event()); },
      [&] { return plainly(handle); });
}

CUresult CUDAAPI wait(CUstream stream, CUevent name, unsigned flags) {
  const auto plainly = [&](CUevent handle) { return plain.StreamWaitEvent(stream, handle, flags); };
  if (has_own_bits(flags)) return plainly(handle_of(name));
  ProgramEvent& event = event_of(name);
  const auto how = WaitFlags(flags);
  const auto make = [&](const auto& one) {
    return is_default(stream) ? one.try_wait({current(), stream}, how) : one.try_wait(stream, how);
  };
  if (event.leased() && flags != 0) {
    const CUresult refusal = event.recorded() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_HANDLE;
    has_to_refuse("cuStreamWaitEvent", refusal, [&] { return event.lease().try_wait(stream, how); });
    event.keep_for_a_graph();
    if (event.leased()) return plainly(event.handle());
  }
  return ask("cuStreamWaitEvent", name, make, plainly);
}

CUresult CUDAAPI query(CUevent name) {
  return ask(
      "cuEventQuery", name, [](const auto& event) { return event.try_query(); }, plain.EventQuery);
}

CUresult CUDAAPI synchronize(CUevent name) {
  return ask(
      "cuEventSynchronize", name, [](const auto& event) { return event.try_synchronize(); },
      plain.EventSynchronize);
}

/// What elapsed_time takes: a reference to a lease, or to a DriverEvent.
EventRef reference_to(CUevent name) {
  const ProgramEvent& event = event_of(name);
  return event.leased() ? event.lease() : EventRef(event.event());
}

CUresult CUDAAPI elapsed(float* milliseconds, CUevent start, CUevent end) {
  DriverEvent::Milliseconds time{};
  const CUevent first = handle_of(start), last = handle_of(end);
  const auto make = [&] { return reference_to(start).try_elapsed_time(time, reference_to(end)); };
  const auto unrecorded = [](CUevent name) {
    const ProgramEvent& event = event_of(name);
    return event.leased() && !event.recorded();
  };
  if (unrecorded(start) || unrecorded(end)) {
    has_to_refuse("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE, make);
    return plain.EventElapsedTime(milliseconds, first, last);
  }
  return both("cuEventElapsedTime", first, make,
              [&] { return plain.EventElapsedTime(milliseconds, first, last); });
}

/// A lease does not record a whole context: its event does, by other means.
CUresult CUDAAPI record_context(CUcontext context, CUevent name) {
  ProgramEvent& event = event_of(name);
  if (event.leased())
    return recorded_plainly(event, plain.CtxRecordEvent(context, event.lease().native_handle()));
  const CUevent handle = handle_of(name);
  return both(
      "cuCtxRecordEvent", handle,
      [&] { return event.own().try_record_context(Context::borrow(context, *driver)); },
      [&] { return plain.CtxRecordEvent(context, handle); });
}

CUresult CUDAAPI wait_context(CUcontext context, CUevent name) {
  const ProgramEvent& event = event_of(name);
  const CUevent handle = handle_of(name);
  if (event.leased() && !event.recorded()) return plain.CtxWaitEvent(context, handle);
  return both(
      "cuCtxWaitEvent", handle,
      [&] { return event.event().try_wait_context(Context::borrow(context, *driver)); },
      [&] { return plain.CtxWaitEvent(context, handle); });
}

CUresult CUDAAPI open_handle(CUevent* out, CUipcEventHandle handle) {
  cuevent::IpcHandle bytes;
  std::copy_n(reinterpret_cast<const std::byte*>(handle.reserved), bytes.bytes.size(), bytes.bytes.begin());
  DriverEvent event;
  const CUresult result = both(
      "cuIpcOpenEventHandle", nullptr,
      [&] { return DriverEvent::try_from_ipc_handle(event, current(), bytes); },
      [&] { return plain.IpcOpenEventHandle(out, handle); });
  if (!event) return result;
  ++created; // by the driver, in another process
  *out = event.native_handle();
  events.emplace(*out, ProgramEvent(std::move(event)));
  return result;
}

CUresult CUDAAPI launch(const CUlaunchConfig* config, CUfunction kernel, void** parameters, void** extra) {
  if (config->numAttrs == 0) return plain.LaunchKernelEx(config, kernel, parameters, extra);
  CUlaunchAttribute attribute = config->attrs[0];
  CUevent name = nullptr;
  const auto translate = [&](CUevent& event) {
    name = event;
    ProgramEvent& own = event_of(name); // the launch records it, whoever did so before
    event = own.leased() ? own.lease().native_handle() : handle_of(name);
  };
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
    translate(attribute.value.programmaticEvent.event);
  else
    translate(attribute.value.launchCompletionEvent.event);
  CUlaunchConfig ours = *config;
  ours.attrs = &attribute;
  return recorded_plainly(event_of(name), plain.LaunchKernelEx(&ours, kernel, parameters, extra));
}

// Graphs take the event itself.
CUevent for_a_graph(CUevent name) {
  event_of(name).keep_for_a_graph();
  return handle_of(name);
}

template <auto member>
CUresult CUDAAPI add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                          CUevent event) {
  return (plain.*member)(node, graph, after, count, for_a_graph(event));
}

template <auto member>
CUresult CUDAAPI set_event(CUgraphNode node, CUevent event) {
  return (plain.*member)(node, for_a_graph(event));
}

template <auto member>
CUresult CUDAAPI set_event_of_exec(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return (plain.*member)(exec, node, for_a_graph(event));
}

} // namespace

transcript::Api events_through_cuevent() {
  using transcript::Api;
  Api api = plain;
  api.EventCreate = create;
  api.EventDestroy = destroy;
  api.EventRecord = record_plainly;
  api.EventRecordWithFlags = record_with_flags;
  api.StreamWaitEvent = wait;
  api.EventQuery = query;
  api.EventSynchronize = synchronize;
  api.EventElapsedTime = elapsed;
  api.CtxRecordEvent = record_context;
  api.CtxWaitEvent = wait_context;
  api.IpcOpenEventHandle = open_handle;
  api.LaunchKernelEx = launch;
  api.GraphAddEventRecordNode = add_node<&Api::GraphAddEventRecordNode>;
  api.GraphAddEventWaitNode = add_node<&Api::GraphAddEventWaitNode>;
  api.GraphEventRecordNodeSetEvent = set_event<&Api::GraphEventRecordNodeSetEvent>;
  api.GraphEventWaitNodeSetEvent = set_event<&Api::GraphEventWaitNodeSetEvent>;
  api.GraphExecEventRecordNodeSetEvent = set_event_of_exec<&Api::GraphExecEventRecordNodeSetEvent>;
  api.GraphExecEventWaitNodeSetEvent = set_event_of_exec<&Api::GraphExecEventWaitNodeSetEvent>;
  return api;
}

void events_begin(std::uint64_t seed) { turn = seed; }

void events_end() {
  cuevent::destroy_retired();
  if (created != destroyed + idle_events() || !events.empty())
    report("at the end", "events are left", CUDA_SUCCESS);
}

void end_leases() {
  end_pools();
  cuevent::destroy_retired();
  if (created != destroyed) report("after the pools", "events are left", CUDA_SUCCESS);
  std::printf("%ld leases, %ld of them of events that were used before\n", leases,
              leases - leases_of_new_events);
}

} // namespace on_cuevent
