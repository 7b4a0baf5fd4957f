// SPDX-License-Identifier: MIT
#include "report/hang.hpp"

#include "report/finding_text.hpp"
#include "report/hang_collectives.hpp"
#include "report/hang_text.hpp"
#include "report/printable.hpp"
#include "report/readable_name.hpp"

#include "recording/flight_analysis.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

namespace watch {

using std::chrono::nanoseconds;
using watch::CallUnderWay;

namespace {

using namespace std::chrono_literals;

constexpr nanoseconds quiet_time = 250ms; // without progress, before the process is asked to look
constexpr nanoseconds look_interval = 500ms;
constexpr nanoseconds long_call = 100ms;
constexpr std::size_t threads_shown = 16;
constexpr nanoseconds renewal = 30s; // of a report that is kept: `cuevent merge` leaves out old ones

nanoseconds longest_call(const watch::Moment& moment) {
  nanoseconds longest{};
  for (const CallUnderWay& each : moment.calls)
    longest = std::max(longest, each.age);
  return longest;
}

/// A time of CLOCK_MONOTONIC on the clock of the host.
nanoseconds since_1970(nanoseconds time) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()) -
         (time_now() - time);
}

std::string read_name(unsigned process) {
  const std::string folder = "/proc/" + std::to_string(process);
  std::ifstream file(folder + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

} // namespace

void HangReports::add(const std::string& text, nlohmann::ordered_json json, bool is_hang) {
  print_text(text);
  json_.push_back(std::move(json));
  if (is_hang) hangs_.push_back(time_now());
}

bool HangReports::are_many(nanoseconds time) const {
  return hangs_.size() >= reports_at_once && time_now() - hangs_[hangs_.size() - reports_at_once] < time;
}

watch::Moment HangWatch::read_state() {
  state_.wait_for_look({}); // notices the answer
  watch::Moment moment = state_.moment();
  work_->see(moment.streams);
  if (const std::uint64_t progress = work_->progress(); progress != progress_) {
    progress_ = progress;
    moved_ = moment.time;
    is_reported_ = false;
  }
  still_ = moment.time - moved_;
  stuck_for_ = work_->has_pending(moment.time) ? still_ : std::min(longest_call(moment), still_);
  return moment;
}

void HangWatch::update() {
  const watch::Moment moment = read_state();
  if (!submitted_before_update_) submitted_before_update_ = work_->submitted();
  const bool wants_probes =
      still_ >= quiet_time &&
      std::ranges::any_of(moment.streams, [&](const auto& stream) { return wants_probe(stream); });
  if ((stuck_for_ < quiet_time && !wants_probes) || time_now() - requested_ < look_interval) return;
  requested_ = time_now();
  request_look();
}

bool HangWatch::wants_probe(const watch::ProbedState& stream) const {
  return stream.can_get_late_probe && work_->has_unprobed(stream.key);
}

void HangWatch::request_look() {
  for (const watch::ProbedState& stream : state_.moment().streams)
    if (wants_probe(stream)) state_.want_probe(stream.place);
  state_.request_look();
}

void HangWatch::report_hang(nanoseconds limit) {
  if (stuck_for_ < limit || is_reported_) return;
  if (!reports_.are_many(limit)) {
    request_look();
    return write_report(look_patience, true);
  }
  is_reported_ = true;
  std::fprintf(stderr, "cuevent watch: process %u has not moved either\n", file_.process());
}

void HangWatch::write_report(std::optional<nanoseconds> patience, bool is_hang) {
  const bool has_answered = !patience || state_.wait_for_look(*patience);
  take_records_(); // of the probes that the look has recorded
  watch::Moment moment = read_state();
  if (is_hang && stuck_for_ < look_interval) return; // it has moved meanwhile
  is_reported_ = true;
  const nanoseconds time = moment.time;
  auto [text, json] = describe(std::move(moment), has_answered);
  if (is_kept()) keep(json, time);
  reports_.add(text, std::move(json), is_hang);
}

void HangWatch::keep() {
  if (!is_kept()) return;
  const bool has_answered = state_.wait_for_look(look_patience);
  take_records_();
  watch::Moment moment = read_state();
  const nanoseconds time = moment.time;
  keep(describe(std::move(moment), has_answered).second, time);
}

void HangWatch::keep(nlohmann::ordered_json report, nanoseconds time) {
  kept_ = time;
  report.update(identity_);
  report["time_ns"] = since_1970(time).count();
  reports_.keeper()->write(file_, report);
  last_kept_ = std::move(report);
  submitted_before_report_ = work_->submitted();
}

void HangWatch::note_move() {
  if (last_kept_.is_null() || work_->submitted() == submitted_before_report_) return;
  read_state();
  last_kept_["moved_ns"] = since_1970(moved_).count();
  reports_.keeper()->write(file_, last_kept_);
  last_kept_ = nullptr;
}

void HangWatch::keep_still(nanoseconds limit) {
  if (!is_kept() || still_ < limit || work_->progress() == 0) return;
  if (kept_ > moved_ && time_now() - kept_ < renewal) return;
  request_look();
  keep();
}

std::pair<std::string, nlohmann::ordered_json> HangWatch::describe(watch::Moment moment, bool has_answered) {
  std::map<watch::Handle, std::string> kernels;
  const watch::Namer namer{
      [&](watch::Handle function) {
        const auto [found, is_new] = kernels.try_emplace(function);
        if (is_new) found->second = state_.kernel_name(function);
        return found->second;
      },
      [&](const watch::Call& call) {
        return call.stack == 0 ? std::string() : shortened(reports_.texts().place_of(file_, call));
      },
      [&](watch::Handle address) { return shortened(reports_.texts().function_at(file_, address)); }};
  const Observation observed = work_->observe(moment, namer);
  cuevent::FlightReport found = cuevent::analyse(observed);
  word_findings(found, observed.notes);
  if (found.findings.empty() && longest_call(moment) >= long_call) add_possible_causes(found);

  const std::string name = read_name(file_.process());
  std::string text = "cuevent watch: process " + std::to_string(file_.process());
  if (!name.empty()) text.append(" (").append(name).append(")");
  if (stuck_for_ > quiet_time) text.append(" has not moved for ").append(cuevent::age_text(stuck_for_));
  text += '\n';
  if (!has_answered && !moment.streams.empty()) {
    text += "  the process did not answer. ";
    if (const nanoseconds last = state_.last_look(); last.count() != 0)
      text.append("What follows is from ").append(cuevent::age_text(time_now() - last)).append(" ago\n");
    else
      text += "The progress of its streams is not known\n";
  }
  text += hang_text(found, observed.notes);
  nlohmann::ordered_json json{{"process", file_.process()},
                              {"stuck_ns", stuck_for_.count()},
                              {"answered", has_answered},
                              {"report", nlohmann::ordered_json::parse(cuevent::to_json(found))}};
  auto& threads = json["threads"] = nlohmann::ordered_json::array();
  std::sort(moment.calls.begin(), moment.calls.end(),
            [](const CallUnderWay& a, const CallUnderWay& b) { return a.age > b.age; });
  for (const CallUnderWay& each : moment.calls) {
    if (each.age < long_call || threads.size() == threads_shown) break;
    const std::uint32_t python = each.python != 0 ? each.python : each.call.stack;
    text.append("  ").append(thread_text(file_, each.call.thread)).append(" has been inside ");
    text.append(each.call.name()).append(" for ").append(cuevent::age_text(each.age)).append("\n");
    if (work_->launches_with_room(each.call))
      text += "    the first launch of a kernel loads its code, which can wait until running kernels have "
              "ended\n";
    for (const std::string& line : folded(reports_.texts().frames_of(file_, each.call, python)))
      text.append("      ").append(line).append("\n");
    auto& thread = threads.emplace_back(json_of(reports_.texts(), file_, each.call));
    if (const auto frames = file_.python_stack(python); !frames.empty()) thread["python"] = frames;
    thread["inside_ns"] = each.age.count();
  }
  json["still_ns"] = still_.count();
  json["watched_ns"] = (moment.time - begun_).count(); // `still_ns` cannot be longer
  json["communicators"] = communicators_json(work_->collective_positions(), found);
  json["causes"] = causes_json(work_->collective_positions(), found);
  json["host_threads"] = threads_->json(file_, reports_.texts(), moment);
  return {std::move(text), std::move(json)};
}

} // namespace watch
