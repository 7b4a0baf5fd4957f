// SPDX-License-Identifier: MIT
#include "report/terminal.hpp"

#include "report/folder.hpp"
#include "report/readable_name.hpp"
#include "rules/rule_pages.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace watch {

namespace {

constexpr std::size_t most_bytes = 8 << 20; // of a source file that is read
constexpr std::size_t longest_line = 200;
constexpr int steps_up = 2; // in a path that is still short

constexpr std::string_view bold = "\033[1m", red = "\033[1;31m", green = "\033[32m", cyan = "\033[36m",
                           plain = "\033[0m";

std::string in_colour(std::string_view colour, std::string_view text) {
  return std::string(colour).append(text).append(plain);
}

std::string coloured_line(const std::string& line) {
  constexpr std::string_view begin = "cuevent watch: ";
  if (line.starts_with(begin)) {
    const std::string rest = line.substr(begin.size());
    const auto end = rest.find(':');
    if (end == std::string::npos || page_named(rest.substr(0, end)) == nullptr) return line;
    return std::string(begin) + in_colour(red, rest.substr(0, end)) + in_colour(bold, rest.substr(end));
  }
  if (line.starts_with("      > ")) return in_colour(cyan, line);
  for (const std::string_view label : {"  the driver:", "  to fix it:"})
    if (line.starts_with(label)) return in_colour(green, label) + line.substr(label.size());
  return line;
}

/// Empty if it cannot be read, or has no such line.
std::string line_of(const std::string& path, int number) {
  std::string text;
  try {
    const OpenFile file = open_input(path);
    char part[16384];
    int line = 1;
    std::size_t all = 0;
    for (ssize_t length = 0; line <= number && (length = ::read(file.number(), part, sizeof part)) > 0;) {
      if ((all += static_cast<std::size_t>(length)) > most_bytes) return {};
      for (ssize_t i = 0; i < length && line <= number; ++i) {
        if (part[i] == '\n')
          ++line;
        else if (line == number && text.size() < longest_line)
          text += part[i] == '\t' ? ' ' : part[i];
      }
    }
  } catch (const std::runtime_error&) {
    return {};
  }
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

bool is_newer(const std::string& source, const std::string& compiled) {
  struct stat one {
  }, other{};
  if (stat(source.c_str(), &one) != 0 || stat(compiled.c_str(), &other) != 0) return false;
  return one.st_mtim.tv_sec > other.st_mtim.tv_sec;
}

} // namespace

std::string path_from(const std::string& folder, const std::string& file, int most_steps_up) {
  namespace fs = std::filesystem;
  const fs::path path = fs::path(file).lexically_normal();
  if (path.is_relative()) return path;
  const fs::path from_here = path.lexically_relative(folder);
  const auto ups = std::count(from_here.begin(), from_here.end(), "..");
  return from_here.empty() || ups > most_steps_up ? path : from_here;
}

std::string coloured(const std::string& text) {
  std::string all;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    all += coloured_line(text.substr(begin, end - begin));
    if (end < text.size()) all += '\n';
    begin = end + 1;
  }
  return all;
}

void Terminal::show_paths(std::vector<NamedFrame>& frames) const {
  for (NamedFrame& frame : frames) {
    if (!frame.is_own || frame.file.empty()) continue;
    const std::string line =
        in_one_line(path_from(folder_, frame.file, steps_up)) + ':' + std::to_string(frame.line);
    frame.text =
        frame.is_python ? line + " in " + frame.function : shortened(frame.function + " (" + line + ")");
  }
}

std::optional<std::string> Terminal::source_line(const CallFile& process,
                                                 const std::vector<NamedFrame>& frames) const {
  const auto own =
      std::find_if(frames.begin(), frames.end(), [](const NamedFrame& frame) { return frame.is_own; });
  // A process of another user may name any file.
  if (own == frames.end() || own->file.empty() || process.is_of_another_user()) return std::nullopt;
  const std::string path = (std::filesystem::path(folder_) / own->file).string();
  if (!own->is_python && is_newer(path, process.program())) return std::nullopt;
  std::string line = line_of(path, own->line);
  return line.empty() ? std::nullopt : std::optional("> " + std::move(line));
}

} // namespace watch
