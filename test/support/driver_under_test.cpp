// SPDX-License-Identifier: MIT
#include "driver_under_test.hpp"

#include "faults.hpp"
#include "layer.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

namespace test {

namespace {

cuevent::GetProcAddress source = nullptr;
std::optional<cuevent::Driver> uncounted, unfailing, tested;

std::atomic<int> streams, primary_retains, graphs, graph_execs;

bool is_destroyed(CUcontext context) {
  unsigned long long id = 0;
  return uncounted->table().cuCtxGetId_v12000(context, &id) == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/// Handles, each with its context. A handle ends at the latest with the context.
template <class Handle>
class Live {
public:
  void add(Handle handle, CUcontext context) {
    const std::lock_guard lock(mutex_);
    contexts_[handle] = context;
  }
  CUcontext take(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto node = contexts_.extract(handle);
    return node ? node.mapped() : nullptr;
  }
  void remove_lost() {
    const std::lock_guard lock(mutex_);
    std::erase_if(contexts_, [](const auto& each) { return is_destroyed(each.second); });
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    contexts_.clear();
  }
  std::map<Handle, CUcontext> all() {
    const std::lock_guard lock(mutex_);
    return contexts_;
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(contexts_.size());
  }

private:
  std::mutex mutex_;
  std::map<Handle, CUcontext> contexts_;
};

// Never destroyed, because the last events may outlive static objects.
Live<CUevent>& events() {
  static auto& live = *new Live<CUevent>;
  return live;
}
Live<CUcontext>& contexts() { // only created contexts
  static auto& live = *new Live<CUcontext>;
  return live;
}

/// Passes a call on, and counts it if it had an effect.
template <std::atomic<int>& count, int step>
struct Counted {
  template <class Function, class... Arguments>
  static CUresult call(Function below, Arguments... arguments) {
    const CUresult result = below(arguments...);
    // A destroyed context has destroyed its streams too.
    if (result == CUDA_SUCCESS || (step < 0 && result == CUDA_ERROR_CONTEXT_IS_DESTROYED)) count += step;
    return result;
  }
};

CUcontext current_context() {
  CUcontext current = nullptr;
  uncounted->table().cuCtxGetCurrent_v4000(&current);
  return current;
}

struct EventMade {
  template <class Function, class... Arguments>
  static CUresult call(Function below, CUevent* event, Arguments... arguments) {
    const CUresult result = below(event, arguments...);
    if (result == CUDA_SUCCESS) events().add(*event, current_context());
    return result;
  }
};

struct EventDestroyed {
  static CUresult call(PFN_cuEventDestroy_v4000 below, CUevent event) {
    // First, because a new event may get the same handle.
    CUcontext const context = events().take(event);
    const CUresult result = below(event);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_CONTEXT_IS_DESTROYED) events().add(event, context);
    return result;
  }
};

struct ContextMade {
  static CUresult call(PFN_cuCtxCreate_v3020 below, CUcontext* context, unsigned flags, CUdevice device) {
    const CUresult result = below(context, flags, device);
    if (result == CUDA_SUCCESS) contexts().add(*context, *context);
    return result;
  }
};

/// A call that may end a context.
template <class Policy>
struct ContextEnded {
  template <class Function, class... Arguments>
  static CUresult call(Function below, Arguments... arguments) {
    const CUresult result = Policy::call(below, arguments...);
    events().remove_lost();
    contexts().remove_lost();
    return result;
  }
};

struct Passed {
  template <class Function, class... Arguments>
  static CUresult call(Function below, Arguments... arguments) {
    return below(arguments...);
  }
};

template <std::atomic<int>& count>
using Made = Counted<count, +1>;
template <std::atomic<int>& count>
using Destroyed = Counted<count, -1>;

constexpr struct {
  std::string_view name;
  int version;
  void* (*put_in_front)(void*);
} counted[] = {
    {"cuEventCreate", 2000, put_in_front<EventMade, PFN_cuEventCreate_v2000>},
    {"cuIpcOpenEventHandle", 4010, put_in_front<EventMade, PFN_cuIpcOpenEventHandle_v4010>},
    {"cuEventDestroy", 4000, put_in_front<EventDestroyed, PFN_cuEventDestroy_v4000>},
    {"cuStreamCreate", 2000, put_in_front<Made<streams>, PFN_cuStreamCreate_v2000>},
    {"cuStreamDestroy", 4000, put_in_front<Destroyed<streams>, PFN_cuStreamDestroy_v4000>},
    {"cuCtxCreate", 3020, put_in_front<ContextMade, PFN_cuCtxCreate_v3020>},
    {"cuCtxDestroy", 4000, put_in_front<ContextEnded<Passed>, PFN_cuCtxDestroy_v4000>},
    {"cuDevicePrimaryCtxRetain", 7000,
     put_in_front<Made<primary_retains>, PFN_cuDevicePrimaryCtxRetain_v7000>},
    {"cuDevicePrimaryCtxRelease", 11000,
     put_in_front<ContextEnded<Destroyed<primary_retains>>, PFN_cuDevicePrimaryCtxRelease_v11000>},
    {"cuDevicePrimaryCtxReset", 11000,
     put_in_front<ContextEnded<Passed>, PFN_cuDevicePrimaryCtxReset_v11000>},
    {"cuGraphCreate", 10000, put_in_front<Made<graphs>, PFN_cuGraphCreate_v10000>},
    {"cuStreamEndCapture", 10000, put_in_front<Made<graphs>, PFN_cuStreamEndCapture_v10000>},
    // Until its end, such a capture has the graph: the end gives it back, or loses it.
    {"cuStreamBeginCaptureToGraph", 12030,
     put_in_front<Destroyed<graphs>, PFN_cuStreamBeginCaptureToGraph_v12030>},
    {"cuGraphDestroy", 10000, put_in_front<Destroyed<graphs>, PFN_cuGraphDestroy_v10000>},
    {"cuGraphInstantiateWithFlags", 11040,
     put_in_front<Made<graph_execs>, PFN_cuGraphInstantiateWithFlags_v11040>},
    {"cuGraphExecDestroy", 10000, put_in_front<Destroyed<graph_execs>, PFN_cuGraphExecDestroy_v10000>},
};

CUresult CUDAAPI get_counted(const char* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const CUresult result = source(name, function, version, flags, status);
  if (result != CUDA_SUCCESS || *function == nullptr) return result;
  for (const auto& row : counted)
    if (row.name == name && row.version == version) *function = row.put_in_front(*function);
  return result;
}

} // namespace

void set_driver(cuevent::GetProcAddress from) {
  source = from;
  uncounted = cuevent::Driver(source);
  unfailing = cuevent::Driver(get_counted);
  tested = cuevent::Driver(with_faults(get_counted));
}

const cuevent::Driver& driver() { return tested.value(); }
const cuevent::Driver& unfailing_driver() { return unfailing.value(); }
cuevent::Driver uncounted_driver() { return uncounted.value(); }

bool simulated() {
  char name[256] = "";
  call<PFN_cuDeviceGetName_v2000>("cuDeviceGetName", 2000)(name, sizeof name, 0);
  return std::string_view(name).find("simulated") != std::string_view::npos;
}

LiveHandles live_handles() noexcept {
  return {.events = events().count(),
          .streams = streams,
          .contexts = contexts().count(),
          .primary_retains = primary_retains,
          .graphs = graphs,
          .graph_execs = graph_execs};
}

void drop_live_handles() {
  const cuevent::DriverTable& table = unfailing->table();
  events().clear();
  for (const auto& [context, same] : contexts().all())
    table.cuCtxDestroy_v4000(context);
}

} // namespace test
