// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "fixture.hpp"

#include <algorithm>
#include <thread>
#include <utility>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

TEST_CASE("destroying an event twice ends the program and prints its history") {
  const Death death = death_of([] {
    Fixture f;
    const CUevent e = f.event();
    f.cu.event_destroy(e);
    f.cu.event_destroy(e);
  });
  CHECK(death.aborted);
  CHECK(death.says("cuEventDestroy_v2: undefined on a device"));
  CHECK(death.says(
      "event #1, made by cuEventCreate in call #5 in context #1, destroyed by cuEventDestroy_v2 in call #6"));
}

TEST_CASE("using a destroyed event ends the program") {
  const Death death = death_of([] {
    Fixture f;
    const CUevent e = f.event();
    f.cu.event_destroy(e);
    f.cu.event_query(e);
  });
  CHECK(death.aborted);
  CHECK(death.says("cuEventQuery"));
  CHECK(death.says("was event #1"));
}

TEST_CASE("using an invented handle ends the program") {
  const Death death = death_of([] {
    Fixture f;
    int nothing = 0;
    f.cu.event_query(reinterpret_cast<CUevent>(&nothing));
  });
  CHECK(death.aborted);
  CHECK(death.says("is invented"));
}

TEST_CASE("using a handle of another kind, process or session ends the program") {
  CHECK(death_of([] {
          Fixture f;
          f.cu.event_query(reinterpret_cast<CUevent>(f.stream));
        }).says("the call needs a handle of another kind, event"));
  CHECK(death_of([] {
          Fixture f;
          const RawDriver other(sim::get_proc_address_of(1));
          other.init(0);
          other.event_query(f.event());
        }).says("belongs to simulated process 0"));
  CHECK(death_of([] {
          Fixture f;
          const CUevent e = f.event();
          sim::reset();
          f.cu.init(0);
          f.cu.event_query(e);
        }).says("earlier session"));
}

TEST_CASE("recording on a destroyed stream ends the program") {
  const Death death = death_of([] {
    Fixture f;
    const CUevent e = f.event();
    f.cu.stream_destroy(f.stream);
    f.cu.event_record(e, f.stream);
  });
  CHECK(death.aborted);
  CHECK(death.says("stream #1"));
}

TEST_CASE("launching a function of an unloaded module ends the program") {
  const Death death = death_of([] {
    Fixture f;
    CUmodule module = nullptr;
    f.cu.find<PFN_cuFuncGetModule_v11000>("cuFuncGetModule", 11000)(&module, f.kernel);
    f.cu.find<PFN_cuModuleUnload_v2000>("cuModuleUnload", 2000)(module);
    f.work(f.stream);
  });
  CHECK(death.aborted);
  CHECK(death.says("unloaded with its module"));
}

TEST_CASE("a launch without the address of an argument crashes") {
  const Death death = death_of([] {
    Fixture f;
    CUmodule module = nullptr;
    CUfunction taking = nullptr;
    f.cu.module_load(&module, ".version 8.0 .visible .entry taking(.param .u32 number) { ret; }");
    f.cu.module_function(&taking, module, "taking");
    void* arguments[] = {nullptr};
    f.cu.launch(taking, 1, 1, 1, 1, 1, 1, 0, f.stream, arguments, nullptr);
  });
  CHECK(death.crashed);
  CHECK(death.says("argument 0 of the kernel has no address"));
}

TEST_CASE("launching a graph whose event was destroyed ends the program") {
  const Death death = death_of([] {
    Fixture f;
    const CUevent e = f.event();
    CUgraph graph = nullptr;
    f.cu.graph_create(&graph, 0);
    CUgraphNode node = nullptr;
    f.cu.add_record_node(&node, graph, nullptr, 0, e);
    CUgraphExec exec = nullptr;
    f.cu.instantiate(&exec, graph, 0);
    f.cu.event_destroy(e);
    f.cu.graph_launch(exec, f.stream);
  });
  CHECK(death.aborted);
  CHECK(death.says("cuGraphLaunch"));
  CHECK(death.says("destroyed by cuEventDestroy_v2"));
}

TEST_CASE("creating an event in a destroyed context that was pushed ends the program") {
  const Death death = death_of([] {
    Fixture f;
    f.cu.context_destroy(f.context);
    if (f.cu.context_push(f.context) != CUDA_SUCCESS) return; // this is allowed
    CUevent e = nullptr;
    f.cu.event_create(&e, 0);
  });
  CHECK(death.aborted);
  CHECK(death.says("an object is created in the current context, which is dead"));
  CHECK(death.says("destroyed by cuCtxDestroy_v2"));
}

TEST_CASE("the report has the history of the last 100,000 destroyed handles only") {
  const auto death_of_query = [](int destroyed_after) {
    return death_of([&] {
      Fixture f;
      const CUevent e = f.event();
      f.cu.event_destroy(e);
      for (int i = 0; i < destroyed_after; ++i)
        f.cu.event_destroy(f.event());
      f.cu.event_query(e);
    });
  };
  CHECK(death_of_query(99'999).says("event #1, made by cuEventCreate"));
  CHECK(death_of_query(100'000).says("its history is no longer kept"));
}

TEST_CASE("using an event from before a primary context's reset ends the program once it is retained again") {
  const Death death = death_of([] {
    Fixture f;
    CUcontext primary = nullptr;
    f.cu.primary_retain(&primary, 0);
    f.cu.context_push(primary);
    const CUevent e = f.event();
    f.cu.primary_reset(0);
    f.cu.primary_release(0);
    f.cu.primary_retain(&primary, 0);
    f.cu.event_query(e);
  });
  CHECK(death.aborted);
  CHECK(death.says("outlived a reset"));
}

TEST_CASE("destroying an exec from before a primary context's reset crashes once it is retained again") {
  const Death death = death_of([] {
    Fixture f;
    CUcontext primary = nullptr;
    f.cu.primary_retain(&primary, 0);
    f.cu.context_push(primary);
    CUgraph graph = nullptr;
    f.cu.graph_create(&graph, 0);
    CUgraphExec exec = nullptr;
    f.cu.instantiate(&exec, graph, 0);
    f.cu.primary_reset(0);
    f.cu.primary_release(0);
    f.cu.primary_retain(&primary, 0);
    f.cu.exec_destroy(exec);
  });
  CHECK(death.crashed);
  CHECK(death.says("outlived a reset"));
}

TEST_CASE("adding a graph to itself crashes") {
  const Death death = death_of([] {
    Fixture f;
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    f.cu.graph_create(&graph, 0);
    f.cu.add_child_node(&node, graph, nullptr, 0, graph);
  });
  CHECK(death.crashed);
  CHECK(death.says("a child of itself"));
}

TEST_CASE("a capture accepts a write and a wait at null, and their launch ends the program") {
  for (const bool writes : {true, false}) {
    const Death death = death_of([writes] {
      Fixture f;
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
      OK(writes ? f.cu.write_value_32(f.stream, 0, 1, 0) : f.cu.wait_value_32(f.stream, 0, 1, 0));
      OK(f.cu.end_capture(f.stream, &graph));
      OK(f.cu.instantiate(&exec, graph, 0));
      f.cu.graph_launch(exec, f.stream);
      f.cu.stream_synchronize(f.stream);
    });
    CHECK(death.aborted);
    CHECK(
        death.says(writes ? "a write to an address without memory" : "a wait at an address without memory"));
  }
}

TEST_CASE("a call that nobody asked a device about ends a program if a host function makes it") {
  skip_without_threads_in_children();
  const Death death = death_of([] {
    static RawDriver* cu = nullptr;
    Fixture f;
    cu = &f.cu;
    f.cu.host_function(
        f.stream, [](void*) { cu->context_synchronize(); }, nullptr);
    f.cu.stream_synchronize(f.stream);
  });
  CHECK(death.aborted);
  CHECK(death.says("a host function, or the destructor of a user object, calls cuCtxSynchronize"));
}

TEST_CASE("a call that nobody asked a device about is refused in a host function if a suite shall go on") {
  static RawDriver* cu = nullptr;
  static CUresult answer = CUDA_SUCCESS;
  Fixture f({.unmodelled = sim::Unmodelled::error});
  cu = &f.cu;
  for (int i = 0; i < 2; ++i) {
    OK(f.cu.host_function(
        f.stream, [](void*) { answer = cu->context_synchronize(); }, nullptr));
    OK(f.cu.stream_synchronize(f.stream));
    CHECK(answer == CUDA_ERROR_NOT_PERMITTED);
  }
  CHECK(sim::take_unmodelled() ==
        std::vector<std::string>{
            "cuCtxSynchronize: a call by a host function, or by the destructor of a user object"});
}

TEST_CASE("host functions may ask for events that they name, and not for a context") {
  struct Asked {
    RawDriver* cu;
    CUstream other;
    CUevent event;
    CUresult query, record, record_default, create;
  };
  Fixture f;
  Asked asked{&f.cu, f.new_stream(), f.event(), {}, {}, {}, {}};
  OK(f.cu.host_function(
      f.stream,
      [](void* data) {
        auto& [cu, other, event, query, record, record_default, create] = *static_cast<Asked*>(data);
        query = cu->event_query(event);
        record = cu->event_record(event, other);
        record_default = cu->event_record(event, nullptr);
        CUevent made = nullptr;
        create = cu->event_create(&made, 0);
      },
      &asked));
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(asked.query == CUDA_SUCCESS);
  CHECK(asked.record == CUDA_SUCCESS);
  CHECK(asked.record_default == CUDA_ERROR_NOT_PERMITTED);
  CHECK(asked.create == CUDA_ERROR_NOT_PERMITTED);
  OK(f.cu.stream_synchronize(asked.other));
  OK(f.cu.event_query(asked.event));
}

TEST_CASE("calling a function that is not modelled ends the program and names it") {
  const Death death = death_of([] {
    Fixture f;
    void* found = nullptr;
    sim::get_proc_address("cuImportExternalMemory", &found, 11020, 0, nullptr);
    reinterpret_cast<CUresult (*)()>(found)();
  });
  CHECK(death.aborted);
  CHECK(death.says("cuImportExternalMemory: not modelled"));
}

TEST_CASE("a call that is not modelled can be refused, and each name is said once") {
  const Death death = death_of([] {
    const auto expect = [](CUresult result, CUresult expected) {
      if (result != expected) std::abort();
    };
    for (const int devices : {1, 2, 2}) {
      Fixture f({.devices = devices, .unmodelled = sim::Unmodelled::error});
      // As the simulator's own type.
      const auto create = f.cu.find<CUresult (*)()>("cuImportExternalMemory", 11020);
      const auto attribute = f.cu.find<PFN_cuDeviceGetP2PAttribute_v8000>("cuDeviceGetP2PAttribute", 8000);
      int value = 7;
      expect(create(), CUDA_ERROR_NOT_SUPPORTED);
      // What a device refuses is refused as there.
      expect(attribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1),
             devices == 1 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NOT_SUPPORTED);
      if (value != 7) std::abort();
      const auto names = sim::take_unmodelled(); // also those that were said before
      if (names.size() != (devices == 1 ? 1 : 2) || names.back() != "cuImportExternalMemory") std::abort();
      if (!sim::take_unmodelled().empty()) std::abort();
    }
  });
  CHECK_FALSE(death.aborted);
  CHECK(death.says("cuImportExternalMemory: not modelled"));
  CHECK(death.says("cuDeviceGetP2PAttribute: not modelled"));
  CHECK(death.says("attributes of two devices"));
  for (const char* name : {"cuImportExternalMemory", "cuDeviceGetP2PAttribute"})
    CHECK(death.report.find(name) == death.report.rfind(name));
}

TEST_CASE("a call that is not modelled changes nothing") {
  const Death death = death_of([] {
    Fixture f({.unmodelled = sim::Unmodelled::error});
    const auto refused = [](CUresult result) {
      if (result != CUDA_ERROR_NOT_SUPPORTED) std::abort();
    };
    const auto must = [](bool holds) {
      if (!holds) std::abort();
    };
    // An allocation from a pool of several processes in a capture, which goes on.
    const auto allocate = f.cu.find<PFN_cuMemAllocFromPoolAsync_v11020>("cuMemAllocFromPoolAsync", 11020);
    CUmemPoolProps shared{};
    shared.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    shared.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    shared.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemoryPool pool = nullptr;
    must(f.cu.find<PFN_cuMemPoolCreate_v11020>("cuMemPoolCreate", 11020)(&pool, &shared) == CUDA_SUCCESS);
    CUdeviceptr memory = 5;
    f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    refused(allocate(&memory, 64, pool, f.stream));
    f.work(f.stream);
    CUgraph graph = nullptr;
    must(f.cu.end_capture(f.stream, &graph) == CUDA_SUCCESS && memory == 0); // as after each failure
    std::size_t nodes = 0;
    f.cu.graph_nodes(graph, nullptr, &nodes);
    must(nodes == 1);
    // The launch of a write to the null address, which a capture accepts.
    f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    f.cu.write_value_32(f.stream, 0, 1, 0);
    f.cu.wait_value_32(f.stream, 0, 1, 0);
    f.cu.end_capture(f.stream, &graph);
    // An instantiation with flags that are not modelled for such nodes.
    CUgraphExec exec = nullptr;
    refused(f.cu.instantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
    must(exec == nullptr && sim::live_handles().graph_execs == 0);
    must(f.cu.instantiate(&exec, graph, 0) == CUDA_SUCCESS);
    refused(f.cu.graph_launch(exec, f.stream));
    must(f.cu.stream_query(f.stream) == CUDA_SUCCESS);
    must(f.cu.stream_synchronize(f.stream) == CUDA_SUCCESS);
  });
  INFO(death.report);
  CHECK_FALSE(death.aborted);
}

TEST_CASE("a device has all attributes, and announces nothing that is not modelled") {
  Fixture f;
  int value = -1;
  for (int number = 1; number < std::min(int{CU_DEVICE_ATTRIBUTE_MAX}, 148); ++number)
    CHECK(f.cu.device_get_attribute(&value, static_cast<CUdevice_attribute>(number), 0) == CUDA_SUCCESS);
  f.cu.device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 0);
  CHECK(value == 512);
}

TEST_CASE("an attribute announces a feature if the simulator models its function, and only then") {
  Fixture f({.unmodelled = sim::Unmodelled::missing});
  constexpr std::pair<CUdevice_attribute, const char*> features[] = {
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "cuMemAllocManaged"},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, "cuMemPrefetchAsync"},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, "cuLaunchCooperativeKernel"},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, "cuLaunchCooperativeKernelMultiDevice"},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "cuMemCreate"},
#if CUDA_VERSION >= 13000
    {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "cuMemCreate"},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "cuMemCreate"},
    {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, "cuMemPoolCreate"},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, "cuMemPoolCreate"},
#endif
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "cuMemExportToShareableHandle"},
    {CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, "cuMemMapArrayAsync"},
    {CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, "cuMemMapArrayAsync"},
    {CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, "cuImportExternalSemaphore"},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "cuMemPoolCreate"},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, "cuMemPoolImportFromShareableHandle"},
    {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, "cuMemGetHandleForAddressRange"},
    {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, "cuTensorMapEncodeTiled"},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, "cuMemHostRegister"},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, "cuMemHostRegister"},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, "cuIpcOpenEventHandle"},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, "cuStreamCreateWithPriority"},
  };
  for (const auto& [attribute, function] : features) {
    int value = 0;
    OK(f.cu.device_get_attribute(&value, attribute, 0));
    void* found = nullptr;
    sim::get_proc_address(function, &found, sim::usual_driver_version, 0, nullptr);
    INFO(attribute << ": " << function);
    CHECK((value != 0) == (found != nullptr));
  }
  int clusters = 1; // launches in clusters are not modelled
  OK(f.cu.device_get_attribute(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
  CHECK(clusters == 0);
}

TEST_CASE("a wait that nothing can end prints what waits for what") {
  const Death death = death_of([] {
    Fixture f({.patience = 0ms});
    const CUevent e = f.event();
    const CUstream other = f.new_stream();
    sim::hold(f.stream);
    f.work(f.stream);
    f.cu.event_record(e, f.stream);
    f.cu.stream_wait(other, e, 0);
    f.cu.stream_synchronize(other);
  });
  CHECK(death.aborted);
  CHECK(death.says("in cuStreamSynchronize"));
  CHECK(
      death.says("(work) on stream #1 of context #1: its stream is held; cuevent::sim::release releases it"));
  CHECK(death.says("(wait for event #1) on stream #2 of context #1: waits for operation"));
}

TEST_CASE("a full launch queue advances time, and ends the program if its stream is held") {
  Fixture f({.patience = 0ms, .queue_limit = 8});
  for (int i = 0; i < 100; ++i)
    OK(f.work(f.stream));
  const Death death = death_of([] {
    Fixture g({.patience = 0ms, .queue_limit = 8});
    sim::hold(g.stream);
    for (int i = 0; i < 9; ++i)
      g.work(g.stream);
  });
  CHECK(death.aborted);
  CHECK(death.says("the launch queue of its stream is full"));
}

TEST_CASE("waiting for a kernel that never ends is a deadlock until it is ended") {
  const Death death = death_of([] {
    Fixture f({.patience = 10ms});
    sim::set_kernel("work", {sim::endless});
    f.work(f.stream);
    f.cu.stream_synchronize(f.stream);
  });
  CHECK(death.aborted);
  CHECK(death.says("end_kernels(\"work\")"));
  Fixture f;
  sim::set_kernel("work", {sim::endless});
  OK(f.work(f.stream));
  sim::run_until_idle();
  CHECK(f.cu.stream_query(f.stream) == CUDA_ERROR_NOT_READY);
  sim::end_kernels("work");
  CHECK(f.cu.stream_query(f.stream) == CUDA_SUCCESS);
}
