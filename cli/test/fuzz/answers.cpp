// SPDX-License-Identifier: MIT
// The recorded answers, and the list of known differences, from any lines. `cuevent check` reads both, and
// the lines that its child processes print.
#include "require.hpp"

#include "check/answers.hpp"
#include "json_text.hpp"

#include <cstdint>

using cli::Transcript;
using fuzz::require;

namespace {

template <class Read>
void each_line(std::string_view text, Read read) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    read(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

Transcript read(std::string_view text) {
  Transcript transcript;
  each_line(text, [&](std::string_view line) { transcript.add(line); });
  return transcript;
}

std::string written(const Transcript& transcript) {
  std::string text;
  for (const std::string& line : transcript.about)
    text += "# " + line + "\n";
  for (const auto& [name, answer] : transcript.answers)
    text.append(name).append(" = ").append(answer).append("\n");
  return text;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Transcript transcript = read(text);
  const Transcript again = read(written(transcript));
  require(again.about == transcript.about && again.answers == transcript.answers,
          "answers that are written read back");
  require(!transcript.is_of_simulator() || !transcript.about.empty(), "a simulated driver has a name");

  const nlohmann::ordered_json json = {{"about", transcript.about}, {"answers", transcript.answers}};
  const auto back = nlohmann::ordered_json::parse(cli::json_text(json), nullptr, false);
  require(!back.is_discarded() && back["answers"].size() <= transcript.answers.size(), "answers become JSON");

  each_line(text, [](std::string_view line) {
    const auto known = cli::known_difference_in(line);
    if (!known) return;
    require(!known->prefix.empty() && !known->reason.empty(), "a known difference has a prefix and a reason");
    const std::string mark = known->seen ? "?" : "";
    require(mark + std::string(known->prefix) + ": " + std::string(known->reason) == line,
            "nothing of it is lost");
  });
  return 0;
}
