// SPDX-License-Identifier: MIT
// ELF files of kernel compilers. A symbol with a mark is a kernel. The section .nv.info of a kernel lists its
// attributes: each has a form, a number, and a value whose size depends on the form.

#include "elf_image.hpp"

#include <algorithm>
#include <elf.h>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

namespace cuevent::sim {

namespace {

constexpr unsigned machine = 190;
constexpr unsigned relocatable_object = 13;                      // a type of symbols
constexpr unsigned char new_abi = 8, new_os_abi = 0x41;          // of CUDA 13
constexpr unsigned char kernel_mark = 0x10, managed_mark = 0x04; // of a symbol

// Attributes of kernels, and of the file
enum : unsigned char {
  thread_bounds = 0x05,
  frame = 0x11,
  parameter = 0x17,
  registers = 0x2f,
  cluster = 0x3d,
  explicit_cluster = 0x3e,
  large_parameter = 0x45,
};

constexpr unsigned char with_value = 4; // the form of an attribute. Other forms have two bytes

struct Section {
  std::string name;
  Elf64_Shdr header;
};

std::string text_at(const std::string& table, std::size_t at) {
  const std::size_t end = table.find('\0', at);
  damaged_if(at >= table.size() || end == std::string::npos);
  return table.substr(at, end - at);
}

class File {
public:
  explicit File(const Bytes& bytes) : bytes_(bytes), header_(bytes.value<Elf64_Ehdr>(0)) {
    damaged_if(std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
               header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_shnum == 0 ||
               header_.e_shentsize != sizeof(Elf64_Shdr));
    for (std::size_t i = 0; i < header_.e_shnum; ++i)
      sections_.push_back(
          {{}, bytes_.value<Elf64_Shdr>(header_.e_shoff + i * std::uint64_t{sizeof(Elf64_Shdr)})});
    const std::string names = content(section(header_.e_shstrndx));
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      sections_[i].name = text_at(names, sections_[i].header.sh_name);
      by_name_.emplace(sections_[i].name, i);
    }
  }

  unsigned made_for() const { return header_.e_machine; }
  /// 90 for sm_90
  int target() const {
    return static_cast<int>(
        (header_.e_ident[EI_ABIVERSION] >= new_abi ? header_.e_flags >> 8U : header_.e_flags) & 0xffU);
  }
  /// 75 for compute_75, from which the code was made
  int source() const {
    constexpr std::size_t place = 26; // behind the head of the note, the name and the version
    const Section* const note = find(".note.nv.cuinfo");
    if (header_.e_ident[EI_ABIVERSION] < new_abi) return static_cast<int>(header_.e_flags >> 16U & 0xffU);
    return note == nullptr ? target() : value_in<std::uint16_t>(content(*note), place);
  }
  const std::vector<Section>& sections() const { return sections_; }
  bool relocatable() const { return header_.e_type == ET_REL; }
  const Section& section(std::size_t index) const {
    damaged_if(index >= sections_.size());
    return sections_[index];
  }
  const Section* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &sections_[found->second];
  }
  std::string content(const Section& section) const { return part(section, 0, section.header.sh_size); }
  /// Of a section that lies in the file.
  std::string part(const Section& section, std::uint64_t at, std::uint64_t size) const {
    const Elf64_Shdr& header = section.header;
    damaged_if(header.sh_type == SHT_NOBITS || at > header.sh_size || size > header.sh_size - at ||
               header.sh_offset + at < at);
    return bytes_.read(header.sh_offset + at, size);
  }

private:
  const Bytes& bytes_;
  Elf64_Ehdr header_;
  std::vector<Section> sections_;
  std::map<std::string, std::size_t> by_name_;
};

/// Calls act(number, value) for each attribute.
template <class Act>
void for_each_attribute(const std::string& info, Act act) {
  for (std::size_t at = 0; at < info.size();) {
    const auto form = value_in<unsigned char>(info, at), number = value_in<unsigned char>(info, at + 1);
    const std::size_t size = value_in<std::uint16_t>(info, at + 2);
    at += 4;
    if (form != with_value) {
      act(number, std::string_view());
      continue;
    }
    damaged_if(size > info.size() - at);
    act(number, std::string_view(info).substr(at, size));
    at += size;
  }
}

std::uint32_t word(std::string_view value, std::size_t index) {
  return value_in<std::uint32_t>(value, 4 * index);
}

KernelCode::Parameter& numbered(std::vector<KernelCode::Parameter>& parameters, std::size_t number) {
  constexpr std::size_t most = 65'536; // their places have 16 bits
  damaged_if(number >= most);
  if (parameters.size() <= number) parameters.resize(number + 1);
  return parameters[number];
}

KernelCode kernel_of(const std::string& info) {
  KernelCode kernel;
  for_each_attribute(info, [&](unsigned char number, std::string_view value) {
    if (number == parameter || number == large_parameter) {
      auto& one = numbered(kernel.parameters, value_in<std::uint16_t>(value, 4));
      const std::uint32_t size = word(value, 2);
      one = {value_in<std::uint16_t>(value, 6), number == parameter ? size >> 18U : size};
    } else if (number == thread_bounds) {
      std::uint64_t threads = 1;
      for (std::size_t i = 0; i < 3; ++i)
        threads = std::min<std::uint64_t>(threads * word(value, i), 1'024);
      kernel.most_threads = static_cast<int>(threads);
    } else if (number == cluster) {
      for (std::size_t i = 0; i < 3; ++i)
        kernel.cluster[i] = static_cast<int>(std::min(word(value, i), 1'024U));
    } else if (number == explicit_cluster) {
      kernel.explicit_cluster = true;
    }
  });
  return kernel;
}

Linkage linkage_of(const Elf64_Sym& symbol) {
  const unsigned binding = ELF64_ST_BIND(symbol.st_info);
  if (binding == STB_LOCAL) return Linkage::local;
  return binding == STB_WEAK || symbol.st_shndx == SHN_COMMON ? Linkage::weak : Linkage::global;
}

std::optional<Variable> variable_of(const File& file, const Elf64_Sym& symbol) {
  Variable variable;
  variable.linkage = linkage_of(symbol);
  if (symbol.st_shndx == SHN_COMMON) { // the linker gives it a place
    variable.bytes = symbol.st_size;
    return variable;
  }
  const Section& section = file.section(symbol.st_shndx);
  variable.constant = section.name.rfind(".nv.constant", 0) == 0;
  if (!variable.constant && section.name != ".nv.global" && section.name != ".nv.global.init") return {};
  const Elf64_Shdr& header = section.header;
  damaged_if(symbol.st_value > header.sh_size || symbol.st_size > header.sh_size - symbol.st_value);
  variable.bytes = symbol.st_size;
  variable.managed = (symbol.st_other & managed_mark) != 0;
  if (header.sh_type == SHT_NOBITS) return variable;
  const std::string content = file.part(section, symbol.st_value, symbol.st_size);
  const auto* const bytes = reinterpret_cast<const std::byte*>(content.data());
  variable.initial.assign(bytes, bytes + content.size());
  return variable;
}

/// The names in the instructions of kernels and functions. The linker has to fill in their places.
std::map<std::string, std::set<std::string>> uses_in(const File& file, const std::string& symbols,
                                                     const std::string& names) {
  constexpr std::string_view prefixes[] = {".rel.text.", ".rela.text."};
  std::map<std::string, std::set<std::string>> uses;
  for (const Section& section : file.sections()) {
    const auto prefix = std::find_if(std::begin(prefixes), std::end(prefixes),
                                     [&](std::string_view one) { return section.name.starts_with(one); });
    if (prefix == std::end(prefixes)) continue;
    const std::size_t size = section.header.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    const std::string places = file.content(section);
    for (std::size_t at = 0; at + size <= places.size(); at += size) {
      const std::size_t number = ELF64_R_SYM(value_in<Elf64_Rel>(places, at).r_info);
      const auto symbol = value_in<Elf64_Sym>(symbols, number * sizeof(Elf64_Sym));
      const bool here = symbol.st_shndx != SHN_UNDEF;
      if (here ? ELF64_ST_TYPE(symbol.st_info) == STT_FUNC : linkage_of(symbol) == Linkage::global)
        uses[section.name.substr(prefix->size())].insert(text_at(names, symbol.st_name));
    }
  }
  return uses;
}

} // namespace

bool elf_has_sections(const Bytes& bytes) {
  const auto header = bytes.value<Elf64_Ehdr>(0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != machine) return true;
  if (header.e_shnum == 0) return false;
  bytes.read(header.e_shoff, header.e_shnum * std::uint64_t{sizeof(Elf64_Shdr)});
  // A file that was cut off often has the table of something else there.
  return bytes.value<Elf64_Shdr>(header.e_shoff + header.e_shstrndx * std::uint64_t{sizeof(Elf64_Shdr)})
             .sh_type == SHT_STRTAB;
}

ElfImage read_elf(const Bytes& bytes) {
  const File file(bytes);
  damaged_if(file.made_for() != machine);
  ElfImage elf;
  elf.code.relocatable = file.relocatable();
  elf.target = file.target();
  elf.code.target = file.source();
  const Section* const table = file.find(".symtab");
  if (table == nullptr) return elf;
  const std::string symbols = file.content(*table), names = file.content(file.section(table->header.sh_link));
  if (elf.code.relocatable) elf.code.uses = uses_in(file, symbols, names);
  std::vector<std::string> kernels; // by symbol
  for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
    const auto symbol = value_in<Elf64_Sym>(symbols, at);
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    kernels.emplace_back();
    if (symbol.st_shndx == SHN_UNDEF) continue;
    if (type == STT_FUNC && (symbol.st_other & kernel_mark) != 0) {
      const std::string name = kernels.back() = text_at(names, symbol.st_name);
      const Section* const info = file.find(".nv.info." + name);
      KernelCode kernel = info == nullptr ? KernelCode() : kernel_of(file.content(*info));
      if (const Section* const shared = file.find(".nv.shared." + name))
        kernel.shared = std::max<std::size_t>(shared->header.sh_size, reserved_shared) - reserved_shared;
      kernel.linkage = linkage_of(symbol);
      if (!elf.code.kernels.contains(name)) elf.code.order.push_back(name);
      elf.code.kernels.insert_or_assign(name, std::move(kernel));
    } else if (type == STT_FUNC) {
      elf.code.functions.emplace(text_at(names, symbol.st_name), linkage_of(symbol));
    } else if (type == STT_OBJECT || type == relocatable_object) {
      if (auto variable = variable_of(file, symbol))
        elf.code.variables.insert_or_assign(text_at(names, symbol.st_name), *std::move(variable));
    }
  }
  if (const Section* const info = file.find(".nv.info"))
    for_each_attribute(file.content(*info), [&](unsigned char number, std::string_view value) {
      if (number != registers && number != frame) return;
      const std::size_t symbol = word(value, 0);
      damaged_if(symbol >= kernels.size());
      const auto kernel = elf.code.kernels.find(kernels[symbol]);
      if (kernel == elf.code.kernels.end()) return;
      if (number == registers)
        kernel->second.registers = static_cast<int>(word(value, 1) & 0xffffU);
      else
        kernel->second.local = word(value, 1);
    });
  return elf;
}

bool elf_is_for_a_device(const Bytes& bytes) { return File(bytes).made_for() == machine; }

std::string section_of(const Bytes& bytes, const std::string& name) {
  const File file(bytes);
  const Section* const section = file.find(name);
  return section == nullptr ? std::string() : file.content(*section);
}

namespace {

/// Collects the sections of a file.
class Writer {
public:
  Writer() { section("", SHT_NULL, ""); }

  std::size_t section(const std::string& name, std::uint32_t type, const std::string& content,
                      std::uint64_t size_without_content = 0, std::uint32_t link = 0) {
    Elf64_Shdr header{};
    header.sh_name = text(names_, name);
    header.sh_type = type;
    header.sh_offset = sizeof(Elf64_Ehdr) + contents_.size();
    header.sh_size = content.size() + size_without_content;
    header.sh_link = link;
    header.sh_addralign = 1;
    contents_ += content;
    damaged_if(sections_.size() == SHN_LORESERVE); // more than a file can have
    sections_.push_back(header);
    return sections_.size() - 1;
  }

  static std::uint32_t text(std::string& table, const std::string& name) {
    const std::size_t at = table.size();
    table += name + '\0';
    return static_cast<std::uint32_t>(at);
  }

  std::string file(int target, int source) {
    std::string note;
    const std::uint32_t head[] = {12, 8, 1'000};
    const std::uint16_t version[] = {2, static_cast<std::uint16_t>(source), 0, 0};
    append(note, head);
    note += std::string("NVIDIA Corp", 12);
    append(note, version);
    section(".note.nv.cuinfo", SHT_NOTE, note);
    const std::uint32_t name = text(names_, ".shstrtab");
    const std::size_t last = section("", SHT_STRTAB, names_);
    sections_[last].sh_name = name;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_OSABI] = new_os_abi;
    header.e_ident[EI_ABIVERSION] = new_abi;
    header.e_type = ET_EXEC;
    header.e_machine = machine;
    header.e_version = EV_CURRENT;
    header.e_flags = static_cast<std::uint32_t>(target) << 8U;
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_shoff = sizeof(Elf64_Ehdr) + contents_.size();
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<std::uint16_t>(sections_.size());
    header.e_shstrndx = static_cast<std::uint16_t>(last);
    std::string all;
    append(all, header);
    all += contents_;
    for (const Elf64_Shdr& one : sections_)
      append(all, one);
    return all;
  }

  template <class T>
  static void append(std::string& to, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

private:
  std::string names_, contents_;
  std::vector<Elf64_Shdr> sections_;
};

template <class Value>
void append_attribute(std::string& info, unsigned char number, const Value& value) {
  Writer::append(info, with_value);
  Writer::append(info, number);
  Writer::append(info, static_cast<std::uint16_t>(sizeof value));
  Writer::append(info, value);
}

std::string info_of(const KernelCode& kernel) {
  struct Parameter {
    std::uint32_t index;
    std::uint16_t number, offset;
    std::uint32_t size;
  };
  std::string info;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i)
    append_attribute(info, large_parameter,
                     Parameter{0, static_cast<std::uint16_t>(i),
                               static_cast<std::uint16_t>(kernel.parameters[i].offset),
                               static_cast<std::uint32_t>(kernel.parameters[i].size)});
  const std::uint32_t threads[] = {static_cast<std::uint32_t>(kernel.most_threads), 1, 1};
  append_attribute(info, thread_bounds, threads);
  if (kernel.explicit_cluster) append_attribute(info, explicit_cluster, std::uint32_t{0});
  if (kernel.cluster[0] != 0) append_attribute(info, cluster, kernel.cluster);
  return info;
}

} // namespace

std::string write_elf(const ElfImage& elf) {
  Writer writer;
  std::string symbols(sizeof(Elf64_Sym), '\0'), names(1, '\0'), info, initialised, constants;
  std::vector<std::pair<Elf64_Sym, const Variable*>> variables;
  std::uint64_t zeroed = 0;
  const auto symbol = [&](const std::string& name, unsigned type, unsigned char mark) {
    Elf64_Sym one{};
    one.st_name = Writer::text(names, name);
    one.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, type));
    one.st_other = mark;
    return one;
  };
  for (const std::string& name : elf.code.order) {
    const KernelCode& kernel = elf.code.kernels.at(name);
    Elf64_Sym one = symbol(name, STT_FUNC, kernel_mark);
    one.st_shndx = static_cast<std::uint16_t>(writer.section(".text." + name, SHT_PROGBITS, ""));
    const std::uint32_t number = static_cast<std::uint32_t>(symbols.size() / sizeof one);
    const std::uint32_t registers_used[] = {number, static_cast<std::uint32_t>(kernel.registers)};
    const std::uint32_t local[] = {number, static_cast<std::uint32_t>(kernel.local)};
    append_attribute(info, registers, registers_used);
    append_attribute(info, frame, local);
    writer.section(".nv.info." + name, SHT_LOPROC, info_of(kernel));
    writer.section(".nv.shared." + name, SHT_NOBITS, "", kernel.shared + reserved_shared);
    Writer::append(symbols, one);
  }
  const auto place = [&](std::string& in, const Variable& variable) {
    const std::size_t at = in.size();
    in.append(reinterpret_cast<const char*>(variable.initial.data()), variable.initial.size());
    in.resize(at + variable.bytes, '\0');
    return at;
  };
  for (const auto& [name, variable] : elf.code.variables) {
    Elf64_Sym one = symbol(name, STT_OBJECT, variable.managed ? managed_mark : 0);
    one.st_size = variable.bytes;
    one.st_value = variable.constant          ? place(constants, variable)
                   : variable.initial.empty() ? std::exchange(zeroed, zeroed + variable.bytes)
                                              : place(initialised, variable);
    variables.emplace_back(one, &variable);
  }
  const auto with_content =
      static_cast<std::uint16_t>(writer.section(".nv.global.init", SHT_PROGBITS, initialised));
  const auto without = static_cast<std::uint16_t>(writer.section(".nv.global", SHT_NOBITS, "", zeroed));
  const auto constant = static_cast<std::uint16_t>(writer.section(".nv.constant3", SHT_PROGBITS, constants));
  for (auto& [one, variable] : variables) {
    one.st_shndx = variable->constant ? constant : variable->initial.empty() ? without : with_content;
    Writer::append(symbols, one);
  }
  writer.section(".nv.info", SHT_LOPROC, info);
  const std::size_t strings = writer.section(".strtab", SHT_STRTAB, names);
  writer.section(".symtab", SHT_SYMTAB, symbols, 0, static_cast<std::uint32_t>(strings));
  return writer.file(elf.target, elf.code.target);
}

} // namespace cuevent::sim
