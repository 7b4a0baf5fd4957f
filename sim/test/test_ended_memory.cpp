// SPDX-License-Identifier: MIT
// Launches of graphs whose copies and fills use memory that has ended, with the answers of an H100 (driver
// 580.159.04, 2026-11-27).
#include "death.hpp"
#include "fixture.hpp"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

constexpr std::size_t page = 4096, mib = std::size_t{1} << 20;

struct Graphs : Fixture {
  explicit Graphs(std::size_t size = page) : bytes(size) { OK(cu.allocate(&device, bytes)); }
  void* block() {
    void* made = nullptr;
    OK(cu.host_allocate(&made, bytes, 0));
    return made;
  }
  void free(void* host) { OK(cu.find<PFN_cuMemFreeHost_v2000>("cuMemFreeHost", 2000)(host)); }
  template <class Work>
  CUgraphExec captured(Work submit) {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    OK(cu.begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(submit());
    OK(cu.end_capture(stream, &graph));
    OK(cu.instantiate(&exec, graph, 0));
    OK(cu.graph_launch(exec, stream));
    OK(cu.stream_synchronize(stream));
    return exec;
  }
  CUgraphExec copy_from(void* host) {
    return captured([=, this] { return cu.copy_to_device(device, host, bytes, stream); });
  }
  CUgraphExec copy_to(void* host) {
    return captured([=, this] { return cu.copy_to_host(host, device, bytes, stream); });
  }
  void fails(CUgraphExec exec) {
    OK(cu.graph_launch(exec, stream));
    CHECK(cu.stream_synchronize(stream) == CUDA_ERROR_LAUNCH_FAILED);
  }

  std::size_t bytes;
  CUdeviceptr device = 0;
};

} // namespace

TEST_CASE("a launch that copies with a freed block of the host crashes") {
  for (const std::size_t bytes : {page, mib}) {
    const Death from = death_of([bytes] {
      Graphs f(bytes);
      void* const host = f.block();
      const CUgraphExec exec = f.copy_from(host);
      f.free(host);
      f.cu.graph_launch(exec, f.stream);
    });
    CHECK(from.crashed);
    CHECK(from.says("cuGraphLaunch: crashes on a device"));
    CHECK(from.says(std::to_string(bytes) + " bytes of host memory at 0x"));
    CHECK(from.says("which cuMemFreeHost has freed"));
  }
  const Death to = death_of([] {
    Graphs f;
    void* const host = f.block();
    const CUgraphExec exec = f.copy_to(host);
    f.free(host);
    f.block(); // perhaps at the same address
    f.cu.graph_launch(exec, f.stream);
  });
  CHECK(to.crashed);
}

TEST_CASE("work that copies with a freed block of 2 MiB or more fails") {
  const std::size_t bytes = GENERATE(2 * mib, 4 * mib);
  const bool replaced = GENERATE(false, true);
  Graphs f(bytes);
  void* const host = f.block();
  const CUgraphExec exec = f.copy_from(host);
  f.free(host);
  if (replaced) f.block(); // perhaps at the same address
  f.fails(exec);
}

TEST_CASE("work that copies with memory that was unregistered fails") {
  const bool again = GENERATE(false, true);
  for (const std::size_t bytes : {page, 4 * mib}) {
    Graphs f(bytes);
    const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page, bytes), &std::free);
    OK(f.cu.host_register(memory.get(), bytes, 0));
    const CUgraphExec exec = f.copy_to(memory.get());
    OK(f.cu.host_unregister(memory.get()));
    if (again) OK(f.cu.host_register(memory.get(), bytes, 0));
    f.fails(exec);
  }
}

TEST_CASE("an exec whose copy has got other memory runs after the end of the first") {
  Graphs f;
  void *const first = f.block(), *const second = f.block();
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = first;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = f.device;
  copy.WidthInBytes = page;
  copy.Height = copy.Depth = 1;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(f.cu.graph_create(&graph, 0));
  OK(f.cu.add_copy_node(&node, graph, nullptr, 0, &copy, f.context));
  OK(f.cu.instantiate(&exec, graph, 0));
  copy.srcHost = second;
  OK(f.cu.exec_set_copy(exec, node, &copy, f.context));
  f.free(first);
  OK(f.cu.graph_launch(exec, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
}

TEST_CASE("the simulator does not guess about other memory that has ended") {
  const Death between = death_of([] {
    Graphs f(2 * mib - page);
    void* const host = f.block();
    const CUgraphExec exec = f.copy_from(host);
    f.free(host);
    f.cu.graph_launch(exec, f.stream);
  });
  CHECK(between.says("cuGraphLaunch: not modelled"));
  const Death device = death_of([] {
    Graphs f;
    void* const host = f.block();
    const CUgraphExec exec = f.copy_from(host);
    OK(f.cu.free(f.device));
    f.cu.graph_launch(exec, f.stream);
  });
  CHECK(device.says("cuGraphLaunch: undefined on a device"));
}
