// SPDX-License-Identifier: MIT
// A plugin that uses cuevent and leaves nothing of its own behind. One has a copy of the library, and the
// others use libcuevent.so.
#include "unloaded.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pool.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/retired_events.hpp>
#include <cuevent/stage_timer.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <map>
#include <memory>
#include <string>
#include <unistd.h>

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

struct Its {
  Context context;
  CUstream stream, capturing;
  Graph graph;
};

const std::map<std::string, void (*)(Its&)> uses = {
    {"DriverEvent",
     [](Its& its) {
       DriverEvent event(its.context);
       event.record(its.stream);
       event.synchronize();
     }},
    {"EventPool",
     [](Its& its) {
       EventPool pool(its.context);
       for (int i = 0; i < 100; ++i)
         pool.acquire().record(its.stream);
     }},
    {"CompletionQueue",
     [](Its& its) {
       CompletionQueue queue(its.context);
       static_cast<void>(queue.native_handle());
       queue.when_complete(its.stream, [](CUresult) {});
       while (queue.pending() != 0)
         queue.poll();
     }},
    {"TimelineFence",
     [](Its& its) {
       TimelineFence fence(its.context, its.stream);
       static_cast<void>(fence.wait_for(fence.signal(), 10s));
     }},
    {"TimelineSemaphore",
     [](Its& its) {
       TimelineSemaphore semaphore(its.context);
       semaphore.abandon_on_death();
       semaphore.signal(its.stream, 1);
       static_cast<void>(semaphore.wait_for(1, 10s));
       semaphore.abandon();
     }},
    {"TimelineSemaphore::export_handle",
     [](Its& its) {
       TimelineSemaphore semaphore(its.context);
       close(semaphore.export_handle());
       semaphore.abandon_on_death();
     }},
    {"TimelineSemaphore::import",
     [](Its& its) {
       TimelineSemaphore semaphore(its.context);
       TimelineSemaphore other = TimelineSemaphore::import(its.context, semaphore.export_handle());
       other.signal(its.stream, 1);
     }},
    {"Graph::retain(event)", [](Its& its) { its.graph.retain(DriverEvent(its.context)); }},
    {"Graph::retain(object)", [](Its& its) { its.graph.retain(std::make_unique<int>(1)); }},
    {"Graph::when_destroyed",
     [](Its& its) { its.graph.when_destroyed([keeps = std::make_unique<int>(1)] {}); }},
    {"StageTimer in a capture",
     [](Its& its) {
       StageTimer timer(its.context);
       timer.open(its.capturing, timer.stage("stage"));
       timer.close(its.capturing);
     }},
    {"FlightRecorder in a capture",
     [](Its& its) {
       FlightRecorder recorder(its.context);
       recorder.mark(its.capturing, "mark");
     }},
    {"destroy_retired", [](Its&) { destroy_retired(); }},
};

} // namespace

extern "C" [[gnu::visibility("default")]] const char*
use_plugin(const char* use, CUcontext context, CUstream stream, CUstream capturing, CUgraph graph) {
  try {
    const Context own = Context::borrow(context);
    Its its{own, stream, capturing, Graph::borrow(own, graph)};
    uses.at(use)(its);
    return nullptr;
  } catch (const std::exception& error) {
    static std::string text;
    text = error.what();
    return text.c_str();
  }
}
