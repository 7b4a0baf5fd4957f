// SPDX-License-Identifier: MIT
// Pairs of kernels that `--check` may try.
#include "rules/order_rules.hpp"
#include "written_calls.hpp"

#include <vector>

using watch::MemoryPart;

namespace {

constexpr std::uint64_t first = 0x10, second = 0x20; // streams
constexpr std::uint64_t memory = 0x10'0000, other = 0x20'0000, function = 0x77;

/// What the rules report about kernels that were launched as the test says.
class Launches {
public:
  explicit Launches(watch::OrderOptions options = {true, true, nullptr}) {
    world_.add(watch::order_rules(
        world_, [this](const watch::Finding& found) { found_.push_back(found); }, options));
    for (const std::uint64_t stream : {first, second})
      see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    for (const std::uint64_t address : {memory, other}) {
      part(MemoryPart::allocated, {address, 4096});
      see("cuMemAlloc_v2", {});
    }
  }

  void launch(std::uint64_t stream, std::uint64_t pointer, std::uint32_t stack,
              std::uint64_t submission = 1) {
    part(MemoryPart::pointers, {pointer});
    part(MemoryPart::place, {stream == first ? 0U : 1U, submission});
    see("cuLaunchKernel", {stream, function}, stack);
  }
  void order(std::uint64_t event, std::uint64_t from, std::uint64_t to) {
    see("cuEventCreate", {event, CU_EVENT_DISABLE_TIMING});
    see("cuEventRecord", {event, from});
    see("cuStreamWaitEvent", {to, event, 0});
  }
  void fill(std::uint64_t address) {
    part(MemoryPart::written, {address, 4096, 1});
    see("cuMemsetD8Async", {first});
    see("cuStreamSynchronize", {first});
  }
  void pass(std::chrono::microseconds time) { now_ += time; }
  std::vector<watch::Finding> end() {
    world_.end(true);
    return found_;
  }

private:
  void part(MemoryPart kind, const std::vector<std::uint64_t>& words) {
    watch::CallData data{};
    data.entry = watch::memory_entry;
    data.count = 4;
    data.thread = 1;
    data.words[0] = static_cast<std::uint64_t>(kind);
    for (std::size_t i = 0; i < words.size(); ++i)
      data.words[i + 1] = words[i];
    world_.see(watch::decoded(data));
  }
  void see(const char* symbol, const std::vector<std::uint64_t>& words, std::uint32_t stack = 1) {
    watch::Call call = call_of(symbol, words);
    call.stack = stack;
    call.time = now_;
    world_.see(call);
  }

  std::chrono::nanoseconds now_{};
  std::vector<watch::Finding> found_;
  watch::World world_;
};

} // namespace

TEST_CASE("two kernels with a pointer to one block are a candidate if nothing orders them", "[order]") {
  Launches process;
  process.launch(first, memory, 5, 7);
  process.launch(second, memory, 6, 9);
  const auto found = process.end();
  REQUIRE(found.size() == 1);
  CHECK(found[0].certainty == watch::Certainty::candidate);
  CHECK(found[0].call.stack == 6);
  CHECK(found[0].call.place.submission == 9);
  CHECK(found[0].earlier[0].call.stack == 5);
  CHECK(found[0].earlier[0].call.place.submission == 7);
}

TEST_CASE("ordered kernels, other blocks and watches that try nothing have no candidates", "[order]") {
  Launches ordered, apart, untried({true, false, nullptr});
  ordered.launch(first, memory, 5);
  ordered.order(0x50, first, second);
  ordered.launch(second, memory, 6);
  CHECK(ordered.end().empty());
  apart.launch(first, memory, 5);
  apart.launch(second, other, 6);
  CHECK(apart.end().empty());
  for (int i = 0; i < 5; ++i) {
    untried.launch(first, memory, 5);
    untried.launch(second, memory, 6);
  }
  CHECK(untried.end().empty());
}

TEST_CASE("a pair that repeats is one candidate, with its likeliest and its last submissions", "[order]") {
  using namespace std::chrono_literals;
  Launches process;
  for (std::uint64_t round = 1; round <= 4; ++round) {
    process.launch(first, memory, 5, round);
    process.pass(round == 2 ? 10us : 700us);
    process.launch(second, memory, 6, round);
    process.order(0x50 + round, second, first);
  }
  const auto found = process.end();
  REQUIRE(found.size() == 2);
  CHECK(found[0].call.place.submission == 2);
  CHECK(found[1].call.place.submission == 4);
  CHECK(found[0].count + found[1].count == 4);
}

TEST_CASE("kernels that a hold can delay, and that write, are tried first", "[order]") {
  using namespace std::chrono_literals;
  Launches late, filled, near;
  late.launch(first, memory, 5);
  late.pass(5ms); // longer than a hold
  late.launch(second, memory, 6);
  filled.fill(memory);
  filled.launch(first, memory, 5);
  filled.launch(second, memory, 6);
  near.launch(first, memory, 5);
  near.pass(1ms);
  near.launch(second, memory, 6);
  const auto rank = [](Launches& process) { return process.end().at(0).rank; };
  const std::uint64_t last = rank(late), then = rank(filled);
  CHECK(rank(near) < then);
  CHECK(then < last);
}

TEST_CASE("of many pairs, those beyond the limit are counted", "[order]") {
  watch::OrderBlindness blind;
  Launches process({true, true, &blind});
  constexpr std::uint32_t many = 1100;
  for (std::uint32_t stack = 1; stack <= many; ++stack) {
    process.launch(first, memory, 2 * stack, stack);
    process.launch(second, memory, 2 * stack + 1, stack);
    process.order(0x1000 + stack, second, first);
  }
  CHECK(process.end().size() == 1024);
  CHECK(blind.pairs == many - 1024);
}
