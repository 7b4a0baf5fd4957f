// SPDX-License-Identifier: MIT
// The handles of default streams mean the default streams of the event's own context.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/driver_event.hpp>

#include <catch2/generators/catch_generators.hpp>

#include <optional>

using namespace cuevent;
using namespace test;

namespace {

/// A fixture with a second context, which can be made current.
class DefaultStream : public Fixture {
protected:
  CUstream const stream = GENERATE(CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
  const Context other = Context::create(0, driver);
  const bool other_is_current = GENERATE(false, true);
  const std::optional<ContextGuard> guard = make_guard();
  const std::vector<CUcontext> stack = context_stack();

  /// A gate in this stream of this context.
  std::optional<Gate> close_gate(const Context& of) const {
    const ContextGuard current(of);
    return std::optional<Gate>(std::in_place, stream);
  }

private:
  std::optional<ContextGuard> make_guard() const {
    return other_is_current ? std::optional<ContextGuard>(std::in_place, other) : std::nullopt;
  }
};

} // namespace

TEST_CASE_METHOD(DefaultStream,
                 "a record on a default stream uses the default stream of the event's context") {
  CAPTURE(stream, other_is_current);
  DriverEvent ours(context), theirs(other);
  std::optional<Gate> gate = close_gate(context);
  ours.record(stream);
  theirs.record(stream);
  theirs.synchronize();
  CHECK_FALSE(ours.query());
  gate->open();
  ours.synchronize();
  CHECK(context_stack() == stack);
}

TEST_CASE_METHOD(DefaultStream, "a wait on a default stream uses the default stream of the event's context") {
  CAPTURE(stream, other_is_current);
  const Stream producer(context);
  DriverEvent event(context), ours(context), theirs(other);
  Gate gate(producer);
  event.record(producer);
  event.wait(stream);
  ours.record(stream);
  theirs.record(stream);
  theirs.synchronize();
  CHECK_FALSE(ours.query());
  gate.open();
  ours.synchronize();
  CHECK(context_stack() == stack);
}

TEST_CASE_METHOD(Fixture, "an event shows that the legacy stream waits for blocking streams of its context") {
  const Stream blocking(context, CU_STREAM_DEFAULT);
  DriverEvent event(context);
  Gate gate(blocking);
  event.record(CU_STREAM_LEGACY);
  CHECK_FALSE(event.query());
  gate.open();
  event.synchronize();
}
