// SPDX-License-Identifier: MIT
// Where the parameters of kernels are, as the driver tells, asked once for each kernel.
#pragma once

#include "auditor/libraries.hpp"
#include "auditor/lock.hpp"

#include <atomic>
#include <cstdint>

namespace watch {

struct Parameter {
  std::uint16_t offset, size; // in bytes
};

/// Parameters never move, so that readers need no lock.
struct KernelParameters {
  /// `where` is where they begin + 2^24 times their count + 2^40 times the generation.
  struct Place {
    std::atomic<std::uint64_t> function, where;
  };

  Lock lock;
  std::atomic<std::uint32_t> used, generation;
  Place places[1U << 14]; // by a hash of the function
  Parameter all[1U << 20];
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
