// SPDX-License-Identifier: MIT
#include "timing/boundary_ring.hpp"

#include "recording_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string_view>

using namespace cuevent;
using test::RecordingFixture;

namespace {

using Recorded = Boundary::Recorded;

/// A ring of four events, of which three may be in a launch queue.
struct RingFixture : RecordingFixture {
  BoundaryRing ring;

  RingFixture() { REQUIRE(ring.create(context, 4, 3)); }
  void push(Recorded recorded = Recorded::by_call) { ring.push({}, 0, recorded); }
};

} // namespace

TEST_CASE_METHOD(RingFixture, "a ring makes timed events, and stops at the first that fails") {
  const auto creations = [this] {
    const test::Names calls = recording.calls();
    return std::count(calls.begin(), calls.end(), "cuEventCreate");
  };
  CHECK(creations() == 4);
  for (Position i = 0; i < 4; ++i)
    CHECK(ring.at(i).event.flags() == EventFlags::timing);
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  BoundaryRing other;
  const Status status = other.create(context, 4, 3);
  CHECK(status.result == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(std::string_view(status.call) == "cuEventCreate");
  CHECK(creations() == 1);
}

TEST_CASE_METHOD(RingFixture, "a boundary keeps what was pushed until the ring comes round again") {
  ring.at(0).closed = 7;
  ring.at(0).opened = 8;
  ring.push({.closes = true, .opens = StageId{}}, 1234, Recorded::by_launch);
  CHECK(ring.next() == 1);
  CHECK(ring.at(0).change.closes);
  CHECK(ring.at(0).change.opens);
  CHECK(ring.at(0).host == 1234);
  CHECK(ring.at(0).recorded == Recorded::by_launch);
  CHECK(ring.at(0).closed == 0);
  CHECK(ring.at(0).opened == 0);
  CHECK_FALSE(ring.remembers(0)); // not read yet
  ring.pop();
  CHECK(ring.read() == 1);
  CHECK(ring.remembers(0));
  for (int i = 0; i < 3; ++i)
    push();
  CHECK(ring.remembers(0));
  CHECK_FALSE(ring.remembers(1));
  ring.pop();
  push(); // takes the event of boundary 0
  CHECK_FALSE(ring.remembers(0));
  CHECK(ring.remembers(1));
}

TEST_CASE_METHOD(RingFixture, "a ring has room for its free events, less those kept for open stages") {
  CHECK(ring.has_room(4, 0));
  CHECK_FALSE(ring.has_room(5, 0));
  push(Recorded::by_launch);
  CHECK(ring.has_room(3, 0));
  CHECK_FALSE(ring.has_room(4, 0));
  ring.keep_event_for_end();
  CHECK(ring.has_room(2, 0));
  CHECK_FALSE(ring.has_room(3, 0));
  ring.use_event_for_end();
  CHECK(ring.has_room(3, 0));
  ring.pop();
  CHECK(ring.has_room(4, 0));
}

TEST_CASE_METHOD(RingFixture,
                 "only recorded calls take room in the launch queue, and only until they are read") {
  CHECK(ring.has_room(0, 3));
  CHECK_FALSE(ring.has_room(0, 4));
  push(Recorded::by_launch);
  push(Recorded::no);
  CHECK(ring.has_room(0, 3));
  push();
  CHECK(ring.has_room(0, 2));
  CHECK_FALSE(ring.has_room(0, 3));
  ring.keep_event_for_end();
  CHECK(ring.has_room(0, 1));
  CHECK_FALSE(ring.has_room(0, 2));
  ring.use_event_for_end();
  ring.pop();
  ring.pop();
  CHECK(ring.has_room(0, 2));
  CHECK_FALSE(ring.has_room(0, 3));
  CHECK_FALSE(ring.all_read());
  ring.pop();
  CHECK(ring.has_room(0, 3));
  CHECK(ring.all_read());
}

TEST_CASE_METHOD(RingFixture, "the newest event skips stages that were lost, down to the oldest boundary") {
  push();
  push();
  CHECK(&ring.newest_event() == &ring.at(1).event);
  push(Recorded::no);
  CHECK(&ring.newest_event() == &ring.at(1).event);
  ring.pop();
  ring.pop();
  CHECK(&ring.newest_event() == &ring.at(2).event); // all that is left
  push(Recorded::by_launch);
  CHECK(&ring.newest_event() == &ring.at(3).event);
}
