// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "graph_memory.hpp"

#include <algorithm>

namespace cuevent::sim {

std::shared_ptr<Stream> Api::new_default_stream(const std::shared_ptr<Context>& home, Stream::Type type) {
  auto stream = std::make_shared<Stream>();
  stream->process = &process_;
  stream->home = {home, home->generation};
  stream->type = type;
  stream->id = ++computer_.stream_ids;
  if (type != Stream::Type::all_streams) stream->hold = computer_.hold_of(stream->number);
  return stream;
}

std::shared_ptr<Context> Api::new_context(Context::Type type, int device) {
  auto context = make<Context>(Kind::context, nullptr);
  context->device = device;
  context->type = type;
  context->core_dumps = process_.core_dumps;
  context->id = ++computer_.context_ids;
  // The default stream of a green context synchronises with no other stream.
  const bool green = type == Context::Type::green;
  context->legacy = new_default_stream(context, green ? Stream::Type::created : Stream::Type::legacy);
  if (green) context->legacy->flags = CU_STREAM_NON_BLOCKING;
  context->all_streams = new_default_stream(context, Stream::Type::all_streams);
  process_.contexts.push_back(context);
  return context;
}

/// From now on, everything made in the context is dead. Its pending work is dropped.
void Api::kill(Context& context) {
  const auto keep = computer_.handles.find<Context>(as<CUcontext>(context), Kind::context, process_);
  context.active = false;
  ++context.generation;
  for (auto& capture : std::vector(process_.captures))
    if (capture->origin->home.context.get() == &context) discard(*capture);
  computer_.scheduler.abandon([&](const Operation& op) { return op.stream->home.context.get() == &context; });
  for (auto each = process_.allocations.begin(); each != process_.allocations.end();) {
    Allocation& one = each->second;
    const bool dies = one.home.context.get() == &context;
    if (dies && one.exported) one.exported->withdraw(); // nobody can open it any more
    if (!dies || (one.made_here() && (one.pool || one.of_graph))) {
      ++each;
      continue;
    }
    if (one.memory) process_.dropped.push_back(std::move(one.memory)); // work of other contexts may use it
    if (one.exported) process_.dropped.push_back(std::move(one.exported));
    each = process_.allocations.erase(each);
  }
  std::erase_if(process_.mapped_graph_memory,
                [&](const auto& each) { return each->named.home.context.get() == &context; });
  context.per_thread.clear();
  context.barriers.clear();
  context.textures.clear();
  for (const auto& recording : context.shared_recordings)
    recording->page.reset(); // nobody can open the events any more
  context.shared_recordings.clear();
  computer_.changed.notify_all();
}

std::shared_ptr<Context> Api::retain_primary(int device) {
  auto& primary = process_.primaries[device];
  if (!primary) {
    primary = new_context(Context::Type::primary, device);
    primary->flags = process_.primary_flags[device];
  }
  ++primary->retained;
  if (!primary->active) { // released or reset earlier: comes back empty, with the same handle
    primary->active = true;
    primary->id = ++computer_.context_ids;
    primary->legacy = new_default_stream(primary, Stream::Type::legacy);
    primary->all_streams = new_default_stream(primary, Stream::Type::all_streams);
  }
  return primary;
}

void Api::release_primary(Context& primary) {
  if (--primary.retained == 0 && primary.active) kill(primary);
}

CUresult Api::cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice which) {
  const int ordinal = device(which);
  refuse_if(context == nullptr, CUDA_ERROR_INVALID_VALUE);
  *context = as<CUcontext>(*retain_primary(ordinal));
  return CUDA_SUCCESS;
}

/// It waits for no work, as on an H100. Two H200s waited.
CUresult Api::cuDevicePrimaryCtxRelease_v2(CUdevice which) {
  auto found = process_.primaries.find(device(which));
  refuse_if(found == process_.primaries.end() || found->second->retained == 0, CUDA_ERROR_INVALID_CONTEXT);
  release_primary(*found->second);
  return CUDA_SUCCESS;
}

CUresult Api::cuDevicePrimaryCtxReset_v2(CUdevice which) {
  auto found = process_.primaries.find(device(which));
  if (found == process_.primaries.end() || !found->second->active) return CUDA_SUCCESS;
  wait_for_the_process("a primary context is reset");
  if (found->second->active) kill(*found->second);
  return CUDA_SUCCESS;
}

namespace {

/// How the host waits is one choice of four, not a set.
bool are_context_flags(unsigned flags) {
  const unsigned waiting = flags & CU_CTX_SCHED_MASK;
  return (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0 &&
         (waiting == CU_CTX_SCHED_AUTO || waiting == CU_CTX_SCHED_SPIN || waiting == CU_CTX_SCHED_YIELD ||
          waiting == CU_CTX_SCHED_BLOCKING_SYNC);
}

} // namespace

CUresult Api::cuDevicePrimaryCtxSetFlags_v2(CUdevice which, unsigned int flags) {
  const int ordinal = device(which);
  refuse_if(!are_context_flags(flags) || (flags & CU_CTX_MAP_HOST) != 0, CUDA_ERROR_INVALID_VALUE);
  process_.primary_flags[ordinal] = flags;
  if (auto found = process_.primaries.find(ordinal); found != process_.primaries.end())
    found->second->flags = flags;
  return CUDA_SUCCESS;
}

CUresult Api::cuDevicePrimaryCtxGetState(CUdevice which, unsigned int* flags, int* active) {
  refuse_if(flags == nullptr || active == nullptr, CUDA_ERROR_INVALID_VALUE);
  const int ordinal = device(which);
  auto found = process_.primaries.find(ordinal);
  const bool known = found != process_.primaries.end();
  *flags = known ? found->second->flags : process_.primary_flags[ordinal];
  *active = known && found->second->active;
  return CUDA_SUCCESS;
}

CUresult Api::create_context(CUcontext* out, unsigned flags, CUdevice which) {
  const int ordinal = device(which);
  refuse_if(out == nullptr || !are_context_flags(flags), CUDA_ERROR_INVALID_VALUE);
  auto created = new_context(Context::Type::created, ordinal);
  created->flags = flags;
  thread().contexts.push_back(created);
  *out = as<CUcontext>(*created);
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice which) {
  return create_context(context, flags, which);
}

CUresult Api::cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int affinities,
                             unsigned int flags, CUdevice which) {
  device(which);
  if (affinities > 0) { // without a number, a device does not look at the list
    refuse_if(context == nullptr || affinity == nullptr, CUDA_ERROR_INVALID_VALUE);
    refuse(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  }
  return create_context(context, flags, which);
}

#if CUDA_VERSION >= 12050
CUresult Api::cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned int flags,
                             CUdevice which) {
  device(which);
  refuse_if(parameters != nullptr && parameters->cigParams != nullptr &&
                parameters->cigParams->sharedData == nullptr,
            CUDA_ERROR_INVALID_VALUE);
  if (parameters != nullptr && parameters->numExecAffinityParams > 0) {
    refuse_if(parameters->execAffinityParams == nullptr || context == nullptr, CUDA_ERROR_INVALID_VALUE);
    refuse(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY); // as cuDeviceGetExecAffinitySupport says
  }
  if (parameters != nullptr && parameters->cigParams != nullptr)
    not_modelled("the sharing of a context with graphics");
  return create_context(context, flags, which);
}
#endif

/// A device waits for all work of the process, not only for the work of the context that ends.
void Api::wait_for_the_process(const std::string& before) {
  computer_.wait_until(lock_, "all work of the process must end before " + before, [&] {
    return std::none_of(computer_.scheduler.unfinished().begin(), computer_.scheduler.unfinished().end(),
                        [&](const auto& entry) {
                          return !entry.second->elsewhere &&
                                 entry.second->stream->home.context->process == &process_;
                        });
  });
}

void Api::destroy_context(const std::shared_ptr<Context>& context) {
  const auto handle = as<CUcontext>(*context);
  if (!context->active) undefined("a context is destroyed twice: " + computer_.handles.describe(handle));
  wait_for_the_process("a context is destroyed");
  if (!context->active)
    undefined("another thread destroyed the context in the meantime: " + computer_.handles.describe(handle));
  auto& stack = thread().contexts;
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  kill(*context);
  context->history += ", " + ending();
}

CUresult Api::cuCtxDestroy_v2(CUcontext handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto context = context_even_dead(handle);
  refuse_if(context->type != Context::Type::created, CUDA_ERROR_INVALID_CONTEXT);
  destroy_context(context);
  return CUDA_SUCCESS;
}

/// A primary context does not count it.
CUresult Api::cuCtxAttach(CUcontext* out, unsigned int flags) {
  const auto current = current_context();
  refuse_if(out == nullptr || flags != 0, CUDA_ERROR_INVALID_VALUE);
  if (current->type == Context::Type::green) not_modelled("an attachment to a green context");
  ++current->attached;
  *out = as<CUcontext>(*current);
  return CUDA_SUCCESS;
}

/// Takes the current context only. A primary context stays retained.
CUresult Api::cuCtxDetach(CUcontext handle) {
  const auto& stack = thread().contexts;
  refuse_if(handle == nullptr || stack.empty() || as<CUcontext>(*stack.back()) != handle,
            CUDA_ERROR_INVALID_CONTEXT);
  const auto context = context_even_dead(handle);
  if (context->type == Context::Type::green) not_modelled("a detachment from a green context");
  if (context->type == Context::Type::primary) return CUDA_SUCCESS;
  if (context->active && --context->attached > 0) return CUDA_SUCCESS;
  destroy_context(context);
  context->detached = true;
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxPushCurrent_v2(CUcontext context) {
  refuse_if(context == nullptr, CUDA_ERROR_INVALID_VALUE);
  thread().contexts.push_back(context_even_dead(context)); // a dead one is accepted too; its next use fails
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxPopCurrent_v2(CUcontext* context) {
  auto& stack = thread().contexts;
  refuse_if(stack.empty(), CUDA_ERROR_INVALID_CONTEXT, reasons::no_context);
  if (context != nullptr) *context = as<CUcontext>(*stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxSetCurrent(CUcontext context) {
  auto& stack = thread().contexts;
  std::shared_ptr<Context> next = context == nullptr ? nullptr : context_even_dead(context);
  if (!stack.empty()) stack.pop_back();
  if (next) stack.push_back(next);
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxGetCurrent(CUcontext* context) {
  refuse_if(context == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto& stack = thread().contexts;
  *context = stack.empty() ? nullptr : as<CUcontext>(*stack.back());
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxGetDevice(CUdevice* device) {
  refuse_if(device == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto& stack = thread().contexts;
  refuse_if(stack.empty(), CUDA_ERROR_INVALID_CONTEXT, reasons::no_context);
  *device = stack.back()->device; // works for a dead context too
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUresult Api::cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  refuse_if(device == nullptr, CUDA_ERROR_INVALID_VALUE);
  *device = (handle == nullptr ? current_context() : context_even_dead(handle))->device;
  return CUDA_SUCCESS;
}
#endif

CUresult Api::cuCtxGetFlags(unsigned int* flags) {
  refuse_if(flags == nullptr, CUDA_ERROR_INVALID_VALUE);
  *flags = current_context()->flags;
  return CUDA_SUCCESS;
}

/// For null, the id of the current context.
CUresult Api::cuCtxGetId(CUcontext handle, unsigned long long* id) {
  refuse_if(id == nullptr, CUDA_ERROR_INVALID_VALUE);
  *id = (handle == nullptr ? current_context() : context(handle))->id;
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  refuse_if(version == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (handle == nullptr)
    current_context();
  else
    context(handle);
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  current_context();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

/// An event node is work of its event's context too, whatever stream the graph was launched on.
void Api::append_event_nodes(const Context& home, std::vector<std::shared_ptr<Operation>>& work) const {
  for (const auto& [number, operation] : computer_.scheduler.unfinished())
    if (const auto& event = operation->work.event;
        event && event->home.context.get() == &home && !operation->submitted)
      work.push_back(operation);
}

/// A copy with memory of a pool, which has no context, is work of the context that was current, too. As in
/// tails(), a primary context has the work of its green contexts.
void Api::append_copies_with_pools(const Context& home, std::vector<std::shared_ptr<Operation>>& work) const {
  for (const auto& [number, operation] : computer_.scheduler.unfinished())
    if (const Context* const caller = operation->caller.get();
        caller == &home || (caller != nullptr && caller->primary.get() == &home))
      work.push_back(operation);
}

CUresult Api::synchronize_context(const std::shared_ptr<Context>& context) {
  invalidate_captures_of(*context);
  auto work = tails(*context, false); // captures of other contexts do not matter, in no mode
  append_event_nodes(*context, work);
  append_copies_with_pools(*context, work);
  for (auto& operation : work)
    wait_for(operation, "all work of context #" + std::to_string(context->number));
  if (process_.fault != CUDA_SUCCESS) deliver_fault(); // even if the work ended before the call
  trim_pools(process_);
  return CUDA_SUCCESS;
}

// Access to memory is never refused, so this is about the answers alone. Each pair of devices is as a pair of
// two devices. Not measured: two_devices.third
CUresult Api::cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
  const auto home = current_context();
  const auto peer = context(handle);
  refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE); // this and the next also while captures forbid the call
  refuse_if(peer->device == home->device, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  unsafe_call();
  refuse_if(!home->peers.insert(peer->handle).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxDisablePeerAccess(CUcontext handle) {
  const auto home = current_context();
  const auto peer = context(handle);
  unsafe_call();
  refuse_if(home->peers.erase(peer->handle) == 0, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxSynchronize() { return synchronize_context(current_context()); }

#if CUDA_VERSION >= 13000
CUresult Api::cuCtxSynchronize_v2(CUcontext handle) {
  return synchronize_context(handle == nullptr ? current_context() : context(handle));
}
#endif

void Api::invalidate_captures_of(const Context& context) {
  bool any = false;
  for (auto& capture : process_.captures)
    for (auto& stream : capture->streams)
      if (stream->home.context.get() == &context) any = capture->invalidated = true;
  refuse_if(any, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

namespace {

/// Whether it only waits for an event of its own context, or of a green or primary one of it.
bool waits_for_family(const Operation& operation) {
  if (operation.work.type != CU_GRAPH_NODE_TYPE_WAIT_EVENT) return false;
  const Context* const family = operation.stream->home.context->family();
  return std::all_of(operation.after.begin(), operation.after.end(), [family](const auto& before) {
    return !before || !before->stream || before->stream->home.context->family() == family;
  });
}

} // namespace

/// A stream of a green context does not count for a record of the context if it has nothing but waits for
/// events of the family. No default stream does if it has nothing but copies with memory of other contexts,
/// which was seen once.
bool Api::counts_for_record(const Stream& stream) const {
  const bool green = stream.home.context->type == Context::Type::green,
             of_default = stream.type == Stream::Type::legacy;
  const auto& unfinished = computer_.scheduler.unfinished();
  return std::any_of(unfinished.begin(), unfinished.end(), [&](const auto& entry) {
    const Operation& operation = *entry.second;
    return operation.stream.get() == &stream && !(green && waits_for_family(operation)) &&
           !(of_default && operation.between_contexts);
  });
}

CUresult Api::record_in_context(const std::shared_ptr<Context>& home, CUevent handle) {
  auto what = event(handle, reasons::null_event);
  refuse_if(what->home.context->family() != home->family(), CUDA_ERROR_INVALID_HANDLE,
            reasons::other_context);
  invalidate_captures_of(*home);
  auto after = tails(*home, false);
  append_event_nodes(*home, after);
  for (const auto& [number, operation] : computer_.scheduler.unfinished())
    if (std::find(operation->used.begin(), operation->used.end(), home.get()) != operation->used.end())
      after.push_back(operation);
  std::erase_if(after, [&](const auto& tail) {
    const Stream& stream = *tail->stream;
    const bool may_not_count =
        &stream == home->legacy.get() || (home->type == Context::Type::green && stream.home.context == home);
    return may_not_count && !counts_for_record(stream);
  });
  // A record of a stream replaces a pending one of a launch. A record of all streams comes after
  // it, and no record of an interprocess event overtakes another.
  if (what->recording->by_node || what->interprocess()) after.push_back(last_record(*what));
  Work work = record_work(what);
  begin_record(*what, work);
  recorded(*what, enqueue(home->all_streams, std::move(work), std::move(after)));
  return CUDA_SUCCESS;
}

CUresult Api::wait_in_context(const std::shared_ptr<Context>& home, CUevent handle) {
  invalidate_captures_of(*home); // before it looks at the event, unlike a record
  auto what = event(handle, reasons::null_event);
  refuse_captured(*what);
  crash_on_foreign_interprocess_event(*what, *home);
  // One wait for all streams is put for an interprocess event, whose state a device cannot know, and comes
  // after the work of all of them. It is also put for a recorded event of this context, even a complete one,
  // behind a pending record or wait of the whole context.
  auto operation = last_record(*what);
  const auto& earlier = home->all_streams->tail;
  const bool foreign = what->home.context->family() != home->family();
  if (what->interprocess() || (operation && !foreign && earlier && !earlier->done())) {
    auto before = what->interprocess() ? tails(*home, false) : std::vector<std::shared_ptr<Operation>>{};
    before.push_back(operation);
    operation = enqueue(home->all_streams, wait_work(*what), std::move(before));
  }
  if (!operation || operation->done()) return CUDA_SUCCESS;
  for (auto& context : process_.contexts) { // a primary context has the streams of its green contexts too
    if (context != home && context->primary != home) continue;
    std::erase_if(context->barriers, [](const auto& barrier) { return barrier->done(); });
    context->barriers.push_back(operation);
  }
  if (home->primary && (foreign || what->interprocess())) {
    auto& waits = home->primary->first_use_waits;
    std::erase_if(waits, [](const auto& wait) { return wait->done(); });
    waits.push_back(operation);
  }
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12050
CUresult Api::cuCtxRecordEvent(CUcontext handle, CUevent event) {
  return record_in_context(context(handle), event);
}

CUresult Api::cuCtxWaitEvent(CUcontext handle, CUevent event) {
  return wait_in_context(context(handle), event);
}
#endif

} // namespace cuevent::sim
