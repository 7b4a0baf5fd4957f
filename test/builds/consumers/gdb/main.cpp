// SPDX-License-Identifier: MIT
// Values for a debugger, which stops in show().
#include <cuevent/event_pool.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include <cstdio>

using namespace cuevent;

namespace {

struct Values {
  Driver driver = Driver::instance();
  Driver no_driver;
  Context context = Context::primary(0, driver);
  Context borrowed = Context::borrow(context.native_handle(), driver);
  Context no_context;
  DriverEvent event{context, EventFlags::timing | EventFlags::retire};
  DriverEvent of_borrowed{borrowed};
  DriverEvent no_event;
  EventRef reference = event;
  EventRef plain{event.native_handle(), driver};
  EventPool pool{borrowed};
  PooledEvent lease = pool.acquire();
  SharedEvent shared = pool.acquire().share();
  SharedEvent other_holder = shared;
  Graph graph{borrowed};
  GraphExec exec = graph.instantiate();
};

void show(const Values& values, const TimingDisabled& error, const DriverError& base) {
  std::printf("%s; %d; the context has id %llu\n", error.what(), base.result(), values.context.id());
}

} // namespace

int main() {
  Values values;
  values.shared.record(CU_STREAM_PER_THREAD);
  try {
    values.event.elapsed_time(values.of_borrowed);
  } catch (const TimingDisabled& error) {
    show(values, error, error);
    return 0;
  }
  return 1;
}
