// SPDX-License-Identifier: MIT
// docs/situations.md, from the tables of this program.
#include "situations.hpp"

#include <cuevent/text.hpp>

#include <algorithm>
#include <string_view>

namespace situations {

namespace {

constexpr std::size_t longest_line = 118;

/// Breaks a paragraph into lines. Later lines begin with `indent`.
std::string wrapped(const std::string& text, const std::string& indent = "") {
  std::string out, line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > longest_line) {
      out += line + "\n";
      line = indent;
    }
    line += (line.empty() || line == indent ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line + "\n";
}

std::string name_of(CUresult result) {
  if (result == CUDA_SUCCESS) return "works";
  const std::string name = cuevent::to_string(result); // "CUDA_ERROR_NOT_READY (600)"
  constexpr std::size_t prefix = std::string_view("CUDA_ERROR_").size();
  return "`" + name.substr(prefix, name.find(' ') - prefix) + "`";
}

/// What the operations of a class do differently from the rule of the column. Empty if nothing.
std::string differences(const Class& row, const Situation& column) {
  World w(World::primary());
  std::vector<std::pair<std::string, std::string>> by_outcome; // outcome, operations
  for (const Operation& each : row.make(w)->operations()) {
    const auto found = each.exceptions.find(column.in);
    if (found == each.exceptions.end() || column.in == In::working) continue;
    const Answer& answer = found->second;
    const std::string outcome =
        answer.not_called != nullptr
            ? std::string("not called, because ") + answer.not_called
            : name_of(answer.result) + (answer.breaks_capture ? ", and the capture is broken" : "");
    const auto same = std::find_if(by_outcome.begin(), by_outcome.end(),
                                   [&](const auto& known) { return known.first == outcome; });
    const std::string operation = std::string("`") + each.name + "`";
    if (same != by_outcome.end())
      same->second += ", " + operation;
    else
      by_outcome.emplace_back(outcome, operation);
  }
  std::string text;
  for (const auto& [outcome, operations] : by_outcome)
    text += (text.empty() ? "" : "; ") + operations + ": " + outcome;
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

} // namespace

std::string page() {
  const std::vector<Class> rows = all_classes();
  const std::vector<Situation> columns = all_situations();
  int cells = 0;
  std::string overview = "| |";
  for (std::size_t i = 1; i <= columns.size(); ++i)
    overview += " " + std::to_string(i) + " |";
  overview += "\n| --- |";
  for (std::size_t i = 0; i < columns.size(); ++i)
    overview += " --- |";
  overview += "\n";
  for (const Class& row : rows) {
    overview += std::string("| `") + row.name + "` |";
    for (const Situation& column : columns) {
      const bool tested = not_tested(row, column) == nullptr;
      cells += tested ? 1 : 0;
      overview += tested ? " x |" : " |";
    }
    overview += "\n";
  }

  std::string text = "# Situations\n\n";
  text += wrapped(
      "What each class does in the situations that break wrappers. The test `test/situations/` prints "
      "this page from its own tables, and runs each of the " +
      std::to_string(cells) +
      " cells marked x. Each number leads to a section. A cell without a mark says there why "
      "it has no test. The reasons for the outcomes are in [how things end](lifetime.md), "
      "[events and capture](events-and-capture.md) and "
      "[threads that must not hang](threads-that-must-not-hang.md).");
  text += "\n" + overview;
  text += "\n" +
          wrapped("Each operation runs as the throwing and as the non-throwing overload: both have the same "
                  "result. `works` means success, or that something is pending.") +
          "\n" +
          wrapped("A program that was compiled for another C++ ABI than the library cannot be a cell, "
                  "because it does not link. The test `settings` in `test/builds/abi` compiles and links "
                  "such programs. [If it does not link](using.md#if-it-does-not-link) says what to do.");
  using ByOutcome = std::vector<std::pair<std::string, std::vector<std::string>>>;
  ByOutcome others_before;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Situation& column = columns[i];
    text += "\n## " + std::to_string(i + 1) + ". " + column.name + "\n\n";
    text += wrapped(column.what) + "\n" + wrapped(std::string("**Each class:** ") + column.rule);
    ByOutcome others, untested;
    const auto add = [](auto& list, const std::string& outcome, const char* name) {
      const auto same =
          std::find_if(list.begin(), list.end(), [&](const auto& known) { return known.first == outcome; });
      const std::string quoted = std::string("`") + name + "`";
      if (same != list.end())
        same->second.push_back(quoted);
      else
        list.push_back({outcome, {quoted}});
    };
    for (const Class& row : rows) {
      if (const char* const why = not_tested(row, column))
        add(untested, why, row.name);
      else if (const std::string different = differences(row, column); !different.empty())
        add(others, different, row.name);
    }
    if (!others.empty() && others == others_before) {
      others = {{"as in section " + std::to_string(i), {"All others"}}};
    } else {
      others_before = others;
    }
    if (!others.empty() || !untested.empty()) text += "\n";
    for (const auto& [outcome, names] : others)
      text += wrapped("- " + joined(names) + " — " + outcome + ".", "  ");
    for (const auto& [why, names] : untested)
      text += wrapped("- Not tested: " + joined(names) + ", because " + why + ".", "  ");
  }
  return text;
}

} // namespace situations
