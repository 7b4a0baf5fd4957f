// SPDX-License-Identifier: MIT
#include "report/symbols.hpp"

#include "report/readable_name.hpp"

#include <cstdio>
#include <map>
#include <unordered_map>
#include <utility>
#ifdef CUEVENT_HAS_LIBDW
#include "report/source_frames.hpp"

#include <elfutils/libdwfl.h>
#endif

namespace watch {

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

namespace {

#ifdef CUEVENT_HAS_LIBDW
/// libdw would look for the debug file of a module next to the path that another user has named, in a folder
/// that may be theirs.
int find_no_file(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}
#endif

SourceFrame unnamed_frame(const CallFile& process, std::uint64_t return_address) {
  const std::uint64_t address = return_address - 1; // inside the call instruction
  const auto [library, base] = process.module_at(address);
  SourceFrame frame;
  frame.library = library;
  frame.offset = address - base;
  return frame;
}

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

std::string SourceFrame::place() const {
  if (file.empty()) return library + '+' + std::to_string(offset);
  return file + ':' + std::to_string(line) + ':' + std::to_string(column);
}

#ifdef CUEVENT_HAS_LIBDW

/// Each file is read once, as if it were mapped at a place of its own.
struct Symbols::Debug {
  struct File {
    Dwfl* dwfl = nullptr;
    Dwfl_Module* module = nullptr;
    /// By offset: libdw searches all symbols.
    std::unordered_map<std::uint64_t, std::vector<SourceFrame>> frames;
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

std::vector<SourceFrame> Symbols::frames(const CallFile& process, std::uint64_t return_address) {
  SourceFrame frame = unnamed_frame(process, return_address);
  if (frame.library.empty()) return {frame};
  Debug::File& file = debug_->file(process, frame.library);
  if (file.module == nullptr) return {frame};
  const auto [known, is_new] = file.frames.try_emplace(frame.offset);
  std::vector<SourceFrame>& named = known->second;
  if (!is_new) return named;
  if (const char* const name = dwfl_module_addrname(file.module, frame.offset))
    frame.function = function_name(name);
  return named = source_frames(file.module, std::move(frame));
}

#else

struct Symbols::Debug {};
Symbols::Symbols() = default;

std::vector<SourceFrame> Symbols::frames(const CallFile& process, std::uint64_t return_address) {
  return {unnamed_frame(process, return_address)};
}

#endif

Symbols::~Symbols() = default;

} // namespace watch
