// SPDX-License-Identifier: MIT
#include <cuevent/version.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>

#if CUEVENT_VERSION != CUEVENT_VERSION_MAJOR * 10000 + CUEVENT_VERSION_MINOR * 100 + CUEVENT_VERSION_PATCH
#error "the preprocessor cannot compare CUEVENT_VERSION"
#endif
static_assert(CUEVENT_VERSION_MINOR < 100 && CUEVENT_VERSION_PATCH < 100,
              "they have two digits each in CUEVENT_VERSION");

TEST_CASE("the version macros are the version of the project") {
  CHECK(std::to_string(CUEVENT_VERSION_MAJOR) + "." + std::to_string(CUEVENT_VERSION_MINOR) + "." +
            std::to_string(CUEVENT_VERSION_PATCH) ==
        PROJECT_VERSION);
}

TEST_CASE("the inline namespace begins with the soname's version") {
#define NAME_OF(macro) #macro
#define NAME(macro) NAME_OF(macro)
  const std::string version = "v" + (CUEVENT_VERSION_MAJOR == 0 ? "0_" + std::to_string(CUEVENT_VERSION_MINOR)
                                                                : std::to_string(CUEVENT_VERSION_MAJOR));
  const std::string name = NAME(CUEVENT_ABI); // the test `settings` compares what follows
  CHECK(name.substr(0, name.find('_', version.size())) == version);
}
