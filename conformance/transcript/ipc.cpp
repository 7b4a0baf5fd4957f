// SPDX-License-Identifier: MIT
// Events between processes.

#include "child.hpp"
#include "ipc_handle.hpp"

#include <cstring>

namespace transcript {
namespace {

constexpr unsigned shared_flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

void in_one_process(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event event(lab, shared_flags), plain(lab), timed(lab, CU_EVENT_DEFAULT);
  CUipcEventHandle handle{}, again{};
  CUevent opened = nullptr;
  lab.is("export.never_recorded", cu.IpcGetEventHandle(&handle, event));
  lab.is("export.twice", cu.IpcGetEventHandle(&again, event));
  lab.shows("export.twice.same_bytes", std::memcmp(&handle, &again, sizeof handle) == 0);
  lab.is("export.not_interprocess", cu.IpcGetEventHandle(&again, plain));
  lab.is("export.timed", cu.IpcGetEventHandle(&again, timed));
  lab.is("export.recorded", (cu.EventRecord(event, stream), cu.IpcGetEventHandle(&again, event)));
  lab.is("open.same_process", cu.IpcOpenEventHandle(&opened, handle));
  std::memset(&again, 0x5a, sizeof again);
  lab.is("open.garbage", cu.IpcOpenEventHandle(&opened, again));
  std::memset(&again, 0, sizeof again);
  lab.is("open.zeros", cu.IpcOpenEventHandle(&opened, again));
  {
    const Current guard(lab, lab.second_context());
    lab.is("open.same_process.another_context", cu.IpcOpenEventHandle(&opened, handle));
  }
  const Current guard(lab, nullptr);
  lab.is("export.no_context", cu.IpcGetEventHandle(&again, event));
  lab.is("open.no_context", cu.IpcOpenEventHandle(&opened, handle));
}

// Exports an event while another context is current: seen to crash.
void export_in_another_context(Lab& lab) {
  Event event(lab, shared_flags);
  const Current guard(lab, lab.second_context());
  CUipcEventHandle handle{};
  lab.is("export", lab.cu.IpcGetEventHandle(&handle, event));
}

// The other process. Its lines are relative to the scenario of the first process.
void importer(Lab& lab) {
  const Api& cu = lab.cu;
  lab.scenario = "importer";
  const CUipcEventHandle handle = from_hex(lab.arguments.at(0));
  CUevent event = nullptr, again = nullptr;
  {
    const Current guard(lab, nullptr);
    lab.is("open.no_context", cu.IpcOpenEventHandle(&event, handle));
  }
  lab.is("open", cu.IpcOpenEventHandle(&event, handle));
  lab.is("open_again", cu.IpcOpenEventHandle(&again, handle));
  lab.shows("open_again.same_event", event == again);
  if (event == nullptr) return; // no event to continue with
  Stream stream(lab);
  ask(); // the exporter now records behind its gate; no context has to be made after this
  lab.is("pending.query", cu.EventQuery(event));
  lab.is("pending.wait", cu.StreamWaitEvent(stream, event, 0));
  lab.is("pending.stream_query", cu.StreamQuery(stream));
  ask(); // the exporter opens its gate
  lab.is("done.synchronize", cu.EventSynchronize(event));
  lab.is("done.query", cu.EventQuery(event));
  lab.is("done.stream", cu.StreamSynchronize(stream));
  float ms = 0;
  CUipcEventHandle exported_again{};
  lab.is("elapsed", cu.EventElapsedTime(&ms, event, event));
  lab.is("export", cu.IpcGetEventHandle(&exported_again, event));
  {
    Gate gate(lab, stream);
    lab.is("record", cu.EventRecord(event, stream));
    lab.is("record.query", cu.EventQuery(event));
    ask(); // the exporter queries
    gate.open();
    lab.is("record.synchronize", cu.EventSynchronize(event));
  }
  ask(); // the exporter queries again, and destroys its event
  lab.is("exporter_destroyed_it.query", cu.EventQuery(event));
  lab.is("exporter_destroyed_it.synchronize", cu.EventSynchronize(event));
  lab.is("exporter_destroyed_it.wait", cu.StreamWaitEvent(stream, event, 0));
  lab.is("exporter_destroyed_it.record", cu.EventRecord(event, stream));
  lab.is("exporter_destroyed_it.record.query", eventually([&] { return cu.EventQuery(event); }));
  lab.is("destroy", cu.EventDestroy(event));
}

void between_processes(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event event(lab, shared_flags);
  const CUipcEventHandle handle = handle_of(lab, event);
  Child child(lab, "ipc.importer", {to_hex(handle)});
  const bool importing = relay(lab, child);
  Gate gate(lab, stream);
  cu.EventRecord(event, stream);
  if (importing) child.say("go on");
  if (relay(lab, child)) {
    gate.open();
    child.say("go on");
  }
  if (relay(lab, child)) {
    lab.is("exporter.query_of_importers_record", cu.EventQuery(event));
    child.say("go on");
  }
  if (relay(lab, child)) {
    lab.is("exporter.query_of_importers_record.afterwards", cu.EventQuery(event));
    lab.is("exporter.destroy", cu.EventDestroy(event.release()));
    child.say("go on");
  }
  relay(lab, child);
  lab.shows("importer.process", child.finish());
}

// Makes an event, prints its handle, and waits for the request to end.
void exporter(Lab& lab) {
  Event event(lab, shared_flags);
  Stream stream(lab);
  lab.cu.EventRecord(event, stream);
  lab.cu.StreamSynchronize(stream);
  std::puts(to_hex(handle_of(lab, event)).c_str());
  std::fflush(stdout);
  heard();
  event.release();
}

void exporter_gone(Lab& lab) {
  const Api& cu = lab.cu;
  CUevent opened = nullptr;
  Child child(lab, "ipc.exporter");
  const CUipcEventHandle handle = from_hex(child.read_line().value_or(""));
  lab.is("open_while_alive", cu.IpcOpenEventHandle(&opened, handle));
  lab.is("query_while_alive", cu.EventQuery(opened));
  child.say("end");
  lab.shows("exporter.process", child.finish());
  CUevent late = nullptr;
  lab.is("open_once_gone", cu.IpcOpenEventHandle(&late, handle));
  lab.is("query_once_gone", cu.EventQuery(opened));
  lab.is("synchronize_once_gone", cu.EventSynchronize(opened));
  lab.is("destroy_once_gone", cu.EventDestroy(opened));
}

// The same, if no process opened the event while its own process was alive.
void opened_too_late(Lab& lab) {
  CUevent opened = nullptr;
  Child child(lab, "ipc.exporter");
  const CUipcEventHandle handle = from_hex(child.read_line().value_or(""));
  child.say("end");
  lab.shows("exporter.process", child.finish());
  lab.is("open", lab.cu.IpcOpenEventHandle(&opened, handle));
  if (opened == nullptr) return;
  lab.is("query", lab.cu.EventQuery(opened));
  lab.is("destroy", lab.cu.EventDestroy(opened));
}

} // namespace

std::vector<Scenario> ipc_scenarios() {
  return {{"ipc.in_one_process", in_one_process, Place::last},
          {"ipc.between_processes", between_processes, Place::last},
          {"ipc.exporter_gone", exporter_gone, Place::last},
          {"ipc.opened_too_late", opened_too_late, Place::last},
          {"ipc.export_in_another_context", export_in_another_context, Place::alone},
          {"ipc.importer", importer, Place::helper},
          {"ipc.exporter", exporter, Place::helper}};
}

} // namespace transcript
