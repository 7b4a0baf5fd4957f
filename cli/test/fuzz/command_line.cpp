// SPDX-License-Identifier: MIT
// The options of `cuevent` from any words, one a line.
#include "require.hpp"

#include "command_line.hpp"

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

using fuzz::require;

namespace {

/// As the kernel hands them over: up to their first null byte.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words = {"cuevent"};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    words.emplace_back(line.substr(0, line.find('\0')));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return words;
}

void inspect(const cli::InfoOptions&) {}
void inspect(const cli::CheckOptions&) {}
void inspect(const cli::RandomOptions& options) {
  require(options.jobs >= 1 && options.jobs <= 256, "--jobs is in its range");
}
void inspect(const cli::MergeOptions& options) { require(!options.files.empty(), "a report is named"); }
void inspect(const cli::SimOptions& options) {
  require(!options.program.empty(), "a program is named");
  for (const auto& [name, value] : options.variables)
    require(name.starts_with("CUEVENT_SIM_") && value.find('\0') == std::string::npos,
            "a variable can be set");
}
void inspect(const cli::WatchOptions& options) {
  const int ways =
      !options.program.empty() + !options.attach.empty() + !options.explain.empty() + !options.report.empty();
  require(ways == 1, "there is one thing to do");
  require(options.hang <= 1'000'000, "--hang is in its range");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::string> words = words_of({reinterpret_cast<const char*>(data), size});
  std::vector<const char*> argv;
  for (const std::string& word : words)
    argv.push_back(word.c_str());
  argv.push_back(nullptr);

  std::ostringstream out, err;
  const auto asked = cli::read_command_line(static_cast<int>(words.size()), argv.data(), out, err);
  if (const cli::ExitCode* const done = std::get_if<cli::ExitCode>(&asked)) {
    require(*done == cli::success || *done == cli::usage, "what is not run is either help or a mistake");
    require(out.str().empty() == (*done != cli::success), "help goes to standard output");
    require(err.str().empty() == (*done != cli::usage), "a mistake is explained on standard error");
  } else {
    require(out.str().empty() && err.str().empty(), "nothing is said before the subcommand runs");
    std::visit([](const auto& options) { inspect(options); }, std::get<cli::Request>(asked));
  }
  return 0;
}
