// SPDX-License-Identifier: MIT
// A timeline as a picture: SVG that needs nothing else, 1,000 px wide, for light and dark pages.
#pragma once

#include "timeline.hpp"

#include <cstddef>
#include <string>

namespace cli {

/// Draws the first `runs` runs, among those in the report, of the stage that begins first, and all
/// that happens meanwhile.
std::string timeline_svg(const Recording& recording, const Timeline& timeline, std::size_t runs);

} // namespace cli
