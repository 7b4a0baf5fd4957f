// SPDX-License-Identifier: MIT
#include "watch/elf_file.hpp"

#include <cstring>
#include <elf.h>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace cli {

namespace {

constexpr std::uint64_t longest_part = 256U << 20U; // of one that is read

template <class T>
std::vector<T> read(std::ifstream& file, std::uint64_t offset, std::uint64_t count) {
  if (count > longest_part / sizeof(T)) throw std::runtime_error("too large");
  std::vector<T> read(count);
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(reinterpret_cast<char*>(read.data()), static_cast<std::streamsize>(count * sizeof(T))))
    throw std::runtime_error("too short");
  return read;
}

/// Where the file has what will be at this address.
std::uint64_t offset_of(const std::vector<Elf64_Phdr>& parts, std::uint64_t address) {
  for (const Elf64_Phdr& part : parts)
    if (part.p_type == PT_LOAD && address >= part.p_vaddr && address - part.p_vaddr < part.p_filesz)
      return address - part.p_vaddr + part.p_offset;
  throw std::runtime_error("an address that the file does not have");
}

ElfFile read_all(std::ifstream& file) {
  const Elf64_Ehdr header = read<Elf64_Ehdr>(file, 0, 1).front();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    throw std::runtime_error("another kind of file");
  const auto parts = read<Elf64_Phdr>(file, header.e_phoff, header.e_phnum);
  ElfFile found;
  std::uint64_t storage = 0;
  for (const Elf64_Phdr& part : parts) {
    if (part.p_type == PT_TLS) storage = part.p_memsz + part.p_align;
    if (part.p_type == PT_INTERP && part.p_filesz > 0) {
      const auto text = read<char>(file, part.p_offset, part.p_filesz);
      found.loader.assign(text.begin(), text.end() - 1);
    }
    if (part.p_type != PT_DYNAMIC) continue;
    std::uint64_t names = 0, length = 0;
    for (const auto& entry : read<Elf64_Dyn>(file, part.p_offset, part.p_filesz / sizeof(Elf64_Dyn))) {
      if (entry.d_tag == DT_STRTAB) names = offset_of(parts, entry.d_un.d_ptr);
      if (entry.d_tag == DT_STRSZ) length = entry.d_un.d_val;
      if (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_STATIC_TLS) != 0) found.static_storage = 1;
    }
    const auto text = read<char>(file, names, length);
    found.names.assign(text.begin(), text.end());
  }
  found.static_storage *= storage;
  return found;
}

} // namespace

bool ElfFile::has_name(const std::string& name) const {
  return names.find('\0' + name + '\0') != std::string::npos;
}

std::optional<ElfFile> read_elf_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  try {
    return read_all(file);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

} // namespace cli
