// SPDX-License-Identifier: MIT
// What a place of a stream keeps.
#include "recording/mark_ring.hpp"

#include "recording_fixture.hpp"

#include <limits>

using namespace cuevent;
using namespace test;

namespace {

struct RingFixture : RecordingFixture {
  MarkRing ring;

  RingFixture() { REQUIRE(ring.create(context, 4)); }
  void submit(const MarkedPlace& place) {
    bool has_room = false;
    REQUIRE(ring.submit(stream, place, has_room));
    REQUIRE(has_room);
  }
};

} // namespace

TEST_CASE_METHOD(RingFixture, "a place keeps any number of a graph and of a launch") {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  Position position = 0;
  for (const std::uint64_t graph : {std::uint64_t{1}, std::uint64_t{1} << 20, most})
    for (const std::uint64_t replay : {std::uint64_t{1}, std::uint64_t{1} << 44, most}) {
      submit({.time = 5, .graph = graph, .replay = replay});
      MarkedPlace read;
      REQUIRE(ring.read(position++, read));
      CHECK(read.time == 5);
      CHECK(read.graph == graph);
      CHECK(read.replay == replay);
      CHECK(read.name.text().empty());
      Position reached = 0;
      ring.look(position, reached);
    }
}

TEST_CASE_METHOD(RingFixture, "a place that was not submitted, or was reused, cannot be read") {
  MarkedPlace read{.time = 1, .graph = 2, .replay = 3, .name = ShortName("untouched")};
  CHECK_FALSE(ring.read(0, read));
  for (int i = 0; i < 5; ++i) {
    submit({.time = 10 + i, .name = ShortName("mark")});
    Position reached = 0;
    ring.look(ring.submitted(), reached);
  }
  CHECK_FALSE(ring.read(0, read));
  CHECK(read.name.text() == "untouched");
  CHECK(ring.oldest() == 1);
  REQUIRE(ring.read(4, read));
  CHECK(read.time == 14);
  CHECK(read.graph == 0);
  CHECK(read.name.text() == "mark");
}

TEST_CASE_METHOD(RingFixture, "a ring that a report has emptied has room at once") {
  bool has_room = true;
  for (int i = 0; i < 8; ++i) { // the ring is full, and drops the next places without a look
    if (i == 4) recording.fail_always("cuEventQuery", CUDA_ERROR_NOT_READY);
    REQUIRE(ring.submit(stream, {.time = i, .name = ShortName("mark")}, has_room));
  }
  CHECK_FALSE(has_room);
  recording.fail_nothing();
  Position reached = 0;
  ring.look(ring.submitted(), reached);
  CHECK(reached == 4);
  submit({.time = 9, .name = ShortName("mark")});
}
