// SPDX-License-Identifier: MIT
// What a scenario uses: the driver, the list of answers, and owners for what the scenario creates.
#pragma once

#include "api.hpp"

#include <atomic>
#include <chrono>
#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

namespace transcript {

class Lab;

enum class Place {
  here,   // in the process of the transcript, with a context of device 0 current
  child,  // in a process of its own, with a context of device 0 current
  alone,  // like child, and shares its process with no other scenario, which would change an answer
  last,   // like child, and nothing comes after it in its process, which it spoils
  bare,   // in a process of its own, before cuInit
  helper, // the other process of a scenario that needs two; never run by itself
  probe,  // like alone, but not in the transcript: may crash, or answer differently in the next run
};

struct Scenario {
  std::string name;
  void (*run)(Lab&);
  Place place = Place::here;
  int devices = 1;
  int seconds = 0; // that it waits on a device, if that is long: long scenarios start first
};

// One function per subject, each in a file of its own.
std::vector<Scenario> context_scenarios();
std::vector<Scenario> event_scenarios();
std::vector<Scenario> elapsed_scenarios();
std::vector<Scenario> stream_scenarios();
std::vector<Scenario> launch_scenarios();
std::vector<Scenario> capture_scenarios();
std::vector<Scenario> capture_error_scenarios();
std::vector<Scenario> capture_info_scenarios();
std::vector<Scenario> capture_dependencies_scenarios();
std::vector<Scenario> capture_into_graph_scenarios();
std::vector<Scenario> graph_scenarios();
std::vector<Scenario> ipc_scenarios();
std::vector<Scenario> ipc_memory_scenarios();
std::vector<Scenario> interprocess_scenarios();
std::vector<Scenario> lifetime_scenarios();
std::vector<Scenario> fault_scenarios();
std::vector<Scenario> green_scenarios();
std::vector<Scenario> two_devices_scenarios();
std::vector<Scenario> order_of_checks_scenarios();
std::vector<Scenario> capture_neighbours_scenarios();
std::vector<Scenario> completion_scenarios();
std::vector<Scenario> exec_update_scenarios();
std::vector<Scenario> ended_host_memory_scenarios();
std::vector<Scenario> ended_nodes_scenarios();
std::vector<Scenario> memory_operation_scenarios();
std::vector<Scenario> registered_memory_scenarios();
std::vector<Scenario> free_scenarios();
std::vector<Scenario> memory_queries_scenarios();
std::vector<Scenario> memory_pools_scenarios();
std::vector<Scenario> managed_memory_scenarios();
std::vector<Scenario> checkpoints_scenarios();
std::vector<Scenario> core_dumps_scenarios();
std::vector<Scenario> virtual_memory_scenarios();
std::vector<Scenario> arrays_scenarios();
std::vector<Scenario> copies_scenarios();
std::vector<Scenario> copying_scenarios();
std::vector<Scenario> early_copies_scenarios();
std::vector<Scenario> libraries_scenarios();
std::vector<Scenario> linker_scenarios();
std::vector<Scenario> graph_nodes_scenarios();
std::vector<Scenario> graph_memory_scenarios();
std::vector<Scenario> conditional_scenarios();
std::vector<Scenario> stream_calls_scenarios();
std::vector<Scenario> attach_scenarios();
std::vector<Scenario> old_launch_scenarios();
std::vector<Scenario> profiler_scenarios();
std::vector<Scenario> driver_log_scenarios();
std::vector<Scenario> host_calls_scenarios();
std::vector<Scenario> isolated_scenarios();

struct SetUpFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Lab {
public:
  Lab(const Api& api, std::string library, std::function<void(std::string_view)> write);
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  const Api& cu;
  CUcontext home = nullptr; // current on the main thread while a scenario runs
  CUdevice device = 0;
  int device_count = 0;
  unsigned watchdog_s = 120;
  std::string library;
  std::string scenario;               // its name is the first part of every line
  std::vector<std::string> arguments; // of a helper process

  void initialize();     // cuInit, a context, the memory for the gates
  void restore();        // between scenarios: leaves the home context alone on the stack, whatever failed
  bool as_found() const; // compares the context stack and the thread's capture mode

  // Each prints one line.
  void is(std::string_view name, CUresult answer);
  void shows(std::string_view name, const std::string& value);
  void shows(std::string_view name, const char* value) { shows(name, std::string(value)); }
  void shows(std::string_view name, std::same_as<bool> auto value) { shows(name, value ? "true" : "false"); }
  void shows(std::string_view name, std::integral auto value) requires(!std::same_as<decltype(value), bool>) {
    shows(name, std::to_string(value));
  }

  std::string name_of(CUresult) const;
  void must(CUresult, const char* what) const; // for set-up: throws SetUpFailure unless SUCCESS

  CUcontext second_context();          // another context of the same device, made at first use, not current
  CUfunction kernel(const char* name); // in the current context
  // Launches one thread of a kernel.
  CUresult launch(CUfunction, CUstream, CUlaunchAttribute, void** parameters = nullptr) const;
  unsigned* word(); // a new word of pinned memory, zero; the device uses the same address
  static CUdeviceptr address(const unsigned* word) { return reinterpret_cast<CUdeviceptr>(word); }

private:
  std::function<void(std::string_view)> write_;
  CUcontext second_ = nullptr;
  unsigned* words_ = nullptr;
  std::size_t next_word_ = 0;
};

#if CUDA_VERSION >= 12050
// A green context of all multiprocessors, on the primary context of its device. Neither is current.
struct Green {
  explicit Green(Lab& lab);
  CUcontext primary = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr; // of the green context
};
#endif

// What a scenario creates. It is destroyed with its owner, unless the owner releases it.
template <class Handle, auto destroy>
class Owned {
public:
  ~Owned() {
    if (handle_ != nullptr) (lab_.cu.*destroy)(handle_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator Handle() const { return handle_; }
  Handle release() { return std::exchange(handle_, nullptr); }

protected:
  explicit Owned(Lab& lab) : lab_(lab) {}
  Lab& lab_;
  Handle handle_ = nullptr;
};

struct Stream : Owned<CUstream, &Api::StreamDestroy> {
  explicit Stream(Lab& lab, unsigned flags = CU_STREAM_NON_BLOCKING);
};

struct Event : Owned<CUevent, &Api::EventDestroy> {
  explicit Event(Lab& lab, unsigned flags = CU_EVENT_DISABLE_TIMING);
};

struct Graph : Owned<CUgraph, &Api::GraphDestroy> {
  explicit Graph(Lab& lab);
};

// The caller destroys them.
CUgraph make_graph(Lab& lab);
CUgraphExec make_exec(Lab& lab, CUgraph graph);

// Memory of cuMemCreate at an address of its own. `bytes` is a multiple of 2 MiB.
CUdeviceptr mapped_memory(Lab& lab, std::size_t bytes, CUmemGenericAllocationHandle* handle = nullptr,
                          CUmemAllocationHandleType shared = CU_MEM_HANDLE_TYPE_NONE);

// Holds back everything that is submitted to a stream after it, until it is opened.
class Gate {
public:
  Gate(Lab& lab, CUstream stream);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() { std::atomic_ref<unsigned>(*word_).store(1); }

private:
  unsigned* word_;
};

// Keeps a context current for its own lifetime. Null means no context.
class Current {
public:
  Current(Lab& lab, CUcontext context) : lab_(lab), context_(context) {
    CUcontext popped = nullptr;
    lab.must(context != nullptr ? lab.cu.CtxPushCurrent(context) : lab.cu.CtxPopCurrent(&popped),
             "make current");
  }
  ~Current() {
    CUcontext popped = nullptr;
    context_ != nullptr ? lab_.cu.CtxPopCurrent(&popped) : lab_.cu.CtxPushCurrent(lab_.home);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

private:
  Lab& lab_;
  CUcontext context_;
};

// What is made while the context is current.
template <class Made>
Made made_in(Lab& lab, CUcontext context) {
  const Current guard(lab, context);
  return Made(lab);
}

// Runs the call on another thread, with the home context current there, and waits for it.
CUresult on_other_thread(Lab& lab, const std::function<CUresult()>& call);

// Makes the call while the calling thread is in another capture mode.
CUresult in_mode(Lab& lab, CUstreamCaptureMode mode, const std::function<CUresult()>& call);

// Polls until the answer is not NOT_READY, for up to two seconds.
CUresult eventually(const std::function<CUresult()>& poll);

// A call that may block. It runs on a thread with the home context current.
class Background {
public:
  Background(Lab& lab, std::function<CUresult()> call);
  ~Background() {
    if (thread_.joinable()) thread_.join();
  }
  bool returns_within(std::chrono::milliseconds patience) const;
  CUresult join() {
    thread_.join();
    return result_;
  }

private:
  std::atomic<bool> done_ = false;
  std::atomic<pid_t> number_ = 0; // of the thread
  CUresult result_ = CUDA_ERROR_UNKNOWN;
  std::thread thread_;
};

bool captures(Lab& lab, CUstream stream);             // whether a capture can begin and end
std::string capture_state(Lab& lab, CUstream stream); // none, active, invalidated, or the error of the query
std::string node_types(Lab& lab, CUgraph graph);      // "kernel record", in the driver's order
CUresult end_capture(Lab& lab, CUstream stream);      // and destroys the graph

} // namespace transcript
