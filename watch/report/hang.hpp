// SPDX-License-Identifier: MIT
// Why a watched process does not move.
#pragma once

#include "report/call_text.hpp"
#include "report/moment_reader.hpp"

#include "rules/stream_work.hpp"

#include <nlohmann/json.hpp>

namespace watch {

/// How long a report waits for a look.
inline constexpr std::chrono::milliseconds look_patience{500};

/// How many processes are reported at the same time.
inline constexpr std::size_t reports_at_once = 8;

/// The reports of all processes.
class HangReports {
public:
  explicit HangReports(CallText& texts) : texts_(texts) {}

  CallText& texts() { return texts_; }
  bool have_hangs() const { return !hangs_.empty(); }
  const nlohmann::ordered_json& json() const { return json_; }

  /// Whether many hangs were reported within the last time. Then further ones get one line.
  bool are_many(std::chrono::nanoseconds time) const;

  /// Prints the text to standard error. `is_hang` is false if somebody requested the report.
  void add(const std::string& text, nlohmann::ordered_json json, bool is_hang);

private:
  CallText& texts_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  std::vector<std::chrono::nanoseconds> hangs_; // when they were reported
};

/// One process. Its auditor has to record probes.
class HangWatch {
public:
  /// It follows what the World of the process sees.
  HangWatch(const CallFile& file, World& world, HangReports& reports)
      : file_(file), state_(file), reports_(reports), work_(std::make_shared<StreamWork>(world)) {
    world.add(work_);
  }

  /// The records of the process were overwritten. From here on, none are taken.
  void add_lost_probes() { work_->add_lost_probes(state_.moment().streams); }

  /// Takes what the process says about itself. Requests a look now and then if nothing moves. Call it often.
  void update();

  /// How long nothing has moved although something is pending. Zero if nothing is pending.
  std::chrono::nanoseconds stuck_for() const { return stuck_for_; }

  /// Reports if nothing has moved for that long, once until something moves again.
  void report_hang(std::chrono::nanoseconds limit);

  /// Asks the process to look, so that a report soon has an answer.
  void request_look() { state_.request_look(); }

  /// Reports in any case. Waits that long for the look that was requested; without a time, the last look is
  /// new enough.
  void report(std::optional<std::chrono::nanoseconds> patience) { write_report(patience, false); }

private:
  watch::Moment read_state();
  void write_report(std::optional<std::chrono::nanoseconds> patience, bool is_hang);

  const CallFile& file_;
  ProcessState state_;
  HangReports& reports_;
  std::shared_ptr<StreamWork> work_;
  std::uint64_t progress_ = 0;
  std::chrono::nanoseconds moved_ = time_now(), requested_{}, stuck_for_{};
  bool is_reported_ = false;
};

} // namespace watch
