// SPDX-License-Identifier: MIT
#pragma once

#include "bytes.hpp"
#include "code_image.hpp"

#include <string>

namespace cuevent::sim {

struct ElfImage {
  CodeImage code;
  int target = 0; ///< 90 for sm_90
};

/// Whether the file is of a kernel compiler, and its table of sections is not empty and can be read. True for
/// other files. Throws Damaged if there is no head.
bool elf_has_sections(const Bytes&);

/// Throws Damaged if the file is no ELF file.
bool elf_is_for_a_device(const Bytes&);

/// Throws Damaged.
ElfImage read_elf(const Bytes&);

/// The content of a section of any file; nothing if there is no such section. Throws Damaged.
std::string section_of(const Bytes&, const std::string& name);

/// A file that read_elf understands, with kernels that have no instructions.
std::string write_elf(const ElfImage&);

} // namespace cuevent::sim
