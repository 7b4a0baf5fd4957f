// SPDX-License-Identifier: MIT
#include <cuevent/rank_report.hpp>

#include "timing/json_line.hpp"

#include <cuevent/error.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// No launcher is known, except for these variables.
class Environment {
public:
  using Variables = std::vector<std::pair<const char*, const char*>>;
  explicit Environment(const Variables& variables) {
    for (const char* name : names)
      unsetenv(name);
    for (const auto& [name, value] : variables)
      setenv(name, value, 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const char* name : names)
      unsetenv(name);
  }

private:
  static constexpr const char* names[] = {"RANK",
                                          "WORLD_SIZE",
                                          "LOCAL_RANK",
                                          "OMPI_COMM_WORLD_RANK",
                                          "OMPI_COMM_WORLD_SIZE",
                                          "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "PMI_RANK",
                                          "PMI_SIZE",
                                          "MPI_LOCALRANKID",
                                          "SLURM_PROCID",
                                          "SLURM_NTASKS",
                                          "SLURM_LOCALID"};
};

std::optional<RankIdentity> identity_of(const Environment::Variables& variables) {
  const Environment environment(variables);
  return RankIdentity::from_environment();
}

StageReport report_of(std::vector<StageSpan> spans) {
  StageReport report;
  report.stages = {{.name = "compute"}, {.name = "reduce"}};
  report.streams = {{.name = "one"}, {.name = "two"}};
  report.clock.epoch = HostTime(1000ns);
  report.clock.uncertainty = DeviceTime(7);
  for (const StageSpan& span : spans)
    ++report.stages[static_cast<std::size_t>(span.stage)].count;
  report.spans = std::move(spans);
  return report;
}

StageSpan span(std::uint64_t number, unsigned stage, unsigned stream, unsigned depth, double begin,
               double end) {
  return {.number = number,
          .stage = StageId(stage),
          .stream = StreamId(stream),
          .depth = depth,
          .begin = DeviceTime(begin),
          .end = DeviceTime(end)};
}

std::string lines_after_names(const StageReport& stages) {
  RankReport report({.rank = 1, .size = 2, .host = "node"});
  report.add(stages);
  const std::string text = report.take();
  const std::string clock = "{\"device_clock\":1000,\"uncertainty\":7}\n";
  REQUIRE_THAT(text, ContainsSubstring(clock));
  return text.substr(text.find(clock) + clock.size());
}

} // namespace

TEST_CASE("the rank comes from the environment of each launcher") {
  CHECK_FALSE(identity_of({}));
  CHECK_FALSE(identity_of({{"RANK", "1"}}));
  struct Names {
    const char *rank, *size, *local;
  };
  for (const Names& names :
       {Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        Names{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}, Names{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
        Names{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}}) {
    INFO(names.rank);
    const auto identity = identity_of({{names.rank, "5"}, {names.size, "8"}, {names.local, "1"}});
    REQUIRE(identity);
    CHECK(identity->rank == 5);
    CHECK(identity->size == 8);
    CHECK(identity->local_rank == 1);
    CHECK_FALSE(identity->host.empty());
  }
}

TEST_CASE("the ranks of torchrun count, if mpirun has started torchrun") {
  const auto identity = identity_of(
      {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"RANK", "9"}, {"WORLD_SIZE", "16"}});
  REQUIRE(identity);
  CHECK(identity->rank == 9);
  CHECK(identity->size == 16);
  CHECK(identity->local_rank == 0);
}

TEST_CASE("a variable that cannot be a rank is an error that names the variable") {
  for (const auto& [rank, size] : {std::pair{"one", "2"}, {"-1", "2"}, {"", "2"}, {"1 ", "2"}, {"2", "2"}}) {
    INFO('"' << rank << '"');
    const Environment::Variables variables{{"RANK", rank}, {"WORLD_SIZE", size}};
    CHECK_THROWS_AS(identity_of(variables), InvalidValue);
    CHECK_THROWS_WITH(identity_of(variables), ContainsSubstring("RANK"));
  }
}

TEST_CASE("a report begins with the rank, and each line is taken once") {
  RankReport report({.rank = 3, .size = 4, .host = "a\"b\\c\n\xff"}, "device \xc3\xbc");
  CHECK(report.take() ==
        "{\"rank_report\":1,\"rank\":3,\"size\":4,\"host\":\"a\\u0022b\\u005cc\\u000a\xef\xbf\xbd\","
        "\"device\":\"device \xc3\xbc\"}\n");
  CHECK(report.take().empty());
  report.add(ClockSample::exchanged(HostTime(100ns), HostTime(1000ns), HostTime(120ns)));
  CHECK(report.take() == "{\"clock\":110,\"reference\":1000,\"uncertainty\":10}\n");
  report.end();
  CHECK(report.take() == "{\"end\":\"complete\"}\n");
  report.end("rank 2 was lost");
  CHECK(report.take() == "{\"end\":\"failed\",\"why\":\"rank 2 was lost\"}\n");
}

TEST_CASE("a rank that is not less than the size has no report") {
  CHECK_THROWS_AS(RankReport({.rank = 4, .size = 4}), InvalidValue);
  CHECK_THROWS_AS(RankReport({.rank = 0, .size = (1 << 20) + 1}), InvalidValue);
}

TEST_CASE("a report that was moved is empty") {
  RankReport report({});
  const RankReport moved(std::move(report));
  CHECK(moved);
  CHECK_FALSE(report);
  CHECK_THROWS_AS(report.take(), InvalidHandle);
  CHECK_THROWS_AS(report.end(), InvalidHandle);
}

TEST_CASE("names are written once, and a stream that gets a name is written again") {
  RankReport report({});
  static_cast<void>(report.take());
  StageReport stages = report_of({});
  report.add(stages);
  CHECK(report.take() == "{\"stage\":0,\"name\":\"compute\"}\n{\"stage\":1,\"name\":\"reduce\"}\n"
                         "{\"stream\":0,\"name\":\"one\"}\n{\"stream\":1,\"name\":\"two\"}\n"
                         "{\"device_clock\":1000,\"uncertainty\":7}\n");
  stages.streams[1].name = "three";
  report.add(stages);
  CHECK(report.take() == "{\"stream\":1,\"name\":\"three\"}\n{\"device_clock\":1000,\"uncertainty\":7}\n");
}

TEST_CASE("spans are on the host's clock, in whole nanoseconds") {
  CHECK(lines_after_names(report_of({span(1, 0, 0, 0, 0.4, 20.6), span(2, 1, 1, 0, -5, 5)})) ==
        "{\"span\":1,\"stage\":0,\"stream\":0,\"depth\":0,\"begin\":1000,\"end\":1021}\n"
        "{\"span\":2,\"stage\":1,\"stream\":1,\"depth\":0,\"begin\":995,\"end\":1005}\n");
}

namespace {

std::string line(int number, int stream, int depth, int begin, int end) {
  return "{\"span\":" + std::to_string(number) + ",\"stage\":0,\"stream\":" + std::to_string(stream) +
         ",\"depth\":" + std::to_string(depth) + ",\"begin\":" + std::to_string(begin) +
         ",\"end\":" + std::to_string(end) + "}\n";
}
constexpr const char* second_of_one = "{\"stream\":2,\"name\":\"one (2)\"}\n";

} // namespace

TEST_CASE("spans that do not nest keep their times, on a stream of their own") {
  const auto written = [](const std::vector<StageSpan>& spans) {
    RankReport report({});
    report.add(report_of({}));
    static_cast<void>(report.take());
    report.add(report_of(spans));
    std::string text = report.take();
    const std::string clock = "{\"device_clock\":1000,\"uncertainty\":7}\n";
    REQUIRE_THAT(text, ContainsSubstring(clock));
    return text.replace(text.find(clock), clock.size(), "");
  };
  SECTION("spans that nest are on one stream") {
    CHECK(written({span(2, 0, 0, 1, 10, 25), span(1, 0, 0, 0, 10, 25), span(3, 0, 0, 0, 25, 25)}) ==
          line(2, 0, 1, 1010, 1025) + line(1, 0, 0, 1010, 1025) + line(3, 0, 0, 1025, 1025));
  }
  SECTION("the spans inside an earlier span do not count") {
    CHECK(written({span(2, 0, 0, 1, 0, 5), span(1, 0, 0, 0, 0, 6), span(4, 0, 0, 1, 10, 15),
                   span(3, 0, 0, 0, 8, 20)}) == line(2, 0, 1, 1000, 1005) + line(1, 0, 0, 1000, 1006) +
                                                    line(4, 0, 1, 1010, 1015) + line(3, 0, 0, 1008, 1020));
  }
  SECTION("neighbours overlap") {
    CHECK(written({span(1, 0, 0, 0, 0, 10), span(2, 0, 0, 0, 8, 20), span(3, 0, 0, 0, 11, 21)}) ==
          second_of_one + line(1, 0, 0, 1000, 1010) + line(2, 2, 0, 1008, 1020) + line(3, 0, 0, 1011, 1021));
  }
  SECTION("a span sticks out of the span around it") {
    CHECK(written({span(2, 0, 0, 1, 10, 25), span(1, 0, 0, 0, 12, 26)}) ==
          second_of_one + line(2, 0, 1, 1010, 1025) + line(1, 2, 0, 1012, 1026));
    CHECK(written({span(2, 0, 0, 1, 10, 25), span(1, 0, 0, 0, 10, 24)}) ==
          second_of_one + line(2, 0, 1, 1010, 1025) + line(1, 2, 0, 1010, 1024));
  }
  SECTION("an inner span begins before the previous outer one ends") {
    CHECK(written({span(1, 0, 0, 0, 0, 10), span(3, 0, 0, 1, 9, 15), span(2, 0, 0, 0, 9, 20)}) ==
          second_of_one + line(1, 0, 0, 1000, 1010) + line(3, 2, 1, 1009, 1015) + line(2, 2, 0, 1009, 1020));
  }
  SECTION("a branch of a graph runs long before the work of its stream") {
    CHECK(written({span(1, 0, 0, 0, 5'000'000, 6'005'000), span(2, 0, 0, 0, 1200, 2400)}) ==
          second_of_one + line(1, 0, 0, 5'001'000, 6'006'000) + line(2, 2, 0, 2200, 3400));
  }
}

TEST_CASE("spans after a calibration keep their times, and a stream that gets a name names its second line") {
  RankReport report({});
  report.add(report_of({span(1, 0, 0, 0, 0, 10)}));
  static_cast<void>(report.take());
  StageReport later = report_of({span(2, 0, 0, 0, 12, 30)});
  later.clock.epoch -= 5ns;
  report.add(later);
  CHECK_THAT(report.take(), ContainsSubstring(second_of_one) && ContainsSubstring(line(2, 2, 0, 1007, 1025)));
  later = report_of({});
  later.streams[0].name = "first";
  report.add(later);
  CHECK_THAT(report.take(), ContainsSubstring("{\"stream\":0,\"name\":\"first\"}\n"
                                              "{\"stream\":2,\"name\":\"first (2)\"}\n"));
}

TEST_CASE("a span without a valid time is counted as dropped") {
  constexpr double never = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [begin, end] : {std::pair{never, 1.0},
                                   {0.0, never},
                                   {0.0, 1e300},
                                   {-1e300, 0.0},
                                   {-1001.0, 0.0}, // before the host's clock began
                                   {10.0, 9.0}}) {
    CAPTURE(begin, end);
    CHECK(lines_after_names(report_of({span(1, 0, 0, 0, begin, end), span(2, 0, 0, 0, 20, 30)})) ==
          "{\"missing\":0,\"dropped\":1,\"stage\":0}\n" + line(2, 0, 0, 1020, 1030));
  }
}

TEST_CASE("a report that contradicts itself is refused, and nothing is written") {
  RankReport report({});
  static_cast<void>(report.take());
  const auto refused = [&](const std::function<void(StageReport&)>& change) {
    StageReport stages = report_of({span(1, 0, 0, 0, 0, 10)});
    change(stages);
    CHECK_THROWS_AS(report.add(stages), InvalidValue);
    CHECK(report.take().empty());
  };
  refused([](StageReport& stages) { stages.spans[0].stage = StageId(2); });
  refused([](StageReport& stages) { stages.spans[0].stream = StreamId(2); });
  refused([](StageReport& stages) { stages.stages[0].count = 0; });
  refused([](StageReport& stages) { stages.stages[0].count = 1ULL << 41; });
  refused([](StageReport& stages) { stages.stages[1].dropped = ~0ULL; });
  refused([](StageReport& stages) { stages.stages.resize(4097); });
  refused([](StageReport& stages) { stages.clock.epoch = HostTime(-1ns); });
  refused([](StageReport& stages) { stages.clock.uncertainty = DeviceTime(-1); });
  refused([](StageReport& stages) {
    stages.clock.uncertainty = DeviceTime(std::numeric_limits<double>::quiet_NaN());
  });
}

TEST_CASE("clock samples that the command would refuse are refused") {
  RankReport report({});
  static_cast<void>(report.take());
  const auto at = [](long long here, long long reference, long long uncertainty) {
    return ClockSample{HostTime(std::chrono::nanoseconds(here)),
                       HostTime(std::chrono::nanoseconds(reference)), std::chrono::nanoseconds(uncertainty)};
  };
  report.add(at(1000, 500, 10));
  for (const ClockSample& sample :
       {at(1000, 500, 10), at(999, 499, 10), at(-1, 500, 10), at(2000, -1, 10), at(2000, 1500, -1),
        at(2000, 1531, 10), at(2000, 1469, 10), at(std::numeric_limits<long long>::max(), 1500, 10)})
    CHECK_THROWS_AS(report.add(sample), InvalidValue);
  static_cast<void>(report.take());
  report.add(at(2000, 1530, 10));
  report.add(at(2005, 1530, 10)); // too close to say more
  report.add(at(2020, 1560, 10));
  CHECK(std::ranges::count(report.take(), '\n') == 3);
}

TEST_CASE("a long text is cut at a character") {
  const std::string most(4096, 'x');
  const auto why = [](const std::string& text) {
    RankReport report({.host = text}, text);
    CHECK(report.take().size() < 65'536);
    report.end(text);
    const std::string written = report.take(), before = "{\"end\":\"failed\",\"why\":\"";
    return written.substr(before.size(), written.size() - before.size() - 3);
  };
  CHECK(why(most) == most);
  CHECK(why(most + "x") == most.substr(3) + "...");
  CHECK(why(std::string(4091, 'x') + "\xe2\x82\xac" + most) == std::string(4091, 'x') + "...");
  CHECK(why(std::string(4090, 'x') + "\xe2\x82\xac" + most) == std::string(4090, 'x') + "\xe2\x82\xac...");
  CHECK(why(std::string(100'000, '\x80')).size() < 65'000);
  CHECK(why(std::string(100'000, '\0')).size() < 65'000);
}

TEST_CASE("a wait is an arrow inside its two spans") {
  StageReport stages = report_of({span(1, 0, 0, 0, 0, 10), span(2, 1, 1, 0, 8, 20)});
  stages.waits = {{.from = 1,
                   .to = 2,
                   .from_stream = StreamId(0),
                   .to_stream = StreamId(1),
                   .departure = DeviceTime(10),
                   .arrival = DeviceTime(7)}};
  CHECK_THAT(lines_after_names(stages),
             ContainsSubstring("{\"wait\":1,\"to\":2,\"from_stream\":0,\"to_stream\":1,\"departure\":1008,"
                               "\"arrival\":1008}\n"));
  stages.waits[0].to = 3; // not in the report
  CHECK_THAT(lines_after_names(stages), !ContainsSubstring("wait"));
}

TEST_CASE("runs that are not in the report are counted") {
  StageReport stages = report_of({span(1, 0, 0, 0, 0, 10)});
  stages.stages[0].count = 4;
  stages.stages[0].dropped = 2;
  CHECK_THAT(lines_after_names(stages),
             ContainsSubstring("{\"missing\":3,\"dropped\":2,\"stage\":0}\n{\"span\":1,"));
}

TEST_CASE("spans that were added before are refused") {
  RankReport report({});
  const StageReport stages = report_of({span(1, 0, 0, 0, 0, 10)});
  report.add(stages);
  static_cast<void>(report.take());
  CHECK_THROWS_AS(report.add(stages), InvalidValue);
  CHECK(report.take().empty());
}
