// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "timing.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace cuevent::sim {

/// On a device, calls that make something or destroy an event wait while a thread is blocked on a full queue
/// of the context.
void Api::wait_while_queue_is_full(const Context& home) {
  computer_.wait_until(
      lock_, "another thread is blocked in a full launch queue of context #" + std::to_string(home.number),
      [&] { return home.blocked_submitters == 0; });
}

namespace {

/// The first that is free and has no pending record. An event that was imported from its last owner shows the
/// records of the new one.
std::shared_ptr<Recording> shared_recording(Context& home) {
  auto& all = home.shared_recordings;
  const auto found =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return !one->taken && !one->is_pending(); });
  auto recording = found != all.end() ? *found : all.emplace_back(std::make_shared<Recording>());
  Recording fresh;
  fresh.taken = true;
  fresh.page = std::move(recording->page); // other processes may have it
  fresh.records = recording->records;
  fresh.completed = recording->completed;
  *recording = std::move(fresh);
  return recording;
}

} // namespace

CUresult Api::cuEventCreate(CUevent* out, unsigned int flags) {
  constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  auto home = context_to_create_in(); // a device checks the context before the flags
  refuse_if(out == nullptr || (flags & ~known) != 0, CUDA_ERROR_INVALID_VALUE);
  refuse_if((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0,
            CUDA_ERROR_INVALID_VALUE);
  wait_while_queue_is_full(*home);
  refuse_if(!home->active, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  if (home->primary) home = home->primary; // events of a green context outlive the green context
  auto created = make<Event>(Kind::event, home.get());
  created->home = {home, home->generation};
  created->flags = flags;
  created->recording = created->interprocess() ? shared_recording(*home) : std::make_shared<Recording>();
  *out = as<CUevent>(*created);
  return CUDA_SUCCESS;
}

CUresult Api::cuEventDestroy_v2(CUevent handle) {
  auto gone = event(handle, reasons::null_event);
  wait_while_queue_is_full(*gone->home.context);
  gone->destroyed = true;
  if (!gone->imported) gone->recording->taken = false;
  computer_.handles.remove(*gone, ending());
  return CUDA_SUCCESS;
}

CUresult Api::cuEventQuery(CUevent handle) {
  auto asked = event(handle, reasons::null_event);
  refuse_captured(*asked);
  unsafe_call(reasons::own_capture);
  const auto operation = last_record(*asked);
  if (!operation) return CUDA_SUCCESS;
  if (operation->abandoned && process_.fault != CUDA_SUCCESS) deliver_fault();
  return operation->done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult Api::cuEventSynchronize(CUevent handle) {
  auto asked = event(handle, reasons::null_event);
  refuse_captured(*asked);
  unsafe_call(reasons::own_capture);
  wait_for(last_record(*asked), "event #" + std::to_string(asked->number));
  refuse_if(!asked->home.alive(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return CUDA_SUCCESS;
}

CUresult Api::elapsed(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  refuse_if(milliseconds == nullptr, CUDA_ERROR_INVALID_HANDLE);
  const auto checked = [this](CUevent handle) {
    auto one = event(handle, reasons::null_event);
    refuse_captured(*one, Harm::nothing); // unlike a query
    refuse_if(!one->timed() || !one->recording->operation, CUDA_ERROR_INVALID_HANDLE);
    return one;
  };
  const auto start = checked(start_handle); // a device checks it completely before it looks at the end
  const auto end = checked(end_handle);
  const auto& first = start->recording->operation;
  const auto& last = end->recording->operation;
  refuse_if(start->home.context->family() != end->home.context->family(), CUDA_ERROR_INVALID_HANDLE);
  if ((first->abandoned || last->abandoned) && process_.fault != CUDA_SUCCESS) deliver_fault();
  refuse_if(!first->done() || !last->done(), CUDA_ERROR_NOT_READY);
  const Time ticks = last->ended / timing::timestamp_resolution - first->ended / timing::timestamp_resolution;
  *milliseconds = static_cast<float>(static_cast<double>(ticks * timing::timestamp_resolution) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult Api::cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return elapsed(milliseconds, start, end);
}

#if CUDA_VERSION >= 12080
CUresult Api::cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return elapsed(milliseconds, start, end);
}
#endif

/// Waits for a record of another process. It is on no stream of this one, so only what waits for the event
/// waits for it.
std::shared_ptr<Operation> Api::record_elsewhere(const Event& event, std::uint64_t number) {
  auto operation = std::make_shared<Operation>();
  operation->work.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  operation->work.text = "record event #" + std::to_string(event.number) + " in another process";
  operation->work.places = 0;
  operation->work.condition = [page = event.recording->page, number] { return page->is_complete(number); };
  operation->stream = event.home.context->all_streams;
  operation->elsewhere = true;
  computer_.scheduler.submit(operation);
  computer_.settle(lock_);
  return operation;
}

/// Null if the event was never recorded. A forked child has no driver, and knows what its parent knew.
const std::shared_ptr<Operation>& Api::last_record(const Event& event) {
  Recording& recording = *event.recording;
  const auto& page = recording.page;
  if (!page || process_.forked) return recording.operation;
  const std::uint64_t last = page->last();
  const bool complete = page->is_complete(last);
  if (!complete && page->recorder() != this_os_process() && !lives(page->recorder()) &&
      !page->is_complete(last))
    not_modelled("a pending record of a process that has ended");
  if (last == recording.records) return recording.operation;
  recorded(event, complete ? nullptr : record_elsewhere(event, last));
  recording.records = last;
  return recording.operation;
}

/// Of an interprocess event: other processes see when the record is complete.
void Api::begin_record(const Event& event, Work& work) {
  if (!event.interprocess()) return;
  if (event.recording->left_behind) not_modelled("a record of an event whose process had ended");
  work.effect = [recording = event.recording, number = event.recording->begin_record()] {
    recording->end_record(number);
  };
}

Work Api::record_work(const std::shared_ptr<Event>& event) const {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  work.text = "record event #" + std::to_string(event->number);
  work.duration = event->timed() ? timing::timed_record : timing::plain_record;
  if (event->flags == CU_EVENT_DISABLE_TIMING) work.places = 0;
  if ((event->flags & CU_EVENT_BLOCKING_SYNC) != 0) work.places = places_of_a_notification;
  return work;
}

Work Api::wait_work(const Event& event) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  work.text = "wait for event #" + std::to_string(event.number);
  work.places = 0;
  return work;
}

void Api::crash_on_foreign_interprocess_event(const Event& event, const Context& waiter) {
  if (event.interprocess() && event.home.context->family() != waiter.family())
    crash("event #" + std::to_string(event.number) + " was made with CU_EVENT_INTERPROCESS in context #" +
          std::to_string(event.home.context->number) + ", and context #" + std::to_string(waiter.number) +
          " waits for it");
}

void Api::recorded(const Event& event, std::shared_ptr<Operation> operation) {
  Recording& recording = *event.recording;
  recording.operation = std::move(operation);
  recording.by_node = false;
  recording.capture.reset();
  recording.frontier.clear();
}

void Api::recorded_in_capture(const Event& event, std::shared_ptr<Capture> capture,
                              std::vector<Node*> frontier) {
  recorded(event, nullptr);
  event.recording->capture = std::move(capture);
  event.recording->frontier = std::move(frontier);
}

CUresult Api::record(CUevent event_handle, CUstream stream_handle, unsigned flags) {
  // The order of the checks is a device's: the stream and its capture, the event, the flags.
  auto where = stream(stream_handle);
  const bool captured = capturing(*where);
  implicit_check(*where);
  auto what = event(event_handle, reasons::null_event);
  refuse_if((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0, CUDA_ERROR_INVALID_VALUE,
            "Invalid event recording flags");
  const bool external = (flags & CU_EVENT_RECORD_EXTERNAL) != 0;
  refuse_if(external && !captured, CUDA_ERROR_ILLEGAL_STATE,
            "CU_EVENT_RECORD_EXTERNAL flag is set but stream is not capturing");
  // A node may record any event. A stream may record only events of its own context.
  refuse_if(!(captured && external) && what->home.context->family() != where->home.context->family(),
            CUDA_ERROR_INVALID_HANDLE, reasons::other_context);
  if (!captured) {
    std::vector<std::shared_ptr<Operation>> after;
    // A record of an interprocess event waits for the previous record, even on another stream.
    if (what->interprocess()) after.push_back(last_record(*what));
    Work work = record_work(what);
    begin_record(*what, work);
    recorded(*what, enqueue(where, std::move(work), std::move(after)));
    return CUDA_SUCCESS;
  }
  if (external) {
    Work work = record_work(what);
    work.event = what;
    add_captured_node(*where, std::move(work));
  } else {
    refuse_if(what->interprocess(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              "Cannot record IPC or interop CUDA events in captured streams");
    recorded_in_capture(*what, where->capture, where->frontier);
  }
  return CUDA_SUCCESS;
}

CUresult Api::cuEventRecord(CUevent event, CUstream stream) {
  return record(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult Api::cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return record(event, stream, flags);
}

namespace {

/// The content of the 64 bytes of an event handle.
struct IpcContents {
  std::array<char, 16> magic;
  unsigned long long start; ///< of the process
  unsigned long long inode; ///< of the page
  unsigned long long event; ///< Event::exported
  int os_process;
  int process; ///< Process::index
  int file;    ///< of the page. Negative if no other process of the system can open the event
  int device;  ///< its number in the machine
  int unused;
  unsigned check;
};
static_assert(sizeof(IpcContents) == sizeof(CUipcEventHandle));

constexpr std::array<char, 16> ipc_magic = {'c', 'u', 'e', 'v', 'e', 'n', 't', ' ',
                                            's', 'i', 'm', ' ', 'i', 'p', 'c'};

constexpr const char* no_such_event = "Failed to open/create interprocess memory file\n"
                                      "Failed to open/find remote IPC semaphore pool.";

} // namespace

CUresult Api::cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event_handle) {
  refuse_if(handle == nullptr || event_handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto current = current_context();
  auto exported = find<Event>(event_handle, Kind::event);
  if (!exported->home.alive())
    crash("the exported event belongs to a dead context: " + computer_.handles.describe(event_handle));
  meet_fault(process_, FaultNews::of_an_event);
  std::memset(handle, 0, sizeof *handle);
  refuse_if(!exported->interprocess() || exported->imported, CUDA_ERROR_INVALID_HANDLE,
            "Only local (non-imported) events created as interprocess may be exported.");
  if (current->family() != exported->home.context->family())
    crash("another context is current: " + computer_.handles.describe(event_handle));
  if (exported->exported == 0) exported->exported = ++computer_.events_exported;
  computer_.exported_events[exported->exported] = {exported->recording, exported->home.context->device};
  Recording& recording = *exported->recording;
  if (!recording.page && computer_.running()) {
    const bool pending = recording.operation && !recording.operation->done();
    recording.page = EventPage::make(recording.records, pending ? recording.completed : recording.records);
    refuse_if(!recording.page, CUDA_ERROR_OUT_OF_MEMORY);
  }
  const OfferedFile file = recording.page ? recording.page->file() : OfferedFile{this_os_process()};
  IpcContents contents{ipc_magic,
                       file.process.start,
                       file.inode,
                       exported->exported,
                       file.process.id,
                       process_.index,
                       file.number,
                       computer_.number_of(exported->home.context->device),
                       0,
                       0};
  contents.check = sum_of_handle(&contents, sizeof contents);
  std::memcpy(handle, &contents, sizeof contents);
  return CUDA_SUCCESS;
}

/// Of another process of the system. A device finds a complete event if the process has ended.
std::shared_ptr<Recording> Api::recording_of(const OfferedFile& file) {
  if (!computer_.running())
    not_modelled("an event of another process in stepped mode, which has its own clock");
  if (file.number < 0) not_modelled("an event of a process in stepped mode, which has its own clock");
  std::erase_if(computer_.recordings_of_others, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<Recording>& known = computer_.recordings_of_others[{file.process.id, file.inode}];
  if (auto open = known.lock()) return open;
  auto made = std::make_shared<Recording>();
  known = made;
  made->page = EventPage::open(file);
  const int error = errno;
  if (made->page) { // its last record is one of another process, unless it is complete
    const std::uint64_t last = made->page->last();
    if (made->page->is_complete(last)) made->records = made->completed = last;
    return made;
  }
  refuse_if(error == EMFILE || error == ENFILE || error == ENOMEM, CUDA_ERROR_OUT_OF_MEMORY);
  if (error == EACCES || error == EPERM) not_modelled("an event of a process that must not be looked at");
  if (lives(file.process)) not_modelled("an event of another process whose context has ended");
  made->left_behind = true;
  return made;
}

CUresult Api::cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto home = current_context();
  IpcContents contents{};
  std::memcpy(&contents, &handle, sizeof contents);
  refuse_if(contents.magic != ipc_magic || contents.check != sum_of_handle(&contents, sizeof contents),
            CUDA_ERROR_MAP_FAILED, no_such_event);
  const OfferedFile page{
      {contents.os_process, contents.start}, contents.file, contents.inode, whole_pages(1)};
  const bool of_this = page.process == this_os_process();
  refuse_if(of_this && contents.process == process_.index, CUDA_ERROR_INVALID_CONTEXT,
            "Error opening locally created eventHandle.");
  const auto exported = computer_.exported_events.find(contents.event);
  refuse_if(of_this && exported == computer_.exported_events.end(), CUDA_ERROR_MAP_FAILED);
  if (contents.device != computer_.number_of(home->device))
    not_modelled("opening an event of another device");
  const auto recording = of_this ? exported->second.recording : recording_of(page);
  auto opened = make<Event>(Kind::event, home.get());
  opened->home = {home, home->generation};
  opened->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  opened->imported = true;
  opened->recording = recording;
  *out = as<CUevent>(*opened);
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
