// SPDX-License-Identifier: MIT
// The parameters of a graph's node of any kind.
#include "structure.hpp"

namespace neighbours {
namespace {

void CUDA_CB nothing(void*) {}

// A node of another kind than the valid one.
template <class Fill>
Change<CUgraphNodeParams> of_type(const std::string& label, CUgraphNodeType type, Fill fill) {
  return {label, [type, fill](Stage& s, CUgraphNodeParams& node) {
            node = CUgraphNodeParams{};
            node.type = type;
            fill(s, node);
          }};
}

std::vector<Change<CUgraphNodeParams>> memory_node_changes() {
  using T = CUgraphNodeParams;
  const auto allocation = [](const char* label, std::function<void(Stage&, T&)> change) {
    return of_type(label, CU_GRAPH_NODE_TYPE_MEM_ALLOC, [change](Stage& s, T& t) {
      fill_allocation(s, t.alloc);
      change(s, t);
    });
  };
  const auto free_of = [](const char* label, std::function<CUdeviceptr(Stage&)> memory) {
    return of_type(label, CU_GRAPH_NODE_TYPE_MEM_FREE, [memory](Stage& s, T& t) { t.free.dptr = memory(s); });
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
          free_of("free", [](Stage& s) { return allocate(s, s.graph()).memory; }),
          free_of("free_of_other_graph", [](Stage& s) { return allocate(s, s.new_graph(nullptr)).memory; }),
          free_of("free_of_memory", [](Stage& s) { return s.memory(); }),
          free_of("free_of_address_0", [](Stage&) { return CUdeviceptr{0}; })};
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
  const auto copy = [](const char* label, void (*change)(Stage&, T&)) {
    return of_type(label, CU_GRAPH_NODE_TYPE_MEMCPY, [change](Stage& s, T& t) {
      change(s, t);
      fill_copy(s, t.memcpy.copyParams);
    });
  };
  const auto fill = [](const char* label, void (*change)(Stage&, T&)) {
    return of_type(label, CU_GRAPH_NODE_TYPE_MEMSET, [change](Stage& s, T& t) {
      t.memset.dst = s.memory();
      t.memset.elementSize = 4;
      t.memset.width = 16;
      t.memset.height = 1;
      change(s, t);
    });
  };
  std::vector<Change<T>> all{
      CHANGE(T, reserved0[0], 1),
      CHANGE(T, reserved0[2], 1),
      CHANGE(T, reserved1[28], 1),
      CHANGE(T, reserved2, 1),
      CHANGE(T, host.fn, nullptr),
      of_type("kernel", CU_GRAPH_NODE_TYPE_KERNEL,
              [](Stage& s, T& t) {
                t.kernel.func = s.function();
                t.kernel.gridDimX = t.kernel.gridDimY = t.kernel.gridDimZ = 1;
                t.kernel.blockDimX = t.kernel.blockDimY = t.kernel.blockDimZ = 1;
              }),
      of_type("kernel_without_blocks", CU_GRAPH_NODE_TYPE_KERNEL,
              [](Stage& s, T& t) { t.kernel.func = s.function(); }),
      copy("copy", [](Stage&, T&) {}),
      copy("copy_of_context", [](Stage& s, T& t) { t.memcpy.copyCtx = s.home; }),
      copy("copy_with_flags", [](Stage&, T& t) { t.memcpy.flags = 1; }),
      copy("copy_with_reserved", [](Stage&, T& t) { t.memcpy.reserved = 1; }),
      fill("fill", [](Stage&, T&) {}),
      fill("fill_of_context", [](Stage& s, T& t) { t.memset.ctx = s.home; }),
      of_type("child", CU_GRAPH_NODE_TYPE_GRAPH,
              [](Stage& s, T& t) { t.graph.graph = s.new_graph(nullptr); }),
      of_type("record", CU_GRAPH_NODE_TYPE_EVENT_RECORD,
              [](Stage& s, T& t) { t.eventRecord.event = s.event(); }),
      of_type("wait", CU_GRAPH_NODE_TYPE_WAIT_EVENT, [](Stage& s, T& t) { t.eventWait.event = s.event(); }),
      of_type("values", CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [](Stage& s, T& t) {
        t.memOp.ctx = s.home;
        t.memOp.count = 1;
        t.memOp.paramArray = &s.make<CUstreamBatchMemOpParams>();
        fill_values(s, *t.memOp.paramArray);
      })};
  for (const Change<T>& change : memory_node_changes())
    all.push_back(change);
  for (const Change<T>& change : conditional_node_changes())
    all.push_back(change);
  for (int type = 0; type <= 16; ++type)
    all.push_back(of_type("zeros_of_type_" + std::to_string(type), (CUgraphNodeType)type, [](Stage&, T&) {}));
  return all;
}

} // namespace

Choices graph_node_choices() { return structure<CUgraphNodeParams>(fill_node, node_changes()); }

} // namespace neighbours
