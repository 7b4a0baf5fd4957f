// SPDX-License-Identifier: MIT
// Handles and addresses of memory, as arguments.
#include "choices.hpp"

namespace neighbours {
namespace {

void CUDA_CB nothing(void*) {}

Choices streams() {
  return {
      choice("stream", [](Stage& s) { return s.stream(); }),
      null(),
      choice("legacy", [](Stage&) { return CU_STREAM_LEGACY; }),
      choice("per_thread", [](Stage&) { return CU_STREAM_PER_THREAD; }),
      choice("blocking", [](Stage& s) { return s.new_stream(CU_STREAM_DEFAULT); }),
      choice("of_other_context",
             [](Stage& s) { return s.in_other_context([&s] { return s.new_stream(); }); }),
      choice("capturing", [](Stage& s) { return s.capturing(); }),
      choice("of_green_context",
             [](Stage& s) {
               CUstream made = nullptr;
               s.must(s.cu.GreenCtxStreamCreate(&made, s.green(), CU_STREAM_NON_BLOCKING, 0),
                      "cuGreenCtxStreamCreate");
               return made;
             }),
      choice("destroyed",
             [](Stage& s) {
               const CUstream made = s.new_stream();
               s.must(s.cu.StreamDestroy(made), "cuStreamDestroy");
               return made;
             }),
  };
}

Choices events() {
  return {
      choice("event", [](Stage& s) { return s.event(); }),
      null(),
      choice("never_recorded", [](Stage& s) { return s.new_event(0, false); }),
      choice("untimed", [](Stage& s) { return s.new_event(CU_EVENT_DISABLE_TIMING, true); }),
      choice("interprocess",
             [](Stage& s) { return s.new_event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, true); }),
      choice("of_other_context",
             [](Stage& s) {
               return s.in_other_context([&s] {
                 const CUstream stream = s.new_stream();
                 CUevent made = nullptr;
                 s.must(s.cu.EventCreate(&made, 0), "cuEventCreate");
                 s.must(s.cu.EventRecord(made, stream), "cuEventRecord");
                 s.must(s.cu.StreamSynchronize(stream), "cuStreamSynchronize");
                 return made;
               });
             }),
      choice("captured",
             [](Stage& s) {
               CUevent made = nullptr;
               s.must(s.cu.EventCreate(&made, 0), "cuEventCreate");
               s.must(s.cu.EventRecord(made, s.capturing()), "cuEventRecord in a capture");
               return made;
             }),
      choice("destroyed",
             [](Stage& s) {
               const CUevent made = s.new_event(0, true);
               s.must(s.cu.EventDestroy(made), "cuEventDestroy");
               return made;
             }),
  };
}

Choices graphs() {
  return {
      choice("graph", [](Stage& s) { return s.graph(); }),
      null(),
      choice("empty", [](Stage& s) { return s.new_graph(nullptr); }),
      choice("of_child_node",
             [](Stage& s) {
               CUgraph made = nullptr;
               s.must(s.cu.GraphChildGraphNodeGetGraph(s.node("child"), &made),
                      "cuGraphChildGraphNodeGetGraph");
               return made;
             }),
      choice("captured_into",
             [](Stage& s) {
               CUstreamCaptureStatus status{};
               CUgraph made = nullptr;
               s.must(s.cu.StreamGetCaptureInfo(s.capturing(), &status, nullptr, &made, nullptr, nullptr),
                      "cuStreamGetCaptureInfo");
               return made;
             }),
      choice("destroyed",
             [](Stage& s) {
               const CUgraph made = s.new_graph(nullptr);
               s.must(s.cu.GraphDestroy(made), "cuGraphDestroy");
               return made;
             }),
  };
}

Choices nodes() {
  Choices all;
  for (const char* kind : {"empty", "second", "host", "kernel", "fill", "copy", "record", "wait", "child"})
    all.push_back(choice(kind, [kind](Stage& s) { return s.node(kind); }));
  all.insert(all.begin() + 1, null());
  all.push_back(choice("of_other_graph", [](Stage& s) {
    std::map<std::string, CUgraphNode> others;
    s.new_graph(&others);
    return others["empty"];
  }));
  all.push_back(choice("of_child_graph", [](Stage& s) {
    CUgraph child = nullptr;
    s.must(s.cu.GraphChildGraphNodeGetGraph(s.node("child"), &child), "cuGraphChildGraphNodeGetGraph");
    CUgraphNode inner = nullptr;
    size_t count = 1;
    s.must(s.cu.GraphGetNodes(child, &inner, &count), "cuGraphGetNodes");
    return inner;
  }));
  all.push_back(choice("destroyed", [](Stage& s) {
    CUgraphNode made = nullptr;
    s.must(s.cu.GraphAddEmptyNode(&made, s.graph(), nullptr, 0), "cuGraphAddEmptyNode");
    s.must(s.cu.GraphDestroyNode(made), "cuGraphDestroyNode");
    return made;
  }));
  return all;
}

Choices execs() {
  return {
      choice("exec", [](Stage& s) { return s.exec(); }),
      null(),
      choice("of_empty_graph", [](Stage& s) { return s.new_exec(s.new_graph(nullptr)); }),
      choice("of_other_graph",
             [](Stage& s) {
               std::map<std::string, CUgraphNode> others;
               return s.new_exec(s.new_graph(&others));
             }),
      choice("destroyed",
             [](Stage& s) {
               const CUgraphExec made = s.new_exec(s.new_graph(nullptr));
               s.must(s.cu.GraphExecDestroy(made), "cuGraphExecDestroy");
               return made;
             }),
  };
}

Choices contexts() {
  return {
      choice("context", [](Stage& s) { return s.home; }),
      null(),
      choice("other", [](Stage& s) { return s.other(); }),
      choice("of_green_context", [](Stage& s) { return s.green_context(); }),
      choice("destroyed", [](Stage& s) { return s.destroyed_context(); }),
  };
}

Choices addresses() {
  return {
      choice("memory", [](Stage& s) { return s.memory(); }),
      null(),
      choice("plus_1", [](Stage& s) { return s.memory() + 1; }),
      choice("plus_2", [](Stage& s) { return s.memory() + 2; }),
      choice("plus_4", [](Stage& s) { return s.memory() + 4; }),
      choice("last_byte", [](Stage& s) { return s.memory() + 4095; }),
      choice("pinned", [](Stage& s) { return s.pinned(); }),
      choice("managed", [](Stage& s) { return s.managed(); }),
      choice("of_pool", [](Stage& s) { return s.pooled(); }),
      choice("of_other_context", [](Stage& s) { return s.other_memory(); }),
      choice("pageable", [](Stage& s) { return s.room(std::size_t{2} << 20); }),
      choice("freed", [](Stage& s) { return s.freed(); }),
  };
}

Choices host_addresses() {
  return {
      choice("pageable", [](Stage& s) { return s.room(std::size_t{2} << 20); }),
      null(),
      choice("pinned", [](Stage& s) { return s.pinned(); }),
      choice("pinned_plus_1", [](Stage& s) { return static_cast<char*>(s.pinned()) + 1; }),
      choice("memory", [](Stage& s) { return s.memory(); }),
      choice("managed", [](Stage& s) { return s.managed(); }),
  };
}

Choices pools() {
  return {
      choice("pool", [](Stage& s) { return s.pool(); }),
      null(),
      choice("default",
             [](Stage& s) {
               CUmemoryPool made = nullptr;
               s.must(s.cu.DeviceGetDefaultMemPool(&made, 0), "cuDeviceGetDefaultMemPool");
               return made;
             }),
      choice("exportable",
             [](Stage& s) {
               CUmemPoolProps properties{};
               properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
               properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
               properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
               CUmemoryPool made = nullptr;
               s.must(s.cu.MemPoolCreate(&made, &properties), "cuMemPoolCreate");
               return made;
             }),
      choice("destroyed",
             [](Stage& s) {
               const CUmemoryPool made = s.fresh_pool();
               s.must(s.cu.MemPoolDestroy(made), "cuMemPoolDestroy");
               return made;
             }),
  };
}

CUfunction function_of(Stage& s, CUmodule module) {
  CUfunction made = nullptr;
  s.must(s.cu.ModuleGetFunction(&made, module, "step"), "cuModuleGetFunction");
  return made;
}

} // namespace

Choices handle_choices(const std::string& type) {
  if (type == "CUstream") return streams();
  if (type == "CUevent") return events();
  if (type == "CUgraph") return graphs();
  if (type == "CUgraphNode") return nodes();
  if (type == "CUgraphExec") return execs();
  if (type == "CUcontext") return contexts();
  if (type == "CUdeviceptr") return addresses();
  if (type == "void*" || type == "const void*") return host_addresses();
  if (type == "CUmemoryPool") return pools();
  if (type == "CUdevice") return numbers({0, -1, -2, 1, 1000});
  if (type == "CUmodule")
    return {choice("module", [](Stage& s) { return s.module(); }), null(),
            choice("of_other_context",
                   [](Stage& s) { return s.in_other_context([&s] { return s.fresh_module(); }); }),
            choice("of_library",
                   [](Stage& s) {
                     CUmodule made = nullptr;
                     s.must(s.cu.LibraryGetModule(&made, s.library()), "cuLibraryGetModule");
                     return made;
                   }),
            choice("unloaded", [](Stage& s) {
              const CUmodule made = s.fresh_module();
              s.must(s.cu.ModuleUnload(made), "cuModuleUnload");
              return made;
            })};
  if (type == "CUfunction")
    return {choice("function", [](Stage& s) { return s.function(); }),
            null(),
            choice("with_parameters", [](Stage& s) { return s.with_parameters(); }),
            choice("of_other_context",
                   [](Stage& s) {
                     return s.in_other_context([&s] { return function_of(s, s.fresh_module()); });
                   }),
            choice("kernel", [](Stage& s) { return s.kernel(); }),
            choice("of_library",
                   [](Stage& s) {
                     CUfunction made = nullptr;
                     s.must(s.cu.KernelGetFunction(&made, s.kernel()), "cuKernelGetFunction");
                     return made;
                   }),
            choice("of_unloaded", [](Stage& s) {
              const CUmodule module = s.fresh_module();
              const CUfunction made = function_of(s, module);
              s.must(s.cu.ModuleUnload(module), "cuModuleUnload");
              return made;
            })};
  if (type == "CUkernel")
    return {choice("kernel", [](Stage& s) { return s.kernel(); }), null(),
            choice("function", [](Stage& s) { return s.function(); }), choice("of_unloaded", [](Stage& s) {
              const CUlibrary library = s.fresh_library();
              CUkernel made = nullptr;
              s.must(s.cu.LibraryGetKernel(&made, library, "step"), "cuLibraryGetKernel");
              s.must(s.cu.LibraryUnload(library), "cuLibraryUnload");
              return made;
            })};
  if (type == "CUlibrary")
    return {choice("library", [](Stage& s) { return s.library(); }), null(), choice("unloaded", [](Stage& s) {
              const CUlibrary made = s.fresh_library();
              s.must(s.cu.LibraryUnload(made), "cuLibraryUnload");
              return made;
            })};
  if (type == "CUgreenCtx")
    return {choice("green", [](Stage& s) { return s.green(); }), null(), choice("destroyed", [](Stage& s) {
              const CUgreenCtx made = s.fresh_green();
              s.must(s.cu.GreenCtxDestroy(made), "cuGreenCtxDestroy");
              return made;
            })};
  if (type == "CUuserObject")
    return {choice("object", [](Stage& s) { return s.owned_object(); }), null(),
            choice("unowned", [](Stage& s) { return s.user_object(); }), choice("released", [](Stage& s) {
              CUuserObject made = nullptr;
              s.must(s.cu.UserObjectCreate(&made, nullptr, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
                     "cuUserObjectCreate");
              s.must(s.cu.UserObjectRelease(made, 1), "cuUserObjectRelease");
              return made;
            })};
  if (type == "CUdevResourceDesc")
    return {choice("description", [](Stage& s) { return s.description(); }), null()};
  if (type == "CUlogsCallbackHandle")
    return {choice("handle",
                   [](Stage& s) {
                     CUlogsCallbackHandle made = nullptr;
                     const auto ignore = [](void*, CUlogLevel, char*, size_t) {};
                     s.must(s.cu.LogsRegisterCallback(ignore, nullptr, &made), "cuLogsRegisterCallback");
                     return made;
                   }),
            null(), choice("unregistered", [](Stage& s) {
              CUlogsCallbackHandle made = nullptr;
              const auto ignore = [](void*, CUlogLevel, char*, size_t) {};
              s.must(s.cu.LogsRegisterCallback(ignore, nullptr, &made), "cuLogsRegisterCallback");
              s.must(s.cu.LogsUnregisterCallback(made), "cuLogsUnregisterCallback");
              return made;
            })};
  return {};
}

} // namespace neighbours
