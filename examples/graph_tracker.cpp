// SPDX-License-Identifier: MIT
// A watchdog polls events of graphs that others captured, and forgets a graph once it has ended. It never
// waits in the driver, even while another thread is blocked on a full launch queue. Runs without a GPU.
#include <cuevent/capture.hpp>
#include <cuevent/capture_info.hpp>
#include <cuevent/end_notice.hpp>
#include <cuevent/sim.hpp>

#include <atomic>
#include <cstdio>
#include <list>
#include <thread>

using namespace cuevent;
using namespace std::chrono_literals;

namespace {

struct Tracked {
  EndNotice end;
  DriverEvent begun; // belongs to the graph: valid until `end` says so
};

} // namespace

int main() {
  sim::Options options;
  options.mode = sim::Mode::running;
  options.queue_limit = 64;
  sim::Machine machine(options);
  const Driver driver(sim::get_proc_address);
  const Context context = Context::primary(0, driver);
  const ContextGuard current(context);
  const auto create_stream = driver.entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000);
  CUstream full = nullptr, stream = nullptr;
  create_stream(&full, CU_STREAM_NON_BLOCKING);
  create_stream(&stream, CU_STREAM_NON_BLOCKING);

  std::list<Tracked> tracked;
  StreamCapture capture(context, stream); // in a framework, which tells nobody how the capture ends
  {
    Graph graph = capture_info(context, stream).graph();
    DriverEvent event(context);
    DriverEvent begun = DriverEvent::borrow(context, event.native_handle(), event.flags());
    graph.add_record(std::move(event)); // from now on the graph's
    tracked.push_back({graph.end_notice(), std::move(begun)});
  }
  Graph graph = capture.end();

  sim::hold(full); // another thread submits more than the driver takes, and is blocked
  std::atomic<int> submitted = 0;
  DriverEvent timed(context, EventFlags::timing);
  std::thread blocked([&] {
    for (; submitted < 200; ++submitted)
      timed.record(full);
  });
  for (int before = -1; before != submitted; std::this_thread::sleep_for(50ms))
    before = submitted;
  std::printf("the other thread is blocked: %s\n", submitted < 200 ? "yes" : "no");

  std::thread watchdog([&] {
    while (!tracked.empty()) {
      for (auto each = tracked.begin(); each != tracked.end();)
        if (each->end.ended()) {
          each = tracked.erase(each);
        } else {
          static_cast<void>(each->begun.query_relaxed());
          ++each;
        }
      std::this_thread::sleep_for(1ms);
    }
  });
  driver.table().cuGraphDestroy_v10000(graph.release()); // ~Graph would also destroy the event, and wait
  watchdog.join();
  const bool noticed_in_time = submitted < 200;
  std::printf("the watchdog has noticed the end: %s\n", noticed_in_time ? "in time" : "too late");

  sim::release(full);
  blocked.join();
  destroy_retired();
  return noticed_in_time ? 0 : 1;
}
