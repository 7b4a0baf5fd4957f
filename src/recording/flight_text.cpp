// SPDX-License-Identifier: MIT
// A report as text for people.
#include "core/name_text.hpp"
#include "recording/flight_analysis.hpp"

#include <algorithm>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr std::size_t longest_chain = 4; // waits in one line

std::string sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() += 'A' - 'a';
  return text + ".\n";
}

/// "stream 'compute' waits at 'step 18' for 'all_reduce 17' on stream 'comm', which was submitted 31.2 s ago
/// and has not finished". Follows the first wait of each stream. Each stream has a line, so the
/// text of a long chain ends early.
std::string chain_from(const FlightReport& report, std::size_t stream) {
  std::vector<std::size_t> seen;
  std::string text = "stream '" + report.streams[stream].name + "'";
  for (std::size_t at = stream;;) {
    if (seen.size() == longest_chain) return text + " also waits";
    seen.push_back(at);
    const FlightStream& waiting = report.streams[at];
    const FlightWait& wait = waiting.waits.front();
    text += " waits at " + place_text(waiting) + " for " + wait.what;
    if (!wait.stream) return text + ", which no stream known to the recorder signals";
    at = *wait.stream;
    const FlightStream& other = report.streams[at];
    text += " on stream '" + other.name + "'";
    if (std::find(seen.begin(), seen.end(), at) != seen.end()) return text + ": a deadlock";
    if (other.state != FlightState::waiting) {
      const std::string submitted = other.next ? submitted_text(*other.next) : std::string();
      return text.append(submitted).append(submitted.empty() ? ", which has not finished"
                                                             : " and has not finished");
    }
    text += ", which";
  }
}

/// "(last reached 'step 17'; pending marks: 3)", or nothing.
std::string details_of(const FlightStream& stream) {
  std::string text;
  const auto add = [&](const std::string& detail) { text += (text.empty() ? " (" : "; ") + detail; };
  const bool is_pending = stream.state == FlightState::running || stream.state == FlightState::waiting;
  if (is_pending && stream.reached) add("last reached '" + stream.reached->name + "'");
  if (stream.pending > 1) add("pending marks: " + std::to_string(stream.pending));
  if (stream.dropped != 0) add("dropped marks: " + std::to_string(stream.dropped));
  if (!stream.exact) add("as of an earlier look, because the driver does not answer");
  return text.empty() ? text : text + ")";
}

std::string line_of(const FlightReport& report, std::size_t index) {
  const FlightStream& stream = report.streams[index];
  std::string text = "stream '" + stream.name + "' is";
  if (stream.state == FlightState::waiting)
    text = chain_from(report, index);
  else if (stream.state == FlightState::ended)
    text = "stream '" + stream.name + "' has ended, because its context was destroyed or reset";
  else if (stream.state == FlightState::running)
    text += " before " + place_text(stream) + (stream.next ? submitted_text(*stream.next) : std::string());
  else if (stream.state == FlightState::unknown)
    text += " perhaps before " + place_text(stream);
  else
    text += stream.reached ? " idle after '" + stream.reached->name + "'" : std::string(" idle");
  return "  " + printable(text + details_of(stream)) + "\n";
}

} // namespace

std::string to_text(const FlightReport& report) {
  std::string text;
  for (const FlightFinding& each : report.findings) {
    text += sentence(printable(text.empty() ? heading_text(each) : "also: " + each.text));
    if (each.held_up == 1) text += "1 other stream waits for this.\n";
    if (each.held_up > 1) text += std::to_string(each.held_up) + " other streams wait for this.\n";
  }
  if (text.empty()) text = "Nothing is pending.\n";
  for (std::size_t i = 0; i < report.streams.size(); ++i)
    text += line_of(report, i);
  if (report.untraced_waits != 0)
    text += "  waits that could not be traced to a record: " + std::to_string(report.untraced_waits) + "\n";
  return text;
}

}} // namespace cuevent::CUEVENT_ABI
