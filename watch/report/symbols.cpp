// SPDX-License-Identifier: MIT
#include "report/symbols.hpp"

#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <map>
#include <unordered_map>
#include <utility>
#ifdef CUEVENT_HAS_LIBDW
#include <elfutils/libdwfl.h>
#endif

namespace watch {

namespace {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

#ifdef CUEVENT_HAS_LIBDW
std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

/// libdw would look for the debug file of a module next to the path that another user has named, in a folder
/// that may be theirs.
int find_no_file(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}
#endif

} // namespace

std::string SourceFrame::text() const {
  if (library.empty()) return "generated code";
  if (!function.empty() && !file.empty())
    return function + " (" + file_name(file) + ":" + std::to_string(line) + ")";
  if (!function.empty()) return function + " (" + file_name(library) + ")";
  char text[32];
  std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(offset));
  return file_name(library) + text;
}

#ifdef CUEVENT_HAS_LIBDW

/// Each file is read once, as if it were mapped at a place of its own.
struct Symbols::Debug {
  struct File {
    Dwfl* dwfl = nullptr;
    Dwfl_Module* module = nullptr;
    std::unordered_map<std::uint64_t, SourceFrame> frames; // by offset: libdw searches all symbols for each
  };
  std::map<std::pair<std::string, bool>, File> files; // by path, and whether another user has named it

  File& file(const CallFile& process, const std::string& path) {
    const auto [found, added] = files.try_emplace({path, process.is_of_another_user()});
    if (!added) return found->second;
    // Only files of this machine: no server is asked for symbols. The program, which runs by now, keeps it.
    unsetenv("DEBUGINFOD_URLS");
    static char* debug_folders = nullptr;
    static const Dwfl_Callbacks callbacks{dwfl_build_id_find_elf, dwfl_standard_find_debuginfo,
                                          dwfl_offline_section_address, &debug_folders};
    static const Dwfl_Callbacks without_other_files{dwfl_build_id_find_elf, find_no_file,
                                                    dwfl_offline_section_address, nullptr};
    File& file = found->second;
    file.dwfl = dwfl_begin(process.is_of_another_user() ? &without_other_files : &callbacks);
    if (file.dwfl == nullptr) return file;
    dwfl_report_begin(file.dwfl);
    OpenFile opened = process.open_module(path);
    if (opened.is_open())
      file.module = dwfl_report_elf(file.dwfl, path.c_str(), path.c_str(), opened.number(), 0, true);
    if (file.module != nullptr) opened.release(); // libdw closes it
    dwfl_report_end(file.dwfl, nullptr, nullptr);
    return file;
  }

  ~Debug() {
    for (const auto& [path, file] : files)
      if (file.dwfl != nullptr) dwfl_end(file.dwfl);
  }
};

Symbols::Symbols() : debug_(std::make_unique<Debug>()) {}

SourceFrame Symbols::frame(const CallFile& process, std::uint64_t return_address) {
  SourceFrame frame;
  const std::uint64_t address = return_address - 1; // inside the call instruction
  const auto [library, base] = process.module_at(address);
  frame.library = library;
  frame.offset = address - base;
  if (library.empty()) return frame;
  Debug::File& file = debug_->file(process, library);
  if (file.module == nullptr) return frame;
  const auto [known, is_new] = file.frames.try_emplace(frame.offset, frame);
  SourceFrame& named = known->second;
  if (!is_new) return named;
  if (const char* const name = dwfl_module_addrname(file.module, frame.offset))
    named.function = demangled(name);
  if (Dwfl_Line* const line = dwfl_module_getsrc(file.module, frame.offset))
    if (const char* const source = dwfl_lineinfo(line, nullptr, &named.line, nullptr, nullptr, nullptr))
      named.file = source;
  return named;
}

#else

struct Symbols::Debug {};
Symbols::Symbols() = default;

SourceFrame Symbols::frame(const CallFile& process, std::uint64_t return_address) {
  SourceFrame frame;
  const auto [library, base] = process.module_at(return_address - 1);
  frame.library = library;
  frame.offset = return_address - 1 - base;
  return frame;
}

#endif

Symbols::~Symbols() = default;

} // namespace watch
