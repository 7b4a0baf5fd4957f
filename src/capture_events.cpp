#include "capture_events.hpp"

#include <utility>

namespace cuevent {

CUresult CaptureEvents::attach(std::shared_ptr<CaptureEvents>& out, const DriverTable& table, CUgraph graph,
                               const char*& call) {
  auto events = std::make_shared<CaptureEvents>();
  auto owner = std::make_unique<std::shared_ptr<CaptureEvents>>(events);
  CUuserObject object = nullptr;
  CUresult result =
      table.cuUserObjectCreate_v11030(&object, owner.get(), end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  call = "cuUserObjectCreate";
  if (result != CUDA_SUCCESS) return result;
  static_cast<void>(owner.release()); // the user object's
  result = table.cuGraphRetainUserObject_v11030(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  call = "cuGraphRetainUserObject";
  if (result == CUDA_SUCCESS)
    out = std::move(events);
  else
    table.cuUserObjectRelease_v11030(object, 1); // ends the owner
  return result;
}

DriverEvent CaptureEvents::keep(DriverEvent&& event) {
  events_.reserve(events_.size() + 1); // so that nothing can throw once the event has moved
  auto kept = std::make_unique<RetiredEvent>();
  DriverEvent borrowed = DriverEvent::borrow(event.context(), event.native_handle(), event.flags());
  kept->event = std::move(event);
  events_.push_back(std::move(kept));
  return borrowed;
}

/// Called by a thread of the driver, which must not be called from here.
void CaptureEvents::end(void* owner) {
  const std::unique_ptr<std::shared_ptr<CaptureEvents>> owned(
      static_cast<std::shared_ptr<CaptureEvents>*>(owner));
  CaptureEvents& events = **owned;
  events.ended_.store(true, std::memory_order_release); // before anybody can destroy one
  for (std::unique_ptr<RetiredEvent>& event : events.events_)
    released_by_graphs.push(event.release());
  events.events_.clear();
}

} // namespace cuevent
