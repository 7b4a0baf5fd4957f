// SPDX-License-Identifier: MIT
#include "auditor/graph_events.hpp"

#include "auditor/recorder.hpp"

#include <iterator>
#include <sys/mman.h>

namespace watch {

namespace {

constexpr unsigned deepest_child = 16; // more levels of child graphs are not looked at

void record_events_of(const Library& library, CUgraph graph, CallData& call, unsigned depth);

void record_event_of(const Library& library, CUgraphNode node, CallData& call, unsigned depth) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (library.graphs.type(node, &type) != CUDA_SUCCESS) return;
  CUgraph child = nullptr;
  if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < deepest_child &&
      library.graphs.child(node, &child) == CUDA_SUCCESS)
    return record_events_of(library, child, call, depth + 1);
  const bool is_record = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  if (!is_record && type != CU_GRAPH_NODE_TYPE_WAIT_EVENT) return;
  CUevent event = nullptr;
  if ((is_record ? library.graphs.recorded : library.graphs.awaited)(node, &event) != CUDA_SUCCESS) return;
  call.words[1] = reinterpret_cast<std::uintptr_t>(node);
  call.words[2] = reinterpret_cast<std::uintptr_t>(event);
  call.words[3] = static_cast<std::uint64_t>(type);
  record(call);
}

void record_events_of(const Library& library, CUgraph graph, CallData& call, unsigned depth) {
  std::size_t count = 0;
  if (library.graphs.nodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) return;
  CUgraphNode few[64];
  CUgraphNode* nodes = few;
  const std::size_t size = count * sizeof(CUgraphNode);
  if (count > std::size(few)) {
    void* const place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return;
    nodes = static_cast<CUgraphNode*>(place);
  }
  if (library.graphs.nodes(graph, nodes, &count) == CUDA_SUCCESS)
    for (std::size_t i = 0; i < count; ++i)
      record_event_of(library, nodes[i], call, depth);
  if (nodes != few) munmap(nodes, size);
}

} // namespace

void record_graph_events(const Library& library, const CallData& instantiation) {
  if (region->overwrites != 0 || library.graphs.nodes == nullptr) return; // nobody applies rules
  const OwnCalls own(library);
  CallData call = instantiation;
  call.entry = graph_event_entry;
  call.marks = 0;
  call.count = 4;
  call.words[0] = instantiation.words[1];
  record_events_of(library, reinterpret_cast<CUgraph>(call.words[0]), call, 0);
}

} // namespace watch
