// SPDX-License-Identifier: MIT
#include "merge/hang_groups.hpp"

#include "recording/flight_analysis.hpp"

#include <algorithm>
#include <map>

namespace cli {

namespace {

constexpr std::size_t ranges_shown = 12;

std::string state_of(const HangJob& job, std::size_t index) {
  using State = HangCommunicator::State;
  const HangReport& report = job.reports[index];
  if (job.is_stale(index)) return "not compared, because the report is much older than others";
  if (report.has_fault()) return "failed";
  if (report.is_outdated) return "moved after the report, and before others made theirs";
  if (!report.answered) return "no answer: the process is stopped, or ending";
  if (!report.may_be_stuck()) return "moving";
  if (report.own_cause() != nullptr) return "stuck in work of its own";
  for (std::size_t i = 0; i < report.communicators.size(); ++i) {
    const HangCommunicator& each = report.communicators[i];
    if (each.state != State::in_collective) continue;
    const std::string* const name = each.sequence.name_of(each.reached + 1);
    return "waiting in " + (name == nullptr ? std::string("a collective") : *name) + " number " +
           std::to_string(each.reached + 1) + " on " + name_of_communicator(i);
  }
  if (report.waits_for_others()) return "waiting for others, in work of NCCL that is no collective";
  return "nothing pending on the streams";
}

} // namespace

std::vector<HangGroup> groups_of(const HangJob& job) {
  std::map<std::string, std::vector<std::size_t>> by_state;
  for (std::size_t i = 0; i < job.reports.size(); ++i)
    by_state[state_of(job, i)].push_back(i);
  std::vector<HangGroup> groups;
  groups.reserve(by_state.size());
  for (auto& [what, ranks] : by_state)
    groups.push_back({what, std::move(ranks)});
  std::stable_sort(groups.begin(), groups.end(),
                   [](const HangGroup& a, const HangGroup& b) { return a.ranks.size() > b.ranks.size(); });
  return groups;
}

std::string ranges_text(const std::vector<unsigned>& ranks) {
  std::string text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < ranks.size(); ++shown) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    if (shown == ranges_shown) return text + " and " + std::to_string(ranks.size() - i) + " more";
    text.append(text.empty() ? "" : ", ").append(std::to_string(ranks[i]));
    if (end - i > 1) text.append("-").append(std::to_string(ranks[end - 1]));
    i = end;
  }
  return text;
}

std::string ranks_text(const HangJob& job, const std::vector<std::size_t>& reports) {
  std::vector<unsigned> ranks;
  std::string others;
  for (const std::size_t each : reports)
    if (const auto rank = job.reports[each].rank)
      ranks.push_back(*rank);
    else if (others.size() < 200)
      others.append(others.empty() ? "" : ", ").append(job.name_of(each));
  std::string text = ranks.empty() ? "" : (ranks.size() == 1 ? "rank " : "ranks ") + ranges_text(ranks);
  return text.append(text.empty() || others.empty() ? "" : ", ").append(others);
}

std::string thread_text(const HangThread& thread) {
  std::string text = thread.name;
  text += thread.inside.empty() ? " has been outside the driver" : " has been inside " + thread.inside;
  text.append(" for ").append(cuevent::age_text(thread.age));
  if (!thread.after.empty()) text.append(", after ").append(thread.after);
  return thread.place.empty() ? text : text.append(" at ").append(thread.place);
}

} // namespace cli
