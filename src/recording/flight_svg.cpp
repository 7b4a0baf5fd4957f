// SPDX-License-Identifier: MIT
// A report as a picture of who waits for whom.
#include "core/name_text.hpp"
#include "core/svg_picture.hpp"
#include "recording/flight_analysis.hpp"

#include <algorithm>
#include <cmath>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

// All lengths are in px.
constexpr double width = 1000, margin = 20, top = 70, row = 74, box_height = 50;
constexpr double box_left = 140;          // the arrows are on the left of the boxes
constexpr std::size_t longest_line = 110; // in bytes

constexpr const char* style = R"(.name { font-weight: 600; }
.idle, .ended, .unknown { fill: #f3f5f7; }
.running { fill: #dbeafe; }
.waiting { fill: #fdf1d3; }
.cause { stroke: #cf222e; stroke-width: 2; }
)";
constexpr const char* dark_style = R"(.idle, .ended, .unknown { fill: #161b22; }
.running { fill: #12305c; }
.waiting { fill: #4a3510; }
.cause { stroke: #f85149; }
)";

std::string markup(const std::string& text) {
  if (text.size() <= longest_line) return xml_text(text);
  return xml_text(beginning(text, longest_line - 2)) + "..";
}

double top_of(std::size_t stream) { return top + row * static_cast<double>(stream); }

void draw_box(SvgPicture& picture, const FlightReport& report, std::size_t index) {
  const FlightStream& stream = report.streams[index];
  const bool is_cause =
      !report.findings.empty() &&
      std::any_of(report.findings.front().streams.begin(), report.findings.front().streams.end(),
                  [&](std::size_t each) { return each == index; });
  const std::string state = stream.state == FlightState::idle      ? "idle"
                            : stream.state == FlightState::running ? "running"
                            : stream.state == FlightState::ended   ? "ended"
                            : stream.state == FlightState::unknown ? "unknown"
                                                                   : "waiting";
  const double y = top_of(index);
  picture.rectangle(is_cause ? state + " cause" : state, box_left, y, width - margin - box_left, box_height,
                    6);
  std::string line = state;
  if (stream.state == FlightState::running) line += ", before " + place_text(stream);
  if (stream.state == FlightState::running && stream.next) line += submitted_text(*stream.next);
  if (stream.state == FlightState::unknown) line += ", perhaps before " + place_text(stream);
  if (stream.state == FlightState::ended) line += " with its context";
  if (stream.state == FlightState::waiting) line += " at " + place_text(stream);
  for (const FlightWait& wait : stream.waits)
    line += (&wait == stream.waits.data() ? " for " : " and ") + wait.what;
  picture.text("name", box_left + 12, y + 20, markup(stream.name));
  picture.text("quiet", box_left + 12, y + 39, markup(line));
}

/// An arc on the left, from the stream that waits to the stream that it waits for.
void draw_arrow(SvgPicture& picture, std::size_t from, std::size_t to) {
  const double y1 = top_of(from) + box_height / 2 - (from < to ? -6 : 6);
  const double y2 = top_of(to) + box_height / 2 - (from < to ? 6 : -6);
  const double bend = std::max(margin, box_left - 30 - 12 * std::abs(y2 - y1) / row);
  picture.line("arrow", {box_left, y1, bend, y1, bend, y2, box_left - 1, y2});
}

} // namespace

std::string to_svg(const FlightReport& report) {
  const std::string heading =
      markup(report.findings.empty() ? "nothing is pending" : heading_text(report.findings.front()));
  SvgPicture picture;
  picture.text("name", margin, 34, heading);
  for (std::size_t i = 0; i < report.streams.size(); ++i)
    draw_box(picture, report, i);
  for (std::size_t i = 0; i < report.streams.size(); ++i)
    for (const FlightWait& wait : report.streams[i].waits)
      if (wait.stream) draw_arrow(picture, i, *wait.stream);
  return picture.svg(width, top_of(report.streams.size()) + margin, heading, style, dark_style);
}

}} // namespace cuevent::CUEVENT_ABI
