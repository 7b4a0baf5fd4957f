// SPDX-License-Identifier: MIT
#include <cuevent/event_ref.hpp>
#include <cuevent/sim.hpp>

#include <cassert>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

// The scheduler under test: a task may start once its input's event has completed, whoever owns the event.
bool may_start(cuevent::EventRef input) { return input.query(); }

int main() {
  sim::Machine machine;                          // stepped: work progresses only inside calls
  cuevent::Driver driver(sim::get_proc_address); // the only driver that cuevent uses here
  auto context = cuevent::Context::primary(0, driver);
  cuevent::ContextGuard current(context);

  CUresult (*create_stream)(CUstream*, unsigned) = nullptr;
  sim::get_proc_address("cuStreamCreate", reinterpret_cast<void**>(&create_stream), 12000, 0, nullptr);
  CUstream producer = nullptr;
  create_stream(&producer, CU_STREAM_NON_BLOCKING);

  sim::hold(producer); // the producer is as slow as we like
  cuevent::DriverEvent produced(context);
  produced.record(producer);
  sim::advance(1h);
  assert(!may_start(produced));
  assert(!produced.synchronize_for(10ms)); // follows the virtual clock: returns immediately

  sim::release(producer); // now its work can complete
  sim::run_until_idle();
  assert(may_start(produced));
  assert(sim::live_handles().events == 1); // nothing leaked
}
