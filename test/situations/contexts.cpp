// SPDX-License-Identifier: MIT
// Contexts that end before the objects, and faults of the device.
#include "situations.hpp"

#include "../processes/children/kernel.hpp"
#include "../processes/children/scenario.hpp"
#include "driver_under_test.hpp"
#include "faults.hpp"

#include <gpu.hpp>

#include <thread>

namespace situations {

namespace {

using namespace cuevent;
using process::expect;

enum class Loss { destroyed, reset, retained_again };

CUcontext lose(const Context& context, Loss how) {
  const DriverTable& table = context.driver().table();
  if (how == Loss::destroyed) {
    expect(table.cuCtxDestroy_v4000(context.native_handle()) == CUDA_SUCCESS, "the context can be destroyed");
    return nullptr;
  }
  test::call<PFN_cuDevicePrimaryCtxReset_v11000>("cuDevicePrimaryCtxReset", 11000)(0);
  if (how == Loss::reset) return nullptr;
  CUcontext again = nullptr;
  table.cuDevicePrimaryCtxRelease_v11000(0);
  table.cuDevicePrimaryCtxRetain_v7000(&again, 0);
  expect(again == context.native_handle(), "the primary context has its handle again");
  return again;
}

/// `again` is current if it is not null.
void lost(const Class& row, Loss how, Ownership ownership) {
  World::primary(); // loads the driver
  Context context = how == Loss::destroyed ? Context::create(0, driver()) : World::primary();
  if (ownership == Ownership::borrowed) {
    static Context kept; // by somebody who does not hear of the end
    kept = context;
    context = Context::borrow(context.native_handle(), driver());
  }
  World w(context);
  auto subject = row.make(w);
  subject->check_all(In::working);
  w.synchronize();
  subject->end_scope();
  take_reports();

  CUcontext const again = lose(w.context, how);
  const auto set_current =
      test::call<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent", 4000); // cuevent has no use for it
  if (again != nullptr) set_current(again);
  const test::LiveHandles before = test::live_handles();
  subject->check_all(In::lost);
  const test::LiveHandles after = test::live_handles();
  expect(after.events <= before.events && after.streams <= before.streams,
         "nothing is made in the context that has the handle now");
  test::FaultPlan destroyed({.function = "cuEventDestroy"});
  {
    const test::FaultScope scope(destroyed);
    process::step("the destructor, after the context");
    subject.reset();
  }
  expect(destroyed.calls() == 0, "no event of a lost context is destroyed");
  expect(take_reports() == 0, "nothing is reported");
  if (again != nullptr) set_current(nullptr);
}

template <Loss how>
void lost(const Class& row) {
  // The owned context that is destroyed comes last. Its end is reported when its last event ends, which is
  // perhaps later if a graph has the event.
  lost(row, how, how == Loss::destroyed ? Ownership::borrowed : Ownership::owned);
  lost(row, how, how == Loss::destroyed ? Ownership::owned : Ownership::borrowed);
}

/// The objects belong to device 0. The streams that they are given belong to the primary context of device 1,
/// which another library holds.
void reset_by_another_library(const Class& row) {
  World w(World::primary());
  const DriverTable& table = w.context.driver().table();
  CUcontext theirs = nullptr, again = nullptr;
  table.cuDevicePrimaryCtxRetain_v7000(&theirs, 1);
  auto of_others = std::make_unique<World>(Context::borrow(theirs, w.context.driver()));
  auto subject = row.make(w);
  w.target = of_others->stream;
  subject->check_all(In::other_device);
  of_others->synchronize();
  w.target = w.stream;

  test::call<PFN_cuDevicePrimaryCtxReset_v11000>("cuDevicePrimaryCtxReset", 11000)(1);
  table.cuDevicePrimaryCtxRelease_v11000(1);
  table.cuDevicePrimaryCtxRetain_v7000(&again, 1);
  expect(again == theirs, "the primary context has its handle again");
  subject->check_all(In::working);
  of_others = std::make_unique<World>(Context::borrow(again, w.context.driver()));
  w.target = of_others->stream; // which can have the handle of the stream that has ended
  subject->check_all(In::other_device);
  of_others->synchronize();
  w.target = w.stream;
  subject->check_all(In::working);
  process::step("the destructor, after the context of other streams");
  subject.reset();
  expect(take_reports() == 0, "nothing is reported");
  of_others.reset();
  table.cuDevicePrimaryCtxRelease_v11000(1);
}

void device_fault(const Class& row) {
  World& w = *new World(World::primary()); // the streams cannot be destroyed
  const gpu::Gpu& gpu = *new gpu::Gpu(w.context.driver());
  const process::Kernel& kernel = *new process::Kernel(gpu, "write_illegal_address");
  auto subject = row.make(w);
  subject->check_all(In::working);
  w.synchronize();
  process::step("the fault");
  std::thread([&] { // another thread, because the subject may be a capture of this one
    const ContextGuard current(w.context);
    CUstream const faulty = w.make_stream();
    kernel.launch(faulty);
    const auto synchronize = test::call<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize", 2000);
    expect(synchronize(faulty) == CUDA_ERROR_ILLEGAL_ADDRESS, "the kernel fails");
  })
      .join();
  w.faulted = true;
  subject->check_all(In::faulted);
  process::step("the destructor, after a fault");
  subject.reset();
}

} // namespace

std::vector<Situation> situations_of_contexts() {
  return {
      {.name = "context destroyed",
       .in = In::lost,
       .alone = Alone::yes,
       .what = "Somebody destroys the context, of an object with an owned Context and of one with a borrowed "
               "Context. What belongs to a scope has ended before, and is made again afterwards.",
       .rule = "What would make something in the context is refused with CONTEXT_IS_DESTROYED. Destructors "
               "are silent, and do not touch what has ended.",
       .run = lost<Loss::destroyed>},
      {.name = "primary context reset",
       .in = In::lost,
       .alone = Alone::yes,
       .what = "Somebody resets the primary context.",
       .rule = "As for a context that was destroyed.",
       .run = lost<Loss::reset>},
      {.name = "reset and retained again",
       .in = In::lost,
       .alone = Alone::yes,
       .what = "Somebody resets the primary context, and retains it again: its handle now names a live "
               "context, which is current.",
       .rule = "As for a context that was destroyed. Nothing is made or destroyed in the live context.",
       .run = lost<Loss::retained_again>},
      {.name = "reset by another library and retained again",
       .in = In::other_device,
       .alone = Alone::yes,
       .what = "The operations get a stream of another device. Another library, which holds the primary "
               "context of that device, resets it and retains it again. Then the operations get a stream of "
               "the new context.",
       .rule =
           "Before and after the reset, a stream of the other device is answered in the same way. On "
           "its own streams the object works. No event of the context that has ended is used or destroyed.",
       .run = reset_by_another_library,
       .impossible = [](const Class& row) -> const char* {
         World w(World::primary());
         for (const Operation& each : row.make(w)->operations())
           if (each.does == Does::submits) return nullptr;
         return "it takes no stream";
       },
       .devices = 2},
      {.name = "device fault",
       .in = In::faulted,
       .alone = Alone::at_end,
       .what = "A kernel of another stream has written to an illegal address, and the driver has said so.",
       .rule = "An operation that needs the driver fails with ILLEGAL_ADDRESS. Destructors do not throw.",
       .run = device_fault},
  };
}

} // namespace situations
