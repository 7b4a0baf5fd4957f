// SPDX-License-Identifier: MIT
#include "merge/timeline_picture.hpp"

#include "core/name_text.hpp"
#include "core/svg_picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string_view>

namespace cli {

namespace {

using cuevent::DeviceTime;
using cuevent::xml_text;

// All lengths are in px.
constexpr double width = 1000, margin = 20, gutter = 110; // the gutter has the names of the tracks
constexpr double left = margin + gutter, right = width - margin;
constexpr double top = 88, row = 26, gap = 34, legend_row = 22; // the gaps have the arrows
constexpr double em = 0.62 * cuevent::SvgPicture::font_size;    // no usual font has a wider average character

constexpr std::string_view style = R"(.title { font-size: 16px; font-weight: 600; }
.number { text-anchor: end; font-variant-numeric: tabular-nums; }
.tick { text-anchor: middle; }
.lane { fill: #f3f5f7; }
.grid { stroke: #dde1e6; }
.s0 { fill: #9cc5f7; } .s1 { fill: #f5c27a; } .s2 { fill: #93d6a3; } .s3 { fill: #f2a7b5; }
.s4 { fill: #c9b1f2; } .s5 { fill: #86d4d3; } .s6 { fill: #e6d774; } .s7 { fill: #d3bda4; }
)";
constexpr std::string_view dark_style = R"(.lane { fill: #161b22; }
.grid { stroke: #2b323b; }
.s0 { fill: #1f5fa8; } .s1 { fill: #8f5a12; } .s2 { fill: #246b38; } .s3 { fill: #97404f; }
.s4 { fill: #6543a8; } .s5 { fill: #1b6e6c; } .s6 { fill: #6f5f0c; } .s7 { fill: #6b5540; }
)";
constexpr std::size_t colours = 8;

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char text[512];
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

/// Cuts the text to this width. Dots replace the rest. Counts bytes: in UTF-8, wide characters have three.
std::string shortened(const std::string& text, double px) {
  const auto most = static_cast<std::size_t>(std::max(3.0, px / em));
  return text.size() <= most ? text : std::string(cuevent::beginning(text, most - 2)) + "..";
}

struct Unit {
  const char* name;
  double nanoseconds;
};
Unit unit_for(DeviceTime time) {
  if (time.count() >= 1e9) return {"s", 1e9};
  if (time.count() >= 1e6) return {"ms", 1e6};
  return {"&#181;s", 1e3};
}

/// "297 us", with three significant digits.
std::string duration_text(DeviceTime time) {
  const Unit unit = unit_for(time);
  const double value = time.count() / unit.nanoseconds;
  return format("%.*f %s", value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value, unit.name);
}
/// Counts characters. An entity is one character.
std::size_t duration_length(const std::string& text) {
  return text.find('&') == std::string::npos ? text.size() : text.size() - 5;
}

class Picture {
public:
  Picture(const Timeline& timeline, const PictureFrame& frame)
      : timeline_(timeline), frame_(frame), begin_(frame.begin), end_(frame.end) {
    double y = top;
    for (const Track& track : timeline.tracks) {
      unsigned depth = 0;
      for (const Slice& slice : track.slices)
        if (is_seen(slice)) depth = std::max(depth, slice.depth);
      lanes_.push_back({y, row * (depth + 1)});
      y += row * (depth + 1) + gap;
    }
    bottom_ = y - gap;
  }

  std::string text() {
    heading();
    axis();
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      track(i);
    for (const Arrow& arrow : timeline_.arrows)
      draw(arrow);
    const double end = legend(bottom_ + 40) + margin;
    return picture_.svg(width, end, xml_text(frame_.title), style, dark_style);
  }

private:
  struct Lane {
    double y, height;
  };

  bool is_seen(const Slice& slice) const { return slice.end > begin_ && slice.begin < end_; }
  double x(DeviceTime time) const {
    const double share = end_ > begin_ ? (time - begin_) / (end_ - begin_) : 0;
    return left + std::clamp(share, 0.0, 1.0) * (right - left);
  }

  void heading() {
    picture_.text("title", margin, 34, xml_text(shortened(frame_.title, (width - 2 * margin) * 12 / 16)));
    picture_.text("quiet", margin, 54, frame_.subtitle);
  }

  void axis() {
    // The step is 1, 2 or 5 times a power of ten, and at least about 100 px.
    const double least = (end_ - begin_).count() * 100 / (right - left);
    double step = std::pow(10, std::floor(std::log10(std::max(least, 1.0))));
    step *= step >= least ? 1 : 2 * step >= least ? 2 : 5 * step >= least ? 5 : 10;
    const Unit unit = unit_for(DeviceTime(step * 2));
    for (int i = 0; i * step <= (end_ - begin_).count(); ++i) {
      const double at = x(begin_ + DeviceTime(i * step));
      picture_.line("grid", {at, top - 6, at, bottom_ + 6});
      // A label in the middle of the last line would leave the picture.
      const bool last = at > right - 24;
      picture_.text(last ? "number quiet" : "tick quiet", last ? right : at, top - 10,
                    format("%g %s", i * step / unit.nanoseconds, unit.name));
    }
  }

  static std::string colour(const Slice& slice) {
    return format("s%zu", static_cast<std::size_t>(slice.stage) % colours);
  }

  void track(std::size_t index) {
    const Lane& lane = lanes_[index];
    const Track& track = timeline_.tracks[index];
    picture_.rectangle("lane", left, lane.y, right - left, lane.height);
    picture_.text("", margin, lane.y + row / 2 + 4, xml_text(shortened(track.name, gutter - 8)));
    for (const Slice& slice : track.slices) {
      if (!is_seen(slice)) continue;
      const double from = x(slice.begin), to = x(slice.end), y = lane.y + row * slice.depth;
      const std::string time = duration_text(slice.end - slice.begin);
      const std::string name = xml_text(slice.name);
      std::string both = name;
      both.append(", ").append(time);
      picture_.rectangle(colour(slice), from, y + 1, to - from > 3 ? to - from - 1 : std::max(to - from, 0.5),
                         row - 2, 0, both);
      const auto fits = [&](std::size_t characters) {
        return static_cast<double>(characters) * em + 10 <= to - from;
      };
      if (fits(slice.name.size() + 2 + duration_length(time)))
        picture_.text("", from + 5, y + row / 2 + 4, both);
      else if (fits(slice.name.size()))
        picture_.text("", from + 5, y + row / 2 + 4, name);
    }
  }

  /// Draws from the edge of one slice to the edge of the other.
  void draw(const Arrow& arrow) {
    if (arrow.from.time < begin_ || arrow.to.time >= end_ || arrow.from.track == arrow.to.track) return;
    const bool down = arrow.from.track < arrow.to.track;
    const auto y = [&](const Arrow::End& end, bool lower) {
      const Slice& slice = timeline_.tracks[end.track].slices[end.slice];
      return lanes_[end.track].y + row * slice.depth + (lower ? row : 0);
    };
    const double x1 = x(arrow.from.time), y1 = y(arrow.from, down);
    const double x2 = x(arrow.to.time), y2 = y(arrow.to, !down);
    const double bend = (y2 - y1) / 2;
    picture_.line("arrow", {x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2});
  }

  /// Draws the table of the stages and the legend. Returns the y where it ends.
  double legend(double y) {
    constexpr double name_x = margin + 22;
    picture_.text("quiet", name_x, y, "stage");
    for (const PictureFrame::Column& column : frame_.columns)
      picture_.text("quiet number", column.right, y, xml_text(column.name));
    for (std::size_t i = 0; i < frame_.rows.size(); ++i) {
      const PictureFrame::Row& row_of_stage = frame_.rows[i];
      y += legend_row;
      picture_.rectangle(format("s%zu", i % colours), margin, y - 11, 14, 14, 2);
      picture_.text("", name_x, y,
                    xml_text(shortened(row_of_stage.name, frame_.columns.front().right - name_x - 80)));
      for (std::size_t j = 0; j < row_of_stage.markup.size(); ++j)
        picture_.text("number", frame_.columns[j].right, y, row_of_stage.markup[j]);
    }
    y += legend_row + 6;
    picture_.line("arrow", {margin, y - 4, margin + 14, y - 4});
    picture_.text("quiet", name_x, y, "one stream waits for another");
    return y;
  }

  const Timeline& timeline_;
  const PictureFrame& frame_;
  const DeviceTime begin_, end_;
  std::vector<Lane> lanes_;
  double bottom_ = 0;
  cuevent::SvgPicture picture_;
};

} // namespace

std::string duration_markup(DeviceTime time) { return duration_text(time); }

std::string picture(const Timeline& timeline, const PictureFrame& frame) {
  return Picture(timeline, frame).text();
}

} // namespace cli
