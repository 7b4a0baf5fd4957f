// SPDX-License-Identifier: MIT
// Mistakes that do not compile, each next to its right form. check-misuse compiles this file twice: as it
// is, which must give no message, and with MISTAKES, in which each line with a comment `// TEXT` must be an
// error, and the compiler's message must have the text.
#include <cuevent/capture.hpp>
#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/launch_attribute.hpp>
#include <cuevent/stage_timer.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <functional>
#include <memory>
#include <utility>

using namespace cuevent;

struct All {
  Context context;
  CUstream stream;
  DriverEvent event;
  Graph graph;
  GraphExec exec;
  EventPool pool;
  EventPools pools;
  CompletionQueue queue;
  CompletionLane lane;
  TimelineSemaphore semaphore;
  std::function<void()> callback;
  CUresult result;
  int number;
};

#ifndef MISTAKES

void right(All& all) {
  all.graph.retain(std::move(all.event));
  all.graph.retain(std::make_shared<int>(7));
  all.graph.retain(all.pool.acquire());
  all.graph.when_destroyed([] {});
  all.graph.when_destroyed(std::move(all.callback));
  all.result = all.graph.try_retain(DriverEvent(all.context));
  all.graph.add_record(DriverEvent(all.context));
  all.graph.add_wait(std::move(all.event));
  const DriverEvent before = all.exec.set_event(EventRecordNode(), std::move(all.event));
  all.graph.set_event(EventRecordNode(), std::move(all.event));
  const CUlaunchAttribute attribute = programmatic_event(all.event);
  const CUlaunchAttribute completion = launch_completion_event(all.event);
  all.queue.when_complete(all.stream, [](CUresult) {});
  all.lane.when_complete([](CUresult) {});
  while (!all.queue.arm())
    all.queue.poll();
  const PooledEvent lease = all.pool.acquire(), other = all.pools.acquire(all.stream);
  const DriverEvent detached = all.pool.acquire().detach();
  const SharedEvent shared = all.pools.acquire_current().share();
  void* const word = all.pool.acquire().release();
  PooledEvent::borrow(word).record(all.stream);
  PooledEvent::adopt(word);
  const CUevent handle = all.event.release();
  const CUgraph graph = all.graph.release();
  const CUgraphExec exec = all.exec.release();
  const Context created = Context::create(0), primary = Context::primary(0);
  const GraphExec instantiated = all.graph.instantiate();
  const EndNotice notice = all.graph.end_notice();
  const int descriptor = all.semaphore.export_handle();
  const TimelineSemaphore imported = TimelineSemaphore::import(all.context, descriptor);
  const bool done = all.semaphore.wait_when_submitted(all.stream, 1, std::chrono::seconds(1));
  static_cast<void>(attribute), static_cast<void>(completion), static_cast<void>(done);
  static_cast<void>(handle), static_cast<void>(graph), static_cast<void>(exec);
}

#else

void keep_a_reference(All& all) {
  all.graph.retain(EventRef(all.event)); // owns nothing
}
void keep_a_handle(All& all) {
  all.graph.retain(all.event.release()); // owns nothing
}
void keep_a_pointer(All& all) {
  all.graph.retain(&all.event); // owns nothing
}
void keep_a_number(All& all) {
  all.result = all.graph.try_retain(7); // owns nothing
}
void keep_what_was_not_moved(All& all) {
  all.graph.retain(all.pool); // std::move it
}
void keep_an_event_that_was_not_moved(All& all) {
  all.graph.retain(all.event); // deleted
}
void keep_a_const_event(const DriverEvent& event, All& all) {
  all.result = all.graph.try_retain(event); // deleted
}
void launch_a_temporary_event(All& all) {
  const CUlaunchAttribute attribute = programmatic_event(DriverEvent(all.context)); // deleted
  static_cast<void>(attribute);
}
void launch_an_event_that_was_moved(All& all) {
  const CUlaunchAttribute attribute = launch_completion_event(std::move(all.event)); // deleted
  static_cast<void>(attribute);
}
void call_nothing_at_the_end(All& all) {
  all.graph.when_destroyed(nullptr); // called without arguments
}
void call_nothing_when_complete(All& all) {
  all.queue.when_complete(all.stream, nullptr); // called with a CUresult
}
void call_with_arguments_at_the_end(All& all) {
  all.graph.when_destroyed([](CUresult) {}); // called without arguments
}
void adopt_a_handle(All& all) {
  const PooledEvent lease = PooledEvent::adopt(all.event.release()); // deleted
}
void borrow_a_handle(All& all) {
  PooledEvent::borrow(all.event.native_handle()).record(all.stream); // deleted
}
void forget_results(All& all) {
  all.queue.arm();                                                           // nodiscard
  all.queue.native_handle();                                                 // nodiscard
  all.queue.lane(all.stream);                                                // nodiscard
  all.pool.acquire();                                                        // nodiscard
  all.pools.acquire(all.stream);                                             // nodiscard
  all.pools.acquire_current();                                               // nodiscard
  all.pool.acquire().detach();                                               // nodiscard
  all.pool.acquire().share();                                                // nodiscard
  all.pool.acquire().release();                                              // nodiscard
  PooledEvent::borrow(nullptr);                                              // nodiscard
  all.pool.acquire().ipc_handle();                                           // nodiscard
  all.event.ipc_handle();                                                    // nodiscard
  all.event.release();                                                       // nodiscard
  all.graph.release();                                                       // nodiscard
  all.exec.release();                                                        // nodiscard
  all.graph.instantiate();                                                   // nodiscard
  all.graph.end_notice();                                                    // nodiscard
  all.exec.set_event(EventRecordNode(), std::move(all.event));               // nodiscard
  Context::create(0);                                                        // nodiscard
  Context::primary(0);                                                       // nodiscard
  Context::current();                                                        // nodiscard
  Context::borrow(nullptr);                                                  // nodiscard
  DriverEvent::for_stream(all.stream);                                       // nodiscard
  DriverEvent::from_native_handle(all.context, nullptr, EventFlags::none);   // nodiscard
  DriverEvent::borrow(all.context, nullptr, EventFlags::none);               // nodiscard
  Graph::from_native_handle(all.context, nullptr);                           // nodiscard
  Graph::borrow(all.context, nullptr);                                       // nodiscard
  GraphExec::from_native_handle(all.context, nullptr);                       // nodiscard
  GraphExec::borrow(all.context, nullptr);                                   // nodiscard
  all.semaphore.export_handle();                                             // nodiscard
  all.semaphore.wait_when_submitted(all.stream, 1, std::chrono::seconds(1)); // nodiscard
  TimelineSemaphore::import(all.context, 0);                                 // nodiscard
  TimelineSemaphore::wait_all({}, std::chrono::seconds(1));                  // nodiscard
  TimelineSemaphore::wait_any({}, std::chrono::seconds(1));                  // nodiscard
}

#endif
