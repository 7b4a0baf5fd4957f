// SPDX-License-Identifier: MIT
#include "report/report.hpp"

#include "report/call_owner.hpp"

#include "core/name_text.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fnmatch.h>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace watch {

using watch::Finding;

namespace {

constexpr std::size_t printed_limit = 50; // findings with their texts, and lines of the table

} // namespace

// The program chooses names of threads, files and functions: none may speak to the terminal.
std::string printable(const std::string& text) {
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t size = cuevent::character_size(rest);
    const auto first = static_cast<unsigned char>(rest[0]);
    if ((first < 0x20 && first != '\n') || first == 0x7F) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02x", unsigned{first});
      result += code;
    } else if (size == 0 || (first == 0xC2 && static_cast<unsigned char>(rest[1]) < 0xA0)) {
      result += '?'; // the controls U+0080 to U+009F are single bytes for a terminal without UTF-8
    } else {
      result += rest.substr(0, size);
    }
    rest.remove_prefix(size == 0 ? 1 : size);
  }
  return result;
}

void print_text(const std::string& text) {
  const std::string shown = printable(text);
  std::fwrite(shown.data(), 1, shown.size(), stderr);
  std::fflush(stderr);
}

void Suppressions::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": " + std::strerror(errno));
  unsigned number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    std::string rule, pattern;
    words >> rule;
    if (rule.empty() || rule[0] == '#') continue; // a # elsewhere may be part of the name of a lambda
    std::getline(words >> std::ws, pattern);
    pattern.erase(pattern.find_last_not_of(" \t\r") + 1);
    if (rule != "*" && watch::page_named(rule) == nullptr) {
      std::string wrong = path;
      wrong.append(":")
          .append(std::to_string(number))
          .append(": there is no rule ")
          .append(printable(rule.substr(0, 40)));
      throw std::runtime_error(wrong.append(". `cuevent watch --explain all` lists the rules"));
    }
    lines_.emplace_back(rule, pattern);
  }
}

bool Suppressions::drop(const Finding& finding, const std::vector<SourceFrame>& stack) const {
  const std::string name = watch::page_of(finding.rule).name;
  // NCCL lets each stream that it takes wait for the event of the one before, also if there was none.
  if (finding.rule == watch::Rule::wait_never_recorded)
    for (const SourceFrame& frame : stack)
      if (frame.function.starts_with("ncclStrongStream") ||
          frame.library.find("libnccl.so") != std::string::npos)
        return true;
  for (const auto& [rule, pattern] : lines_) {
    if (rule != "*" && rule != name) continue;
    if (pattern.empty()) return true;
    for (const SourceFrame& frame : stack)
      for (const std::string& text : {frame.function, frame.file, frame.library})
        if (fnmatch(pattern.c_str(), text.c_str(), 0) == 0) return true;
  }
  return false;
}

bool WatchReport::is_of_the_program(const CallFile& process, const Finding& finding) {
  const auto owner = [&](const watch::Call& call) {
    return owner_of(texts_.caller_of(process, call), process.python_stack(call.stack), process.program());
  };
  if (!concerns_program(finding.rule, owner(finding.call))) return false;
  if (finding.rule != watch::Rule::leaked || finding.earlier.empty()) return true;
  // What the program does not destroy, it may mean to end with the context. The runtime's own release at the
  // end of the process is not meant so.
  const watch::Call& release = finding.earlier.front().call;
  return owner(release) != Owner::program;
}

void WatchReport::add(const CallFile& process, const Finding& finding) {
  // A call without a stack stands for all calls of its function.
  // Of a leak, the release of the context matters too.
  const unsigned released = finding.rule == watch::Rule::leaked && !finding.earlier.empty()
                                ? finding.earlier.front().call.stack
                                : 0;
  const auto quick_key =
      std::tuple(&process, finding.rule, finding.call.stack, unsigned{finding.call.entry}, released);
  if (const auto known = known_.find(quick_key); known != known_.end()) {
    if (known->second >= 0) entries_[static_cast<std::size_t>(known->second)].count += finding.count;
    return;
  }
  known_[quick_key] = -1;
  if (!is_of_the_program(process, finding)) return;
  const auto stack = texts_.stack_of(process, finding.call);
  if (suppressions_.drop(finding, stack)) return;
  const watch::RulePage& page = watch::page_of(finding.rule);
  std::string key = std::string(page.name) + ' ' + finding.call.name();
  for (const std::string& frame : process.python_stack(finding.call.stack))
    key += '\n' + frame;
  for (const SourceFrame& frame : stack)
    key += '\n' + frame.library + std::to_string(frame.offset);
  // Another process, or another part of the process, may have made it too.
  const auto [place, is_new] = by_stack_.try_emplace(key, entries_.size());
  known_[quick_key] = static_cast<long>(place->second);
  if (!is_new) {
    entries_[place->second].count += finding.count;
    return;
  }
  std::string text = "cuevent watch: " + std::string(page.name) + ": " + finding.sentence + "\n  in " +
                     texts_.text_of(process, finding.call);
  for (const auto& [what, call] : finding.earlier)
    text += "  " + what + ": " + texts_.text_of(process, call);
  text += std::string("  the driver: ") + page.driver + "\n  to fix it: " + page.fix + '\n';
  if (entries_.size() < printed_limit) print_text(text);
  if (entries_.size() == printed_limit)
    print_text("cuevent watch: " + std::to_string(printed_limit) +
               " findings were printed. More are only counted, and listed by --json\n");

  nlohmann::ordered_json json{{"rule", page.name}, {"sentence", finding.sentence}, {"count", 0}};
  json["call"] = texts_.json_of(process, finding.call);
  auto& earlier = json["earlier"] = nlohmann::ordered_json::array();
  for (const auto& [what, call] : finding.earlier) {
    earlier.push_back(texts_.json_of(process, call));
    earlier.back()["what"] = what;
  }
  json["driver"] = page.driver;
  json["fix"] = page.fix;
  entries_.push_back({page.name, texts_.place_of(process, finding.call), finding.count, std::move(json)});
}

void WatchReport::print_summary() const {
  if (entries_.empty()) return;
  std::fprintf(stderr, "cuevent watch:\n     count  %-26s where\n", "rule");
  std::map<std::string, std::pair<std::size_t, unsigned long>> more; // places and calls of a rule
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (i < printed_limit) {
      char line[64];
      std::snprintf(line, sizeof line, "%10lu  %-26s ", entry.count, entry.rule.c_str());
      print_text(line + entry.where + '\n');
    } else {
      auto& [places, calls] = more[entry.rule];
      ++places;
      calls += entry.count;
    }
  }
  for (const auto& [rule, counts] : more)
    std::fprintf(stderr, "%10lu  %-26s at %zu more places\n", counts.second, rule.c_str(), counts.first);
}

nlohmann::ordered_json WatchReport::json() const {
  auto findings = nlohmann::ordered_json::array();
  for (const Entry& entry : entries_) {
    findings.push_back(entry.json);
    findings.back()["count"] = entry.count;
  }
  return findings;
}

} // namespace watch
