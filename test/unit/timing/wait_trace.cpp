// SPDX-License-Identifier: MIT
#include "timing/wait_trace.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace cuevent;

namespace {

CUevent event_handle(std::uintptr_t number) { return reinterpret_cast<CUevent>(number); }

/// Two streams, and an event that was recorded on the first stream.
struct Trace : WaitTrace {
  CUevent event = event_handle(1);

  Trace() : WaitTrace(4) {
    add_stream(1);
    recorded(event, {.stream = 0, .after = 7});
  }
  void wait_on_second() {
    if (const auto wait = waited(event, {.stream = 1}, true)) add_to_stream(*wait);
  }
};

} // namespace

TEST_CASE("a trace names what a stream waits for until the wait is settled") {
  Trace trace;
  CHECK(trace.waits_of(1).empty());
  trace.wait_on_second();
  REQUIRE(trace.waits_of(1).size() == 1);
  CHECK(trace.waits_of(1)[0].from_stream == 0);
  CHECK(trace.waits_of(1)[0].from == 7);
  CHECK(trace.waits_of(1)[0].to == no_position);
  CHECK(trace.waits_of(0).empty());

  trace.reach(1, 3);
  REQUIRE(trace.waits_of(1).size() == 1);
  CHECK(trace.waits_of(1)[0].to == 3);
  trace.settle([](const TracedWait&) { return false; });
  CHECK(trace.waits_of(1).size() == 1);
  trace.settle([](const TracedWait& wait) { return wait.to == 3; });
  CHECK(trace.waits_of(1).empty());
  CHECK(trace.untraced() == 0);
}

TEST_CASE("a trace follows the last record of a known event and ignores unknown events") {
  Trace trace;
  trace.recorded(trace.event, {.stream = 1, .after = 9});
  CHECK(trace.waited(trace.event, {.stream = 0}, true)->from == 9);
  CHECK_FALSE(trace.waited(event_handle(2), {.stream = 0}, true));
  trace.recorded(trace.event, {.stream = 1}); // no boundary before it
  CHECK_FALSE(trace.waited(trace.event, {.stream = 0}, true));
}

TEST_CASE("a trace follows the last 64 recorded events") {
  WaitTrace trace(4);
  constexpr std::uintptr_t events = 64;
  const auto known = [&](std::uintptr_t event) {
    return trace.waited(event_handle(event), {.stream = 1}, true).has_value();
  };
  for (std::uintptr_t event = 1; event <= events; ++event)
    trace.recorded(event_handle(event), {.stream = 0, .after = event});
  for (std::uintptr_t event = 1; event <= events; ++event)
    CHECK(known(event));
  for (std::uintptr_t event = 1; event <= 3; ++event) { // the oldest make room
    trace.recorded(event_handle(events + event), {.stream = 0, .after = 0});
    CHECK_FALSE(known(event));
    CHECK(known(event + 1));
    CHECK(known(events + event));
  }
}

TEST_CASE("a wait can make a stream join a capture, but cannot join two captures") {
  Trace trace;
  trace.recorded(trace.event, {.capture = 5, .stream = 0, .after = 1});
  CHECK(trace.waited(trace.event, {.stream = 1}, true)->capture == 5);
  CHECK(trace.waited(trace.event, {.capture = 5, .stream = 1}, true));
  CHECK_FALSE(trace.waited(trace.event, {.capture = 6, .stream = 1}, true));
  CHECK_FALSE(trace.waited(trace.event, {.stream = 1}, false));
}

TEST_CASE("a trace counts the waits that it has no room for") {
  Trace trace;
  for (int i = 0; i < 17; ++i)
    trace.wait_on_second();
  CHECK(trace.waits_of(1).size() == 16);
  CHECK(trace.untraced() == 1);
  trace.reach(1, 3);
  CHECK(trace.waits_of(1).size() == 4);
  CHECK(trace.untraced() == 13);
  trace.clear_untraced();
  CHECK(trace.untraced() == 0);
}
