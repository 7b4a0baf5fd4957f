// SPDX-License-Identifier: MIT
// Draws tracks of slices as a self-contained SVG file, 1,000 px wide, for light and dark pages.
#pragma once

#include "merge/timeline.hpp"

#include <string>
#include <vector>

namespace cli {

/// What the picture shows around the tracks.
struct PictureFrame {
  /// A column of the table below the tracks.
  struct Column {
    std::string name;
    double right; // its right edge, in px
  };
  struct Row {
    std::string name;
    std::vector<std::string> markup; // one text for each column
  };

  std::string title{};
  std::string subtitle{}; // markup
  cuevent::DeviceTime begin{}, end{};
  std::vector<Column> columns{}; // at least one
  std::vector<Row> rows{};       // by Slice::stage
};

/// "297 us", with three significant digits, as markup.
std::string duration_markup(cuevent::DeviceTime time);

std::string picture(const Timeline& timeline, const PictureFrame& frame);

} // namespace cli
