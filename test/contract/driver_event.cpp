// SPDX-License-Identifier: MIT
// How an event is made, owned and handed over.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/driver_event.hpp>

#include <catch2/generators/catch_generators.hpp>

#include <optional>
#include <utility>

using namespace cuevent;
using namespace test;

namespace {

/// A context that is destroyed while it has users.
class MortalContext {
public:
  Context borrow() const { return Context::borrow(made_.native_handle(), test::driver()); }
  void die() {
    CUcontext const handle = made_.native_handle();
    made_ = Context();
    unsigned long long id = 0;
    REQUIRE(test::unfailing_driver().table().cuCtxGetId_v12000(handle, &id) ==
            CUDA_ERROR_CONTEXT_IS_DESTROYED); // a driver that fails may not have come to it
  }

private:
  Context made_ = Context::create(0, test::driver());
};

} // namespace

TEST_CASE_METHOD(Fixture, "an event is created in its own context, whichever context is current") {
  const Context created = Context::create(0, driver);
  const bool other_is_current = GENERATE(false, true);
  CAPTURE(other_is_current);
  std::optional<ContextGuard> guard;
  if (other_is_current) guard.emplace(created);
  const auto stack = context_stack();

  DriverEvent event(context);
  CHECK(context_stack() == stack);
  CHECK(event.context() == context);
  const Stream ours(context), theirs(created);
  CHECK(event.try_record(ours) == CUDA_SUCCESS);
  CHECK(event.try_record(theirs) == CUDA_ERROR_INVALID_HANDLE);
  event.synchronize();
}

TEST_CASE_METHOD(Fixture,
                 "an event can be created with every combination of flags that the driver supports") {
  const auto flags = GENERATE(EventFlags::none, EventFlags::timing, EventFlags::blocking_sync,
                              EventFlags::interprocess, EventFlags::timing | EventFlags::blocking_sync,
                              EventFlags::interprocess | EventFlags::blocking_sync);
  CAPTURE(static_cast<unsigned>(flags));
  const Stream stream(context);
  DriverEvent event(context, flags);
  CHECK(event.flags() == flags);
  event.record(stream);
  event.synchronize();
  CHECK(event.query());
  DriverEvent::Milliseconds time{};
  const bool timed = (flags & EventFlags::timing) == EventFlags::timing;
  CHECK((event.try_elapsed_time(time, event) == CUDA_SUCCESS) == timed);
}

TEST_CASE_METHOD(Fixture, "contradictory and unknown flags are refused") {
  const auto flags = GENERATE(EventFlags::timing | EventFlags::interprocess, EventFlags(0x40));
  CHECK_THROWS_AS(DriverEvent(context, flags), InvalidValue);
  DriverEvent out;
  CHECK(DriverEvent::try_create(out, context, flags) == CUDA_ERROR_INVALID_VALUE);
  CHECK_FALSE(out);
}

TEST_CASE_METHOD(Fixture,
                 "for_stream creates the event in the stream's context, whichever context is current") {
  const Context created = Context::create(0, driver);
  const Stream stream(created);
  const ContextGuard guard(context);
  DriverEvent event = DriverEvent::for_stream(stream, EventFlags::timing, driver);
  CHECK(event.context() == created);
  CHECK(event.flags() == EventFlags::timing);
  event.record(stream);
  event.synchronize();
}

TEST_CASE_METHOD(Fixture, "for_stream of a default stream creates the event in the current context") {
  CUstream const stream = GENERATE(CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
  CHECK_THROWS_AS(DriverEvent::for_stream(stream, EventFlags::none, driver), InvalidContext);
  const ContextGuard guard(context);
  CHECK(DriverEvent::for_stream(stream, EventFlags::none, driver).context() == context);
}

TEST_CASE_METHOD(StreamFixture, "a pending event can be destroyed, and its stream goes on") {
  DriverEvent closed(context), end(context);
  Gate gate(stream);
  {
    DriverEvent event(context);
    event.record(stream);
    closed.record(stream);
  }
  closed.close();
  end.record(stream);
  CHECK_FALSE(end.query());
  gate.open();
  end.synchronize();
}

TEST_CASE_METHOD(Fixture,
                 "a default stream of a destroyed context is refused before the driver sees the event") {
  MortalContext mortal;
  const Context dead = mortal.borrow();
  CUevent gone = nullptr;
  {
    const DriverEvent event(dead);
    gone = event.native_handle();
  }
  mortal.die();
  DriverEvent event = DriverEvent::borrow(dead, gone, EventFlags::none);
  CHECK_THROWS_AS(event.record(CU_STREAM_LEGACY), ContextIsDestroyed);
  CHECK_THROWS_AS(event.wait(CU_STREAM_LEGACY), ContextIsDestroyed);
}

TEST_CASE_METHOD(Fixture, "move assignment destroys the old event, and self-assignment changes nothing") {
  const int before = live_handles().events;
  DriverEvent kept(context), replaced(context);
  CUevent const handle = kept.native_handle();
  replaced = std::move(kept);
  CHECK(live_handles().events == before + 1);
  CHECK(replaced.native_handle() == handle);

  DriverEvent& same = replaced;
  replaced = std::move(same);
  CHECK(replaced.native_handle() == handle); // NOLINT(clang-analyzer-cplusplus.Move)
  CHECK(replaced.query());

  replaced = DriverEvent();
  CHECK(live_handles().events == before);
}
