// SPDX-License-Identifier: MIT
// Binary code: ELF files of kernel compilers, and fat binaries, which hold several of them, and PTX.
#pragma once

#include "bytes.hpp"
#include "code_image.hpp"

#include <string_view>

namespace cuevent::sim {

bool is_binary(std::string_view image);

/// The code for the simulated device. Throws Refusal if there is none.
CodeImage read_binary(const Bytes&);

} // namespace cuevent::sim
