// SPDX-License-Identifier: MIT
#include "merge/hang_merge.hpp"

#include "json_text.hpp"
#include "output_file.hpp"

#include "core/name_text.hpp"
#include "recording/flight_analysis.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

constexpr std::size_t culprits_shown = 16, threads_shown = 3, left_out_shown = 16;

std::string age_of(nanoseconds time) {
  const auto now =
      std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
  return cuevent::age_text(std::max(now - time, nanoseconds{}));
}

Json names_json(const HangJob& job, const std::vector<std::size_t>& reports) {
  Json all = Json::array();
  for (const std::size_t each : reports)
    if (const auto rank = job.reports[each].rank)
      all.push_back(*rank);
    else
      all.push_back(job.name_of(each));
  return all;
}

std::string meeting_text(const HangJob& job, const HangMeeting& meeting) {
  std::string text = "  " + ranks_text(job, meeting.waiting);
  text.append(meeting.waiting.size() == 1 ? " waits" : " wait").append(" for ").append(meeting.name);
  text.append(" number ").append(std::to_string(meeting.number)).append(" on the communicator stream");
  if (meeting.communicator != 0) text.append(" number ").append(std::to_string(meeting.communicator + 1));
  nanoseconds longest{};
  for (const std::size_t each : meeting.waiting)
    longest = std::max(longest, job.reports[each].still);
  text.append(", and nothing has moved for up to ").append(cuevent::age_text(longest)).append("\n");
  if (!meeting.victims.empty())
    text +=
        "    not there, because they wait for others themselves: " + ranks_text(job, meeting.victims) + "\n";
  if (!meeting.moving.empty())
    text += "    not there yet, but they move: " + ranks_text(job, meeting.moving) + "\n";
  if (!meeting.disagreement.empty())
    text += "    " + job.name_of(meeting.different.front()) + " " + meeting.disagreement +
            ". Too few ranks agree to tell which of them are right\n";
  return text;
}

std::string culprit_text(const HangJob& job, const HangCulprit& culprit) {
  const HangReport& report = job.reports[culprit.report];
  std::string text = "  " + job.name_of(culprit.report) + " " + culprit.what;
  if (culprit.behind != 0) text += ": it is " + std::to_string(culprit.behind) + " behind";
  text.append(". Nothing has moved there for ").append(cuevent::age_text(report.still)).append("\n");
  if (!report.answered) text += "    its process did not answer: it may be stopped\n";
  if (const HangCause* const cause = report.own_cause()) text += "    " + cause->text + "\n";
  for (std::size_t i = 0; i < std::min(report.threads.size(), threads_shown); ++i)
    text += "    " + thread_text(report.threads[i]) + "\n";
  return text;
}

} // namespace

std::string hang_text(const HangJob& job, const HangVerdict& verdict, const std::vector<HangGroup>& groups) {
  std::string text = std::to_string(job.reports.size()) + " reports of a hang";
  if (job.size != 0) text += ", of " + std::to_string(job.size) + " ranks";
  text.append(", the last one made ").append(age_of(job.newest())).append(" ago\n\n");
  for (const HangGroup& group : groups)
    text += "  " + group.what + ": " + ranks_text(job, group.ranks) + "\n";
  text += "\n";
  for (const HangMeeting& each : verdict.meetings)
    text += meeting_text(job, each);
  for (std::size_t i = 0; i < std::min(verdict.culprits.size(), culprits_shown); ++i)
    text += culprit_text(job, verdict.culprits[i]);
  if (verdict.culprits.size() > culprits_shown)
    text += "  and " + std::to_string(verdict.culprits.size() - culprits_shown) + " more ranks like these\n";
  const auto missing = job.missing();
  if (verdict.culprits.empty()) {
    text += "  No rank is to blame, as far as the reports tell";
    if (std::any_of(job.reports.begin(), job.reports.end(),
                    [](const HangReport& each) { return each.may_be_stuck() && !each.is_stuck(); }))
      text += ". Some reports do not tell for how long nothing has moved: use `cuevent watch --ask`";
    else if (verdict.meetings.empty())
      text += ": no rank waits for a collective that another rank keeps from ending";
    text += "\n";
  }
  if (!verdict.incomparable.empty())
    text += "  not comparable, because no other rank has the same collectives from the beginning: " +
            ranks_text(job, verdict.incomparable) + "\n";
  if (!missing.empty())
    text += "  no report: rank" + std::string(missing.size() == 1 ? " " : "s ") + ranges_text(missing) + "\n";
  for (const std::size_t each : job.stale)
    text += "  " + job.name_of(each) + ": its report is " + age_of(job.reports[each].time) + " old\n";
  for (std::size_t i = 0; i < std::min(job.left_out.size(), left_out_shown); ++i)
    text += "  left out: " + job.left_out[i] + "\n";
  if (job.left_out.size() > left_out_shown)
    text += "  and " + std::to_string(job.left_out.size() - left_out_shown) + " more files were left out\n";
  return text;
}

Json hang_json(const HangJob& job, const HangVerdict& verdict, const std::vector<HangGroup>& groups) {
  Json json{{"size", job.size},
            {"reports", job.reports.size()},
            {"newest_ns", job.newest().count()},
            {"missing_ranks", job.missing()},
            {"stale", names_json(job, job.stale)},
            {"left_out", job.left_out},
            {"not_comparable", names_json(job, verdict.incomparable)}};
  auto& culprits = json["culprits"] = Json::array();
  for (const HangCulprit& each : verdict.culprits) {
    const HangReport& report = job.reports[each.report];
    auto& culprit = culprits.emplace_back(Json{{"what", each.what},
                                               {"behind", each.behind},
                                               {"still_ns", report.still.count()},
                                               {"host", report.host},
                                               {"process", report.process},
                                               {"file", report.file}});
    if (report.rank) culprit["rank"] = *report.rank;
    if (const HangCause* const cause = report.own_cause()) culprit["cause"] = cause->text;
    auto& threads = culprit["threads"] = Json::array();
    for (const HangThread& thread : report.threads)
      threads.push_back({{"thread", thread.name},
                         {"inside", thread.inside},
                         {"after", thread.after},
                         {"for_ns", thread.age.count()},
                         {"place", thread.place}});
  }
  auto& meetings = json["meetings"] = Json::array();
  for (const HangMeeting& each : verdict.meetings)
    meetings.push_back({{"communicator", each.communicator},
                        {"collective", each.name},
                        {"number", each.number},
                        {"compared", names_json(job, each.ranks)},
                        {"waiting", names_json(job, each.waiting)},
                        {"late", names_json(job, each.late)},
                        {"moving", names_json(job, each.moving)},
                        {"waiting_for_others", names_json(job, each.victims)},
                        {"different", names_json(job, each.different)},
                        {"disagreement", each.disagreement}});
  auto& all_groups = json["groups"] = Json::array();
  for (const HangGroup& each : groups)
    all_groups.push_back({{"what", each.what}, {"ranks", names_json(job, each.ranks)}});
  return json;
}

std::vector<std::string> hang_reports_in(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      if (is_hang_report(path)) files.push_back(path);
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(path, failed)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("hang-") && name.ends_with(".json")) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

ExitCode merge_hangs(const std::vector<std::string>& files, const MergeOptions& options) {
  for (const std::string& file : files)
    if (!options.svg_file.empty() &&
        are_same_file(file, watch::Links::follow, options.svg_file, options.svg_links)) {
      std::fprintf(stderr,
                   "cuevent: %s is both a report and an output file: name another output file with --svg\n",
                   cuevent::printable(options.svg_file).c_str());
      return usage;
    }
  const HangJob job = read_hang_job(files);
  const HangVerdict verdict = judge(job);
  const std::vector<HangGroup> groups = groups_of(job);
  if (!options.svg_file.empty() && !job.reports.empty())
    write_file(options.svg_file, hang_svg(job, verdict, groups), options.svg_links);
  if (options.json)
    std::puts(json_text(hang_json(job, verdict, groups)).c_str());
  else
    for (std::string text = hang_text(job, verdict, groups); !text.empty();) { // printable() takes no lines
      const auto end = text.find('\n');
      std::puts(cuevent::printable(text.substr(0, end)).c_str());
      text.erase(0, end + 1);
    }
  if (!options.json && !options.svg_file.empty() && !job.reports.empty())
    std::printf("  Written: %s\n", cuevent::printable(options.svg_file).c_str());
  return job.reports.empty() ? failure : success;
}

} // namespace cli
