// SPDX-License-Identifier: MIT
#include <cuevent/driver_event.hpp>
#include <cuevent/sim.hpp>

#include <cassert>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

// The scheduler under test: a task may start once its input's event has completed.
bool may_start(const cuevent::DriverEvent& input) { return input.query(); }

int main() {
  sim::Machine machine;                          // stepped: nothing moves by itself
  cuevent::Driver driver(sim::get_proc_address); // the library's only contact with any driver
  auto context = cuevent::Context::primary(0, driver);
  cuevent::ContextGuard current(context);

  CUresult (*create_stream)(CUstream*, unsigned) = nullptr;
  sim::get_proc_address("cuStreamCreate", reinterpret_cast<void**>(&create_stream), 12000, 0, nullptr);
  CUstream producer = nullptr;
  create_stream(&producer, CU_STREAM_NON_BLOCKING);

  sim::hold(producer); // the producer is slow: as slow as we like
  cuevent::DriverEvent produced(context);
  produced.record(producer);
  sim::advance(1h);
  assert(!may_start(produced));
  assert(!produced.synchronize_for(10ms)); // follows the virtual clock: takes no time

  sim::release(producer); // and now it is done
  sim::run_until_idle();
  assert(may_start(produced));
  assert(sim::live_handles().events == 1); // nothing leaked
}
