// SPDX-License-Identifier: MIT
#include "answer.hpp"
#include "comparison.hpp"
#include "held_work.hpp"
#include "program.hpp"
#include "random_numbers.hpp"
#include "recording.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <utility>

using namespace conformance;

TEST_CASE("the pseudo-random numbers are those of SplitMix64") {
  RandomNumbers random(1234567);
  CHECK(random.next() == 6457827717110365317u);
  CHECK(random.next() == 3203168211198807973u);
  CHECK(random.next() == 9817491932198370423u);
}

TEST_CASE("a seed means the same program on every platform, forever") {
  const auto all = [](std::uint64_t first, std::uint64_t second) {
    std::uint64_t sum = 0;
    for (std::uint64_t seed = 1; seed <= 500; ++seed)
      sum = sum * 31 + fingerprint(program_of(first + seed)) + fingerprint(program_of(second + seed));
    return sum;
  };
  // If this fails, the recorded answers have to be recorded again.
  CHECK(all(0, seeds_of_a_profile) == 5396008387138809364u);
  CHECK(all(2 * seeds_of_a_profile, 3 * seeds_of_a_profile) == 14309861443282850452u);
  CHECK(all(4 * seeds_of_a_profile, 4 * seeds_of_a_profile + 500) == 4984122879200690800u);
  CHECK(all(5 * seeds_of_a_profile, 5 * seeds_of_a_profile + 500) == 5419707397572478127u);
  CHECK(all(6 * seeds_of_a_profile, 6 * seeds_of_a_profile + 500) == 11492892737439293603u);
}

TEST_CASE("a program has 60 calls, and uses no slot that does not exist") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    for (std::uint64_t profile = 0; profile <= 6; ++profile) {
      const Program program = program_of(profile * seeds_of_a_profile + seed);
      CHECK(program.size() == 60);
      for (const Call& call : program)
        REQUIRE(text_of(call).find('%') == std::string::npos);
    }
}

TEST_CASE("a profile has draws of its own") {
  const auto draws = [](std::uint64_t first, auto condition) {
    for (std::uint64_t seed = first; seed <= first + 20; ++seed)
      for (const Call& call : program_of(seed))
        if (condition(call)) return true;
    return false;
  };
  const auto far = [](const Call& call) {
    return call.op == Op::ctxSetCurrent && call.arguments[0] >= far_primary_context;
  };
  const auto partner = [](const Call& call) {
    return call.op >= Op::importEvent && call.op <= Op::partnerStreamQuery;
  };
  const auto null = [](const Call& call) { return call.flags == null_result; };
  const auto memory = [](const Call& call) {
    return call.op >= Op::memAlloc && call.op <= Op::launchHostFunc;
  };
  const auto broad = [](const Call& call) { return call.op >= Op::memAllocAsync; };
  for (std::uint64_t profile = 0; profile <= 6; ++profile) {
    const std::uint64_t first = profile * seeds_of_a_profile + 1;
    CHECK(draws(first, far) == (profile_of(first) == Profile::two_devices));
    CHECK(draws(first, partner) == (profile_of(first) == Profile::imported));
    CHECK(draws(first, null) == (profile_of(first) >= Profile::nulls));
    CHECK(draws(first, memory) == (profile_of(first) >= Profile::memory));
    CHECK(draws(first, broad) == (profile_of(first) == Profile::broad));
    CHECK(devices_needed(first) == (profile_of(first) == Profile::two_devices ? 2 : 1));
  }
}

TEST_CASE("broad programs make every call that only they make, with null for each object") {
  std::set<Op> drawn;
  std::set<std::pair<Op, int>> with_null;
  for (std::uint64_t seed = 6 * seeds_of_a_profile + 1; seed <= 6 * seeds_of_a_profile + 3000; ++seed)
    for (const Call& call : program_of(seed)) {
      drawn.insert(call.op);
      for (int argument = 0; argument < 3; ++argument)
        if (call.arguments[argument] < 0) with_null.emplace(call.op, argument);
    }
  for (auto number = static_cast<int>(Op::memAllocAsync); number <= static_cast<int>(Op::graphExecGetFlags);
       ++number) {
    const Op op = static_cast<Op>(number);
    INFO(form_of(op));
    CHECK(drawn.count(op) == 1);
    int argument = 0;
    const std::string_view form = form_of(op);
    for (std::size_t i = form.find('%'); i != form.npos; i = form.find('%', i + 1)) {
      if (form[i + 1] == 'f') continue;
      if (form[i + 1] != 'i') CHECK(with_null.count({op, argument}) == 1);
      ++argument;
    }
  }
}

TEST_CASE("only wide programs, and those with nulls, have a third thread") {
  const auto threads = [](std::uint64_t seed) {
    unsigned seen = 0;
    for (const Call& call : program_of(seed))
      seen |= 1u << call.thread;
    return seen;
  };
  CHECK(threads(1) == 3);
  CHECK(threads(seeds_of_a_profile) == 7);
  CHECK(threads(4 * seeds_of_a_profile) == 7);
}

TEST_CASE("answers in their short form can be split and spelled out") {
  CHECK(short_form(CUDA_SUCCESS, 12) == ".12");
  CHECK(short_form(CUDA_ERROR_NOT_READY, 12) == "n");
  CHECK(short_form(CUDA_ERROR_INVALID_DEVICE) == "x(101)");
  CHECK(split_answers(".n.3-x(101).1:2.!v<killed by signal 11>") ==
        std::vector<std::string>{".", "n", ".3", "-", "x(101)", ".1:2", ".!", "v", "<killed by signal 11>"});
  CHECK(long_form(".3") == "CUDA_SUCCESS, 3");
  CHECK(long_form("-") == "not called");
  CHECK(long_form("x(101)") == "CUresult 101");
  CHECK(long_form("n!") == "CUDA_ERROR_NOT_READY, but only after all gates were opened");
  CHECK(long_form("<hangs>") == "<hangs>");
  for (const std::string damaged : {"x", "x(101", "x)", "q", "\n"})
    CHECK(long_form(damaged) == "unknown answer: " + damaged);
}

TEST_CASE("two answers to a program are compared call by call") {
  CHECK(differences(".n.3", ".n.3").empty());
  const auto found = differences(".n.3v", ".v.4v");
  REQUIRE(found.size() == 2);
  CHECK((found[0].call == 1 && found[0].expected == "n" && found[0].here == "v"));
  CHECK((found[1].call == 2 && found[1].expected == ".3" && found[1].here == ".4"));
  const auto early = differences("..n", ".<hangs>");
  REQUIRE(early.size() == 2);
  CHECK(early.back().here.empty());
}

TEST_CASE("a difference is explained with the calls before it that were made") {
  Program program = program_of(1);
  const std::string text = explanation(program, ".-n", differences(".-n", ".-v"), "recorded");
  CHECK(text.find(text_of(program[0])) != std::string::npos);
  CHECK(text.find(text_of(program[1])) == std::string::npos);
  CHECK(text.find(">  3  " + text_of(program[2])) != std::string::npos);
  CHECK(text.find("recorded  CUDA_ERROR_NOT_READY\n      here      CUDA_ERROR_INVALID_VALUE\n") !=
        std::string::npos);
}

TEST_CASE("seeds are a number or a range") {
  CHECK(parse_seeds("20")->first == 1);
  CHECK(parse_seeds("20")->last == 20);
  CHECK(parse_seeds("5-7")->first == 5);
  CHECK(parse_seeds("5-7")->last == 7);
  for (const char* wrong :
       {"", "0", "-", "5-", "-5", "7-5", "x", "1-x", "1 ", "99999999999999999999", "1-99999999999"})
    CHECK(!parse_seeds(wrong));
}

TEST_CASE("a line of a recording is read as it was written") {
  const auto line = parse_recorded_line(recorded_line(7, "..n-v"));
  REQUIRE(line);
  CHECK(line->seed == 7);
  CHECK(line->fingerprint == short_fingerprint(7));
  CHECK(line->answers == "..n-v");
  for (const char* wrong : {"", "# device", "7", "7 abc", "x abc ..", " 7 abc .."})
    CHECK(!parse_recorded_line(wrong));
}

TEST_CASE("held work spreads as streams wait for one another, until its gate opens") {
  HeldWork held;
  Lane blocking{.context = 0, .blocking = true};
  Lane apart{.context = 0};
  Lane legacy{.context = 0, .legacy = true};
  Lane elsewhere{.context = 1, .blocking = true};
  const Gates gate = HeldWork::bit(2);
  held.submit(blocking, held.next(blocking) | gate);
  CHECK(held.unfinished(blocking) == gate);
  CHECK(held.next(apart) == 0);
  CHECK(held.next(elsewhere) == 0);
  CHECK(held.unfinished(legacy) == gate); // a query of the legacy stream waits for blocking ones
  Lane second{.context = 0, .blocking = true};
  CHECK(held.next(second) == 0);
  held.submit(legacy, held.next(legacy));
  CHECK(held.next(second) == gate);
  held.bar(1, gate);
  CHECK(held.next(elsewhere) == gate);
  CHECK(held.all(0) == gate);
  held.open(2);
  for (const Lane& lane : {blocking, legacy, second, elsewhere})
    CHECK(held.unfinished(lane) == 0);
  CHECK(held.all(1) == 0);
}
