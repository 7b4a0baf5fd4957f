// SPDX-License-Identifier: MIT
#include "cuevent/sim.hpp"

#include "array.hpp"
#include "computer.hpp"
#include "event.hpp"
#include "functions.hpp"
#include "graph.hpp"
#include "stream.hpp"

namespace cuevent::sim {

namespace {

/// A control call from a test. It holds the lock, and must not come from a host function.
class Control {
public:
  explicit Control(const char* name) {
    if (HostThread::is_this_thread()) misuse(std::string("a host function calls cuevent::sim::") + name);
    lock_ = Computer::Lock(computer_.mutex);
    computer_.catch_up();
  }
  Computer* operator->() { return &computer_; }
  Computer::Lock& lock() { return lock_; }

  std::shared_ptr<Object> object(const void* handle, Kind kind) {
    auto found = computer_.handles.peek<Object>(reinterpret_cast<std::uintptr_t>(handle));
    if (!found || found->kind != kind)
      misuse("the control call needs a live " + std::string(name_of(kind)) + ": " +
             computer_.handles.describe(handle));
    return found;
  }
  std::shared_ptr<Stream> stream(CUstream handle) {
    return std::static_pointer_cast<Stream>(object(handle, Kind::stream));
  }
  std::shared_ptr<Stream> default_stream(CUstream handle, CUcontext context) {
    auto home = std::static_pointer_cast<Context>(object(context, Kind::context));
    if (!home->active)
      misuse("the control call needs an active context: " + computer_.handles.describe(*home));
    if (handle == nullptr || handle == CU_STREAM_LEGACY) return home->legacy;
    if (handle != CU_STREAM_PER_THREAD)
      misuse("the control call with a context needs one of its default streams: " +
             computer_.handles.describe(handle));
    auto found = home->per_thread.find(Computer::this_thread_id());
    if (found == home->per_thread.end()) misuse("this thread has not used its per-thread stream yet");
    return found->second;
  }
  void set_held(Stream& stream, bool held) {
    stream.held = held;
    computer_.scheduler.advance_to(computer_.scheduler.now());
    computer_.settle(lock_);
    computer_.changed.notify_all();
  }

private:
  Computer& computer_ = Computer::instance();
  Computer::Lock lock_;
};

std::size_t index_of(int process) {
  if (process != 0 && process != 1)
    misuse("there is no simulated process " + std::to_string(process) + ": use 0 or 1");
  return static_cast<std::size_t>(process);
}

} // namespace

void reset(const Options& options) {
  Control control("reset");
  control->reset(control.lock(), options);
}

CUresult CUDAAPI get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  return Functions<0>::cuGetProcAddress_v2(symbol, function, version, flags, status);
}

GetProcAddress get_proc_address_of(int process) {
  return index_of(process) == 0 ? &Functions<0>::cuGetProcAddress_v2 : &Functions<1>::cuGetProcAddress_v2;
}

Nanoseconds now() {
  Control control("now");
  return Nanoseconds(control->scheduler.now());
}

void advance(Nanoseconds time) {
  Control control("advance");
  if (control->running()) return;
  const Time target = control->scheduler.now() + time.count();
  // A host function that returns makes more work due, so this repeats until nothing changes.
  for (auto before = control->scheduler.progress();; before = control->scheduler.progress()) {
    while (control->scheduler.next_end() && *control->scheduler.next_end() <= target) {
      control->scheduler.step();
      control->settle(control.lock());
    }
    control->settle(control.lock());
    if (control->scheduler.progress() == before) break;
  }
  control->scheduler.advance_to(target);
  control->settle(control.lock());
  control->changed.notify_all();
}

bool step() {
  Control control("step");
  if (control->running()) return control->scheduler.next_end().has_value();
  const bool moved = control->scheduler.step();
  control->settle(control.lock());
  control->changed.notify_all();
  return moved;
}

void run_until_idle() {
  Control control("run_until_idle");
  if (control->running()) return;
  do
    control->settle(control.lock());
  while (control->scheduler.step());
  control->changed.notify_all();
}

void hold(CUstream stream) {
  Control control("hold");
  control.set_held(*control.stream(stream), true);
}

void release(CUstream stream) {
  Control control("release");
  control.set_held(*control.stream(stream), false);
}

void hold(CUstream stream, CUcontext context) {
  Control control("hold");
  control.set_held(*control.default_stream(stream, context), true);
}

void release(CUstream stream, CUcontext context) {
  Control control("release");
  control.set_held(*control.default_stream(stream, context), false);
}

std::size_t pending(CUstream stream) {
  Control control("pending");
  return control.stream(stream)->pending;
}

std::size_t pending(CUstream stream, CUcontext context) {
  Control control("pending");
  return control.default_stream(stream, context)->pending;
}

std::vector<std::string> pending_operations() {
  Control control("pending_operations");
  return control->describe_unfinished();
}

void set_kernel(std::string_view name, Kernel kernel) {
  Control control("set_kernel");
  control->kernels.insert_or_assign(std::string(name), kernel);
}

void end_kernels(std::string_view name) {
  Control control("end_kernels");
  control->scheduler.end_kernels(std::string(name));
  control->settle(control.lock());
  control->changed.notify_all();
}

void set_conditional(CUgraphExec exec, cuuint64_t handle, unsigned value) {
  Control control("set_conditional");
  Exec::Body& body = *std::static_pointer_cast<Exec>(control.object(exec, Kind::exec))->body;
  if (handle == 0 || handle > body.handles)
    misuse("set_conditional: the graph has no conditional handle " + std::to_string(handle) +
           ": use one that cuGraphConditionalHandleCreate returned for the graph of this exec");
  body.chosen_values[handle] = value;
}

void make_context_fault(CUcontext context, CUresult result) {
  Control control("make_context_fault");
  if (result == CUDA_SUCCESS) misuse("make_context_fault: CUDA_SUCCESS is no fault");
  raise_fault(*control.object(context, Kind::context)->process, result, true);
}

void shut_down(int process) {
  Control control("shut_down");
  control->processes[index_of(process)].deinitialize();
}

namespace {

/// Calls that only look things up work in every state of a process.
bool can_fail(std::string_view function) {
#define ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)                              \
  if (function == #name && Gate::gate != Gate::bare) return true;
#define STREAM_ENTRY(gate, in_callbacks, name, version, thread_version, suffix, symbol, parameters,          \
                     arguments)                                                                              \
  ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)
#include "driver_functions.inc"
#undef ENTRY
#undef STREAM_ENTRY
  return false;
}

} // namespace

void fail_next(std::string_view function, CUresult result, int process) {
  Control control("fail_next");
  if (!can_fail(function))
    misuse("fail_next: " + std::string(function) +
           " is not modelled, or works in every state: use the documented name of a function of the driver, "
           "such as cuMemAlloc");
  if (result == CUDA_SUCCESS) misuse("fail_next: CUDA_SUCCESS is no failure");
  Process& failing = control->processes[index_of(process)];
  failing.failing.push_back({std::string(function), result});
  failing.unusual = true;
}

void end_process(int process) {
  Control control("end_process");
  control->end_process(control->processes[index_of(process)]);
}

HandleCounts live_handles(int process) {
  Control control("live_handles");
  const Process& asked = control->processes[index_of(process)];
  HandleCounts counts;
  control->handles.for_each([&](const Object& object) {
    if (object.process != &asked) return;
    switch (object.kind) {
    case Kind::context:
      counts.contexts += static_cast<const Context&>(object).active;
      break;
    case Kind::stream:
      counts.streams += static_cast<const Stream&>(object).home.alive();
      break;
    case Kind::event:
      counts.events += static_cast<const Event&>(object).home.alive();
      break;
    case Kind::graph:
      ++counts.graphs;
      break;
    case Kind::exec:
      ++counts.graph_execs;
      break;
    case Kind::user_object:
      ++counts.user_objects;
      break;
    case Kind::module:
      ++counts.modules;
      break;
    case Kind::array:
      counts.allocations +=
          !static_cast<const Array&>(object).level && static_cast<const Array&>(object).home.alive();
      break;
    case Kind::mipmapped_array:
      counts.allocations += static_cast<const MipmappedArray&>(object).home.alive();
      break;
    case Kind::node:
    case Kind::function:
    case Kind::green_context:
    case Kind::description:
    case Kind::memory_pool:
    case Kind::physical_memory:
    case Kind::library:
    case Kind::kernel:
    case Kind::link:
      break;
    }
  });
  for (auto& [address, allocation] : asked.allocations)
    counts.allocations += allocation.mapping || allocation.home.alive();
  return counts;
}

std::size_t context_stack(CUcontext* out, std::size_t size, int process) {
  Control control("context_stack");
  const auto& contexts = control->this_thread(control->processes[index_of(process)]).contexts;
  for (std::size_t i = 0; i != std::min(size, contexts.size()); ++i)
    out[i] = as<CUcontext>(*contexts[i]);
  return contexts.size();
}

unsigned long long calls(int process) {
  Control control("calls");
  return control->processes[index_of(process)].calls;
}

std::vector<std::string> take_unmodelled() {
  Control control("take_unmodelled");
  std::vector<std::string> names;
  for (auto& [name, caller] : control->report.take_calls())
    names.push_back(name);
  return names;
}

} // namespace cuevent::sim
