// SPDX-License-Identifier: MIT
// The parameters of a graph's node of any kind.
#include "structure.hpp"

namespace neighbours {
namespace {

void CUDA_CB nothing(void*) {}

void fill_allocation(CUgraphNodeParams& node) {
  node = CUgraphNodeParams{};
  node.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  node.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  node.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  node.alloc.bytesize = 4096;
}
void fill_free(CUgraphNodeParams& node, CUdeviceptr memory) {
  node = CUgraphNodeParams{};
  node.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  node.free.dptr = memory;
}
CUdeviceptr allocated_in(Stage& s, CUgraph graph) {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.bytesize = 4096;
  CUgraphNode node = nullptr;
  s.must(s.cu.GraphAddMemAllocNode(&node, graph, nullptr, 0, &wanted), "cuGraphAddMemAllocNode");
  return wanted.dptr;
}
std::vector<Change<CUgraphNodeParams>> memory_node_changes() {
  using T = CUgraphNodeParams;
  const auto allocation = [](const char* label, std::function<void(Stage&, T&)> change) {
    return Change<T>{label, [change](Stage& s, T& t) {
                       fill_allocation(t);
                       change(s, t);
                     }};
  };
  return {allocation("allocation", [](Stage&, T&) {}),
          allocation("allocation_of_0_bytes", [](Stage&, T& t) { t.alloc.bytesize = 0; }),
          allocation("allocation_of_largest_size", [](Stage&, T& t) { t.alloc.bytesize = largest; }),
          allocation("allocation_on_host",
                     [](Stage&, T& t) { t.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_HOST; }),
          allocation("allocation_on_device_77", [](Stage&, T& t) { t.alloc.poolProps.location.id = 77; }),
          allocation(
              "shared_allocation",
              [](Stage&, T& t) { t.alloc.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; }),
          allocation("allocation_with_access",
                     [](Stage& s, T& t) {
                       auto& access = s.make<CUmemAccessDesc>();
                       access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
                       access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                       t.alloc.accessDescs = &access;
                       t.alloc.accessDescCount = 1;
                     }),
          Change<T>{"free", [](Stage& s, T& t) { fill_free(t, allocated_in(s, s.graph())); }},
          Change<T>{"free_of_other_graph",
                    [](Stage& s, T& t) { fill_free(t, allocated_in(s, s.new_graph(nullptr))); }},
          Change<T>{"free_of_memory", [](Stage& s, T& t) { fill_free(t, s.memory()); }},
          Change<T>{"free_of_address_0", [](Stage&, T& t) { fill_free(t, 0); }}};
}

void fill_conditional(Stage& s, CUgraphNodeParams& node, CUgraph graph) {
  node = CUgraphNodeParams{};
  node.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  s.must(s.cu.GraphConditionalHandleCreate(&node.conditional.handle, graph, s.home, 0, 0),
         "cuGraphConditionalHandleCreate");
  node.conditional.type = CU_GRAPH_COND_TYPE_IF;
  node.conditional.size = 1;
  node.conditional.ctx = s.home;
}
std::vector<Change<CUgraphNodeParams>> conditional_node_changes() {
  using T = CUgraphNodeParams;
  const auto conditional = [](const std::string& label, std::function<void(Stage&, T&)> change) {
    return Change<T>{"conditional" + label, [change](Stage& s, T& t) {
                       fill_conditional(s, t, s.graph());
                       change(s, t);
                     }};
  };
  std::vector<Change<T>> all{
      conditional("", [](Stage&, T&) {}),
      conditional("_without_context", [](Stage&, T& t) { t.conditional.ctx = nullptr; }),
      conditional("_of_other_context", [](Stage& s, T& t) { t.conditional.ctx = s.other(); }),
      conditional("_without_handle", [](Stage&, T& t) { t.conditional.handle = 0; }),
      conditional("_with_handle_of_other_graph",
                  [](Stage& s, T& t) { fill_conditional(s, t, s.new_graph(nullptr)); })};
  for (int type : {-1, 0, 1, 2, 3})
    for (unsigned size : {0u, 1u, 2u, 3u})
      all.push_back(conditional("_of_type_" + std::to_string(type) + "_and_size_" + std::to_string(size),
                                [=](Stage&, T& t) {
                                  t.conditional.type = converted<CUgraphConditionalNodeType>(type);
                                  t.conditional.size = size;
                                }));
  return all;
}

void fill_node(Stage& s, CUgraphNodeParams& node) {
  node.type = CU_GRAPH_NODE_TYPE_HOST;
  node.host.fn = nothing;
  (void)s;
}
std::vector<Change<CUgraphNodeParams>> node_changes() {
  using T = CUgraphNodeParams;
  std::vector<Change<T>> all{CHANGE(T, reserved0[0], 1),
                             CHANGE(T, reserved0[2], 1),
                             CHANGE(T, reserved1[28], 1),
                             CHANGE(T, reserved2, 1),
                             CHANGE(T, host.fn, nullptr),
                             Change<T>{"kernel",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_KERNEL;
                                         t.kernel.func = s.function();
                                         t.kernel.gridDimX = t.kernel.gridDimY = t.kernel.gridDimZ = 1;
                                         t.kernel.blockDimX = t.kernel.blockDimY = t.kernel.blockDimZ = 1;
                                       }},
                             Change<T>{"kernel_without_blocks",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_KERNEL;
                                         t.kernel.func = s.function();
                                       }},
                             Change<T>{"copy",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_MEMCPY;
                                         fill_copy(s, t.memcpy.copyParams);
                                       }},
                             Change<T>{"copy_of_context",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_MEMCPY;
                                         t.memcpy.copyCtx = s.home;
                                         fill_copy(s, t.memcpy.copyParams);
                                       }},
                             Change<T>{"copy_with_flags",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_MEMCPY;
                                         t.memcpy.flags = 1;
                                         fill_copy(s, t.memcpy.copyParams);
                                       }},
                             Change<T>{"copy_with_reserved",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_MEMCPY;
                                         t.memcpy.reserved = 1;
                                         fill_copy(s, t.memcpy.copyParams);
                                       }},
                             Change<T>{"fill",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_MEMSET;
                                         t.memset.dst = s.memory();
                                         t.memset.elementSize = 4;
                                         t.memset.width = 16;
                                         t.memset.height = 1;
                                       }},
                             Change<T>{"fill_of_context",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_MEMSET;
                                         t.memset.dst = s.memory();
                                         t.memset.elementSize = 4;
                                         t.memset.width = 16;
                                         t.memset.height = 1;
                                         t.memset.ctx = s.home;
                                       }},
                             Change<T>{"child",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_GRAPH;
                                         t.graph.graph = s.new_graph(nullptr);
                                       }},
                             Change<T>{"record",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
                                         t.eventRecord.event = s.event();
                                       }},
                             Change<T>{"wait",
                                       [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
                                         t.eventWait.event = s.event();
                                       }},
                             Change<T>{"values", [](Stage& s, T& t) {
                                         t = T{};
                                         t.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
                                         t.memOp.ctx = s.home;
                                         t.memOp.count = 1;
                                         t.memOp.paramArray = &s.make<CUstreamBatchMemOpParams>();
                                         fill_values(s, *t.memOp.paramArray);
                                       }}};
  for (const Change<T>& change : memory_node_changes())
    all.push_back(change);
  for (const Change<T>& change : conditional_node_changes())
    all.push_back(change);
  for (int type = 0; type <= 16; ++type)
    all.push_back({"zeros_of_type_" + std::to_string(type), [=](Stage&, T& t) {
                     t = T{};
                     t.type = (CUgraphNodeType)type;
                   }});
  return all;
}

} // namespace

Choices graph_node_choices() { return structure<CUgraphNodeParams>(fill_node, node_changes()); }

} // namespace neighbours
