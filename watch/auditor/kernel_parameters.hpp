// SPDX-License-Identifier: MIT
// Where the parameters of kernels are, as the driver tells, asked once for each kernel.
#pragma once

#include "auditor/libraries.hpp"

namespace watch {

struct Parameter {
  std::uint16_t offset, size; // in bytes
};

struct Parameters {
  bool known = false;
  std::uint32_t count = 0;
  const Parameter* first = nullptr;
};

/// After a successful launch of it, so that the driver knows the handle.
[[gnu::hot]] Parameters parameters_of(const Library& library, CUfunction function);

/// Code was unloaded, and its handles may be used again.
void forget_parameters();

} // namespace watch
