// SPDX-License-Identifier: MIT
#include "report/terminal.hpp"

#include <catch2/catch_test_macros.hpp>

TEST_CASE("paths are short for somebody in the folder", "[watch][terminal]") {
  const struct {
    const char *folder, *file;
    int steps_up;
    const char* path;
  } cases[] = {
      {"/home/a", "/home/a/src/train.cpp", 0, "src/train.cpp"},
      {"/home/a/build", "/home/a/build/../src/train.cpp", 2, "../src/train.cpp"},
      {"/home/a/build", "/home/a/build/../src/train.cpp", 0, "/home/a/src/train.cpp"},
      {"/x/y/z", "/home/a/train.cpp", 2, "/home/a/train.cpp"},
      {"/home/a", "train.py", 2, "train.py"},
  };
  for (const auto& [folder, file, steps_up, path] : cases)
    CHECK(watch::path_from(folder, file, steps_up) == path);
}

TEST_CASE("colours begin and end in their line", "[watch][terminal]") {
  const std::string finding =
      "cuevent watch: leaked: a stream\n  in cuStreamCreate\n  to fix it: Destroy it\n";
  const std::string shown = watch::coloured(finding);
  CHECK(shown.find("\033[1;31mleaked\033[0m") != std::string::npos);
  CHECK(shown.find("to fix it:\033[0m Destroy") != std::string::npos);
  CHECK(shown.ends_with('\n'));
  for (const char* plain :
       {"", "\n", "cuevent watch: watched 1 process\n", "cuevent watch: other: text", "  x\n\n"})
    CHECK(watch::coloured(plain) == plain);
}
