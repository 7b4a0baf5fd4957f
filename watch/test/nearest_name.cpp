// SPDX-License-Identifier: MIT
#include "rules/nearest_name.hpp"

#include <catch2/catch_test_macros.hpp>

TEST_CASE("a misspelt name gets the name that was meant", "[watch][names]") {
  const std::vector<std::string> names{"all", "certain", "--suppressions", "usual"};
  const struct {
    const char *word, *meant;
  } cases[] = {
      {"al", "all"},
      {"ALL", "all"},
      {"alle", "all"},
      {"cert", "certain"},
      {"usal", "usual"},
      {"", ""},
      {"a", ""},
      {"nothing", ""},
      {"xyz", ""},
      {"unusual", "usual"},
      {"--supressions", "--suppressions"},
  };
  for (const auto& [word, meant] : cases)
    CHECK(watch::meant_by(word, names) == meant);
  CHECK(watch::suggestion("cert", names) == " (did you mean certain?)");
  CHECK(watch::suggestion("nothing", names).empty());
  CHECK(watch::meant_by(std::string(5000, 'x'), names).empty());
}
