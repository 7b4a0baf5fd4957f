// SPDX-License-Identifier: MIT
#include "core/name_text.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <string_view>
#include <utility>

using namespace cuevent;

TEST_CASE("printable text has no control characters") {
  CHECK(printable("\x1b[31mred\x1b[0m") == "?[31mred?[0m");
  CHECK(printable("a\nb\tc\r\x7f") == "a?b?c??");
  CHECK(printable(std::string_view("a\0b", 3)) == "a?b");
  CHECK(printable("\xc2\x9b"
                  "31m\xc2\x80\xc2\x9f") == "?31m??"); // one character that begins a sequence
}

TEST_CASE("a text cannot change the direction in which it is shown, nor end its line") {
  for (const std::string name :
       {"\xd8\x9c", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa",
        "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9", "\xc2\x9b", "\xc2\x85"}) {
    CHECK(printable("a" + name + "b") == "a?b");
    CHECK(printable_lines("a" + name + "b") == "a?b");
    CHECK(xml_text("a" + name + "b") == "a?b");
    CHECK(json_string(name).size() == 8); // "\\u202e"
  }
  CHECK(json_string("\xe2\x80\xae \x7f \xc2\x9b") == R"("\u202e \u007f \u009b")");
  CHECK(printable_lines("a\n\x1b[31m\tb\xff") == "a\n\\x1b[31m\\x09b?");
  CHECK(printable("\xe2\x80\x8d \xe2\x80\xa7 \xe2\x80\xaf \xe2\x81\xa5") == // the characters around them
        "\xe2\x80\x8d \xe2\x80\xa7 \xe2\x80\xaf \xe2\x81\xa5");
}

TEST_CASE("printable text keeps everything else that is UTF-8") {
  CHECK(printable("").empty());
  CHECK(printable("forward, 100 %") == "forward, 100 %");
  CHECK(printable("\xc2\xa0 \xc3\xbc \xe2\x9b\x94 \xf0\x9f\x98\x80") ==
        "\xc2\xa0 \xc3\xbc \xe2\x9b\x94 \xf0\x9f\x98\x80");
  CHECK(printable("cut \xc2, \x9b") == "cut ?, ?"); // a byte that begins a sequence in Latin-1
}

TEST_CASE("a text in JSON is UTF-8, and each byte that is not is replaced") {
  for (const auto& [text, written] :
       {std::pair{"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"\xe0\xa0\x80", "\xe0\xa0\x80"}, // the first and the last characters of each length
        {"\xed\x9f\xbf", "\xed\x9f\xbf"},
        {"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\"\\\n", "\\u0022\\u005c\\u000a"},
        {"\x80", "\xef\xbf\xbd"},
        {"\xc3", "\xef\xbf\xbd"},
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc3(", "\xef\xbf\xbd("},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x80\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}})
    CHECK(json_string(text) == std::string("\"") + written + "\"");
}

TEST_CASE("a text in XML is neither markup nor the end of a section") {
  CHECK(xml_text("<a href=\"&\">]]>") == "&lt;a href=&quot;&amp;&quot;&gt;]]&gt;");
  CHECK(xml_text("\xc3\xbc\x01\xff \xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd") == "\xc3\xbc?? ??\xef\xbf\xbd");
}

TEST_CASE("a text is cut between two characters") {
  const std::string text = "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z"; // 1, 2, 3, 4 and 1 bytes
  for (const auto& [most, kept] : {std::pair{0, 0},
                                   {1, 1},
                                   {2, 1},
                                   {3, 3},
                                   {4, 3},
                                   {5, 3},
                                   {6, 6},
                                   {7, 6},
                                   {9, 6},
                                   {10, 10},
                                   {11, 11},
                                   {12, 11}})
    CHECK(beginning(text, std::size_t(most)) == text.substr(0, std::size_t(kept)));
  CHECK(beginning("\x80\x80\x80\x80\x80", 4) == "\x80\x80\x80\x80"); // not UTF-8
  CHECK(beginning("ab\xf0\x9f", 3) == "ab\xf0");
}
