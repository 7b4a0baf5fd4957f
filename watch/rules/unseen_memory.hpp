// SPDX-License-Identifier: MIT
// Memory that the rules of the order do not compare.
#pragma once

namespace watch {

/// Counts of copies and fills.
struct UnseenMemory {
  unsigned long unknown = 0; // of memory that no watched call has made, and the driver does not know
  unsigned long arrays = 0;  // from or to arrays
};

} // namespace watch
