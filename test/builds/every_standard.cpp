// SPDX-License-Identifier: MIT
// Compiled once for each C++ standard that users build with, and linked into one program. STANDARD
// is cpp17, cpp20 or cpp23.
#include "every_standard.hpp"

#include <cuevent/graph_exec.hpp>

#include <sstream>

namespace {

#define SIZE(type)                                                                                           \
  {#type, sizeof(cuevent::type)}, { #type ", alignment", alignof(cuevent::type) }
#define OFFSET(type, member)                                                                                 \
  { #type "::" #member, offsetof(cuevent::type, member) }

const builds::Number layout[] = {
    SIZE(ArrayView<CUgraphNode>),
    SIZE(CaptureFork),
    SIZE(CaptureInfo),
    SIZE(CaptureModeGuard),
    SIZE(StreamCapture),
    SIZE(CompletionQueue),
    SIZE(CompletionQueue::Completion),
    SIZE(CompletionQueue::Lane),
    SIZE(CompletionToken),
    SIZE(PollLimit),
    SIZE(Context),
    SIZE(ContextGuard),
    SIZE(Driver),
    SIZE(DriverTable),
    SIZE(DriverEvent),
    SIZE(EventRef),
    SIZE(DriverError),
    SIZE(TimingDisabled),
    SIZE(EventPool),
    SIZE(EventPool::Counters),
    SIZE(EventPools),
    SIZE(PooledEvent),
    SIZE(SharedEvent),
    SIZE(LeasedEvent),
    SIZE(EventRecordNode),
    SIZE(EventWaitNode),
    SIZE(Graph),
    SIZE(Graph::EventNodes),
    SIZE(GraphExec),
    SIZE(IpcHandle),
    SIZE(RetiredObject),
    SIZE(RetireScope),
    SIZE(StageTimer),
    SIZE(StageTimerOptions),
    SIZE(StageScope),
    SIZE(TimedGraph),
    SIZE(StageStatistics),
    SIZE(StageStream),
    SIZE(StageSpan),
    SIZE(StageWait),
    SIZE(StageClock),
    SIZE(StageReport),
    SIZE(TimeLimit),
    SIZE(Deadline),
    SIZE(TimelineFence),
    OFFSET(DriverTable, get_proc_address),
    OFFSET(DriverTable, pause),
    OFFSET(DriverTable, cuEventRecord_v2000),
    OFFSET(EventPool::Counters, high_water),
    OFFSET(Graph::EventNodes, waits),
    OFFSET(StageStatistics, max),
    OFFSET(StageStream, handle),
    OFFSET(StageSpan, closed),
    OFFSET(StageWait, arrival),
    OFFSET(StageClock, rounding),
    OFFSET(StageReport, clock),
    OFFSET(StageTimerOptions, when_full),
};

CUresult make(cuevent::DriverEvent& out, const cuevent::Context& context, cuevent::EventFlags flags) {
  return cuevent::DriverEvent::try_create(out, context, flags);
}

bool record(cuevent::DriverEvent& event, CUstream stream) {
  event.record(stream);
  event.wait(stream);
  event.synchronize();
  const auto same = cuevent::DriverEvent::borrow(event.context(), event.native_handle(), event.flags());
  return event.query() && event == same && !(event != same);
}

float elapsed(const cuevent::DriverEvent& begin, const cuevent::DriverEvent& end) {
  return begin.elapsed_time(end).count();
}

cuevent::EventRecordNode add_after(cuevent::Graph& graph, const cuevent::DriverEvent& event,
                                   cuevent::ArrayView<CUgraphNode> after) {
  return graph.add_record(event, after);
}

cuevent::PooledEvent acquire(cuevent::EventPool& pool, CUstream stream) {
  cuevent::PooledEvent event = pool.acquire();
  event.record(stream);
  return event;
}

void when_complete(cuevent::CompletionQueue& queue, CUstream stream, int& calls) {
  queue.when_complete(stream, [&calls](CUresult result) { calls += result == CUDA_SUCCESS ? 1 : 100; });
}

std::uint64_t reached(cuevent::TimelineFence& fence) {
  const std::uint64_t ticket = fence.signal();
  return fence.wait_for(ticket, std::chrono::seconds(10)) && fence.reached(ticket) ? fence.completed() : 0;
}

std::chrono::nanoseconds left(cuevent::Deadline deadline) { return deadline.at(std::chrono::seconds(1)); }

bool equal(const cuevent::Context& a, const cuevent::Context& b) {
  return a == b && !(a != b) && a.driver() == b.driver() && !(a.driver() != b.driver()) &&
         a.driver().table() == b.driver().table() && !(a.driver().table() != b.driver().table());
}

std::string text(const cuevent::DriverEvent& event) {
  std::ostringstream out;
  out << event;
  return out.str();
}

} // namespace

builds::Standard builds::STANDARD() {
  return {__cplusplus, layout,        make,    record, elapsed, add_after,
          acquire,     when_complete, reached, left,   equal,   text};
}
