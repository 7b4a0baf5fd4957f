// SPDX-License-Identifier: MIT
#include "timing/side_stream_budget.hpp"

#include "on_threads.hpp"
#include "recording_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>

using namespace cuevent;
using test::on_threads;
using test::RecordingFixture;

TEST_CASE_METHOD(RecordingFixture, "permits are granted up to the limit, and again when they come back") {
  SideStreamPermit first = permit_side_stream(context, 2), second = permit_side_stream(context, 2);
  CHECK(first);
  CHECK(second);
  CHECK_FALSE(permit_side_stream(context, 2));
  CHECK_FALSE(permit_side_stream(context, 0));
  SideStreamPermit third = permit_side_stream(context, 3); // this timer allows more
  CHECK(third);
  third.reset();
  CHECK_FALSE(permit_side_stream(context, 2));
  first.reset();
  CHECK(permit_side_stream(context, 2));
}

TEST_CASE_METHOD(RecordingFixture, "each context has a budget of its own") {
  const Context other = Context::borrow(test::context_handle(2), driver);
  const SideStreamPermit first = permit_side_stream(context, 1), second = permit_side_stream(other, 1);
  CHECK(first);
  CHECK(second);
  CHECK_FALSE(permit_side_stream(context, 1));
  CHECK_FALSE(permit_side_stream(other, 1));
}

TEST_CASE_METHOD(RecordingFixture, "threads together never have more permits than the limit", "[threads]") {
  constexpr int limit = 2, threads = 4;
  std::atomic<int> held{0}, most{0};
  on_threads(threads, [&](std::size_t) {
    for (int i = 0; i < 500'000; ++i) {
      const SideStreamPermit permit = permit_side_stream(context, limit);
      if (!permit) continue;
      const int now = ++held;
      if (now > most) most = now;
      --held;
    }
  });
  CHECK(most <= limit);
  // All permits are back.
  const SideStreamPermit first = permit_side_stream(context, limit);
  const SideStreamPermit second = permit_side_stream(context, limit);
  CHECK(first);
  CHECK(second);
  CHECK_FALSE(permit_side_stream(context, limit));
}
