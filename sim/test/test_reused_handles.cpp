// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "fixture.hpp"

#include <cstring>
#include <functional>
#include <set>
#include <vector>

namespace sim = cuevent::sim;

namespace {

struct Reusing : Fixture {
  explicit Reusing(std::uint64_t seed = 1) : Fixture({.reuse_handles = seed}) {}

  CUgraph graph() {
    CUgraph made = nullptr;
    OK(cu.graph_create(&made, 0));
    return made;
  }
  CUgraphNode record_node(CUgraph graph, CUevent event) {
    CUgraphNode made = nullptr;
    OK(cu.add_record_node(&made, graph, nullptr, 0, event));
    return made;
  }
  CUgraphExec exec_of(CUgraph graph) {
    CUgraphExec made = nullptr;
    OK(cu.instantiate(&made, graph, 0));
    return made;
  }
};

/// Makes objects until one has the handle.
template <class Handle>
Handle made_with_handle(const void* handle, const std::function<Handle()>& make) {
  for (int i = 0; i < 1000; ++i)
    if (const Handle made = make(); static_cast<const void*>(made) == handle) return made;
  FAIL("no new object has the handle");
  return nullptr;
}

/// Handles of events, streams, graphs and executable graphs, each of which ends at once.
std::vector<std::pair<char, const void*>> of_many_objects(Fixture& f) {
  std::vector<std::pair<char, const void*>> handles;
  for (int i = 0; i < 50; ++i) {
    const CUevent event = f.event();
    const CUstream stream = f.new_stream();
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    OK(f.cu.graph_create(&graph, 0));
    OK(f.cu.instantiate(&exec, graph, 0));
    handles.insert(handles.end(), {{'e', event}, {'s', stream}, {'g', graph}, {'x', exec}});
    OK(f.cu.event_destroy(event));
    OK(f.cu.graph_destroy(graph));
    OK(f.cu.exec_destroy(exec));
    OK(f.cu.stream_destroy(stream));
  }
  return handles;
}

std::set<const void*> different(const std::vector<std::pair<char, const void*>>& handles) {
  std::set<const void*> found;
  for (const auto& [kind, handle] : handles)
    found.insert(handle);
  return found;
}

} // namespace

TEST_CASE("without a seed, no handle is given away again") {
  Fixture f;
  const auto handles = of_many_objects(f);
  CHECK(different(handles).size() == handles.size());
}

TEST_CASE("with a seed, handles are given away again, to other kinds too, and the seed repeats it") {
  const auto with_seed = [](std::uint64_t seed) {
    Reusing f(seed);
    auto handles = of_many_objects(f);
    const auto base = reinterpret_cast<std::uintptr_t>(f.context); // each session has new handles
    for (auto& [kind, handle] : handles)
      handle = reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(handle) - base);
    return handles;
  };
  const auto first = with_seed(1);
  CHECK(different(first).size() < first.size() / 2);
  std::set<std::pair<char, const void*>> kinds(first.begin(), first.end());
  CHECK(kinds.size() > different(first).size());
  CHECK(with_seed(1) == first);
  CHECK(with_seed(2) != first);
}

TEST_CASE("a handle that was given away again is a live handle of its new kind") {
  Reusing f;
  const CUevent ended = f.event();
  OK(f.cu.event_destroy(ended));
  SECTION("another event") {
    const CUevent event = made_with_handle<CUevent>(ended, [&] { return f.event(CU_EVENT_DISABLE_TIMING); });
    OK(f.work(f.stream));
    OK(f.cu.event_record(event, f.stream));
    CHECK(f.cu.event_query(ended) == CUDA_ERROR_NOT_READY);
  }
  SECTION("a graph") {
    const CUgraph graph = made_with_handle<CUgraph>(ended, [&] { return f.graph(); });
    f.exec_of(graph);
    const Death death = death_of([&] { f.cu.event_query(ended); });
    CHECK(death.aborted);
    CHECK(death.says("the call needs a handle of another kind, event"));
    CHECK(death.says("is graph #"));
    CHECK(death.says("with the handle that was of event #1"));
  }
}

TEST_CASE("a handle that was given away again can end again") {
  const Death death = death_of([] {
    Reusing f;
    const CUevent ended = f.event();
    OK(f.cu.event_destroy(ended));
    const CUgraph graph = made_with_handle<CUgraph>(ended, [&] { return f.graph(); });
    OK(f.cu.graph_destroy(graph));
    f.cu.graph_destroy(graph);
  });
  CHECK(death.aborted);
  CHECK(death.says("was graph #"));
  CHECK(death.says("with the handle that was of event #1, destroyed by cuGraphDestroy"));
}

TEST_CASE("an executable graph refuses a later node with the handle of one of its own") {
  Reusing f;
  const CUevent event = f.event();
  CUgraph graph = f.graph();
  const CUgraphNode node = f.record_node(graph, event);
  const CUgraphExec exec = f.exec_of(graph);
  const auto set =
      f.cu.find<PFN_cuGraphExecEventRecordNodeSetEvent_v11010>("cuGraphExecEventRecordNodeSetEvent", 11010);
  CHECK(set(exec, node, event) == CUDA_SUCCESS);
  OK(f.cu.graph_destroy(graph));
  CHECK(set(exec, node, event) == CUDA_ERROR_INVALID_VALUE);
  graph = f.graph();
  made_with_handle<CUgraphNode>(node, [&] { return f.record_node(graph, event); });
  CHECK(set(exec, node, event) == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.graph_launch(exec, f.stream));
}

TEST_CASE("a clone has no node of a later node with the handle of an original") {
  Reusing f;
  const CUevent event = f.event();
  CUgraph graph = f.graph(), clone = nullptr;
  const CUgraphNode node = f.record_node(graph, event);
  OK(f.cu.find<PFN_cuGraphClone_v10000>("cuGraphClone", 10000)(&clone, graph));
  CUgraphNode found = nullptr;
  const auto find = f.cu.find<PFN_cuGraphNodeFindInClone_v10000>("cuGraphNodeFindInClone", 10000);
  CHECK(find(&found, node, clone) == CUDA_SUCCESS);
  OK(f.cu.graph_destroy(graph));
  graph = f.graph();
  made_with_handle<CUgraphNode>(node, [&] { return f.record_node(graph, event); });
  CHECK(find(&found, node, clone) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a handle between processes means the event that was exported, not a later one") {
  Reusing f;
  const auto new_event = [&] { return f.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING); };
  const CUevent event = new_event();
  CUipcEventHandle first{}, again{}, second{};
  OK(f.cu.ipc_export(&first, event));
  OK(f.cu.ipc_export(&again, event));
  CHECK(std::memcmp(&first, &again, sizeof first) == 0);
  OK(f.cu.event_destroy(event));
  OK(f.cu.ipc_export(&second, made_with_handle<CUevent>(event, new_event)));
  CHECK(std::memcmp(&first, &second, sizeof first) != 0);
}

TEST_CASE("a report about a destroyed event has its history, not that of the next owner of its handle") {
  const Death death = death_of([] {
    Reusing f;
    const CUevent event = f.event();
    const CUgraph graph = f.graph();
    f.record_node(graph, event);
    const CUgraphExec exec = f.exec_of(graph);
    OK(f.cu.event_destroy(event));
    made_with_handle<CUgraph>(event, [&] { return f.graph(); });
    f.cu.graph_launch(exec, f.stream);
  });
  CHECK(death.aborted);
  CHECK(death.says("was event #1, made by cuEventCreate"));
}

TEST_CASE("no handle of an earlier session is given away") {
  std::set<const void*> seen;
  for (int session = 0; session < 3; ++session) {
    Reusing f;
    for (const void* handle : different(of_many_objects(f)))
      CHECK(seen.insert(handle).second);
  }
}
