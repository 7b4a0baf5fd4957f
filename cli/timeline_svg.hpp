// SPDX-License-Identifier: MIT
// A timeline as a picture: a self-contained SVG file, 1,000 px wide, for light and dark pages.
#pragma once

#include "timeline.hpp"

#include <cstddef>
#include <string>

namespace cli {

/// Draws the first `runs` runs in the report, counted by the stage that begins first, and
/// everything that happens during that time.
std::string timeline_svg(const Recording& recording, const Timeline& timeline, std::size_t runs);

} // namespace cli
