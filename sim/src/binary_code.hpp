// SPDX-License-Identifier: MIT
// Binary code: ELF files of kernel compilers, and fat binaries, which hold several of them, and PTX.
#pragma once

#include "bytes.hpp"
#include "code_image.hpp"
#include "cuda_headers.hpp"

#include <string_view>
#include <vector>

namespace cuevent::sim {

bool is_binary(std::string_view image);

/// The code for the simulated device, and CUDA_SUCCESS; or what a device says of the bytes.
CUresult read_binary(const Bytes&, CodeImage&);

/// What a linker finds in an object of the host with device code inside, or in a file of a kernel compiler:
/// no, one or several pieces of code. Throws Damaged, or what a device refuses.
std::vector<CodeImage> read_object(std::string_view);

/// Whether an ELF file has its table of sections. A library is refused at once without. True for other files.
bool has_sections(const Bytes&);

} // namespace cuevent::sim
