// SPDX-License-Identifier: MIT
#include "report/source_frames.hpp"

#include "report/readable_name.hpp"

#include <cstdlib>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <memory>
#include <utility>

namespace watch {

namespace {

struct Free {
  void operator()(Dwarf_Die* scopes) const { std::free(scopes); }
};

/// The DIE and all that it lies in, the innermost first.
std::vector<Dwarf_Die> scopes_of(Dwarf_Die* die) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes_die(die, &scopes);
  const std::unique_ptr<Dwarf_Die, Free> owned(count > 0 ? scopes : nullptr);
  return count > 0 ? std::vector<Dwarf_Die>(scopes, scopes + count) : std::vector<Dwarf_Die>();
}

/// The same for the innermost code at this address. Empty if it is not known.
std::vector<Dwarf_Die> scopes_at(Dwarf_Die* unit, Dwarf_Addr address) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes(unit, address, &scopes);
  if (count <= 0) return {};
  const std::unique_ptr<Dwarf_Die, Free> owned(scopes);
  // Outside of an inlined function, these are the scopes of its definition, and not of the call.
  Dwarf_Die innermost = scopes[0];
  return scopes_of(&innermost);
}

/// The declaration in the source, which lies in its class and namespace.
Dwarf_Die declaration_of(Dwarf_Die die) {
  constexpr int most_steps = 8; // a file may refer to itself
  for (int i = 0; i < most_steps; ++i) {
    Dwarf_Attribute attribute;
    Dwarf_Die next;
    if (dwarf_attr(&die, DW_AT_abstract_origin, &attribute) == nullptr &&
        dwarf_attr(&die, DW_AT_specification, &attribute) == nullptr)
      break;
    if (dwarf_formref_die(&attribute, &next) == nullptr) break;
    die = next;
  }
  return die;
}

/// "cuda::Pool::take". What is local to a file has no symbol that says so, such as a lambda of main.
std::string qualified_name_of(Dwarf_Die declaration) {
  std::string name;
  for (Dwarf_Die& scope : scopes_of(&declaration)) {
    const int tag = dwarf_tag(&scope);
    const bool is_named = tag == DW_TAG_subprogram || tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
                          tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
    if (!is_named) continue;
    const char* const known = dwarf_diename(&scope);
    std::string part = known != nullptr          ? known
                       : tag == DW_TAG_namespace ? "(anonymous namespace)"
                                                 : "{lambda}";
    if (part.starts_with("<lambda")) { // in symbols, it is {lambda
      part.front() = '{';
      part.back() = '}';
    }
    name = name.empty() ? part : part.append("::").append(name);
  }
  return name;
}

std::string name_of(Dwarf_Die* function) {
  Dwarf_Attribute attribute;
  for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
    if (dwarf_attr_integrate(function, kind, &attribute) != nullptr)
      if (const char* const symbol = dwarf_formstring(&attribute)) return function_name(symbol);
  return qualified_name_of(declaration_of(*function));
}

int number_of(Dwarf_Die* die, unsigned kind) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  const bool is_known =
      dwarf_attr(die, kind, &attribute) != nullptr && dwarf_formudata(&attribute, &value) == 0;
  return is_known ? static_cast<int>(value) : 0;
}

/// The part of the program that was compiled together with this address. clang writes no table of addresses.
Dwarf_Die* unit_at(Dwfl_Module* module, Dwarf_Addr address, Dwarf_Addr& bias) {
  if (Dwarf_Die* const unit = dwfl_module_addrdie(module, address, &bias)) return unit;
  Dwarf_Die* unit = nullptr;
  while ((unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr)
    if (dwarf_haspc(unit, address - bias) > 0) return unit;
  return nullptr;
}

/// The path of a source file may be relative to the folder in which it was compiled.
std::string source_path(Dwarf_Die* unit, const char* file) {
  Dwarf_Attribute attribute;
  if (*file == '/' || dwarf_attr(unit, DW_AT_comp_dir, &attribute) == nullptr) return file;
  const char* const folder = dwarf_formstring(&attribute);
  return folder == nullptr || *folder != '/' ? std::string(file) : std::string(folder) + '/' + file;
}

void set_innermost_place(SourceFrame& frame, Dwarf_Die* unit, Dwarf_Addr address) {
  Dwarf_Line* const line = dwarf_getsrc_die(unit, address);
  const char* const file = line != nullptr ? dwarf_linesrc(line, nullptr, nullptr) : nullptr;
  if (file == nullptr) return;
  frame.file = source_path(unit, file);
  dwarf_lineno(line, &frame.line);
  dwarf_linecol(line, &frame.column);
}

/// The place of the call that was inlined.
void set_place_of_call(SourceFrame& frame, Dwarf_Die* unit, Dwarf_Die* inlined) {
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  const auto number = static_cast<std::size_t>(number_of(inlined, DW_AT_call_file));
  const char* const file = dwarf_getsrcfiles(unit, &files, &count) == 0 && number < count
                               ? dwarf_filesrc(files, number, nullptr, nullptr)
                               : nullptr;
  frame.file = file != nullptr ? source_path(unit, file) : std::string();
  frame.line = number_of(inlined, DW_AT_call_line);
  frame.column = number_of(inlined, DW_AT_call_column);
}

} // namespace

std::vector<SourceFrame> source_frames(Dwfl_Module* module, SourceFrame frame) {
  Dwarf_Addr bias = 0;
  Dwarf_Die* const unit = unit_at(module, frame.offset, bias);
  if (unit == nullptr) return {std::move(frame)};
  set_innermost_place(frame, unit, frame.offset - bias);
  std::vector<SourceFrame> frames;
  for (Dwarf_Die& scope : scopes_at(unit, frame.offset - bias)) {
    const int tag = dwarf_tag(&scope);
    if (tag == DW_TAG_subprogram) {
      if (frame.function.empty()) frame.function = name_of(&scope); // the file has no symbols
      break;
    }
    if (tag != DW_TAG_inlined_subroutine) continue;
    frames.push_back(frame);
    frames.back().function = name_of(&scope);
    frames.back().is_inlined = true;
    set_place_of_call(frame, unit, &scope);
  }
  frames.push_back(std::move(frame));
  return frames;
}

} // namespace watch
