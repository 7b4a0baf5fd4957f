// SPDX-License-Identifier: MIT
#pragma once

#include "bytes.hpp"
#include "code_image.hpp"

#include <string>

namespace cuevent::sim {

struct ElfImage {
  CodeImage code;
  int target = 0;           ///< 90 for sm_90
  bool relocatable = false; ///< for a linker, and not for a device
};

/// Throws Damaged.
ElfImage read_elf(const Bytes&);

/// A file that read_elf understands, with kernels that have no instructions.
std::string write_elf(const ElfImage&);

} // namespace cuevent::sim
