// SPDX-License-Identifier: MIT
// Lines and inlined functions, as the debug information tells.
#pragma once

#include "report/symbols.hpp"

#include <elfutils/libdwfl.h>
#include <vector>

namespace watch {

/// The frames of one return address, the innermost first. `frame` is the function that has a symbol there. It
/// becomes the last frame, with the line at which it calls or inlines.
std::vector<SourceFrame> source_frames(Dwfl_Module* module, SourceFrame frame);

} // namespace watch
