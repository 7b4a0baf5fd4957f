// SPDX-License-Identifier: MIT
// A test of somebody's program, for check-settings. Without WITH_LIBRARY it uses only the simulated driver.
#include <cuevent/sim.hpp>

#ifdef WITH_LIBRARY
#include <cuevent/capture.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/rank_report.hpp>
#include <cuevent/text.hpp>

namespace {

/// Classes and functions with members, parameters and results of the standard library.
bool works() {
  using namespace cuevent;
  const Driver driver(sim::get_proc_address);
  const Context context = Context::primary(0, driver);
  StageTimer timer(context);
  timer.stage("a stage with a name that is not short");
  RankReport ranks(RankIdentity{}, "a device with a name that is not short");
  ranks.add(timer.report());
  FlightRecorder recorder(context);
  recorder.mark(CU_STREAM_PER_THREAD, "a mark with a name that is not short");
  StreamCapture capture(context, CU_STREAM_PER_THREAD);
  const DriverEvent recorded = capture.record(DriverEvent(context), CU_STREAM_PER_THREAD);
  return capture.end().event_nodes().records.size() == 1 && recorder.report().streams.size() == 1 &&
         !to_string(context).empty() && !ranks.take().empty();
}

} // namespace
#else
namespace {

bool works() {
  CUresult (*init)(unsigned) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*push)(CUcontext) = nullptr;
  const auto find = cuevent::sim::get_proc_address;
  find("cuInit", reinterpret_cast<void**>(&init), 12000, 0, nullptr);
  find("cuDevicePrimaryCtxRetain", reinterpret_cast<void**>(&retain), 12000, 0, nullptr);
  find("cuCtxPushCurrent", reinterpret_cast<void**>(&push), 12000, 0, nullptr);
  CUcontext context = nullptr;
  init(0);
  retain(&context, 1);
  push(context);
  return cuevent::sim::context_stack() == std::vector{context} &&
         cuevent::sim::live_handles() == cuevent::sim::HandleCounts{1};
}

} // namespace
#endif

int main() {
  cuevent::sim::Options options;
  options.devices = 2;
  options.random_order = 7;
  const cuevent::sim::Machine machine(options);
  cuevent::sim::set_kernel("a kernel with a name that is not short", {});
  return works() ? 0 : 1;
}
