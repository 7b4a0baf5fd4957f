// SPDX-License-Identifier: MIT
#include "merge/hang_verdict.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace cli {

namespace {

using State = HangCommunicator::State;

/// Ranks whose sequences on a communicator are the same.
struct SameRanks {
  std::vector<std::size_t> ranks;
  const HangSequence* sequence = nullptr;
  std::uint64_t reached = 0; // the largest
};

/// The common beginning of the sequences if they can belong to one communicator: a rank completes no
/// collective that another one has not submitted. 0 otherwise.
std::uint64_t meeting_of(const SameRanks& a, const SameRanks& b) {
  const std::uint64_t common = common_beginning(*a.sequence, *b.sequence).value_or(0);
  return a.reached <= common && b.reached <= common ? common : 0;
}

class Judge {
public:
  explicit Judge(const HangJob& job) : job_(job) {}

  HangVerdict verdict() {
    std::size_t most = 0;
    for (const HangReport& report : job_.reports)
      most = std::max(most, report.communicators.size());
    for (std::size_t i = 0; i < most; ++i)
      compare(i);
    for (std::size_t i = 0; i < job_.reports.size(); ++i) {
      if (job_.reports[i].has_fault()) blame(i, "has failed", 0);
      if (!job_.reports[i].communicators.empty() && !is_compared(i)) verdict_.incomparable.push_back(i);
    }
    std::stable_sort(verdict_.culprits.begin(), verdict_.culprits.end(),
                     [](const HangCulprit& a, const HangCulprit& b) { return a.report < b.report; });
    return std::move(verdict_);
  }

private:
  const HangCommunicator& communicator(std::size_t rank, std::size_t index) const {
    return job_.reports[rank].communicators[index];
  }
  bool is_compared(std::size_t rank) const {
    return std::binary_search(compared_.begin(), compared_.end(), rank);
  }

  void compare(std::size_t index) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, SameRanks> by_sequence;
    for (std::size_t i = 0; i < job_.reports.size(); ++i) {
      const HangReport& report = job_.reports[i];
      if (report.communicators.size() <= index || !report.has_all_calls || job_.is_stale(i)) continue;
      const HangCommunicator& of_rank = report.communicators[index];
      SameRanks& same = by_sequence[{of_rank.sequence.submitted(), of_rank.sequence.hash()}];
      same.ranks.push_back(i);
      same.sequence = &of_rank.sequence;
      same.reached = std::max(same.reached, of_rank.reached);
    }
    std::vector<SameRanks> classes;
    classes.reserve(by_sequence.size());
    for (auto& [key, same] : by_sequence)
      classes.push_back(std::move(same));
    // Those that can be compared, directly or through others, are in one group.
    std::vector<std::size_t> group(classes.size());
    std::vector<std::uint64_t> common(classes.size()); // of a group
    std::iota(group.begin(), group.end(), 0);
    for (std::size_t i = 0; i < classes.size(); ++i)
      common[i] = classes[i].sequence->submitted();
    for (std::size_t i = 0; i < classes.size(); ++i)
      for (std::size_t j = i + 1; j < classes.size(); ++j) {
        const std::uint64_t meeting = meeting_of(classes[i], classes[j]);
        if (meeting == 0) continue;
        const auto [into, from] = std::minmax(group[i], group[j]);
        common[into] = std::min({common[into], common[from], meeting});
        std::replace(group.begin(), group.end(), std::size_t{from}, std::size_t{into});
      }
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (group[i] != i) continue;
      std::vector<std::size_t> ranks;
      std::uint64_t reached = 0;
      for (std::size_t j = i; j < classes.size(); ++j) {
        if (group[j] != i) continue;
        ranks.insert(ranks.end(), classes[j].ranks.begin(), classes[j].ranks.end());
        reached = std::max(reached, classes[j].reached);
      }
      if (ranks.size() < 2 || reached > common[i]) continue; // nobody to compare with, or two communicators
      std::sort(ranks.begin(), ranks.end());
      std::vector<std::size_t> all;
      std::set_union(compared_.begin(), compared_.end(), ranks.begin(), ranks.end(), std::back_inserter(all));
      compared_ = std::move(all);
      meet(index, std::move(ranks), common[i]);
    }
  }

  /// The ranks have submitted the first `common` collectives. Which one do they not get through?
  void meet(std::size_t index, std::vector<std::size_t> ranks, std::uint64_t common) {
    HangMeeting meeting{.communicator = index, .ranks = std::move(ranks), .name = {}};
    meeting.number = common + 1;
    // A rank may have submitted an earlier one, but not begun it. If nobody has submitted more, all may be in
    // one.
    const bool all_have_the_same =
        std::all_of(meeting.ranks.begin(), meeting.ranks.end(), [&](std::size_t each) {
          return communicator(each, index).sequence.submitted() == common;
        });
    for (const std::size_t each : meeting.ranks)
      if (const HangCommunicator& of_rank = communicator(each, index);
          of_rank.state == State::held || (all_have_the_same && of_rank.state == State::in_collective))
        meeting.number = std::min(meeting.number, of_rank.reached + 1);
    std::map<std::string, std::size_t> names;
    for (const std::size_t each : meeting.ranks)
      if (const std::string* const name = communicator(each, index).sequence.name_of(meeting.number))
        ++names[*name];
    const auto most = std::max_element(names.begin(), names.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == names.end()) return; // so long ago that nobody knows the name
    meeting.name = most->first;
    std::size_t named = 0;
    for (const auto& [name, count] : names)
      named += count;
    std::vector<std::size_t> suspects;
    for (const std::size_t each : meeting.ranks) {
      const HangReport& report = job_.reports[each];
      const HangCommunicator& of_rank = communicator(each, index);
      const std::string* const name = of_rank.sequence.name_of(meeting.number);
      if (of_rank.sequence.submitted() < meeting.number ||
          (of_rank.state == State::held && of_rank.reached < meeting.number))
        meeting.late.push_back(each);
      else if (name != nullptr && *name != meeting.name)
        meeting.different.push_back(each);
      else if (of_rank.state == State::in_collective && of_rank.reached < meeting.number &&
               meeting.number <= of_rank.reached_next && report.is_stuck())
        meeting.waiting.push_back(each);
    }
    if (meeting.waiting.empty()) return; // the job moves, or all are in an earlier one
    for (const std::size_t each : meeting.late) {
      const HangReport& report = job_.reports[each];
      if (!report.may_be_stuck())
        meeting.moving.push_back(each);
      else if (report.waits_for_others())
        meeting.victims.push_back(each);
      else if (report.is_stuck())
        blame_late(meeting, each);
    }
    if (2 * most->second > named) {
      for (const std::size_t each : meeting.different)
        if (job_.reports[each].is_stuck()) blame(each, difference(meeting, each), 0);
    } else if (!meeting.different.empty()) {
      meeting.disagreement = difference(meeting, meeting.different.front());
    }
    verdict_.meetings.push_back(std::move(meeting));
  }

  std::string numbered(const HangMeeting& meeting) const {
    return meeting.name + " number " + std::to_string(meeting.number);
  }

  void blame_late(const HangMeeting& meeting, std::size_t rank) {
    const HangSequence& sequence = communicator(rank, meeting.communicator).sequence;
    if (sequence.submitted() >= meeting.number)
      return blame(rank, "has submitted " + numbered(meeting) + ", but its stream is held up before it", 0);
    std::uint64_t most = 0;
    for (const std::size_t each : meeting.waiting)
      most = std::max(most, communicator(each, meeting.communicator).sequence.submitted());
    blame(rank, "has not submitted " + numbered(meeting), most - sequence.submitted());
  }

  /// How the collectives of the rank differ from what the first waiting rank has submitted.
  std::string difference(const HangMeeting& meeting, std::size_t rank) const {
    const HangSequence& own = communicator(rank, meeting.communicator).sequence;
    const HangSequence& others = communicator(meeting.waiting.front(), meeting.communicator).sequence;
    const auto same = [](const std::string* a, const std::string* b) {
      return a != nullptr && b != nullptr && *a == *b;
    };
    const std::string *const first = own.name_of(meeting.number), *const second =
                                                                      own.name_of(meeting.number + 1);
    const std::string *const their_first = others.name_of(meeting.number), *const their_second =
                                                                               others.name_of(meeting.number +
                                                                                              1);
    if (same(first, their_second) && same(second, their_first))
      return "has submitted " + *first + " before " + *second + " as numbers " +
             std::to_string(meeting.number) + " and " + std::to_string(meeting.number + 1) +
             ", in the opposite order of the others";
    if (same(first, their_second)) return "has skipped " + numbered(meeting) + ": it has submitted " + *first;
    if (same(second, their_first))
      return "has submitted " + *first + " in addition, before " + numbered(meeting);
    return "has submitted " + *first + " instead of " + numbered(meeting);
  }

  void blame(std::size_t rank, std::string what, std::uint64_t behind) {
    if (std::none_of(verdict_.culprits.begin(), verdict_.culprits.end(),
                     [&](const HangCulprit& each) { return each.report == rank; }))
      verdict_.culprits.push_back({rank, std::move(what), behind});
  }

  const HangJob& job_;
  HangVerdict verdict_;
  std::vector<std::size_t> compared_; // sorted
};

} // namespace

HangVerdict judge(const HangJob& job) { return Judge(job).verdict(); }

} // namespace cli
