// SPDX-License-Identifier: MIT
#include "graphs/capture_events.hpp"

#include "core/stay_loaded.hpp"

#include <cuevent/graph_exec.hpp>

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

Status CaptureEvents::attach(std::shared_ptr<CaptureEvents>& out, const DriverTable& table, CUgraph graph) {
  auto events = std::make_shared<CaptureEvents>();
  auto owner = std::make_unique<std::shared_ptr<CaptureEvents>>(events);
  CUuserObject object = nullptr;
  const CUresult result =
      table.cuUserObjectCreate_v11030(&object, owner.get(), end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) return {result, "cuUserObjectCreate"};
  static_cast<void>(owner.release()); // the user object owns it now
  Status status{CUDA_ERROR_OPERATING_SYSTEM, "dlopen"};
  if (stay_loaded())
    status = {table.cuGraphRetainUserObject_v11030(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
              "cuGraphRetainUserObject"};
  events->object_ = object;
  if (status)
    out = std::move(events);
  else
    table.cuUserObjectRelease_v11030(object, 1); // destroys the owner
  return status;
}

DriverEvent CaptureEvents::keep(DriverEvent&& event) {
  events_.reserve(events_.size() + 1); // nothing may throw after the event has moved
  auto kept = std::make_unique<RetiredEvent>();
  DriverEvent borrowed = DriverEvent::borrow(event.context(), event.native_handle(), event.flags());
  kept->hold(std::move(event));
  events_.push_back(std::move(kept));
  return borrowed;
}

Status CaptureEvents::instantiate_apart(GraphExec& out, Graph& graph,
                                        const std::vector<const CaptureEvents*>& events) noexcept {
  const Driver driver = graph.context().driver();
  const DriverTable& table = driver.table();
  GraphExec exec;
  Status status;
  std::size_t apart = 0; // the graph has given up this many of its objects
  for (; apart < events.size(); ++apart) {
    CUuserObject const object = events[apart]->object_;
    status = {table.cuUserObjectRetain_v11030(object, 1), "cuUserObjectRetain"};
    if (!status) break;
    status = {table.cuGraphReleaseUserObject_v11030(graph.native_handle(), object, 1),
              "cuGraphReleaseUserObject"};
    if (status) continue;
    table.cuUserObjectRelease_v11030(object, 1);
    break;
  }
  if (status) status = {graph.try_instantiate(exec), "cuGraphInstantiateWithFlags"};
  CUresult result = CUDA_SUCCESS;
  for (; apart != 0; --apart) {
    result = table.cuGraphRetainUserObject_v11030(graph.native_handle(), events[apart - 1]->object_, 1,
                                                  CU_GRAPH_USER_OBJECT_MOVE);
    if (result != CUDA_SUCCESS) break;
  }
  if (apart != 0) { // nothing that refers to the events may remain
    exec = GraphExec();
    { const Graph gone(std::move(graph)); }
    for (; apart != 0; --apart)
      table.cuUserObjectRelease_v11030(events[apart - 1]->object_, 1);
  }
  if (status) status = {result, "cuGraphRetainUserObject"};
  if (status) out = std::move(exec);
  return status;
}

/// A thread of the driver calls this function. The function must not call the driver.
void CaptureEvents::end(void* owner) {
  const std::unique_ptr<std::shared_ptr<CaptureEvents>> owned(
      static_cast<std::shared_ptr<CaptureEvents>*>(owner));
  CaptureEvents& events = **owned;
  events.ended_.store(true, std::memory_order_release); // before any thread can destroy an event
  for (std::unique_ptr<RetiredEvent>& event : events.events_)
    released_by_graphs.push(event.release());
  events.events_.clear();
}

}} // namespace cuevent::CUEVENT_ABI
