// SPDX-License-Identifier: MIT
// Nodes that allocate and free memory as arguments, and what a device keeps for graphs.
#include "structure.hpp"

#include <utility>

namespace neighbours {
namespace {

using Allocation = CUDA_MEM_ALLOC_NODE_PARAMS;

CUgraphNode free_behind(Stage& s, CUgraph graph, const AllocationNode& allocation) {
  CUgraphNode made = nullptr;
  s.must(s.cu.GraphAddMemFreeNode(&made, graph, &allocation.node, 1, allocation.memory),
         "cuGraphAddMemFreeNode");
  return made;
}

std::vector<Change<Allocation>> allocation_changes() {
  using T = Allocation;
  const auto access = [](const char* label, int flags, int where, int id, std::size_t count) {
    return Change<T>{label, [=](Stage& s, T& t) {
                       auto* const all = static_cast<CUmemAccessDesc*>(s.room(4 * sizeof(CUmemAccessDesc)));
                       for (std::size_t i = 0; i < count; ++i) {
                         all[i].flags = converted<CUmemAccess_flags>(flags);
                         all[i].location.type = converted<CUmemLocationType>(where);
                         all[i].location.id = id;
                       }
                       t.accessDescs = all;
                       t.accessDescCount = count;
                     }};
  };
  std::vector<Change<T>> all{CHANGE(T, bytesize, 0),
                             CHANGE(T, bytesize, 1),
                             CHANGE(T, bytesize, 3),
                             CHANGE(T, bytesize, 1 << 25),
                             CHANGE(T, bytesize, std::size_t{1} << 50),
                             CHANGE(T, bytesize, largest),
                             CHANGE(T, dptr, 1),
                             CHANGE(T, accessDescs, s.room(64)),
                             CHANGE(T, accessDescCount, 1),
                             access("access", 3, 1, 0, 1),
                             access("access_twice", 3, 1, 0, 2),
                             access("access_of_none", 0, 1, 0, 1),
                             access("access_for_reads", 1, 1, 0, 1),
                             access("access_flags_2", 2, 1, 0, 1),
                             access("access_flags_4", 4, 1, 0, 1),
                             access("access_of_device_1", 3, 1, 1, 1),
                             access("access_of_device_-1", 3, 1, -1, 1),
                             access("access_of_nowhere", 3, 0, 0, 1),
                             access("access_of_host", 3, 2, 0, 1),
                             access("access_of_host_node", 3, 3, 0, 1),
                             CHANGE(T, poolProps.allocType, 0),
                             CHANGE(T, poolProps.allocType, 2),
                             CHANGE(T, poolProps.allocType, 3),
                             CHANGE(T, poolProps.allocType, 0x7fffffff),
                             CHANGE(T, poolProps.handleTypes, 1),
                             CHANGE(T, poolProps.handleTypes, 2),
                             CHANGE(T, poolProps.handleTypes, 4),
                             CHANGE(T, poolProps.handleTypes, 8),
                             CHANGE(T, poolProps.handleTypes, 16),
                             CHANGE(T, poolProps.handleTypes, -1),
                             CHANGE(T, poolProps.win32SecurityAttributes, s.room(64)),
                             CHANGE(T, poolProps.maxSize, 1),
                             CHANGE(T, poolProps.maxSize, huge),
                             CHANGE(T, poolProps.usage, 1),
                             CHANGE(T, poolProps.usage, 0xffff),
                             CHANGE(T, poolProps.reserved[0], 1),
                             CHANGE(T, poolProps.reserved[53], 1)};
  add_locations(all, [](Allocation& t) -> CUmemLocation& { return t.poolProps.location; });
  return all;
}

Choices addresses_to_free() {
  Choices all = without(handle_choices("CUdeviceptr"), {"plus_2", "plus_4", "last_byte"});
  all.insert(all.begin(), choice("allocated", [](Stage& s) { return allocate(s, s.graph()).memory; }));
  std::swap(all[1], all[2]); // null is next to the valid one
  all.push_back(choice("allocated_plus_1", [](Stage& s) { return allocate(s, s.graph()).memory + 1; }));
  all.push_back(choice("of_other_graph", [](Stage& s) { return allocate(s, s.new_graph(nullptr)).memory; }));
  all.push_back(choice("freed_by_a_node", [](Stage& s) {
    const AllocationNode made = allocate(s, s.graph());
    free_behind(s, s.graph(), made);
    return made.memory;
  }));
  all.push_back(choice("freed_by_other_graph", [](Stage& s) {
    const AllocationNode made = allocate(s, s.graph());
    CUgraphNode node = nullptr;
    s.must(s.cu.GraphAddMemFreeNode(&node, s.new_graph(nullptr), nullptr, 0, made.memory),
           "cuGraphAddMemFreeNode");
    return made.memory;
  }));
  return all;
}

Choices attribute_values() {
  return {numbers_in_list<cuuint64_t>("0", {0}), null(), numbers_in_list<cuuint64_t>("1", {1}),
          numbers_in_list<cuuint64_t>("2_to_the_32", {cuuint64_t{1} << 32})};
}

} // namespace

AllocationNode allocate(Stage& s, CUgraph graph) {
  Allocation wanted{};
  fill_allocation(s, wanted);
  AllocationNode made;
  s.must(s.cu.GraphAddMemAllocNode(&made.node, graph, nullptr, 0, &wanted), "cuGraphAddMemAllocNode");
  made.memory = wanted.dptr;
  return made;
}

Choices graph_memory_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  const auto is = [&symbol](const char* one) { return symbol == one; };
  if (is("cuGraphAddMemAllocNode") || is("cuGraphAddMemFreeNode") || is("cuGraphAddNode")) {
    // The other functions that add a node have the same lists by another name.
    if (name == "dependencies") return choices_of("cuGraphAddEmptyNode", type, "after");
    if (name == "numDependencies") return numbers({0, 1, 2});
    if (type == "CUDA_MEM_ALLOC_NODE_PARAMS*")
      return structure<Allocation>(fill_allocation<Allocation>, allocation_changes());
    if (name == "dptr") return addresses_to_free();
  }
  if (type == "CUgraphMem_attribute")
    return enumerators(is("cuDeviceSetGraphMemAttribute") ? CU_GRAPH_MEM_ATTR_USED_MEM_HIGH : 0, 4);
  if (is("cuDeviceSetGraphMemAttribute") && name == "value") return attribute_values();
  return {};
}

Choices added_to_graph_memory(const std::string& symbol, const std::string& name) {
  if ((symbol != "cuGraphMemAllocNodeGetParams" && symbol != "cuGraphMemFreeNodeGetParams") ||
      name != "hNode")
    return {};
  return {
      choice("allocation", [](Stage& s) { return allocate(s, s.graph()).node; }),
      choice("free", [](Stage& s) { return free_behind(s, s.graph(), allocate(s, s.graph())); }),
      choice("allocation_of_other_graph", [](Stage& s) { return allocate(s, s.new_graph(nullptr)).node; }),
      choice("allocation_destroyed", [](Stage& s) {
        const CUgraph graph = s.new_graph(nullptr);
        const CUgraphNode made = allocate(s, graph).node; // which cuGraphDestroyNode refuses
        s.must(s.cu.GraphDestroy(graph), "cuGraphDestroy");
        return made;
      })};
}

} // namespace neighbours
