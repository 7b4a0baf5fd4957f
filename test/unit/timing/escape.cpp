// SPDX-License-Identifier: MIT
#include "timing/escape.hpp"

#include <catch2/catch_test_macros.hpp>

#include <optional>

using namespace cuevent;

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
