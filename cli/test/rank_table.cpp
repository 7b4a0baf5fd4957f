// SPDX-License-Identifier: MIT
#include "merge/rank_table.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace {

using cli::RankTable;
using cli::StageOverRanks;

/// Each rank runs the stage once in each step, and ends it at these times after the begin of the step.
RankTable table_of(const std::vector<std::vector<long long>>& ends, long long uncertainty = 1) {
  RankTable table(ends.size());
  const std::size_t stage = *table.stage("work");
  for (std::size_t rank = 0; rank < ends.size(); ++rank)
    for (std::size_t i = 0; i < ends[rank].size(); ++i)
      table.add(rank, stage, ends[rank][i], static_cast<long long>(i) * 1000 + ends[rank][i], uncertainty);
  return table;
}

} // namespace

TEST_CASE("mean and percentiles are over the mean durations of the ranks") {
  const StageOverRanks over = table_of({{10, 20}, {40, 40}, {21, 21}, {31, 31}}).result().at(0);
  CHECK(over.name == "work");
  CHECK(over.ranks == 4);
  CHECK(over.runs == 8);
  CHECK(over.mean == (15 + 40 + 21 + 31) / 4.0);
  CHECK(over.p50 == 21);
  CHECK(over.p99 == 40);
  CHECK(over.slowest == 1);
  CHECK(over.slowest_mean == 40);
}

TEST_CASE("percentiles of a hundred ranks") {
  RankTable table(100);
  const std::size_t stage = *table.stage("work");
  for (std::size_t rank = 0; rank < 100; ++rank)
    table.add(rank, stage, static_cast<long long>(rank) + 1, 0, 0);
  const StageOverRanks over = table.result().at(0);
  CHECK(over.p50 == 50);
  CHECK(over.p99 == 99);
}

TEST_CASE("the rank that ends last in most runs is the straggler") {
  const RankTable table = table_of({{10, 10, 50}, {30, 40, 20}, {20, 20, 20}});
  const StageOverRanks over = table.result().at(0);
  CHECK(over.compared == 3);
  CHECK(over.decided == 3);
  REQUIRE(over.last.size() == 2);
  CHECK(over.last[0].rank == 1);
  CHECK(over.last[0].runs == 2);
  CHECK(over.last[0].lead == 15); // 10 and 20 after the next one
  CHECK(over.last[1].rank == 0);
  CHECK(over.last[1].runs == 1);
  REQUIRE(over.straggler());
  CHECK(over.straggler()->rank == 1);
  const auto worst = table.worst_run(0); // the third run
  REQUIRE(worst);
  CHECK(worst->begin < 1040);
  CHECK(worst->end > 2050);
}

TEST_CASE("no rank is the straggler if the clocks cannot tell") {
  const StageOverRanks over = table_of({{10, 10}, {30, 30}}, 10).result().at(0);
  CHECK(over.compared == 2);
  CHECK(over.decided == 0);
  CHECK(over.last.empty());
  CHECK_FALSE(over.straggler());
}

TEST_CASE("no rank is the straggler if each one is last as often") {
  CHECK_FALSE(table_of({{10, 30, 10, 30}, {30, 10, 30, 10}}).result().at(0).straggler());
}

TEST_CASE("a rank that is last a little more often than another one is not the straggler") {
  CHECK_FALSE(table_of({{10, 30, 10, 30, 10}, {30, 10, 30, 10, 30}}).result().at(0).straggler());
  CHECK(table_of({{10, 30, 10}, {30, 10, 30}}).result().at(0).straggler());
}

TEST_CASE("one run, or one rank, has no straggler") {
  CHECK_FALSE(table_of({{10}, {30}}).result().at(0).straggler());
  const StageOverRanks over = table_of({{10, 20}}).result().at(0);
  CHECK(over.compared == 0);
  CHECK_FALSE(over.straggler());
  CHECK_FALSE(table_of({{}}).worst_run(0));
}

TEST_CASE("runs that a timer has not kept are counted, so that the others are compared with their own") {
  RankTable table(2);
  const std::size_t stage = *table.stage("work");
  for (int i = 0; i < 4; ++i)
    table.add(0, stage, 10, 1000 * i, 1);
  REQUIRE(table.add_missing(1, stage, 2, 0));
  for (int i = 2; i < 4; ++i)
    table.add(1, stage, 10, 1000 * i + 50, 1);
  const StageOverRanks over = table.result().at(0);
  CHECK(over.missing == 2);
  CHECK(over.compared == 2);
  REQUIRE(over.straggler());
  CHECK(over.straggler()->lead == 50);
}

TEST_CASE("the period of the worst run leaves out runs that no rank has") {
  const int missing = GENERATE(1, 4, 7, 100);
  RankTable table(2);
  const std::size_t stage = *table.stage("work");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    table.add(rank, stage, 10, 100, 1);
    REQUIRE(table.add_missing(rank, stage, static_cast<std::uint64_t>(missing), 0));
    table.add(rank, stage, 10, 9000 + (rank == 1 ? 500 : 0), 1);
  }
  // Only one rank has the last run, and the run between it and the worst one is missing.
  REQUIRE(table.add_missing(0, stage, 1, 0));
  table.add(0, stage, 10, 11000, 1);
  const auto worst = table.worst_run(stage);
  REQUIRE(worst);
  CHECK(worst->begin >= 0);
  CHECK(worst->begin <= (missing < 4 ? 100 : 9000));
  CHECK(worst->end >= 9500);
  CHECK(worst->end < 11000);
  CHECK(worst->begin < worst->end);
}

TEST_CASE("the period of the worst run is not upside down if the run after it ended earlier") {
  RankTable table(2);
  const std::size_t stage = *table.stage("work");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 5; ++i)
      table.add(rank, stage, 10, 1000 + i, 1);
    table.add(rank, stage, 10, rank == 1 ? 900 : 100, 1); // the worst run
    table.add(rank, stage, 10, 50, 1);
  }
  const auto worst = table.worst_run(stage);
  REQUIRE(worst);
  CHECK(worst->begin <= 900);
  CHECK(worst->end >= 900);
  CHECK(worst->end < 1000);
}

TEST_CASE("the end of the first runs leaves out runs that no rank has") {
  RankTable table(1);
  CHECK(table.first_runs_end(4) == 1);
  CHECK(table.stage("never run"));
  const std::size_t stage = *table.stage("work");
  REQUIRE(table.add_missing(0, stage, 4, 0));
  for (const long long end : {100, 300, 200, 400})
    table.add(0, stage, 10, end, 1);
  CHECK(table.first_runs_end(1) == 100);
  CHECK(table.first_runs_end(3) == 300);
  CHECK(table.first_runs_end(9) == 400);
}

TEST_CASE("after runs that were not timed, a rank is not compared") {
  RankTable table(2);
  const std::size_t stage = *table.stage("work");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    table.add(rank, stage, 10, 100, 1);
    if (rank == 1) REQUIRE(table.add_missing(rank, stage, 0, 1));
    table.add(rank, stage, 10, 200, 1);
  }
  const StageOverRanks over = table.result().at(0);
  CHECK(over.dropped == 1);
  CHECK(over.runs == 4);
  CHECK(over.compared == 1);
}

TEST_CASE("a rank that is not aligned is not compared") {
  RankTable table(2);
  const std::size_t stage = *table.stage("work");
  table.add(0, stage, 10, 100, 1);
  table.add(1, stage, 10, 200, std::nullopt);
  CHECK(table.result().at(0).compared == 0);
  CHECK(table.result().at(0).ranks == 2);
}

TEST_CASE("only a limited number of runs is compared, and the table says so") {
  RankTable table(1);
  const std::size_t stage = *table.stage("work");
  REQUIRE(table.add_missing(0, stage, RankTable::most_runs - 1, 0));
  table.add(0, stage, 10, 100, 1);
  CHECK(table.has_all_runs());
  table.add(0, stage, 10, 200, 1);
  CHECK_FALSE(table.has_all_runs());
  CHECK(table.result().at(0).runs == 2);
}

TEST_CASE("more missing runs than a rank can have are refused, so that their sum stays in range") {
  RankTable table(1);
  const std::size_t stage = *table.stage("work"), other = *table.stage("other");
  REQUIRE(table.add_missing(0, stage, RankTable::most_missing - 1, 0));
  CHECK_FALSE(table.add_missing(0, stage, 2, 0));
  CHECK_FALSE(table.add_missing(0, stage, std::numeric_limits<std::uint64_t>::max(), 0));
  CHECK(table.add_missing(0, stage, 1, RankTable::most_missing));
  CHECK_FALSE(table.add_missing(0, stage, 0, 1));
  CHECK(table.add_missing(0, other, RankTable::most_missing, 0));
  table.add(0, other, 10, 100, 1);
  CHECK_FALSE(table.has_all_runs());
  CHECK(table.result().at(stage).missing == RankTable::most_missing);
}

TEST_CASE("a job has a limited number of stages") {
  RankTable table(1);
  for (std::size_t i = 0; i < RankTable::most_stages; ++i)
    REQUIRE(table.stage(std::to_string(i)) == i);
  CHECK_FALSE(table.stage("one more"));
  CHECK(table.stage("7") == 7);
}
