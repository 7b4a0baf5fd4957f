// SPDX-License-Identifier: MIT
// Stacks as a reader sees them.
#include "report/finding_text.hpp"

#include "report/readable_name.hpp"

#include <catch2/catch_test_macros.hpp>

using Lines = std::vector<std::string>;
using watch::NamedFrame;

TEST_CASE("the program's own frames come first, and others are folded", "[watch][text]") {
  const NamedFrame own{"step (train.cpp:5)", true}, main{"main (train.cpp:9)", true}, a{"a (liba.so)"},
      b{"b (libb.so)"}, unnamed{"liba.so+0x12"};
  const struct {
    std::vector<NamedFrame> frames;
    Lines lines;
  } cases[] = {
      {{own, main}, {own.text, main.text}},
      {{a, b, own, main}, {own.text, "through b (libb.so), a (liba.so)", main.text}},
      {{a, b, a, b, own}, {own.text, "through b (libb.so), a (liba.so), b (libb.so) and 1 more"}},
      {{unnamed, own}, {own.text, "through 1 frame of libraries without names"}},
      {{unnamed, unnamed, own}, {own.text, "through 2 frames of libraries without names"}},
      {{a, unnamed, unnamed, own}, {own.text, "through a (liba.so) and 2 more"}},
      {{own, a, main}, {own.text, main.text}},
      {{own, a, b, unnamed, main, b, a}, {own.text, "... 3 frames of libraries", main.text}},
      {{a, unnamed}, {a.text, unnamed.text}},
      {{}, {}},
  };
  for (const auto& [frames, lines] : cases)
    CHECK(watch::folded(frames) == lines);
  CHECK(watch::folded(std::vector<NamedFrame>(20, own)).back() == "and 4 more");
}

TEST_CASE("frames that two stacks share are shown once", "[watch][text]") {
  const NamedFrame query{"query", true, "1"}, record{"record", true, "2"}, step{"step", true, "3"},
      main{"main", true, "4"}, other_step{"step", true, "5"}, library{"a (liba.so)", false, "6"};
  const struct {
    std::vector<NamedFrame> frames;
    Lines lines;
  } cases[] = {
      {{record, step, main}, {"record", "as above from step"}},
      {{record, step, library, main}, {"record", "step", "main"}}, // another way to step
      {{query, step, main}, {"as above"}},
      {{library, query, step, main}, {"a (liba.so)", "as above from query"}},
      {{record, main}, {"record", "main"}},   // no shorter
      {{other_step, main}, {"step", "main"}}, // another line of the same function
      {{record}, {"record"}},
      {{}, {}},
  };
  for (const auto& [frames, lines] : cases)
    CHECK(watch::folded_below({query, step, main}, frames) == lines);
}

TEST_CASE("a symbol has the name of its function in the source", "[watch][text]") {
  const struct {
    const char *symbol, *name;
  } cases[] = {
      {"f", "f"}, // not float
      {"a", "a"},
      {"_Z4stepv", "step()"},
      {"step.constprop.0", "step"},
      {"step.part.0.cold", "step"},
      {"_ZL4stepi.isra.0", "step(int)"},
      {"step.llvm.1234567", "step"},
      {"main.step", "main.step"}, // of Go
      {"step.7", "step.7"},
      {".cold", ".cold"},
      {"_Zstep", "_Zstep"},
  };
  for (const auto& [symbol, name] : cases)
    CHECK(watch::function_name(symbol) == name);
}

TEST_CASE("a long name keeps its line, once", "[watch][text]") {
  const std::string lambda = "step(" + std::string(90, 'x') + ")::{lambda(int)#1}::operator()(int) const";
  CHECK(watch::shortened(lambda + " (a.cpp:5)") == lambda.substr(0, 97) + "... (a.cpp:5)");
  const std::string fits = std::string(99, 'x');
  CHECK(watch::shortened(fits + " (a.cpp:5)") == fits + " (a.cpp:5)");
}

TEST_CASE("a name cannot begin a line of its own", "[watch][text]") {
  CHECK(watch::readable_name("step\nno finding") == "step?no finding");
  CHECK(watch::shortened("/tmp/a\n.so+0x12") == "/tmp/a?.so+0x12");
}
