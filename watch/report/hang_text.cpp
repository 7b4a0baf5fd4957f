// SPDX-License-Identifier: MIT
#include "report/hang_text.hpp"

#include "recording/flight_analysis.hpp"

#include <cuevent/text.hpp>

#include <algorithm>

namespace watch {

namespace {

using cuevent::FlightFinding;
using cuevent::FlightReport;
using cuevent::FlightState;
using cuevent::FlightStream;
using cuevent::FlightWait;
using Kind = FlightFinding::Kind;

using Notes = std::vector<StreamNote>;

constexpr std::size_t findings_shown = 8, waiting_shown = 24, idle_shown = 8;

/// What the stream has not reached.
std::string next_of(const FlightStream& stream) {
  return stream.next ? stream.next->name : std::string("the end of its work");
}

/// "the end of spin(int) on stream 0x55d0c0", "value 1 at 0x7f00, which stream 0x55d0c0 writes later"
std::string wait_text(const FlightReport& report, const FlightWait& wait) {
  std::string what = wait.what;
  const bool is_work = what.starts_with('\'') && what.ends_with('\'');
  if (is_work) what = what.substr(1, what.size() - 2);
  if (!wait.stream) return what + ", which no submitted work writes";
  const std::string& name = report.streams[*wait.stream].name;
  if (is_work) return what.append(" on ").append(name);
  return what.append(", which ").append(name).append(" writes later");
}

std::string waits_text(const FlightReport& report, const FlightStream& stream) {
  std::string text = stream.name + " waits for ";
  for (std::size_t i = 0; i < stream.waits.size() && i < 3; ++i)
    text.append(i == 0 ? "" : ", and for ").append(wait_text(report, stream.waits[i]));
  return stream.waits.size() > 3 ? text + ", and for more" : text;
}

std::string fault_text(const FlightReport& report, const FlightFinding& finding) {
  std::string text = "device work has failed: the driver answers " + cuevent::to_string(report.fault);
  for (std::size_t i = 0; i < finding.streams.size(); ++i) {
    const FlightStream& stream = report.streams[finding.streams[i]];
    text.append(i == 0 ? "; not finished when it failed: " : ", ");
    text.append(stream.state == FlightState::unknown ? "perhaps " : "");
    text.append(next_of(stream)).append(" on ").append(stream.name);
    if (stream.pending > 1) text.append(" or later work there");
  }
  return text;
}

std::string deadlock_text(const FlightReport& report, const FlightFinding& finding, const Notes& notes) {
  std::string text = "deadlock: ";
  for (std::size_t i = 0; i < finding.streams.size(); ++i) {
    const FlightStream& stream = report.streams[finding.streams[i]];
    const std::size_t next = finding.streams[(i + 1) % finding.streams.size()];
    const auto wait = std::find_if(stream.waits.begin(), stream.waits.end(),
                                   [&](const FlightWait& each) { return each.stream == next; });
    if (wait == stream.waits.end()) continue;
    text.append(i == 0 ? "" : "; ").append(stream.name).append(" waits for ");
    text.append(wait_text(report, *wait));
  }
  std::string places;
  for (const std::size_t each : finding.streams)
    if (const std::string& place = notes[each].wait_place; !place.empty())
      places.append(places.empty() ? ". The waits were submitted at " : " and at ").append(place);
  return text + places;
}

/// ". The wait was submitted at main (app.cpp:5)", or nothing.
std::string submitted_at(const StreamNote& note) {
  return note.wait_place.empty() ? std::string() : ". The wait was submitted at " + note.wait_place;
}

std::string no_signal_text(const FlightReport& report, const FlightStream& stream, const StreamNote& note) {
  std::string text = stream.name + " waits for ";
  bool is_first = true;
  for (const FlightWait& wait : stream.waits)
    if (!wait.stream) {
      text.append(is_first ? "" : ", and for ").append(wait_text(report, wait));
      is_first = false;
    }
  return text + ". The host, a kernel or another process has to write it" + submitted_at(note);
}

std::string full_queue_text(const FlightStream& stream) {
  std::string text = stream.call->name + " on " + stream.name + " has not returned for " +
                     cuevent::age_text(stream.call->age);
  if (stream.pending == 0) return text;
  return text.append(". Its launch queue may be full, because the stream has not reached ")
      .append(next_of(stream));
}

std::string unfinished_text(const FlightStream& stream, const StreamNote& note) {
  std::string text = stream.name + " has not reached " + next_of(stream);
  if (stream.next) text += cuevent::submitted_text(*stream.next);
  if (stream.reached) text.append(". Before that, it reached ").append(stream.reached->name);
  if (!note.was_asked) text.append(". The last look could not query this stream");
  return text;
}

std::string line_of(const FlightReport& report, const FlightStream& stream, const StreamNote& note) {
  std::string text = "  ";
  if (stream.state == FlightState::waiting) {
    text += waits_text(report, stream);
    if (stream.next) text += ", so it has not reached " + stream.next->name;
    text += submitted_at(note);
  } else if (stream.state == FlightState::unknown) {
    text += "it is not known whether " + stream.name + " has reached " + next_of(stream);
    if (stream.reached) text += ". It reached " + stream.reached->name;
  } else {
    text += stream.name + " is idle";
    if (stream.reached) text += " after " + stream.reached->name;
  }
  return text + '\n';
}

/// The streams in this state that no finding names.
void add_lines(std::string& text, const FlightReport& report, const Notes& notes, FlightState state,
               std::size_t limit) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < report.streams.size(); ++i) {
    const FlightStream& stream = report.streams[i];
    if (stream.state != state || (state == FlightState::idle && !stream.reached)) continue;
    if (std::any_of(report.findings.begin(), report.findings.end(), [i](const FlightFinding& finding) {
          return std::find(finding.streams.begin(), finding.streams.end(), i) != finding.streams.end();
        }))
      continue;
    if (count++ < limit) text += line_of(report, stream, notes[i]);
  }
  if (count <= limit) return;
  text.append("  and ").append(std::to_string(count - limit)).append(" more ");
  text.append(state == FlightState::idle      ? "idle streams\n"
              : state == FlightState::unknown ? "streams that may not have finished\n"
                                              : "streams that wait\n");
}

bool is_exact(const FlightReport& report, const FlightFinding& finding) {
  return finding.streams.empty() || report.streams[finding.streams.front()].exact;
}

/// Where a stream was made is said once.
void shorten_names(std::string& text, const FlightReport& report) {
  for (const FlightStream& stream : report.streams) {
    const auto length = stream.name.find(" (made at ");
    if (length == std::string::npos) continue;
    auto at = text.find(stream.name);
    while (at != std::string::npos && (at = text.find(stream.name, at + 1)) != std::string::npos)
      text.erase(at + length, stream.name.size() - length);
  }
}

} // namespace

void word_findings(FlightReport& report, const Notes& notes) {
  // A stream may wait for several values that nobody writes: the analysis has a finding for each.
  const auto same = [](const FlightFinding& a, const FlightFinding& b) {
    return a.kind == b.kind && a.streams == b.streams;
  };
  report.findings.erase(std::unique(report.findings.begin(), report.findings.end(), same),
                        report.findings.end());
  for (FlightFinding& finding : report.findings) {
    if (finding.kind == Kind::fault)
      finding.text = fault_text(report, finding);
    else if (finding.kind == Kind::deadlock)
      finding.text = deadlock_text(report, finding, notes);
    else if (finding.kind == Kind::no_signal)
      finding.text =
          no_signal_text(report, report.streams[finding.streams.front()], notes[finding.streams.front()]);
    else if (finding.kind == Kind::full_queue)
      finding.text = full_queue_text(report.streams[finding.streams.front()]);
    else
      finding.text = unfinished_text(report.streams[finding.streams.front()], notes[finding.streams.front()]);
  }
  // What is known comes before what is one of several.
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [&](const FlightFinding& a, const FlightFinding& b) {
                     if (a.kind != b.kind) return a.kind < b.kind;
                     if (a.held_up != b.held_up) return a.held_up > b.held_up;
                     return is_exact(report, a) && !is_exact(report, b);
                   });
}

void add_possible_causes(FlightReport& report) {
  for (std::size_t i = 0; i < report.streams.size(); ++i) {
    const FlightStream& stream = report.streams[i];
    if (stream.state != FlightState::unknown) continue;
    std::string text = stream.name + " may not have reached " + next_of(stream);
    if (stream.next) text += cuevent::submitted_text(*stream.next);
    report.findings.push_back({.kind = Kind::unfinished, .streams = {i}, .text = std::move(text)});
  }
}

std::string hang_text(const FlightReport& report, const Notes& notes) {
  std::string text;
  for (std::size_t i = 0; i < report.findings.size() && i < findings_shown; ++i) {
    const FlightFinding& finding = report.findings[i];
    text.append(i == 0 ? "  likely cause: " : "  also: ").append(finding.text).append("\n");
    if (finding.held_up == 1) text += "    1 other stream waits for this\n";
    if (finding.held_up > 1) {
      text.append("    ").append(std::to_string(finding.held_up));
      text.append(" other streams wait for this\n");
    }
  }
  if (report.findings.size() > findings_shown)
    text += "  and " + std::to_string(report.findings.size() - findings_shown) + " more findings\n";
  const bool is_any_unknown =
      std::any_of(report.streams.begin(), report.streams.end(),
                  [](const FlightStream& each) { return each.state == FlightState::unknown; });
  if (report.findings.empty())
    text += is_any_unknown ? "  nothing is known to be pending on its streams\n"
                           : "  nothing is pending on its streams\n";
  add_lines(text, report, notes, FlightState::waiting, waiting_shown);
  add_lines(text, report, notes, FlightState::unknown, waiting_shown);
  add_lines(text, report, notes, FlightState::idle, idle_shown);
  shorten_names(text, report);
  if (report.untraced_waits != 0)
    text += "  waits whose records are not known: " + std::to_string(report.untraced_waits) + "\n";
  return text;
}

} // namespace watch
