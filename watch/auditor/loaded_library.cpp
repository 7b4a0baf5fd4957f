// SPDX-License-Identifier: MIT
#include "auditor/loaded_library.hpp"

#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace watch {

namespace {

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
};

Tables tables_of(const link_map& library) {
  Tables tables;
  for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
    // The loader has made these addresses absolute, except on machines where the table is read-only.
    const ElfW(Addr) address =
        entry->d_un.d_ptr < library.l_addr ? library.l_addr + entry->d_un.d_ptr : entry->d_un.d_ptr;
    const auto* const place = reinterpret_cast<const void*>(address);
    if (entry->d_tag == DT_SYMTAB) tables.symbols = static_cast<const ElfW(Sym)*>(place);
    if (entry->d_tag == DT_STRTAB) tables.strings = static_cast<const char*>(place);
    if (entry->d_tag == DT_GNU_HASH) tables.gnu_hash = static_cast<const std::uint32_t*>(place);
  }
  return tables;
}

std::uint32_t hash_of(const char* text, std::uint32_t hash = 5381) {
  for (; *text != '\0'; ++text)
    hash = hash * 33 + static_cast<unsigned char>(*text);
  return hash;
}

/// Shows the symbols with this name, one for each version, until one is wanted.
template <class IsWanted>
    const ElfW(Sym) *
    find_symbol(const link_map& library, const char* name, const char* suffix, IsWanted is_wanted) {
  if (suffix == nullptr) suffix = "";
  const Tables tables = tables_of(library);
  if (tables.symbols == nullptr || tables.strings == nullptr || tables.gnu_hash == nullptr) return nullptr;
  const std::uint32_t buckets = tables.gnu_hash[0], first = tables.gnu_hash[1], words = tables.gnu_hash[2];
  const std::uint32_t* const bucket = tables.gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / 4);
  const std::uint32_t* const chain = bucket + buckets;
  const std::uint32_t hash = hash_of(suffix, hash_of(name));
  const std::size_t length = std::strlen(name);
  if (buckets == 0) return nullptr;
  std::uint32_t index = bucket[hash % buckets];
  if (index < first) return nullptr;
  for (;; ++index) {
    const std::uint32_t other = chain[index - first];
    const ElfW(Sym)& symbol = tables.symbols[index];
    const char* const text = tables.strings + symbol.st_name;
    if ((other | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF && std::strncmp(text, name, length) == 0 &&
        std::strcmp(text + length, suffix) == 0 && is_wanted(symbol))
      return &symbol;
    if ((other & 1) != 0) return nullptr;
  }
}

const ElfW(Sym) * symbol_of(const link_map& library, const char* name, const char* suffix) {
  return find_symbol(library, name, suffix, [](const ElfW(Sym)&) { return true; });
}

/// Whether the address is in a part of the library without code: changing its protection for a moment
/// disturbs nobody, and a system that forbids changed code does not mind.
bool is_without_code(const link_map& library, ElfW(Addr) address) {
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(library.l_addr);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
  const auto* const parts = reinterpret_cast<const ElfW(Phdr)*>(library.l_addr + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; ++i)
    if (const ElfW(Addr) begin = library.l_addr + parts[i].p_vaddr;
        parts[i].p_type == PT_LOAD && address >= begin && address < begin + parts[i].p_memsz)
      return (parts[i].p_flags & PF_X) == 0;
  return false;
}

} // namespace

const char* linked_name(const link_map& library) {
  const Tables tables = tables_of(library);
  for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_SONAME && tables.strings != nullptr) return tables.strings + entry->d_un.d_val;
  return nullptr;
}

void* exported_function(const link_map& library, const char* name, const char* suffix) {
  const ElfW(Sym)* const symbol = symbol_of(library, name, suffix);
  return symbol == nullptr ? nullptr : reinterpret_cast<void*>(library.l_addr + symbol->st_value);
}

std::size_t exported_size(const link_map& library, const char* name) {
  const ElfW(Sym)* const symbol = symbol_of(library, name, nullptr);
  return symbol == nullptr ? 0 : symbol->st_size;
}

namespace {

bool redirect(const link_map& library, const ElfW(Sym) & symbol, void* replacement) {
  const auto address = reinterpret_cast<ElfW(Addr)>(&symbol);
  const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
  if (!is_without_code(library, address)) return false;
  void* const begin = reinterpret_cast<void*>(address & ~(page - 1));
  const std::size_t length = address + sizeof symbol - (address & ~(page - 1));
  if (mprotect(begin, length, PROT_READ | PROT_WRITE) != 0) return false;
  const_cast<ElfW(Sym)&>(symbol).st_value =
      reinterpret_cast<ElfW(Addr)>(replacement) - library.l_addr; // the loader adds them again
  mprotect(begin, length, PROT_READ);
  return true;
}

} // namespace

bool redirect_function(const link_map& library, const char* name, const char* suffix, void* replacement) {
  bool is_redirected = false;
  find_symbol(library, name, suffix, [&](const ElfW(Sym) & symbol) {
    is_redirected = redirect(library, symbol, replacement) || is_redirected;
    return false;
  });
  return is_redirected;
}

std::uintptr_t end_of(const link_map& library) {
  std::uintptr_t end = library.l_addr;
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(library.l_addr);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return end;
  const auto* const parts = reinterpret_cast<const ElfW(Phdr)*>(library.l_addr + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; ++i)
    if (const std::uintptr_t above = library.l_addr + parts[i].p_vaddr + parts[i].p_memsz;
        parts[i].p_type == PT_LOAD && above > end)
      end = above;
  return end;
}

} // namespace watch
