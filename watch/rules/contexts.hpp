// SPDX-License-Identifier: MIT
// The contexts that calls end, with all their objects.
#pragma once

#include "rules/objects.hpp"

#include <unordered_map>

namespace watch {

class Contexts {
public:
  /// Takes the next call of the process. Returns the context that ends with it, or 0.
  Handle ended_by(const Call& call);

private:
  struct Primary {
    Handle context = 0;
    unsigned retained = 0;
  };

  std::unordered_map<std::uint64_t, Primary> primary_; // by device
};

} // namespace watch
