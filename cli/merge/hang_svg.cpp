// SPDX-License-Identifier: MIT
// A square for each rank, in the colour of its group. Culprits have a frame.
#include "merge/hang_merge.hpp"

#include "core/name_text.hpp"
#include "core/svg_picture.hpp"

#include <algorithm>
#include <cmath>

namespace cli {

namespace {

using cuevent::xml_text;

// All lengths are in px.
constexpr double width = 1000, margin = 20, top = 88, line = 22;
constexpr std::size_t colours = 8, culprits_drawn = 8, longest_line = 140; // in bytes

constexpr std::string_view style = R"(.title { font-size: 16px; font-weight: 600; }
.none { fill: none; stroke: #9aa4af; stroke-dasharray: 3 2; }
.culprit { fill: none; stroke: #cf222e; stroke-width: 3; }
.c0 { fill: #9cc5f7; } .c1 { fill: #f5c27a; } .c2 { fill: #93d6a3; } .c3 { fill: #f2a7b5; }
.c4 { fill: #c9b1f2; } .c5 { fill: #86d4d3; } .c6 { fill: #e6d774; } .c7 { fill: #d3bda4; }
)";
constexpr std::string_view dark_style = R"(.culprit { stroke: #f85149; }
.c0 { fill: #1f5fa8; } .c1 { fill: #8f5a12; } .c2 { fill: #246b38; } .c3 { fill: #97404f; }
.c4 { fill: #6543a8; } .c5 { fill: #1b6e6c; } .c6 { fill: #6f5f0c; } .c7 { fill: #6b5540; }
)";

std::string markup(const std::string& text) {
  return xml_text(
      text.size() <= longest_line ? text : std::string(cuevent::beginning(text, longest_line - 2)) + "..");
}

} // namespace

std::string hang_svg(const HangJob& job, const HangVerdict& verdict, const std::vector<HangGroup>& groups) {
  struct Square {
    std::string name, kind = "none";
    bool is_culprit = false;
  };
  std::vector<Square> squares(job.size); // those without a rank come after the ranks
  std::vector<std::size_t> square_of(job.reports.size());
  for (std::size_t i = 0; i < job.size; ++i)
    squares[i].name = "rank " + std::to_string(i) + ": no report";
  for (std::size_t i = 0; i < job.reports.size(); ++i) {
    square_of[i] = job.reports[i].rank ? *job.reports[i].rank : squares.size();
    if (square_of[i] == squares.size()) squares.emplace_back();
  }
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (const std::size_t each : groups[i].ranks) {
      Square& square = squares[square_of[each]];
      square.name = job.name_of(each) + ": " + groups[i].what;
      square.kind = "c" + std::to_string(i % colours);
    }
  for (const HangCulprit& each : verdict.culprits) {
    Square& square = squares[square_of[each.report]];
    square.name = job.name_of(each.report) + " " + each.what;
    square.is_culprit = true;
  }

  cuevent::SvgPicture picture;
  std::vector<std::size_t> blamed;
  for (const HangCulprit& each : verdict.culprits)
    blamed.push_back(each.report);
  const std::string title =
      blamed.empty() ? "No rank is to blame" : "Others wait for " + ranks_text(job, blamed);
  picture.text("title", margin, 34, markup(title));
  picture.text("quiet", margin, 54,
               std::to_string(job.reports.size()) + " reports, " + std::to_string(job.size) + " ranks");
  const double count = static_cast<double>(std::max<std::size_t>(squares.size(), 1));
  const double side = std::clamp(std::floor(std::sqrt((width - 2 * margin) * 500 / count)), 6.0, 44.0);
  const auto columns = static_cast<std::size_t>((width - 2 * margin) / side);
  const double gap = side > 12 ? 2 : 1;
  double y = top;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const std::size_t row = i / columns;
    const double x = margin + side * static_cast<double>(i % columns);
    y = top + side * static_cast<double>(row);
    picture.rectangle(squares[i].kind, x, y, side - gap, side - gap, 2, xml_text(squares[i].name));
    if (squares[i].is_culprit) picture.rectangle("culprit", x, y, side - gap, side - gap, 2);
    if (side >= 28) picture.text("", x + 6, y + side / 2 + 3, std::to_string(i));
  }
  y += side + 28;
  for (std::size_t i = 0; i < groups.size(); ++i, y += line) {
    picture.rectangle("c" + std::to_string(i % colours), margin, y - 11, 14, 14, 2);
    picture.text("", margin + 22, y, markup(groups[i].what + ": " + ranks_text(job, groups[i].ranks)));
  }
  for (std::size_t i = 0; i < std::min(verdict.culprits.size(), culprits_drawn); ++i, y += line) {
    const HangCulprit& each = verdict.culprits[i];
    const auto& threads = job.reports[each.report].threads;
    picture.rectangle("culprit", margin + 1, y - 10, 12, 12, 2);
    picture.text("", margin + 22, y, markup(job.name_of(each.report) + " " + each.what));
    if (threads.empty()) continue;
    y += line;
    picture.text("quiet", margin + 22, y, markup(thread_text(threads.front())));
  }
  return picture.svg(width, y + margin, xml_text(title), style, dark_style);
}

} // namespace cli
