// SPDX-License-Identifier: MIT
// A kernel that writes to an illegal address, and the calls that report it.
#include "kernel.hpp"
#include "scenario.hpp"

#include <chrono>
#include <thread>

namespace process {

namespace {

using namespace cuevent;

void look_at(const DeviceFault& error) {
  expect(dynamic_cast<const IllegalAddress*>(&error) != nullptr, "the fault of an illegal address");
  expect(error.result() == CUDA_ERROR_ILLEGAL_ADDRESS, "its code");
  expect(is_sticky(error.result()), "a sticky code");
}

template <class Ask>
void told_by(Ask ask) {
  const gpu::Gpu gpu;
  const gpu::Stream stream = gpu.stream();
  const Kernel kernel(gpu, "write_illegal_address");
  DriverEvent start(gpu.context, EventFlags::timing), end(gpu.context, EventFlags::timing);

  start.record(stream);
  kernel.launch(stream);
  end.record(stream);
  expect_throw<DeviceFault>([&] { ask(end); }, "the first call after the fault", look_at);

  step("a call after a fault that was delivered");
  expect_throw<DeviceFault>([&] { return end.query(); }, "query", look_at);
  expect_throw<DeviceFault>([&] { end.synchronize(); }, "synchronize", look_at);
  expect_throw<DeviceFault>([&] { return end.synchronize_for(std::chrono::seconds(1)); }, "synchronize_for",
                            look_at);
  expect_throw<DeviceFault>([&] { start.elapsed_time(end); }, "elapsed_time", look_at);
  expect_throw<DeviceFault>([&] { end.record(stream); }, "record", look_at);
  expect_throw<DeviceFault>([&] { DriverEvent made(gpu.context); }, "making an event", look_at);
  DriverEvent closed = std::move(start);
  expect_throw<DeviceFault>([&] { closed.close(); }, "close", look_at);
  expect(!closed, "a closed event is empty");
} // the rest is destroyed without output

void by_query() {
  told_by([](const DriverEvent& event) {
    step("query of an event behind a fault");
    while (!event.query())
      std::this_thread::yield();
  });
}

void by_synchronize() {
  told_by([](const DriverEvent& event) {
    step("synchronize of an event behind a fault");
    event.synchronize();
  });
}

void by_synchronize_for() {
  told_by([](const DriverEvent& event) {
    step("synchronize_for of an event behind a fault");
    static_cast<void>(event.synchronize_for(std::chrono::seconds(30)));
  });
}

} // namespace

std::vector<Scenario> fault_scenarios() {
  return {{"fault-query", by_query},
          {"fault-synchronize", by_synchronize},
          {"fault-synchronize-for", by_synchronize_for}};
}

} // namespace process
