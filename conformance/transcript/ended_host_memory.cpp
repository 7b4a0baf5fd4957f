// SPDX-License-Identifier: MIT
// Launches of graphs whose copies use host memory that has ended since. Some crash, so each case has its own
// process.

#include "lab.hpp"

#include <cstdlib>
#include <string>
#include <vector>

namespace transcript {
namespace {

enum class Memory { block, registered };
enum class Copy { to_device, to_host, as_node };
enum class End { waits, at_once, then_replaced, none }; // waits: for the first launch, before the memory ends

struct Case {
  const char* name;
  std::size_t bytes;
  Memory memory = Memory::block;
  Copy copy = Copy::to_device;
  End end = End::waits;
};

constexpr std::size_t page = 4096, mib = std::size_t{1} << 20;
constexpr Case cases[] = {
    {"ended_host_memory.freed.4096", page},
    {"ended_host_memory.freed.1048576", mib},
    {"ended_host_memory.freed.4194304", 4 * mib},
    {"ended_host_memory.freed_at_once.4096", page, Memory::block, Copy::to_device, End::at_once},
    {"ended_host_memory.replaced.4096", page, Memory::block, Copy::to_device, End::then_replaced},
    {"ended_host_memory.not_freed.4096", page, Memory::block, Copy::to_device, End::none},
    {"ended_host_memory.of_node.4096", page, Memory::block, Copy::as_node},
    {"ended_host_memory.to_host.4096", page, Memory::block, Copy::to_host},
    {"ended_host_memory.to_host.4194304", 4 * mib, Memory::block, Copy::to_host},
    {"ended_host_memory.unregistered.4096", page, Memory::registered},
    {"ended_host_memory.unregistered.4194304", 4 * mib, Memory::registered},
    {"ended_host_memory.freed.2097152", 2 * mib},
    {"ended_host_memory.replaced.4194304", 4 * mib, Memory::block, Copy::to_device, End::then_replaced},
    {"ended_host_memory.registered_again.4096", page, Memory::registered, Copy::to_device,
     End::then_replaced},
};

const Case& case_named(const std::string& name) {
  for (const Case& one : cases)
    if (name == one.name) return one;
  throw SetUpFailure("there is no such case");
}

void* make_memory(Lab& lab, const Case& which, void* of_program) {
  if (which.memory == Memory::registered) {
    lab.must(lab.cu.MemHostRegister(of_program, which.bytes, 0), "cuMemHostRegister");
    return of_program;
  }
  void* made = nullptr;
  lab.must(lab.cu.MemHostAlloc(&made, which.bytes, 0), "cuMemHostAlloc");
  return made;
}

CUgraph graph_of(Lab& lab, const Case& which, void* host, CUdeviceptr device) {
  CUgraph graph = nullptr;
  if (which.copy == Copy::as_node) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device;
    copy.WidthInBytes = which.bytes;
    copy.Height = copy.Depth = 1;
    CUgraphNode node = nullptr;
    lab.must(lab.cu.GraphCreate(&graph, 0), "cuGraphCreate");
    lab.must(lab.cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, lab.home), "cuGraphAddMemcpyNode");
    return graph;
  }
  Stream capturing(lab);
  lab.must(lab.cu.StreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.must(which.copy == Copy::to_host ? lab.cu.MemcpyDtoHAsync(host, device, which.bytes, capturing)
                                       : lab.cu.MemcpyHtoDAsync(device, host, which.bytes, capturing),
           "captured copy");
  lab.must(lab.cu.StreamEndCapture(capturing, &graph), "end");
  return graph;
}

void launch(Lab& lab) {
  const Api& cu = lab.cu;
  const Case& which = case_named(lab.scenario);
  CUdeviceptr device = 0;
  lab.must(cu.MemAlloc(&device, which.bytes), "cuMemAlloc");
  void* const of_program = std::aligned_alloc(page, which.bytes);
  void* const host = make_memory(lab, which, of_program);
  const CUgraphExec exec = make_exec(lab, graph_of(lab, which, host, device));
  Stream stream(lab);
  lab.is("launch", cu.GraphLaunch(exec, stream));
  if (which.end != End::at_once && which.end != End::none)
    lab.is("synchronize", cu.StreamSynchronize(stream));
  if (which.end != End::none) {
    lab.is("end", which.memory == Memory::registered ? cu.MemHostUnregister(host) : cu.MemFreeHost(host));
    int type = 0;
    lab.is("end.type", cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                              reinterpret_cast<CUdeviceptr>(host)));
  }
  if (which.end == End::then_replaced) make_memory(lab, which, of_program);
  lab.is("launch_again", cu.GraphLaunch(exec, stream));
  lab.is("synchronize_again", cu.StreamSynchronize(stream));
  char byte = 0;
  lab.is("copy", cu.MemcpyDtoH(&byte, device, 1));
  std::free(of_program);
}

} // namespace

std::vector<Scenario> ended_host_memory_scenarios() {
  std::vector<Scenario> all;
  for (const Case& one : cases)
    all.push_back({one.name, launch, Place::last});
  return all;
}

} // namespace transcript
