// SPDX-License-Identifier: MIT
#include "merge/hang_verdict.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace cli {

namespace {

using State = HangCommunicator::State;
using Ranks = std::vector<std::size_t>; // places in HangJob::reports, sorted

const HangCommunicator& communicator(const HangJob& job, std::size_t rank, std::size_t index) {
  return job.reports[rank].communicators[index];
}

// 1. Which ranks can be compared.

/// Ranks whose sequences on a communicator are the same.
struct SameRanks {
  Ranks ranks;
  const HangSequence* sequence = nullptr;
  std::uint64_t reached = 0; // the largest
};

std::vector<SameRanks> same_ranks(const HangJob& job, std::size_t index) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, SameRanks> by_sequence;
  for (std::size_t i = 0; i < job.reports.size(); ++i) {
    const HangReport& report = job.reports[i];
    if (report.communicators.size() <= index || !report.has_all_calls || job.is_stale(i)) continue;
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
  return classes;
}

/// The common beginning of the sequences if they can belong to one communicator: a rank completes no
/// collective that another one has not submitted. 0 otherwise.
std::uint64_t common_of(const SameRanks& a, const SameRanks& b) {
  const std::uint64_t common = common_beginning(*a.sequence, *b.sequence).value_or(0);
  return a.reached <= common && b.reached <= common ? common : 0;
}

/// Ranks that can be compared, directly or through others. All have submitted the first `common` collectives.
struct Comparable {
  Ranks ranks;
  std::uint64_t common = 0;
};

std::vector<Comparable> comparable_ranks(const std::vector<SameRanks>& classes) {
  std::vector<std::size_t> group(classes.size());
  std::vector<std::uint64_t> common(classes.size()); // of a group
  std::iota(group.begin(), group.end(), 0);
  for (std::size_t i = 0; i < classes.size(); ++i)
    common[i] = classes[i].sequence->submitted();
  for (std::size_t i = 0; i < classes.size(); ++i)
    for (std::size_t j = i + 1; j < classes.size(); ++j) {
      const std::uint64_t of_both = common_of(classes[i], classes[j]);
      if (of_both == 0) continue;
      const auto [into, from] = std::minmax(group[i], group[j]);
      common[into] = std::min({common[into], common[from], of_both});
      std::replace(group.begin(), group.end(), std::size_t{from}, std::size_t{into});
    }
  std::vector<Comparable> all;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    Comparable made{{}, common[i]};
    std::uint64_t reached = 0;
    for (std::size_t j = 0; j < classes.size(); ++j)
      if (group[j] == i) {
        made.ranks.insert(made.ranks.end(), classes[j].ranks.begin(), classes[j].ranks.end());
        reached = std::max(reached, classes[j].reached);
      }
    std::sort(made.ranks.begin(), made.ranks.end());
    const bool are_two_communicators = reached > made.common;
    if (made.ranks.size() > 1 && !are_two_communicators) all.push_back(std::move(made));
  }
  return all;
}

// 2. Which collective they do not get through.

/// Its number. A rank may have submitted an earlier one, but not begun it. If nobody has submitted more, all
/// may be in one. Where a rank was that has moved since does not count.
std::uint64_t number_of_meeting(const HangJob& job, std::size_t index, const Comparable& them) {
  const bool all_have_the_same = std::all_of(them.ranks.begin(), them.ranks.end(), [&](std::size_t each) {
    return communicator(job, each, index).sequence.submitted() == them.common;
  });
  std::uint64_t number = them.common + 1;
  for (const std::size_t each : them.ranks)
    if (const HangCommunicator& of_rank = communicator(job, each, index);
        !job.reports[each].is_outdated &&
        (of_rank.state == State::held || (all_have_the_same && of_rank.state == State::in_collective)))
      number = std::min(number, of_rank.reached + 1);
  return number;
}

/// What most ranks have submitted as this number.
struct MostRanks {
  std::string name{}; // empty if it was that long ago that nobody knows it
  bool are_a_majority = false;
};

MostRanks largest_group(const HangJob& job, const HangMeeting& meeting) {
  std::map<std::string, std::size_t> counts;
  std::size_t all = 0, most = 0;
  for (const std::size_t each : meeting.ranks)
    if (const auto* const name =
            communicator(job, each, meeting.communicator).sequence.name_of(meeting.number)) {
      ++counts[*name];
      ++all;
    }
  MostRanks found;
  for (const auto& [name, count] : counts)
    if (count > most) {
      most = count;
      found.name = name;
    }
  found.are_a_majority = 2 * most > all;
  return found;
}

// 3. Where each rank is.

using RanksOfMeeting = Ranks HangMeeting::*;

/// The list of the meeting to which the rank belongs. Null if it belongs to none.
RanksOfMeeting list_of(const HangJob& job, const HangMeeting& meeting, std::size_t rank) {
  const HangCommunicator& of_rank = communicator(job, rank, meeting.communicator);
  const std::string* const name = of_rank.sequence.name_of(meeting.number);
  const bool has_reached = of_rank.reached >= meeting.number;
  const bool has_begun = of_rank.state == State::in_collective && meeting.number <= of_rank.reached_next;
  if (of_rank.sequence.submitted() < meeting.number || (of_rank.state == State::held && !has_reached))
    return &HangMeeting::late;
  if (name != nullptr && *name != meeting.name) return &HangMeeting::different;
  return has_begun && !has_reached && job.reports[rank].is_stuck() ? &HangMeeting::waiting : nullptr;
}

// 4. What to say of a rank.

/// The next two collectives of a rank, and the next two of the first rank that waits.
struct NextTwo {
  const HangMeeting& meeting;
  const std::string *own, *own_second, *others, *others_second; // null if unknown
};

std::string numbered(const HangMeeting& meeting) {
  return meeting.name + " number " + std::to_string(meeting.number);
}

bool are_same(const std::string* a, const std::string* b) { return a != nullptr && b != nullptr && *a == *b; }

std::optional<std::string> swapped(const NextTwo& next) {
  if (!are_same(next.own, next.others_second) || !are_same(next.own_second, next.others)) return {};
  const std::uint64_t number = next.meeting.number;
  return "has submitted " + *next.own + " before " + *next.own_second + " as numbers " +
         std::to_string(number) + " and " + std::to_string(number + 1) +
         ", in the opposite order of the others";
}
std::optional<std::string> skipped(const NextTwo& next) {
  if (!are_same(next.own, next.others_second)) return {};
  return "has skipped " + numbered(next.meeting) + ": it has submitted " + *next.own;
}
std::optional<std::string> added(const NextTwo& next) {
  if (!are_same(next.own_second, next.others)) return {};
  return "has submitted " + *next.own + " in addition, before " + numbered(next.meeting);
}
std::optional<std::string> replaced(const NextTwo& next) {
  return "has submitted " + *next.own + " instead of " + numbered(next.meeting);
}

/// How the collectives of a rank differ from the others': the first of these answers.
std::string difference(const HangJob& job, const HangMeeting& meeting, std::size_t rank) {
  const HangSequence& own = communicator(job, rank, meeting.communicator).sequence;
  const HangSequence& others = communicator(job, meeting.waiting.front(), meeting.communicator).sequence;
  const NextTwo next{meeting, own.name_of(meeting.number), own.name_of(meeting.number + 1),
                     others.name_of(meeting.number), others.name_of(meeting.number + 1)};
  std::optional<std::string> answer;
  for (const auto& question : {&swapped, &skipped, &added, &replaced})
    if (!answer) answer = question(next);
  return *answer;
}

HangCulprit late_culprit(const HangJob& job, const HangMeeting& meeting, std::size_t rank) {
  const auto submitted = [&](std::size_t of) {
    return communicator(job, of, meeting.communicator).sequence.submitted();
  };
  if (submitted(rank) >= meeting.number)
    return {rank, "has submitted " + numbered(meeting) + ", but its stream is held up before it"};
  std::uint64_t most = 0;
  for (const std::size_t each : meeting.waiting)
    most = std::max(most, submitted(each));
  return {rank, "has not submitted " + numbered(meeting), most - submitted(rank)};
}

/// What the rank waits in meanwhile, on another communicator. Empty if this is not known.
std::string other_collective(const HangJob& job, const HangMeeting& meeting, std::size_t rank) {
  const std::vector<HangCommunicator>& all = job.reports[rank].communicators;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t number = all[i].reached + 1;
    const std::string* const name = all[i].sequence.name_of(number);
    if (i != meeting.communicator && all[i].state == State::in_collective && name != nullptr)
      return *name + " number " + std::to_string(number) + " on " + name_of_communicator(i);
  }
  return {};
}

class Judge {
public:
  explicit Judge(const HangJob& job) : job_(job) {}

  HangVerdict verdict() {
    std::size_t most = 0;
    for (const HangReport& report : job_.reports)
      most = std::max(most, report.communicators.size());
    for (std::size_t i = 0; i < most; ++i)
      for (const Comparable& them : comparable_ranks(same_ranks(job_, i))) {
        note_compared(them.ranks);
        meet(i, them);
      }
    judge_victims();
    for (std::size_t i = 0; i < job_.reports.size(); ++i) {
      if (job_.reports[i].has_fault()) blame({i, "has failed"});
      if (!job_.reports[i].communicators.empty() && !is_compared(i)) verdict_.incomparable.push_back(i);
    }
    std::stable_sort(verdict_.culprits.begin(), verdict_.culprits.end(),
                     [](const HangCulprit& a, const HangCulprit& b) { return a.report < b.report; });
    return std::move(verdict_);
  }

private:
  void note_compared(const Ranks& ranks) {
    Ranks all;
    std::set_union(compared_.begin(), compared_.end(), ranks.begin(), ranks.end(), std::back_inserter(all));
    compared_ = std::move(all);
  }
  bool is_compared(std::size_t rank) const {
    return std::binary_search(compared_.begin(), compared_.end(), rank);
  }

  void meet(std::size_t index, const Comparable& them) {
    HangMeeting meeting{.communicator = index, .ranks = them.ranks, .name = {}};
    meeting.number = number_of_meeting(job_, index, them);
    const MostRanks most = largest_group(job_, meeting);
    meeting.name = most.name;
    for (const std::size_t each : meeting.ranks)
      if (const RanksOfMeeting list = list_of(job_, meeting, each); list != nullptr)
        (meeting.*list).push_back(each);
    if (meeting.name.empty() || meeting.waiting.empty())
      return; // the job moves, or all are in an earlier one
    judge_late(meeting);
    judge_different(meeting, most.are_a_majority);
    verdict_.meetings.push_back(std::move(meeting));
  }

  void judge_late(HangMeeting& meeting) {
    for (const std::size_t each : meeting.late) {
      const HangReport& report = job_.reports[each];
      if (!report.may_be_stuck())
        meeting.moving.push_back(each);
      else if (report.waits_for_others())
        meeting.victims.push_back(each);
      else if (report.is_stuck())
        blame(late_culprit(job_, meeting, each));
    }
  }

  void judge_different(HangMeeting& meeting, bool others_are_right) {
    if (!others_are_right && !meeting.different.empty())
      meeting.disagreement = difference(job_, meeting, meeting.different.front());
    if (others_are_right)
      for (const std::size_t each : meeting.different)
        if (job_.reports[each].is_stuck()) blame({each, difference(job_, meeting, each)});
  }

  /// If most ranks of the job are in one meeting, the others of the job wait in vain, for them or for each
  /// other: a rank that skips a step waits at the next barrier.
  void judge_victims() {
    if (!verdict_.culprits.empty() || job_.reports.size() != job_.size || !job_.left_out.empty()) return;
    for (HangMeeting& meeting : verdict_.meetings) {
      const std::size_t all = meeting.ranks.size(), there = meeting.waiting.size();
      if (all != job_.size || there + meeting.victims.size() != all || 2 * there <= all) continue;
      std::vector<HangCulprit> found;
      for (const std::size_t each : meeting.victims)
        if (const std::string other = other_collective(job_, meeting, each); !other.empty())
          found.push_back({each, late_culprit(job_, meeting, each).what + ": it waits in " + other});
      if (found.size() != meeting.victims.size()) continue; // one may wait for something else
      meeting.victims.clear();
      for (HangCulprit& each : found)
        blame(std::move(each));
    }
  }

  /// For the first reason that is found.
  void blame(HangCulprit culprit) {
    if (std::none_of(verdict_.culprits.begin(), verdict_.culprits.end(),
                     [&](const HangCulprit& each) { return each.report == culprit.report; }))
      verdict_.culprits.push_back(std::move(culprit));
  }

  const HangJob& job_;
  HangVerdict verdict_;
  Ranks compared_;
};

} // namespace

HangVerdict judge(const HangJob& job) { return Judge(job).verdict(); }

} // namespace cli
