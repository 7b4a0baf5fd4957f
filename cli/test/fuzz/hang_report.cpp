// SPDX-License-Identifier: MIT
// The report of a process that hangs, from any text, and the comparison of ranks that have this report.
#include "require.hpp"

#include "merge/hang_groups.hpp"
#include "merge/hang_verdict.hpp"

#include <cstdint>

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cli::HangJob job;
  try {
    job.reports.push_back(cli::hang_report_in({reinterpret_cast<const char*>(data), size}));
  } catch (const cli::HangReportError& error) {
    require(std::string_view(error.what()).starts_with("the report "), "an error says what is wrong");
    return 0;
  }
  const cli::HangReport first = job.reports.front();
  require(!first.rank || *first.rank < first.size, "a rank is less than the size");
  for (const cli::HangCommunicator& each : first.communicators) {
    const std::uint64_t count = each.sequence.submitted();
    require(each.reached <= count, "no more is reached than was submitted");
    require(cli::common_beginning(each.sequence, each.sequence) == count, "a sequence begins with itself");
    require(each.sequence.name_of(count + 1) == nullptr, "there is no name after the last one");
  }
  job.reports.push_back(first);
  job.reports.push_back(first);
  const cli::HangVerdict verdict = cli::judge(job);
  for (const cli::HangCulprit& each : verdict.culprits)
    require(each.report < 3 && !each.what.empty(), "a culprit is one of the ranks");
  require(cli::groups_of(job).size() == 1, "the same reports are one group");
  return 0;
}
