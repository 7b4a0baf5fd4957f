// SPDX-License-Identifier: MIT
#include "rank_survey.hpp"

#include "rank_reader.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

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

  void begin(unsigned rank, const std::string& host) {
    paths_.push_back((folder_ / ("rank" + std::to_string(rank) + ".json")).string());
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
