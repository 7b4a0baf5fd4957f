// SPDX-License-Identifier: MIT
// Why a watched process does not move.
#pragma once

#include "report/call_text.hpp"
#include "report/hang_threads.hpp"
#include "report/moment_reader.hpp"

#include "rules/stream_work.hpp"

#include <functional>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace watch {

/// How long a report waits for a look.
inline constexpr std::chrono::milliseconds look_patience{500};

/// How many processes are reported at the same time.
inline constexpr std::size_t reports_at_once = 8;

/// Keeps the report of each process, also of those that only wait for others.
class ReportKeeper {
public:
  ReportKeeper() = default;
  ReportKeeper(const ReportKeeper&) = delete;
  ReportKeeper& operator=(const ReportKeeper&) = delete;
  virtual ~ReportKeeper() = default;

  /// Who the process is: its rank and its host. Null if it has ended, so that nobody can tell.
  virtual nlohmann::ordered_json identity_of(const CallFile& process) const = 0;
  /// Replaces the last report of the process.
  virtual void write(const CallFile& process, const nlohmann::ordered_json& report) const = 0;
};

/// The reports of all processes.
class HangReports {
public:
  explicit HangReports(CallText& texts, const ReportKeeper* keeper = nullptr)
      : texts_(texts), keeper_(keeper) {}

  CallText& texts() { return texts_; }
  bool have_hangs() const { return !hangs_.empty(); }
  const nlohmann::ordered_json& json() const { return json_; }

  /// Whether many hangs were reported within the last time. Then further ones get one line.
  bool are_many(std::chrono::nanoseconds time) const;

  /// Prints the text to standard error. `is_hang` is false if somebody requested the report.
  void add(const std::string& text, nlohmann::ordered_json json, bool is_hang);

  /// Null if no reports are kept.
  const ReportKeeper* keeper() const { return keeper_; }

private:
  CallText& texts_;
  const ReportKeeper* const keeper_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  std::vector<std::chrono::nanoseconds> hangs_; // when they were reported
};

/// One process. Its auditor has to record probes.
class HangWatch {
public:
  /// It follows what the World of the process sees. `take_records` shows the World what the process has
  /// recorded up to now.
  HangWatch(const CallFile& file, World& world, HangReports& reports, std::function<void()> take_records)
      : file_(file), state_(file), reports_(reports), take_records_(std::move(take_records)),
        work_(std::make_shared<StreamWork>(world, [this](Handle f) { return state_.kernel_name(f); })),
        threads_(std::make_shared<LastCalls>()) {
    if (reports.keeper() != nullptr) identity_ = reports.keeper()->identity_of(file);
    world.add(work_);
    world.add(threads_);
  }

  /// The records of the process were overwritten. From here on, none are taken.
  void add_lost_probes() { work_->add_lost_probes(state_.moment().streams); }

  /// Takes what the process says about itself. Requests a look now and then if nothing moves. Call it often.
  void update();

  /// How long nothing has moved although something is pending. Zero if nothing is pending.
  std::chrono::nanoseconds stuck_for() const { return stuck_for_; }

  /// How long nothing has moved.
  std::chrono::nanoseconds still_for() const { return still_; }

  /// Whether the program has submitted work since the first `update`. That it is seen to move can also mean
  /// that it is seen for the first time how far it is.
  bool has_submitted() const {
    return submitted_before_update_ && work_->submitted() > *submitted_before_update_;
  }

  /// Reports if nothing has moved for that long, once until something moves again.
  void report_hang(std::chrono::nanoseconds limit);

  /// Keeps a report of a process in which nothing has moved for that long, and renews it now and then. It may
  /// have nothing pending, because others wait for it.
  void keep_still(std::chrono::nanoseconds limit);

  /// If the program has submitted work after the report that was kept last, the report says when.
  void note_move();

  /// Keeps a report in any case, and prints none.
  void keep();

  /// Asks the process to look, so that a report soon has an answer.
  void request_look();

  /// Reports in any case. Waits that long for the look that was requested; without a time, the last look is
  /// new enough.
  void report(std::optional<std::chrono::nanoseconds> patience) { write_report(patience, false); }

private:
  watch::Moment read_state();
  /// Whether a look can find out more than the probes of the program's threads.
  bool wants_probe(const watch::ProbedState& stream) const;
  void write_report(std::optional<std::chrono::nanoseconds> patience, bool is_hang);
  bool is_kept() const { return !identity_.is_null(); }
  void keep(nlohmann::ordered_json report, std::chrono::nanoseconds time);
  /// The text and the JSON.
  std::pair<std::string, nlohmann::ordered_json> describe(watch::Moment moment, bool has_answered);

  const CallFile& file_;
  ProcessState state_;
  HangReports& reports_;
  const std::function<void()> take_records_;
  std::shared_ptr<StreamWork> work_;
  std::shared_ptr<LastCalls> threads_;
  nlohmann::ordered_json identity_;  // null if its reports are not kept
  nlohmann::ordered_json last_kept_; // null if there is none, or if it says when the program went on after it
  std::uint64_t submitted_before_report_ = 0;
  std::optional<std::uint64_t> submitted_before_update_;
  std::uint64_t progress_ = 0;
  std::chrono::nanoseconds begun_ = time_now(), moved_ = begun_, requested_{}, kept_{}, still_{},
                           stuck_for_{};
  bool is_reported_ = false;
};

} // namespace watch
