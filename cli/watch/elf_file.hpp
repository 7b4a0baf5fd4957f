// SPDX-License-Identifier: MIT
// What the file of a program or library says to the loader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cli {

struct ElfFile {
  std::string loader;               // empty for libraries and programs that are linked statically
  std::string names;                // of its symbols and of the libraries that it needs, each with its end
  std::uint64_t static_storage = 0; // bytes of thread-local variables that need a place from the start

  bool has_name(const std::string& name) const;
};

/// Nothing if it is not such a file for 64-bit machines, or damaged.
std::optional<ElfFile> read_elf_file(const std::string& path);

} // namespace cli
