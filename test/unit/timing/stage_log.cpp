// SPDX-License-Identifier: MIT
#include "timing/stage_log.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using namespace cuevent;

namespace {

std::vector<int> kept(std::size_t most, int added) {
  KeptLast<int> last(most);
  for (int i = 1; i <= added; ++i)
    last.add(i);
  return last.in_order();
}

StageReport report_of(const StageLog& log) {
  StageReport report;
  log.write(report);
  return report;
}

StageSpan span(std::uint64_t number, StageId stage, double begin, double end) {
  return {.number = number, .stage = stage, .begin = DeviceTime(begin), .end = DeviceTime(end)};
}

} // namespace

TEST_CASE("the last elements are kept, the oldest first") {
  using Elements = std::vector<int>;
  CHECK(kept(3, 0) == Elements{});
  CHECK(kept(3, 2) == Elements{1, 2});
  CHECK(kept(3, 3) == Elements{1, 2, 3});
  CHECK(kept(3, 4) == Elements{2, 3, 4});
  CHECK(kept(3, 6) == Elements{4, 5, 6});
  CHECK(kept(3, 8) == Elements{6, 7, 8});
  CHECK(kept(1, 5) == Elements{5});
  CHECK(kept(0, 5) == Elements{});
}

TEST_CASE("elements that were cleared do not come back") {
  KeptLast<int> last(3);
  for (int i = 1; i <= 5; ++i)
    last.add(i);
  last.clear();
  CHECK(last.in_order().empty());
  last.add(7);
  CHECK(last.in_order() == std::vector<int>{7});
}

TEST_CASE("a stage has one id, by which the log knows it") {
  StageLog log(4);
  CHECK_FALSE(log.knows(StageId(0)));
  const StageId first = log.stage("first"), second = log.stage("second");
  CHECK(first != second);
  CHECK(log.stage("first") == first);
  CHECK(log.knows(second));
  CHECK_FALSE(log.knows(StageId(2)));
  CHECK(report_of(log).stages.size() == 2);
}

TEST_CASE("the statistics of a stage are those of its own spans") {
  StageLog log(4);
  const StageId first = log.stage("first"), second = log.stage("second");
  for (int i = 1; i <= 100; ++i)
    log.add(span(1, first, 1000, 1000 + i));
  log.add(span(2, second, 10, 40));
  log.drop(second);
  log.drop(second);
  const StageReport report = report_of(log);
  const StageStatistics& of_first = report.stages[0];
  CHECK(of_first.name == "first");
  CHECK(of_first.count == 100);
  CHECK(of_first.dropped == 0);
  CHECK(of_first.total == DeviceTime(5050));
  CHECK(of_first.mean == DeviceTime(50.5));
  CHECK(of_first.min == DeviceTime(1));
  CHECK(of_first.p50 == DeviceTime(50.5));
  CHECK(of_first.p90 == DeviceTime(90.5));
  CHECK(of_first.p99 == DeviceTime(99.5));
  CHECK(of_first.max == DeviceTime(100));
  const StageStatistics& of_second = report.stages[1];
  CHECK(of_second.count == 1);
  CHECK(of_second.dropped == 2);
  CHECK(of_second.mean == DeviceTime(30));
}

TEST_CASE("a report has the last spans, and the waits between them") {
  StageLog log(2);
  const StageId stage = log.stage("stage");
  for (std::uint64_t number = 1; number <= 3; ++number)
    log.add(span(number, stage, 0, 1));
  log.add(StageWait{.from = 1, .to = 3}); // span 1 is no longer there
  log.add(StageWait{.from = 2, .to = 3});
  const StageReport report = report_of(log);
  REQUIRE(report.spans.size() == 2);
  CHECK(report.spans[0].number == 2);
  CHECK(report.spans[1].number == 3);
  REQUIRE(report.waits.size() == 1);
  CHECK(report.waits[0].from == 2);
  log.add(StageWait{.from = 3, .to = 1});
  CHECK(report_of(log).waits.size() == 1);
}

TEST_CASE("a log that is cleared keeps its stages") {
  StageLog log(2);
  const StageId stage = log.stage("stage");
  log.add(span(1, stage, 0, 5));
  log.add(StageWait{.from = 1, .to = 1});
  log.drop(stage);
  log.clear();
  const StageReport report = report_of(log);
  REQUIRE(report.stages.size() == 1);
  CHECK(report.stages[0].count == 0);
  CHECK(report.stages[0].dropped == 0);
  CHECK(report.stages[0].mean == DeviceTime(0));
  CHECK(report.spans.empty());
  log.add(span(1, stage, 0, 5));
  CHECK(report_of(log).waits.empty());
}
