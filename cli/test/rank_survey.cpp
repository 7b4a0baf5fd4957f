// SPDX-License-Identifier: MIT
#include "merge/rank_survey.hpp"

#include "merge/rank_reader.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cuevent/error.hpp>
#include <cuevent/rank_report.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <utility>

namespace {

namespace fs = std::filesystem;
using cli::Aligned;
using cli::Job;

/// The reports of a job of two ranks, in a folder of their own.
class Reports {
public:
  Reports() {
    std::string name = (fs::temp_directory_path() / "cuevent-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~Reports() { fs::remove_all(folder_); }
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  void begin_empty(unsigned rank) {
    paths_.push_back((folder_ / ("rank" + std::to_string(rank) + ".json")).string());
  }
  void begin(unsigned rank, const std::string& host) {
    begin_empty(rank);
    add(rank, R"({"rank_report":1,"rank":)" + std::to_string(rank) + R"(,"size":2,"host":")" + host +
                  R"(","device":""})");
    add(rank, R"({"stage":0,"name":"work"})");
    add(rank, R"({"stream":0,"name":"computing"})");
  }
  void add_span(unsigned rank, long long begin) {
    add(rank, R"({"span":1,"stage":0,"stream":0,"depth":0,"begin":)" + std::to_string(begin) + R"(,"end":)" +
                  std::to_string(begin + 10) + "}");
  }
  void add(unsigned rank, const std::string& line) {
    std::ofstream(paths_.at(rank), std::ios::app) << line << '\n';
  }
  Job survey() const { return cli::survey(paths_); }

private:
  fs::path folder_;
  std::vector<std::string> paths_; // by rank
};

/// Counts the spans of a report.
struct Spans {
  std::size_t count = 0;
  long long last_end = 0;
  static bool stage(unsigned, const std::string&) { return true; }
  static void stream(unsigned, const std::string&) {}
  static bool missing(const cli::MissingLine&) { return true; }
  void span(const cli::SpanLine&, long long, long long end) {
    ++count;
    last_end = end;
  }
  static void wait(const cli::WaitLine&, long long, long long) {}
};

Spans spans_of(const Job& job, std::size_t rank) {
  Spans spans;
  cli::RankReader(job, job.ranks.at(rank)).read(spans);
  return spans;
}

} // namespace

TEST_CASE("spans after a clock sample that contradicts the previous one are not read") {
  Reports reports;
  reports.begin(0, "node0");
  reports.add(0, R"({"clock":1000,"reference":1000,"uncertainty":5})");
  reports.add_span(0, 1000);
  reports.add(0, R"({"clock":2000,"reference":900000,"uncertainty":5})");
  reports.add_span(0, 3000);
  const Job job = reports.survey();
  REQUIRE(job.errors.size() == 1);
  CHECK(job.ranks.at(0).uncertainty == 5);
  CHECK(spans_of(job, 0).count == 1);
}

TEST_CASE("lines that a rank writes after the survey are not read") {
  Reports reports;
  reports.begin(0, "node0");
  reports.add_span(0, 1000);
  const Job job = reports.survey();
  reports.add(0, R"({"clock":2000,"reference":900000,"uncertainty":5})");
  reports.add_span(0, 3000);
  CHECK(job.errors.empty());
  CHECK(spans_of(job, 0).count == 1);
  CHECK(spans_of(job, 0).last_end == 10);
}

TEST_CASE("without clock samples, a rank needs the host name of rank 0, and rank 0 needs nothing") {
  const auto alignment = [](const std::string& of_zero, const std::string& of_one) {
    Reports reports;
    reports.begin(0, of_zero);
    reports.begin(1, of_one);
    const Job job = reports.survey();
    CHECK(job.ranks.at(0).aligned == Aligned::same_host);
    return job.ranks.at(1).aligned;
  };
  CHECK(alignment("node0", "node0") == Aligned::same_host);
  CHECK(alignment("node0", "node1") == Aligned::not_at_all);
  CHECK(alignment("node0", "") == Aligned::not_at_all);
  CHECK(alignment("", "node0") == Aligned::not_at_all);
  CHECK(alignment("", "") == Aligned::not_at_all);
}

namespace {

/// Checks that the spans of each stream nest, and keeps them.
struct Nesting : Spans {
  std::vector<std::vector<std::pair<long long, long long>>> streams;
  std::uint64_t dropped = 0;
  void stream(unsigned number, const std::string&) {
    if (number == streams.size()) streams.emplace_back();
  }
  bool missing(const cli::MissingLine& line) { return dropped += line.dropped, true; }
  void span(const cli::SpanLine& line, long long begin, long long end) {
    ++count;
    for (const auto& [its_begin, its_end] : streams.at(line.stream)) {
      INFO(begin << " to " << end << ", " << its_begin << " to " << its_end);
      CHECK((its_end <= begin || (begin <= its_begin && its_end <= end)));
    }
    streams[line.stream].emplace_back(begin, end);
  }
};

} // namespace

TEST_CASE("what a RankReport has accepted can be read to the end, and its spans nest") {
  constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  std::mt19937 random(31);
  const auto below = [&](unsigned most) {
    return std::uniform_int_distribution<unsigned>(0, most - 1)(random);
  };
  std::size_t all_placed = 0, all_dropped = 0, accepted_samples = 0, refused_samples = 0;
  for (int round = 0; round < 100; ++round) {
    const auto text = [&] {
      const char bytes[] = {'a', '"', '\n', '\0', '\x80', '\xc3'};
      return std::string(below(4) == 0 ? below(200'000) : below(9), bytes[below(sizeof bytes)]);
    };
    cuevent::RankReport report({.rank = 0, .size = 1, .host = text()}, text());
    cuevent::StageReport stages;
    stages.stages = {{.name = text()}, {.name = text()}};
    stages.streams = {{.name = text()}, {.name = text()}};
    std::uint64_t number = 0, dropped = 0;
    std::size_t spans = 0;
    for (int part = 0; part < 3; ++part) {
      stages.clock.epoch = cuevent::HostTime(std::chrono::nanoseconds(1000 + below(50)));
      stages.spans.clear();
      stages.waits.clear();
      for (auto& stage : stages.stages)
        dropped += stage.dropped = below(2), stage.count = 0;
      for (unsigned i = 0; i < 20; ++i) {
        const double begin = below(50) == 0 ? not_a_number : below(1000), length = below(200);
        const unsigned stage = below(2);
        stages.spans.push_back({.number = ++number,
                                .stage = cuevent::StageId(stage),
                                .stream = cuevent::StreamId(below(2)),
                                .depth = below(3),
                                .begin = cuevent::DeviceTime(begin),
                                .end = cuevent::DeviceTime(begin + length - (below(20) == 0 ? 300 : 0))});
        ++stages.stages[stage].count;
        stages.waits.push_back({.from = number - below(3),
                                .to = number - below(3),
                                .departure = cuevent::DeviceTime(below(1000)),
                                .arrival = cuevent::DeviceTime(below(50) == 0 ? not_a_number : below(1000))});
      }
      report.add(stages);
      spans += stages.spans.size();
      try {
        report.add(cuevent::ClockSample{cuevent::HostTime(std::chrono::nanoseconds(below(1000)) * (part + 1)),
                                        cuevent::HostTime(std::chrono::nanoseconds(below(1200)) * (part + 1)),
                                        std::chrono::nanoseconds(below(300)) - std::chrono::nanoseconds(20)});
        ++accepted_samples;
      } catch (const cuevent::InvalidValue&) {
        ++refused_samples;
      }
    }
    report.end(text());

    Reports reports;
    reports.begin_empty(0);
    std::string lines = report.take();
    lines.pop_back();
    reports.add(0, lines);
    const Job job = reports.survey();
    CAPTURE(round, job.errors);
    REQUIRE(job.errors.empty());
    CHECK(job.ranks.at(0).ended);
    Nesting read;
    CHECK_NOTHROW(cli::RankReader(job, job.ranks[0]).read(read));
    CHECK(read.count + read.dropped == spans + dropped);
    all_placed += read.count;
    all_dropped += read.dropped - dropped;
  }
  CHECK(all_placed > 5000);
  CHECK(all_dropped > 100);
  CHECK(accepted_samples > 100);
  CHECK(refused_samples > 50);
}
