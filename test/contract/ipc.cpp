// SPDX-License-Identifier: MIT
// Events that are passed to another process. examples/ipc_ping uses two real processes.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/ipc.hpp>
#include <cuevent/sim.hpp>

#include <catch2/matchers/catch_matchers_exception.hpp>

#include <chrono>

using namespace cuevent;
using namespace test;
using Catch::Matchers::MessageMatches;

TEST_CASE_METHOD(Fixture,
                 "an interprocess event can be exported on any thread, whichever context is current") {
  const Context other = Context::create(0, driver);
  const DriverEvent event(context, EventFlags::interprocess);
  const IpcHandle handle = event.ipc_handle();
  CHECK(context_stack().empty());
  {
    const ContextGuard guard(other);
    const auto before = context_stack();
    CHECK(event.ipc_handle() == handle);
    CHECK(context_stack() == before);
  }
  CHECK(handle != DriverEvent(context, EventFlags::interprocess).ipc_handle());
  CHECK(IpcHandle::parse(handle.to_string()) == handle);
}

TEST_CASE_METHOD(Fixture, "only an interprocess event can be exported, and it has no timing") {
  CHECK_THROWS_MATCHES(DriverEvent(context).ipc_handle(), InvalidHandle,
                       MessageMatches(ContainsSubstring("EventFlags::interprocess")));
  CHECK_THROWS_MATCHES(DriverEvent(context, EventFlags::timing).ipc_handle(), InvalidHandle,
                       MessageMatches(ContainsSubstring("EventFlags::interprocess")));
  CHECK_THROWS_AS(DriverEvent().ipc_handle(), EmptyEvent);
  CHECK_THROWS_MATCHES(DriverEvent(context, EventFlags::interprocess | EventFlags::timing), InvalidValue,
                       MessageMatches(ContainsSubstring("cannot have timing")));
}

TEST_CASE_METHOD(Fixture, "a handle opens only in another process, and garbage bytes open nowhere") {
  const DriverEvent event(context, EventFlags::interprocess);
  CHECK_THROWS_MATCHES(DriverEvent::from_ipc_handle(context, event.ipc_handle()), InvalidContext,
                       MessageMatches(ContainsSubstring("this process exported")));
  IpcHandle garbage;
  CHECK_THROWS_MATCHES(DriverEvent::from_ipc_handle(context, garbage), MapFailed,
                       MessageMatches(ContainsSubstring("all bytes of the handle")));
  garbage.bytes.fill(std::byte{0x5a});
  DriverEvent out(context);
  CUevent const handle = out.native_handle();
  CHECK(DriverEvent::try_from_ipc_handle(out, context, garbage) == CUDA_ERROR_MAP_FAILED);
  CHECK(out.native_handle() == handle);
  CHECK_THROWS_MATCHES(DriverEvent::from_ipc_handle(Context(), event.ipc_handle()), InvalidContext,
                       MessageMatches(ContainsSubstring("empty")));
}

TEST_CASE_METHOD(Fixture, "an event orders the work of two processes") {
  if (!test::simulated()) SKIP("needs two processes in one, which only the simulator has");
  const Driver far(cuevent::sim::get_proc_address_of(1));
  const Context there = Context::primary(0, far);
  CHECK(far != driver);
  const Stream stream(context);
  DriverEvent event(context, EventFlags::interprocess);
  DriverEvent opened = DriverEvent::from_ipc_handle(there, event.ipc_handle());
  CHECK(opened.context() == there);
  CHECK(opened.query()); // never recorded
  {
    const Gate gate(stream);
    event.record(stream);
    CHECK_FALSE(opened.query());
    CHECK_FALSE(opened.synchronize_for(1ms));
  }
  CHECK(opened.synchronize_for(1min));
  CHECK_THROWS_MATCHES(opened.ipc_handle(), InvalidHandle, MessageMatches(ContainsSubstring("imported")));
  CHECK_THROWS_AS(opened.elapsed_time(opened), TimingDisabled);
  event.close();
  CHECK(opened.query()); // its record exists while any process has the event open
}
