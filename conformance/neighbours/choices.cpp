// SPDX-License-Identifier: MIT
#include "choices.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <set>

#include <sys/mman.h>
#include <unistd.h>

namespace neighbours {
namespace {

void CUDA_CB nothing(void*) {}
void CUDA_CB called(CUstream, CUresult, void*) {}
void CUDA_CB log(void*, CUlogLevel, char*, size_t) {}
size_t CUDA_CB no_shared_memory(int) { return 0; }

constexpr long long mega = 1 << 20;
constexpr long long huge = 1LL << 40;

Choices sizes(long long valid) {
  Choices all = numbers({valid, 0, 1, 3, 255, 4096, 4097, mega, huge, -1});
  all.erase(
      std::remove_if(all.begin() + 1, all.end(), [&](const Choice& c) { return c.label == all[0].label; }),
      all.end());
  return all;
}

// Where the driver reads a number that it may also write, such as the room of a list.
Choices counter(long long value) {
  return {numbers_in_list("room_for_" + std::to_string(value), std::vector{static_cast<std::size_t>(value)}),
          null(), numbers_in_list<std::size_t>("room_for_0", {0}),
          numbers_in_list<std::size_t>("room_for_1", {1})};
}

Choices node_lists(const char* valid) {
  return {list_of(valid, [valid](Stage& s) { return s.node(valid); }),
          null(),
          list_of("null_node", [](Stage&) { return static_cast<CUgraphNode>(nullptr); }),
          list_of("other_node", [](Stage& s) { return s.node("fill"); }),
          list_of("of_other_graph",
                  [](Stage& s) {
                    std::map<std::string, CUgraphNode> others;
                    s.new_graph(&others);
                    return others["empty"];
                  }),
          choice("twice_the_same", [](Stage& s) {
            auto* const list = static_cast<CUgraphNode*>(s.room(8 * sizeof(void*)));
            list[0] = list[1] = s.node("empty");
            return list;
          })};
}

const char* module_path() {
  static const std::string path = [] {
    const int file = memfd_create("module", 0);
    const std::string text = Stage(transcript::Api{}).code();
    if (write(file, text.data(), text.size()) < 0) return std::string();
    return "/proc/self/fd/" + std::to_string(file);
  }();
  return path.c_str();
}
Choices attribute_values(const std::string& symbol) {
  if (symbol == "cuMemPoolSetAttribute")
    return {choice("one",
                   [](Stage& s) {
                     auto& made = s.make<cuuint64_t>();
                     made = 1;
                     return &made;
                   }),
            null(), choice("zero", [](Stage& s) { return s.room(64); })};
  return {};
}

Choices own_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  for (const auto of_subject : {array_choices, texture_choices, virtual_memory_choices, graph_memory_choices,
                                memory_range_choices, linker_choices, core_dump_choices})
    if (Choices all = of_subject(symbol, type, name); !all.empty()) return all;
  const std::string key = symbol + "." + name;
  const auto is = [&key](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), [&key](const char* each) { return key == each; });
  };
  // What the call ends is made for it.
  if (is({"cuCtxDestroy_v2.context", "cuCtxDetach.context"})) {
    Choices all = handle_choices("CUcontext");
    all[0] = choice("fresh", [](Stage& s) { return s.fresh_context(); });
    return without(all, {"other", "of_green_context"});
  }
  if (is({"cuModuleUnload.module"})) {
    Choices all = handle_choices("CUmodule");
    all[0] = choice("fresh", [](Stage& s) { return s.fresh_module(); });
    return all;
  }
  if (is({"cuLibraryUnload.library"})) {
    Choices all = handle_choices("CUlibrary");
    all[0] = choice("fresh", [](Stage& s) { return s.fresh_library(); });
    return all;
  }
  if (is({"cuGreenCtxDestroy.green"})) {
    Choices all = handle_choices("CUgreenCtx");
    all[0] = choice("fresh", [](Stage& s) { return s.fresh_green(); });
    return all;
  }
  if (is({"cuDevicePrimaryCtxRelease_v2.device"})) {
    Choices all = handle_choices("CUdevice");
    all.insert(all.begin(), choice("retained", [](Stage& s) {
                 CUcontext context = nullptr;
                 s.must(s.cu.DevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
                 return 0;
               }));
    return all;
  }
  if (is({"cuGreenCtxRecordEvent.event", "cuGreenCtxWaitEvent.event"})) {
    Choices all = handle_choices("CUevent");
    all.insert(all.begin(), choice("of_green_context", [](Stage& s) {
                 s.must(s.cu.CtxPushCurrent(s.green_context()), "cuCtxPushCurrent");
                 const CUevent made = s.new_event(0, false);
                 CUcontext popped = nullptr;
                 s.must(s.cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
                 return made;
               }));
    return all;
  }
  if (is({"cuCtxEnablePeerAccess.peer", "cuCtxDisablePeerAccess.peer"}))
    return chosen_first(handle_choices("CUcontext"), "other");
  if (is({"cuMemFreeHost.pointer", "cuMemHostGetFlags.pointer", "cuMemHostGetDevicePointer_v2.host"}))
    return chosen_first(handle_choices("void*"), "pinned");
  if (is({"cuMemHostUnregister.pointer"})) {
    Choices all = handle_choices("void*");
    all.insert(all.begin(), choice("registered", [](Stage& s) {
                 void* const memory =
                     mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                 s.must(s.cu.MemHostRegister(memory, 1 << 20, 0), "cuMemHostRegister");
                 return memory;
               }));
    return all;
  }
  if (is({"cuMemHostRegister_v2.pointer"})) {
    Choices all = handle_choices("void*");
    all.insert(all.begin(), choice("mapped", [](Stage&) {
                 return mmap(nullptr, 1 << 24, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
               }));
    return all;
  }
  if (is({"cuMemFreeAsync.pointer"})) return chosen_first(handle_choices("CUdeviceptr"), "of_pool");
  if (is({"cuMemAdvise.pointer", "cuMemAdvise_v2.pointer", "cuMemPrefetchAsync.pointer",
          "cuMemPrefetchAsync_v2.pointer", "cuStreamAttachMemAsync.pointer"}))
    return chosen_first(handle_choices("CUdeviceptr"), "managed");
  if (key.find("cuMemcpy") == 0 && type == "CUdeviceptr" && key.find(".to") == key.size() - 3 &&
      key.find("DtoH") == std::string::npos) {
    Choices all = handle_choices("CUdeviceptr");
    all[0] = choice("target", [](Stage& s) { return s.target(); });
    return all;
  }
  // Captures.
  if (is({"cuStreamEndCapture.stream", "cuStreamGetCaptureInfo.stream", "cuStreamGetCaptureInfo_v2.stream",
          "cuStreamGetCaptureInfo_v3.stream", "cuStreamUpdateCaptureDependencies.stream",
          "cuStreamUpdateCaptureDependencies_v2.stream"}))
    return chosen_first(handle_choices("CUstream"), "capturing");
  if (is({"cuStreamUpdateCaptureDependencies.dependencies",
          "cuStreamUpdateCaptureDependencies_v2.dependencies"}))
    return {choice("of_capture",
                   [](Stage& s) {
                     CUstreamCaptureStatus status{};
                     const CUgraphNode* nodes = nullptr;
                     std::size_t count = 0;
                     s.must(
                         s.cu.StreamGetCaptureInfo(s.capturing(), &status, nullptr, nullptr, &nodes, &count),
                         "cuStreamGetCaptureInfo");
                     auto* const list = static_cast<CUgraphNode*>(s.room(64));
                     list[0] = nodes[0];
                     return list;
                   }),
            null(), list_of("null_node", [](Stage&) { return static_cast<CUgraphNode>(nullptr); }),
            list_of("of_other_graph", [](Stage& s) { return s.node("empty"); })};
  if (is({"cuThreadExchangeStreamCaptureMode.mode"})) {
    Choices all;
    for (int mode : {0, 1, 2, 3, -1})
      all.push_back(choice(std::to_string(mode), [mode](Stage& s) {
        auto& made = s.make<int>();
        made = mode;
        return &made;
      }));
    all.insert(all.begin() + 1, null());
    return all;
  }
  if (is({"cuMemcpyBatchAsync.to", "cuMemcpyBatchAsync_v2.to"}))
    return {list_of("target", [](Stage& s) { return s.target(); }),
            null(),
            list_of("address_0", [](Stage&) { return CUdeviceptr{0}; }),
            list_of("pinned", [](Stage& s) { return s.pinned(); }),
            list_of("pageable", [](Stage& s) { return s.room(mega); }),
            list_of("of_other_context", [](Stage& s) { return s.other_memory(); })};
  if (is({"cuMemcpyBatchAsync.from", "cuMemcpyBatchAsync_v2.from"}))
    return {list_of("memory", [](Stage& s) { return s.memory(); }),
            null(),
            list_of("address_0", [](Stage&) { return CUdeviceptr{0}; }),
            list_of("pinned", [](Stage& s) { return s.pinned(); }),
            list_of("pageable", [](Stage& s) { return s.room(mega); }),
            list_of("of_other_context", [](Stage& s) { return s.other_memory(); })};
  if (is({"cuMemcpyBatchAsync.sizes", "cuMemcpyBatchAsync_v2.sizes"}))
    return {list_of("256", [](Stage&) { return std::size_t{256}; }),
            null(),
            list_of("0", [](Stage&) { return std::size_t{0}; }),
            list_of("3", [](Stage&) { return std::size_t{3}; }),
            list_of("4097", [](Stage&) { return std::size_t{4097}; }),
            list_of("huge", [](Stage&) { return std::size_t{1} << 40; })};
  if (is({"cuMemcpyBatchAsync.first", "cuMemcpyBatchAsync_v2.first"}))
    return {list_of("0", [](Stage&) { return std::size_t{0}; }), null(),
            list_of("1", [](Stage&) { return std::size_t{1}; })};
  if (is({"cuMemcpyBatchAsync.attribute_count", "cuMemcpyBatchAsync_v2.attribute_count"}))
    return numbers({1, 0, 2, -1});
  if (is({"cuMemcpyBatchAsync.count", "cuMemcpyBatchAsync_v2.count", "cuMemcpy3DBatchAsync.count"}))
    return numbers({1, 0, 2});
  if (is({"cuDevResourceGenerateDesc.count"})) return numbers({1, 0, 2});
  if (is({"cuMemPoolSetAccess.count"})) return numbers({1, 0, 2, 3});
  if (is({"cuStreamBatchMemOp_v2.count"})) return numbers({1, 0, 257});
  if (is({"cuCtxCreate_v3.affinities"})) return numbers({0, 1, -1, 2});
  if (is({"cuCtxCreate_v3.affinity"})) {
    Choices all = structure_choices("", "CUexecAffinityParam*", "affinity");
    std::swap(all[0], all[1]);
    return all;
  }
  if (is({"cuStreamUpdateCaptureDependencies.count", "cuStreamUpdateCaptureDependencies_v2.count"}))
    return numbers({1, 0, 2});
  if (is({"cuStreamBeginCaptureToGraph.after"})) {
    Choices all = node_lists("empty");
    std::swap(all[0], all[1]);
    return all;
  }
  if (key.find(".after") != std::string::npos) {
    Choices all = node_lists("empty");
    std::swap(all[0], all[1]);
    return all;
  }
  if (key.find("cuGraphAdd") == 0 && key.find(".count") != std::string::npos &&
      key.find("Dependencies") == std::string::npos)
    return numbers({0, 1, 2});
  if (is({"cuStreamBeginCaptureToGraph.count"})) return numbers({0, 1, 2});
  if (key.find("Dependencies") != std::string::npos && key.find(".count") != std::string::npos &&
      key.find("cuGraphNode") != 0)
    return numbers({1, 0, 2});
  if (is({"cuGraphAddDependencies.from", "cuGraphAddDependencies_v2.from"})) return node_lists("host");
  if (is({"cuGraphAddDependencies.to", "cuGraphAddDependencies_v2.to"})) return node_lists("kernel");
  if (is({"cuGraphRemoveDependencies.from", "cuGraphRemoveDependencies_v2.from"})) return node_lists("empty");
  if (is({"cuGraphRemoveDependencies.to", "cuGraphRemoveDependencies_v2.to"})) return node_lists("second");
  if (is({"cuGraphAddChildGraphNode.child"})) return chosen_first(handle_choices("CUgraph"), "empty");
  if (is({"cuGraphExecChildGraphNodeSetParams.child"}))
    return chosen_first(handle_choices("CUgraph"), "of_child_node");
  if (is({"cuGraphReleaseUserObject.count", "cuUserObjectRelease.count", "cuUserObjectRetain.count",
          "cuGraphRetainUserObject.count"}))
    return numbers({1, 0, 2, 3, INT_MAX, 1LL << 31});
  if (is({"cuUserObjectCreate.flags"})) return flag_bits(1);
  if (is({"cuUserObjectCreate.references"})) return numbers({1, 0, 2, INT_MAX, 1LL << 31, 0xffffffffLL});
  if (is({"cuUserObjectRelease.object", "cuUserObjectRetain.object", "cuGraphRetainUserObject.object"}))
    return chosen_first(handle_choices("CUuserObject"), "unowned");
  if (is({"cuGraphNodeFindInClone.clone"}))
    return {choice("clone",
                   [](Stage& s) {
                     CUgraph made = nullptr;
                     s.must(s.cu.GraphClone(&made, s.graph()), "cuGraphClone");
                     return made;
                   }),
            null(), choice("graph", [](Stage& s) { return s.graph(); }),
            choice("empty", [](Stage& s) { return s.new_graph(nullptr); })};
  if (is({"cuGraphExecUpdate_v2.graph"})) return chosen_first(handle_choices("CUgraph"), "graph");
  // Nodes of the kind that the function is about.
  const auto node_of = [&key](const char* part, const char* kind) {
    return key.find(part) != std::string::npos && key.find(".node") == key.size() - 5 ? kind : nullptr;
  };
  if (key.find("cuGraph") == 0 && key.find("cuGraphAdd") != 0)
    for (const auto& [part, kind] : {std::pair<const char*, const char*>{"ChildGraph", "child"},
                                     {"MemcpyNode", "copy"},
                                     {"MemsetNode", "fill"},
                                     {"KernelNode", "kernel"},
                                     {"HostNode", "host"},
                                     {"EventRecord", "record"},
                                     {"EventWait", "wait"},
                                     {"NodeSetEnabled", "kernel"},
                                     {"NodeGetEnabled", "kernel"},
                                     {"cuGraphNodeSetParams", "host"},
                                     {"ExecNodeSetParams", "host"},
                                     {"GetDependencies", "second"}})
      if (node_of(part, kind) != nullptr) return chosen_first(handle_choices("CUgraphNode"), kind);
  // Kernels.
  if (is({"cuParamSeti.function", "cuParamSetf.function", "cuParamSetv.function",
          "cuFuncGetParamInfo.function", "cuParamSetSize.function"}))
    return chosen_first(handle_choices("CUfunction"), "with_parameters");
  if (is({"cuParamSetv.count"})) return numbers({4, 0, 1, 3, 12, 4096, 4097, 0xffffffffLL});
  if (key.find("cuParamSet") == 0 && key.find(".offset") != std::string::npos)
    return numbers({0, 1, 4, 8, -1, 4092, 4096, INT_MAX});
  if (is({"cuParamSetSize.bytes"})) return numbers({12, 0, 1, 3, 4096, 4097, 0xffffffffLL});
  if (is({"cuFuncSetSharedSize.bytes"})) return numbers({0, 1, 3, 49152, 49153, 0xffffffffLL});
  if (is({"cuLaunchKernel.grid_x"})) return numbers({1, 0, 0x7fffffff, 0x80000000LL});
  if (is({"cuLaunchKernel.grid_y", "cuLaunchKernel.grid_z"})) return numbers({1, 0, 65535, 65536});
  if (is({"cuLaunchKernel.block_x", "cuLaunchKernel.block_y"})) return numbers({1, 0, 1024, 1025});
  if (is({"cuLaunchKernel.block_z"})) return numbers({1, 0, 64, 65});
  if (is({"cuLaunchKernel.shared"})) return numbers({0, 1, 3, 49152, 49153, 300000, 0xffffffffLL});
  if (is({"cuFuncSetBlockShape.x", "cuFuncSetBlockShape.y", "cuFuncSetBlockShape.z"}))
    return numbers({1, 0, -1, 64, 65, 1024, 1025, INT_MAX});
  if (is({"cuLaunchGrid.width", "cuLaunchGrid.height", "cuLaunchGridAsync.width",
          "cuLaunchGridAsync.height"}))
    return numbers({1, 0, -1, 65535, 65536, INT_MAX});
  if (key.find("cuLaunchKernel") == 0 && key.find(".parameters") != std::string::npos)
    return {null(), choice("list", [](Stage& s) {
              void** const values = static_cast<void**>(s.room(64));
              values[0] = values[1] = s.room(64);
              return values;
            })};
  if (key.find("cuLaunchKernel") == 0 && key.find(".extra") != std::string::npos)
    return {null(), choice("ended", [](Stage& s) { return s.room(64); }), choice("buffer", [](Stage& s) {
              void** const list = static_cast<void**>(s.room(64));
              auto& size = s.make<std::size_t>();
              list[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
              list[1] = s.room(64);
              list[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
              list[3] = &size;
              return list;
            })};
  if (key.find("cuOccupancy") == 0 && type.back() != '*' && type != "CUoccupancyB2DSize") {
    if (key.find(".threads") != std::string::npos) return numbers({128, 0, -1, 1, 3, 1024, 1025});
    if (key.find(".shared") != std::string::npos) return numbers({0, 1, 49152, 49153, 300000, huge, -1});
    if (key.find(".blocks") != std::string::npos) return numbers({1, 0, -1, 2, 32, 33, 1000});
    if (key.find(".limit") != std::string::npos) return numbers({0, -1, 1, 3, 1024, 1025});
  }
  if (is({"cuFuncGetAttribute.attribute", "cuFuncSetAttribute.attribute", "cuKernelGetAttribute.attribute",
          "cuKernelSetAttribute.attribute"}))
    return enumerators(key.find("Set") != std::string::npos ? 8 : 0, 17);
  if (is({"cuFuncSetAttribute.value", "cuKernelSetAttribute.wish"}))
    return numbers({0, -1, -2, 1, 2, 3, 50, 100, 101, 49152, 49153, 232448, 232449, INT_MAX});
  if (is({"cuFuncGetParamInfo.index", "cuKernelGetParamInfo.index"})) return numbers({0, 1, 2, 1000, -1});
  if (is({"cuModuleEnumerateFunctions.room", "cuLibraryEnumerateKernels.room"}))
    return numbers({2, 0, 1, 3, 8});
  // Modules and libraries.
  if (is({"cuModuleLoad.path", "cuLibraryLoadFromFile.path"})) return paths();
  if (is({"cuModuleLoadData.image", "cuModuleLoadDataEx.image", "cuLibraryLoadData.code"})) return images();
  if (is({"cuModuleLoadFatBinary.image"})) return images();
  if (is({"cuModuleGetFunction.name", "cuLibraryGetKernel.name"}))
    return words({"step", "", "nowhere", "counter"});
  if (is({"cuModuleGetGlobal_v2.name", "cuLibraryGetGlobal.name", "cuLibraryGetManaged.name"}))
    return words({key.find("Managed") != std::string::npos ? "shared" : "counter", "", "nowhere", "step"});
  if (is({"cuLibraryGetUnifiedFunction.symbol"})) return words({"step", "", "nowhere"});
  if (key.find(".options_count") != std::string::npos || key.find(".library_count") != std::string::npos ||
      is({"cuModuleLoadDataEx.count"}))
    return numbers({0, 1});
  if (key.find(".options") != std::string::npos || key.find(".library_options") != std::string::npos) {
    Choices all{null()};
    for (int option = -1; option <= (key.find(".library_options") != std::string::npos ? 3 : 32); ++option)
      all.push_back(numbers_in_list<int>("option_" + std::to_string(option), {option}));
    return all;
  }
  if (key.find(".values") != std::string::npos || key.find(".library_values") != std::string::npos)
    return {null(), choice("zeros", [](Stage& s) { return s.room(4096); })};
  // Names and ids.
  if (is({"cuDeviceGetByPCIBusId.id"})) {
    Choices all =
        words({"0000:00:00.0", "", "x", "0", ":", "0000", "0000:00", "ffff:ff:1f.7", "0000:00:00.0 "});
    all.insert(all.begin(), choice("own", [](Stage& s) {
                 char* const id = static_cast<char*>(s.room(64));
                 s.must(s.cu.DeviceGetPCIBusId(id, 64, 0), "cuDeviceGetPCIBusId");
                 return id;
               }));
    all.push_back(choice("own_with_more", [](Stage& s) {
      char* const id = static_cast<char*>(s.room(64));
      s.must(s.cu.DeviceGetPCIBusId(id, 64, 0), "cuDeviceGetPCIBusId");
      return std::strcat(id, "7");
    }));
    return all;
  }
  if (is({"cuDeviceGetName.length", "cuDeviceGetPCIBusId.room"})) return numbers({64, 0, -1, 1, 3, 12, 13});
  if (is({"cuDeviceGet.ordinal"})) return numbers({0, -1, -2, 1, 1000});
  if (is({"cuGetProcAddress.symbol", "cuGetProcAddress_v2.symbol"}))
    return words(
        {"cuEventCreate", "", "cuNowhere", "cuInit", "cuEventCreate_v2", "cuEventRecord", "cuMemAlloc_v2"});
  if (key.find("cuGetProcAddress") == 0 && key.find(".version") != std::string::npos)
    return numbers({12000, 0, -1, 1, 1999, 2000, 3020, 13000, 13050, 99999});
  if (is({"cuGetErrorName.error", "cuGetErrorString.error"}))
    return numbers({0,   1,   2,   3,   4,   5,   100, 101, 200, 201, 219,  300, 400, 401,  500,
                    600, 700, 719, 800, 900, 907, 908, 915, 917, 999, 1000, -1,  6,   12345});
  if (is({"cuGetExportTable.id"})) return {choice("zeros", [](Stage& s) { return s.room(16); }), null()};
  if (is({"cuGraphDebugDotPrint.path"})) return words({"/dev/null", "", "/nowhere/at.all"});
  if (key.find("cuProfilerInitialize.") == 0 && key != "cuProfilerInitialize.mode")
    return words({"", "/nowhere"});
  if (is({"cuProfilerInitialize.mode"})) return numbers({0, 1, 2, -1});
  if (is({"cuIpcOpenEventHandle.handle"}))
    return {choice("zeros", [](Stage& s) { return s.room(64); }), choice("own", [](Stage& s) {
              auto& made = s.make<CUipcEventHandle>();
              s.must(s.cu.IpcGetEventHandle(
                         &made, s.new_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, true)),
                     "cuIpcGetEventHandle");
              return &made;
            })};
  if (is({"cuIpcOpenMemHandle.handle", "cuIpcOpenMemHandle_v2.handle"}))
    return {choice("own",
                   [](Stage& s) {
                     auto& made = s.make<CUipcMemHandle>();
                     s.must(s.cu.IpcGetMemHandle(&made, s.memory()), "cuIpcGetMemHandle");
                     return &made;
                   }),
            choice("zeros", [](Stage& s) { return s.room(64); }),
            choice("of_freed_memory",
                   [](Stage& s) {
                     CUdeviceptr memory = 0;
                     auto& made = s.make<CUipcMemHandle>();
                     s.must(s.cu.MemAlloc(&memory, 4096), "cuMemAlloc");
                     s.must(s.cu.IpcGetMemHandle(&made, memory), "cuIpcGetMemHandle");
                     s.must(s.cu.MemFree(memory), "cuMemFree");
                     return &made;
                   }),
            choice("of_event", [](Stage& s) {
              auto& made = s.make<CUipcEventHandle>();
              s.must(s.cu.IpcGetEventHandle(
                         &made, s.new_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, true)),
                     "cuIpcGetEventHandle");
              return &made;
            })};
  if (is({"cuIpcOpenMemHandle.Flags", "cuIpcOpenMemHandle_v2.Flags"})) return flag_bits(1);
  if (is({"cuIpcGetEventHandle.event"})) return chosen_first(handle_choices("CUevent"), "interprocess");
  if (is({"cuEventElapsedTime.end", "cuEventElapsedTime_v2.end"})) {
    Choices all = handle_choices("CUevent");
    all[0] = choice("second", [](Stage& s) { return s.second_event(); });
    return all;
  }
  // Attributes.
  if (is({"cuCtxSetLimit.value"})) return numbers({1024, 0, 1, 3, 65536, huge, -1});
  if (is({"cuPointerGetAttribute.attribute"})) return enumerators(1, 24);
  if (is({"cuPointerSetAttribute.attribute"})) return enumerators(6, 24);
  if (is({"cuPointerSetAttribute.value"}))
    return {choice("one",
                   [](Stage& s) {
                     auto& made = s.make<int>();
                     made = 1;
                     return &made;
                   }),
            null(), choice("zero", [](Stage& s) { return s.room(8); })};
  if (is({"cuPointerGetAttributes.count"})) return numbers({2, 0, 1});
  if (is({"cuPointerGetAttributes.attributes"})) {
    Choices all;
    for (int first : {1, 2, 0, 6, 20, 21, 100})
      all.push_back(numbers_in_list<int>("first_" + std::to_string(first), {first, 2}));
    all.insert(all.begin() + 1, null());
    return all;
  }
  if (is({"cuPointerGetAttributes.data"}))
    return {choice("list",
                   [](Stage& s) {
                     void** const list = static_cast<void**>(s.room(64));
                     for (int i = 0; i < 3; ++i)
                       list[i] = s.room(64);
                     return list;
                   }),
            null(), choice("list_of_nulls", [](Stage& s) { return s.room(64); })};
  if (is({"cuMemPoolGetAttribute.attribute", "cuMemPoolSetAttribute.attribute"})) return enumerators(4, 16);
  if (is({"cuMemPoolSetAttribute.value"})) return attribute_values("cuMemPoolSetAttribute");
  if (is({"cuMemPoolExportToShareableHandle.type"})) return numbers({1, 0, 2, 4, 8, 16, 3, -1});
  if (is({"cuMemPoolExportToShareableHandle.pool"}))
    return chosen_first(handle_choices("CUmemoryPool"), "exportable");
  if (is({"cuMemSetMemPool.pool"})) return without(handle_choices("CUmemoryPool"), {"destroyed"});
  if (is({"cuDeviceSetMemPool.pool"})) return chosen_first(handle_choices("CUmemoryPool"), "default");
  if (key.find("cuStreamGetAttribute") == 0 && key.find(".value") != std::string::npos)
    return {choice("room", [](Stage& s) { return s.room(256); }), null()};
  if (is({"cuStreamSetAttribute.value"}))
    return {choice("zeros", [](Stage& s) { return s.room(256); }), null(),
            choice("ones",
                   [](Stage& s) {
                     int* const made = static_cast<int*>(s.room(256));
                     made[0] = made[1] = 1;
                     return made;
                   }),
            choice("fours", [](Stage& s) { return std::memset(s.room(256), 4, 4); })};
  if (is({"cuStreamCopyAttributes.from"})) {
    Choices all = handle_choices("CUstream");
    all[0] = choice("second", [](Stage& s) { return s.second_stream(); });
    return all;
  }
  // Streams and memory.
  if (is({"cuStreamCreateWithPriority.priority", "cuGreenCtxStreamCreate.priority"}))
    return numbers({0, -1, -5, -6, 1, 1000, INT_MIN});
  if (is({"cuGreenCtxStreamCreate.flags", "cuGreenCtxCreate.flags"})) return flag_bits(1);
  // Memory has ones as 32-bit words: a wait for this value ends.
  if (key.find("cuStreamW") == 0 && key.find(".value") != std::string::npos)
    return numbers({type == "cuuint64_t" ? 0x100000001 : 1, 0, -1});
  if (is({"cuStreamAttachMemAsync.length"})) return numbers({0, 1, 4095, 4096, 4097, huge});
  if (is({"cuStreamAttachMemAsync.flags"})) return flag_bits(4);
  if (is({"cuMemAllocManaged.flags"})) return flag_bits(1);
  if (is({"cuMemcpy3DBatchAsync.flags"})) return flag_bits();
  if (is({"cuDevSmResourceSplitByCount.minimum"})) return numbers({8, 0, 1, 3, 7, 9, 16, 132, 133, 10000});
  if (is({"cuDevSmResourceSplitByCount.groups"})) return counter(1);
  if (is({"cuMemAllocPitch_v2.element"})) return numbers({4, 0, 1, 2, 3, 8, 16, 32});
  if (key.find("cuMemsetD2D") == 0 && key.find(".pitch") != std::string::npos)
    return numbers({256, 0, 1, 15, 16, 17, 64, huge, -1});
  if (key.find("cuMemsetD2D") == 0 && key.find(".width") != std::string::npos)
    return numbers({16, 0, 1, 3, 256, 257, huge, -1});
  if (key.find("cuMemsetD2D") == 0 && key.find(".height") != std::string::npos)
    return numbers({2, 0, 1, 3, huge, -1});
  if (is({"cuMemAllocPitch_v2.width"})) return numbers({100, 0, 1, 3, 512, 513, huge, -1});
  if (is({"cuMemAllocPitch_v2.height"})) return numbers({2, 0, 1, 3, huge, -1});
  if (key.find("cuMemsetD") == 0 && key.find(".count") != std::string::npos) {
    if (key.find("D32") != std::string::npos) return sizes(16);
    return sizes(64);
  }
  if (is({"cuMemHostRegister_v2.bytes"}))
    return numbers({1 << 20, 0, 1, 3, 4095, 4096, 1 << 22, 1 << 23, huge});
  if (is({"cuMemAlloc_v2.bytes", "cuMemAllocHost_v2.bytes", "cuMemHostAlloc.bytes", "cuMemAllocManaged.bytes",
          "cuMemAllocAsync.bytes", "cuMemAllocFromPoolAsync.bytes"}))
    return numbers({256, 0, 1, 3, 4096, 1LL << 50, -1});
  if (is({"cuMemPoolTrimTo.bytes"})) return numbers({0, 1, mega, huge, -1});
  if (is({"cuMemAdvise.count", "cuMemAdvise_v2.count", "cuMemPrefetchAsync.count",
          "cuMemPrefetchAsync_v2.count"}))
    return numbers({4096, 0, 1, 3, 4097, mega, huge, -1});
  if (is({"cuMemAdvise.device", "cuMemPrefetchAsync.to"})) return numbers({0, -1, -2, 1, 1000});
  if (is({"cuGraphNodeSetEnabled.enabled"})) return numbers({1, 0, 2, 0xffffffffLL});
  if (is({"cuDeviceGetP2PAttribute.to", "cuDeviceCanAccessPeer.peer"})) return numbers({0, -1, 1, 1000});
  if (is({"cuCtxAttach.flags"})) return flag_bits();
  return {};
}

} // namespace

Choices numbers(std::vector<long long> values) {
  Choices all;
  for (long long value : values)
    all.push_back(choice(std::to_string(value), [value](Stage&) { return value; }));
  return all;
}

Choices words(std::vector<const char*> texts) {
  Choices all;
  for (const char* text : texts)
    all.push_back(choice(std::string("'") + text + "'", [text](Stage& s) {
      return std::strcpy(static_cast<char*>(s.room(std::strlen(text) + 1)), text);
    }));
  all.insert(all.begin() + 1, null());
  return all;
}

Choices without(Choices choices, std::set<std::string> labels) {
  choices.erase(std::remove_if(choices.begin(), choices.end(),
                               [&](const Choice& c) { return labels.count(c.label) != 0; }),
                choices.end());
  return choices;
}

Choices images() {
  return {choice("ptx", [](Stage& s) { return s.code(); }), null(),
          choice("empty", [](Stage& s) { return s.room(4096); }), choice("no_code", [](Stage& s) {
            return std::strcpy(static_cast<char*>(s.room(4096)), "this is no code");
          })};
}

Choices paths() {
  Choices all{choice("file", [](Stage&) { return module_path(); })};
  for (Choice& each : words({"", "/nowhere/at.all", "/dev/null"}))
    all.push_back(each);
  return all;
}

Choices flag_bits(unsigned valid) {
  std::vector<unsigned> values{valid, 0};
  for (int bit : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 24, 31})
    values.push_back(1u << bit);
  values.push_back(3);
  values.push_back(5);
  values.push_back(7);
  values.push_back(~0u);
  Choices all;
  std::set<unsigned> seen;
  for (unsigned value : values) {
    if (!seen.insert(value).second) continue;
    char label[16];
    std::snprintf(label, sizeof(label), "0x%x", value);
    all.push_back(choice(label, [value](Stage&) { return value; }));
  }
  return all;
}

Choices enumerators(long long valid, long long last, std::vector<long long> others) {
  std::vector<long long> values{valid};
  for (long long value = -1; value <= last; ++value)
    if (value != valid) values.push_back(value);
  values.insert(values.end(), others.begin(), others.end());
  return numbers(values);
}

Choices chosen_first(Choices choices, const std::string& label) {
  const auto found =
      std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.label == label; });
  if (found == choices.end()) throw std::logic_error("no choice " + label);
  std::rotate(choices.begin(), found, found + 1);
  return choices;
}

bool is_result(const std::string& symbol, const std::string& type, const std::string& name) {
  if (type.empty() || type.back() != '*' || type == "void*" || type == "const void*" || type == "const char*")
    return false;
  return own_choices(symbol, type, name).empty() && structure_choices(symbol, type, name).empty() &&
         !(type == "size_t*" && name == "count") &&
         !(type.compare(0, 6, "const ") == 0 && type.substr(type.size() - 2) != "**");
}

namespace {

Choices usual_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  if (Choices own = own_choices(symbol, type, name); !own.empty()) return own;
  if (Choices structures = structure_choices(symbol, type, name); !structures.empty()) return structures;
  if (type == "size_t*" && name == "count") return counter(64);
  if (is_result(symbol, type, name))
    return {choice("result", [](Stage& s) { return std::memset(s.room(4096), 0xa5, 4096); }), null()};
  if (type == "void*" && (name == "data" || name == "handle" || name == "value") &&
      symbol != "cuLaunchHostFunc" && symbol != "cuStreamAddCallback" && symbol != "cuLogsRegisterCallback")
    return {choice("room", [](Stage& s) { return s.room(4096); }), null()};
  if (type == "void*" && (name == "data" || symbol == "cuUserObjectCreate"))
    return {null(), choice("room", [](Stage& s) { return s.room(64); })};
  if (Choices handles = handle_choices(type); !handles.empty()) return handles;
  if (type == "CUhostFn") return {choice("function", [](Stage&) { return &nothing; }), null()};
  if (type == "CUstreamCallback") return {choice("function", [](Stage&) { return &called; }), null()};
  if (type == "CUlogsCallback") return {choice("function", [](Stage&) { return &log; }), null()};
  if (type == "CUoccupancyB2DSize")
    return {null(), choice("function", [](Stage&) { return &no_shared_memory; })};
  if (type == "CUdevResourceType") return numbers({1, 0, 2, -1, 1000, 10000});
  if (type == "CUdevice_P2PAttribute") return enumerators(1, 6);
  if (type == "CUdevice_attribute") return enumerators(1, 160);
  if (type == "CUexecAffinityType") return enumerators(0, 2);
  if (type == "CUfunc_cache") return enumerators(0, 4);
  if (type == "CUlimit") return enumerators(0, 12);
  if (type == "CUmemAllocationType") return enumerators(1, 3, {0x7fffffff});
  if (type == "CUmem_advise") return enumerators(1, 9);
  if (type == "CUstreamAttrID") return enumerators(1, 20);
  if (type == "CUstreamCaptureMode") return enumerators(2, 3);
  if (name == "flags") return flag_bits();
  if (type == "size_t" && (name == "bytes" || name == "count")) return sizes(256);
  if (type == "unsigned char") return numbers({7, 0, 255});
  if (type == "unsigned short") return numbers({7, 0, 65535});
  if (type == "unsigned int" || type == "int" || type == "cuuint32_t" || type == "cuuint64_t" ||
      type == "float")
    return numbers({1, 0, -1, 3, INT_MAX, INT_MIN});
  if (type == "size_t") return sizes(256);
  return {};
}

} // namespace

Choices choices_of(const std::string& symbol, const std::string& type, const std::string& name) {
  Choices all = usual_choices(symbol, type, name);
  for (Choice& each : added_choices(symbol, name))
    all.push_back(std::move(each));
  return all;
}

} // namespace neighbours
