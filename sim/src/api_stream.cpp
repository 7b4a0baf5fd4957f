// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "memory_pool.hpp"
#include "timing.hpp"

#include <algorithm>
#include <cstring>

namespace cuevent::sim {

/// Some refused calls leave neither null nor what was there in the place for the stream. Null stays.
void Api::spoil(CUstream* out) { std::memset(out, 0, sizeof(unsigned)); }

/// In this context, or in the current one if it is null. A device checks the flags before the context.
CUresult Api::create_stream(CUstream* out, std::shared_ptr<Context> home, unsigned flags, int priority) {
  refuse_if(out == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0,
            CUDA_ERROR_INVALID_VALUE);
  if (!home && thread().contexts.empty()) spoil(out);
  if (!home) home = context_to_create_in();
  wait_while_queue_is_full(*home);
  auto created = make<Stream>(Kind::stream, home.get());
  created->home = {home, home->generation};
  created->flags = home->type == Context::Type::green ? unsigned{CU_STREAM_NON_BLOCKING} : flags;
  created->priority = possible_priority(priority);
  created->id = ++computer_.stream_ids;
  created->hold = computer_.hold_of(created->number);
  *out = as<CUstream>(*created);
  return CUDA_SUCCESS;
}

CUresult Api::cuStreamCreate(CUstream* out, unsigned int flags) {
  return create_stream(out, nullptr, flags, 0);
}

CUresult Api::cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  return create_stream(out, nullptr, flags, priority);
}

CUresult Api::cuStreamDestroy_v2(CUstream handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  auto gone = stream(handle);
  implicit_check(*gone); // although nobody may destroy a default stream anyway
  refuse_if(handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD, CUDA_ERROR_INVALID_HANDLE);
  if (auto capture = gone->capture) {
    if (capture->origin == gone.get()) {
      discard(*capture);
    } else { // what a fork did stays, and stays unjoined
      std::erase(capture->streams, gone);
      capture->destroyed.push_back(gone);
    }
  }
  if (gone->has_freed)
    wait_for(gone->tail, "the work of a stream on which memory was freed, and which is destroyed");
  computer_.handles.remove(*gone, ending()); // its pending work continues
  return CUDA_SUCCESS;
}

/// The last operation of each stream with unfinished work. A primary context has the streams of its green
/// contexts too.
std::vector<std::shared_ptr<Operation>> Api::tails(const Context& context, bool blocking_only) const {
  std::vector<std::shared_ptr<Operation>> found;
  // Destroyed streams may have unfinished work too, so this looks at the work and not at the handles.
  for (auto& [number, operation] : computer_.scheduler.unfinished()) {
    const Stream& stream = *operation->stream;
    const Context& home = *stream.home.context;
    const bool seen = stream.seen_tail && !stream.seen_tail->done();
    const bool counts = blocking_only ? &home == &context && stream.blocking() && seen
                                      : &home == &context || home.primary.get() == &context;
    if (counts && stream.tail == operation) found.push_back(operation);
  }
  return found;
}

std::vector<std::shared_ptr<Operation>> Api::predecessors(const Stream& stream) const {
  const Context& home = *stream.home.context;
  std::vector<std::shared_ptr<Operation>> after;
  if (stream.type == Stream::Type::legacy) {
    after = tails(home, true);
  }
  if (stream.blocking()) after.push_back(home.legacy->tail);
  after.push_back(stream.tail);
  after.insert(after.end(), home.barriers.begin(), home.barriers.end());
  if (!stream.used && stream.type != Stream::Type::all_streams) {
    const auto& waits = home.family()->first_use_waits;
    after.insert(after.end(), waits.begin(), waits.end());
  }
  return after;
}

bool Api::idle(const Stream& stream) const {
  if (stream.type == Stream::Type::legacy && !tails(*stream.home.context, true).empty()) return false;
  return !stream.seen_tail || stream.seen_tail->done();
}

void Api::deliver_fault() {
  process_.fault_delivered = true;
  refuse(process_.fault);
}

/// A full queue also blocks work that takes no place in it.
void Api::make_room(const std::shared_ptr<Stream>& stream, const Work& work) {
  const auto has_room = [&stream, places = work.places, limit = computer_.options.queue_limit] {
    return stream->queued < limit && stream->queued + places <= std::max(limit, places);
  };
  if (has_room()) return;
  Context& home = *stream->home.context;
  ++home.blocked_submitters;
  computer_.wait_until(lock_, "the launch queue of its stream is full",
                       [&] { return has_room() || process_.fault != CUDA_SUCCESS || !stream->home.alive(); });
  --home.blocked_submitters;
  computer_.changed.notify_all();
  if (process_.fault != CUDA_SUCCESS) deliver_fault();
  refuse_if(!stream->home.alive(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/// Whether a query of the stream passes over the work. A device puts no work of its own on an idle
/// stream to record an untimed event: the event takes over what the stream waits for, and the
/// stream stays idle. Work of the legacy stream counts for created streams, since each of them gets
/// a wait for it. Memory of a pool needs no work either, unless it waits for a free.
bool Api::unseen(const Stream& stream, const Work& work) const {
  const bool untimed = work.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && work.places == 0;
  return (untimed || work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) && idle(stream);
}

std::shared_ptr<Operation> Api::enqueue(const std::shared_ptr<Stream>& stream, Work work,
                                        std::vector<std::shared_ptr<Operation>> after) {
  make_room(stream, work);
  auto operation = std::make_shared<Operation>();
  operation->work = std::move(work);
  // Until the fault is noticed, work is accepted but does not run.
  if (process_.fault != CUDA_SUCCESS) {
    operation->state = Operation::State::done;
    operation->abandoned = true;
    stream->tail = operation;
    return operation;
  }
  operation->stream = stream;
  operation->submitted = true;
  operation->after = predecessors(*stream);
  operation->after.insert(operation->after.end(), after.begin(), after.end());
  if (!unseen(*stream, operation->work)) stream->seen_tail = operation;
  if (operation->work.type != CU_GRAPH_NODE_TYPE_EVENT_RECORD) stream->used = true;
  stream->tail = operation;
  computer_.scheduler.submit(operation);
  computer_.settle(lock_);
  return operation;
}

std::shared_ptr<Operation> Api::submit(const std::shared_ptr<Stream>& stream, Work work,
                                       std::vector<std::shared_ptr<Operation>> after) {
  if (capturing(*stream)) {
    add_captured_node(*stream, std::move(work));
    return nullptr;
  }
  implicit_check(*stream);
  return enqueue(stream, std::move(work), std::move(after));
}

void Api::wait_for(std::shared_ptr<Operation> operation, const std::string& what) {
  if (!operation) return;
  computer_.wait_until(lock_, what, [&] { return operation->done(); });
  if (operation->abandoned && process_.fault != CUDA_SUCCESS) deliver_fault();
}

/// A fault is met even if the work that failed ended before the call.
void Api::wait_for_all_work_of(const Context& context, const std::string& before) {
  for (auto& tail : tails(context, false))
    wait_for(tail, "all work of context #" + std::to_string(context.number) + " must end before " + before);
  if (process_.fault != CUDA_SUCCESS) deliver_fault();
}

CUresult Api::cuStreamQuery(CUstream handle) {
  auto asked = stream(handle);
  refuse_in_capture(*asked);
  implicit_check(*asked);
  unsafe_call();
  if (process_.fault != CUDA_SUCCESS && asked->tail && asked->tail->abandoned) deliver_fault();
  return idle(*asked) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult Api::cuStreamSynchronize(CUstream handle) {
  auto asked = stream(handle);
  refuse_in_capture(*asked);
  implicit_check(*asked);
  unsafe_call();
  const std::string what =
      "all work of " + (asked->number == 0 ? "a default stream" : "stream #" + std::to_string(asked->number));
  if (asked->type == Stream::Type::legacy)
    for (auto& tail : tails(*asked->home.context, true))
      wait_for(tail, what);
  wait_for(asked->tail, what);
  asked->has_freed = false;
  trim_pools(process_);
  return CUDA_SUCCESS;
}

CUresult Api::cuStreamGetPriority(CUstream handle, int* priority) {
  refuse_if(priority == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto asked = stream(handle);
  capturing(*asked); // refuses if that capture was invalidated
  implicit_check(*asked);
  *priority = asked->priority;
  return CUDA_SUCCESS;
}

CUresult Api::cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  refuse_if(flags == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto asked = stream(handle);
  refuse_in_capture(*asked);
  implicit_check(*asked);
  *flags = asked->flags;
  return CUDA_SUCCESS;
}

CUresult Api::cuStreamGetId(CUstream handle, unsigned long long* id) {
  refuse_if(id == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto asked = stream(handle);
  refuse_in_capture(*asked);
  implicit_check(*asked);
  *id = asked->id;
  return CUDA_SUCCESS;
}

CUresult Api::cuStreamGetCtx(CUstream handle, CUcontext* context) {
  refuse_if(context == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto asked = stream(handle);
  capturing(*asked); // refuses if the capture is invalidated
  implicit_check(*asked);
  *context = as<CUcontext>(*asked->home.context);
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12080
CUresult Api::cuStreamGetDevice(CUstream handle, CUdevice* device) {
  refuse_if(device == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto asked = stream(handle);
  refuse_in_capture(*asked);
  *device = asked->home.context->device;
  return CUDA_SUCCESS;
}
#endif

CUresult Api::cuStreamWaitEvent(CUstream stream_handle, CUevent event_handle, unsigned int flags) {
  // The order of the checks is a device's: the stream and its capture, the flags, the event.
  auto who = stream(stream_handle);
  const bool captured = capturing(*who);
  if (const auto beside = captures_beside(*who); !beside.empty()) {
    const bool harms = std::any_of(beside.begin(), beside.end(), [](auto* one) { return one->active(); });
    if (event_handle != nullptr && harms) // the capture of the event is harmed, too, if it is of the family
      if (const auto other = event(event_handle)->recording->capture)
        if (other->streams.empty() || // of one that is over, the origin may be gone
            other->streams.front()->home.context->family() == who->home.context->family())
          other->invalidated = true;
    implicit_check(*who);
  }
  refuse_if((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0, CUDA_ERROR_INVALID_VALUE);
  std::shared_ptr<Event> what;
  try {
    what = event(event_handle, reasons::null_event);
  } catch (const Refusal&) {
    if (who->capture) who->capture->invalidated = true;
    throw;
  }
  const bool external = (flags & CU_EVENT_WAIT_EXTERNAL) != 0;
  if (captured) {
    wait_in_capture(who, what, external);
    return CUDA_SUCCESS;
  }
  Recording& recording = *what->recording;
  if (recording.capture) {
    refuse_if(!recording.capture->active(), CUDA_ERROR_INVALID_VALUE, reasons::capture_is_over);
    refuse_if(external, CUDA_ERROR_ILLEGAL_STATE);
    if (who->type == Stream::Type::legacy) {
      recording.capture->invalidated = true;
      refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    join(who, recording);
    return CUDA_SUCCESS;
  }
  refuse_if(external, CUDA_ERROR_ILLEGAL_STATE);
  crash_on_foreign_interprocess_event(*what, *who->home.context);
  // What is complete needs no wait. But a device puts one for each interprocess event, whose state
  // it cannot know; and on the legacy stream, which gathers the work of the blocking streams first.
  const auto record = last_record(*what);
  const bool complete = !record || record->done();
  const bool puts_a_wait = !complete || what->interprocess() || (record && who->type == Stream::Type::legacy);
  if (puts_a_wait) enqueue(who, wait_work(*what), {record});
  return CUDA_SUCCESS;
}

CUresult Api::cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  refuse_if(function == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto where = stream(handle);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_HOST;
  work.text = "host function";
  work.places = 0;
  work.function = function;
  work.data = data;
  submit(where, std::move(work));
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
