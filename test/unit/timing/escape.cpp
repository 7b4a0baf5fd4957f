// SPDX-License-Identifier: MIT
#include "timing/escape.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <optional>
#include <vector>

using namespace cuevent;

namespace {

/// So many samples, of which some ended late.
std::vector<MeasuredSample> samples(std::size_t count, std::vector<double> late) {
  std::vector<MeasuredSample> all(count);
  for (std::size_t i = 0; i < late.size(); ++i) {
    all.at(i * 7 % count).escaped = true;
    all.at(i * 7 % count).tail = DeviceTime(late[i]);
  }
  return all;
}

std::size_t left_out(std::vector<MeasuredSample> of) {
  const std::size_t before = of.size(), late = leave_out_late(of);
  CHECK(of.size() == before - late);
  if (late != 0)
    for (const MeasuredSample& sample : of)
      CHECK_FALSE(sample.escaped);
  return late;
}

} // namespace

TEST_CASE("a span whose work and nothing else has ended has no escape") {
  CHECK(escape_of(1'000'000, 0, 1'001'300) == SpanEscape::no);
  CHECK(escape_of(1'000'000, std::nullopt, 1'000'000 + escape_margin) == SpanEscape::no);
}

TEST_CASE("work that was submitted during a span and outlasts it has escaped") {
  CHECK(escape_of(1'000'000, 0, 3'000'000) == SpanEscape::yes);
  CHECK(escape_of(1'000'000, 2'000'000, 3'000'000) == SpanEscape::yes); // later than all earlier work
}

TEST_CASE("earlier work that outlasts a span hides whether the span's own work does") {
  CHECK(escape_of(1'000'000, 3'000'000, 3'000'000) == SpanEscape::unknown);
  CHECK(escape_of(1'000'000, 3'000'000, 3'000'000 + escape_margin) == SpanEscape::unknown);
  CHECK(escape_of(1'000'000, std::nullopt, 3'000'000) == SpanEscape::unknown);
}

TEST_CASE("without an event of the context at the end, nothing is known") {
  CHECK(escape_of(1'000'000, 0, std::nullopt) == SpanEscape::unknown);
}

TEST_CASE("samples that a device has ended late by itself are left out") {
  CHECK(left_out(samples(20, {})) == 0);
  CHECK(left_out(samples(20, {7'300})) == 1);
  CHECK(left_out(samples(199, {16'000})) == 1);
  CHECK(left_out(samples(1'000, std::vector<double>(10, 8'000))) == 10);
}

TEST_CASE("samples that are late more often, or for longer, are evidence of work that escapes") {
  CHECK(left_out(samples(20, {7'300, 7'300})) == 0);
  CHECK(left_out(samples(1'000, std::vector<double>(11, 8'000))) == 0);
  CHECK(left_out(samples(1'000, {16'001})) == 0);
  CHECK(left_out(samples(1'000, {8'000, 4'000'000})) == 0);
  CHECK(left_out(samples(19, {7'300})) == 0);
}
