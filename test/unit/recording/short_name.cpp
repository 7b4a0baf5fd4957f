// SPDX-License-Identifier: MIT
#include "recording/short_name.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>

using cuevent::ShortName;

TEST_CASE("a short name keeps up to forty bytes of any name") {
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL\xff\x80";
  for (std::size_t size = 0; size <= alphabet.size(); ++size) {
    const std::string name = alphabet.substr(0, size);
    CHECK(ShortName(name).text() == name.substr(0, 40));
    const std::string end = alphabet.substr(alphabet.size() - size); // with bytes above 127
    CHECK(ShortName(end).text() == end.substr(0, 40));
  }
}

TEST_CASE("a short name ends between two characters") {
  const std::string name = std::string(38, 'n') + "\xe2\x82\xac";
  CHECK(ShortName(name).text() == name.substr(0, 38));
  CHECK(ShortName(name.substr(1)).text() == name.substr(1));
}
