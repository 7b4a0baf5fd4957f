// SPDX-License-Identifier: MIT
// A report as a picture of who waits for whom.
#include "core/name_text.hpp"
#include "recording/flight_analysis.hpp"

#include <algorithm>
#include <cstdio>

namespace cuevent {

namespace {

using Kind = FlightFinding::Kind;

// All lengths are in px.
constexpr int width = 1000, margin = 20, top = 70, row = 74, box_height = 50;
constexpr int box_left = 140;             // the arrows are on the left of the boxes
constexpr std::size_t longest_line = 110; // in bytes

constexpr const char* style = R"(<style>
text { font: 13px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328; }
.name { font-weight: 600; }
.quiet { fill: #59636e; }
.paper { fill: #ffffff; }
.idle { fill: #f3f5f7; }
.running { fill: #dbeafe; }
.waiting { fill: #fdf1d3; }
.cause { stroke: #cf222e; stroke-width: 2; }
.wait { stroke: #59636e; stroke-width: 1.4; fill: none; }
.head { fill: #59636e; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .quiet { fill: #9aa4af; } .paper { fill: #0d1117; } .idle { fill: #161b22; }
.running { fill: #12305c; } .waiting { fill: #4a3510; } .cause { stroke: #f85149; }
.wait { stroke: #9aa4af; } .head { fill: #9aa4af; }
}
</style>
<defs>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path class="head" d="M0 0L8 4L0 8z"/></marker>
</defs>
)";

std::string markup(const std::string& text) {
  if (text.size() <= longest_line) return xml_text(text);
  return xml_text(beginning(text, longest_line - 2)) + "..";
}

std::string text_at(int x, int y, const char* kind, const std::string& text) {
  char begin[80];
  std::snprintf(begin, sizeof begin, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, kind);
  return begin + markup(text) + "</text>\n";
}

int top_of(std::size_t stream) { return top + row * static_cast<int>(stream); }

std::string box_of(const FlightReport& report, std::size_t index) {
  const FlightStream& stream = report.streams[index];
  const bool is_cause =
      !report.findings.empty() &&
      std::any_of(report.findings.front().streams.begin(), report.findings.front().streams.end(),
                  [&](std::size_t each) { return each == index; });
  const char* const state = stream.state == FlightState::idle      ? "idle"
                            : stream.state == FlightState::running ? "running"
                                                                   : "waiting";
  const int y = top_of(index);
  char box[160];
  std::snprintf(box, sizeof box,
                "<rect class=\"%s%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", state,
                is_cause ? " cause" : "", box_left, y, width - margin - box_left, box_height);
  std::string line = state;
  if (stream.state == FlightState::running) line += ", before " + place_text(stream);
  if (stream.state == FlightState::running && stream.next) line += submitted_text(*stream.next);
  if (stream.state == FlightState::waiting) line += " at " + place_text(stream);
  for (const FlightWait& wait : stream.waits)
    line += (&wait == stream.waits.data() ? " for " : " and ") + wait.what;
  return box + text_at(box_left + 12, y + 20, "name", stream.name) +
         text_at(box_left + 12, y + 39, "quiet", line);
}

/// An arc on the left, from the stream that waits to the stream that it waits for.
std::string arrow(std::size_t from, std::size_t to) {
  const int y1 = top_of(from) + box_height / 2 - (from < to ? -6 : 6);
  const int y2 = top_of(to) + box_height / 2 - (from < to ? 6 : -6);
  const int bend = std::max(margin, box_left - 30 - 12 * std::abs(y2 - y1) / row);
  char path[160];
  std::snprintf(path, sizeof path,
                "<path class=\"wait\" marker-end=\"url(#head)\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n", box_left,
                y1, bend, y1, bend, y2, box_left - 1, y2);
  return path;
}

} // namespace

std::string to_svg(const FlightReport& report) {
  const int height = top_of(report.streams.size()) + margin;
  const std::string heading =
      report.findings.empty() ? "nothing is pending" : heading_text(report.findings.front());
  char begin[200];
  std::snprintf(begin, sizeof begin,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                "role=\"img\">\n",
                width, height, width, height);
  char paper[80];
  std::snprintf(paper, sizeof paper, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, height);
  std::string text = begin;
  text += "<title>" + markup(heading) + "</title>\n" + style + paper;
  text += text_at(margin, 34, "name", heading);
  for (std::size_t i = 0; i < report.streams.size(); ++i)
    text += box_of(report, i);
  for (std::size_t i = 0; i < report.streams.size(); ++i)
    for (const FlightWait& wait : report.streams[i].waits)
      if (wait.stream) text += arrow(i, *wait.stream);
  return text + "</svg>\n";
}

} // namespace cuevent
