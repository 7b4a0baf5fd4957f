// SPDX-License-Identifier: MIT
#include "printable.hpp"

#include <catch2/catch_test_macros.hpp>

using cli::printable;

TEST_CASE("printable text has no control characters") {
  CHECK(printable("\x1b[31mred\x1b[0m") == "?[31mred?[0m");
  CHECK(printable("a\nb\tc\r\x7f") == "a?b?c??");
  CHECK(printable(std::string_view("a\0b", 3)) == "a?b");
  CHECK(printable("\xc2\x9b"
                  "31m\xc2\x80\xc2\x9f") == "?31m??"); // one character that begins a sequence
}

TEST_CASE("printable text keeps everything else") {
  CHECK(printable("").empty());
  CHECK(printable("forward, 100 %") == "forward, 100 %");
  CHECK(printable("\xc2\xa0 \xc3\xbc \xe2\x9b\x94 \xf0\x9f\x98\x80") ==
        "\xc2\xa0 \xc3\xbc \xe2\x9b\x94 \xf0\x9f\x98\x80");
  CHECK(printable("cut \xc2") == "cut \xc2");
}
