// SPDX-License-Identifier: MIT
#include "report/filter.hpp"

#include "report/call_owner.hpp"
#include "report/folder.hpp"
#include "report/readable_name.hpp"
#include "rules/nearest_name.hpp"

#include <algorithm>
#include <cstring>
#include <fnmatch.h>
#include <span>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

namespace watch {

namespace {

constexpr std::size_t most_bytes = 1 << 20; // of a file of suppressions

std::string text_of(const std::string& path) {
  const OpenFile file = open_input(path, Pipes::typed);
  std::string text;
  char part[4096];
  for (ssize_t length = 0; (length = ::read(file.number(), part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(length));
    if (text.size() > most_bytes)
      throw std::runtime_error(path + ": the file is larger than 1 MiB: name a file of suppressions");
  }
  return text;
}

/// "train.cpp:12"
std::string line_text(const std::string& file, int line) {
  return file_name(file) + ':' + std::to_string(line);
}

/// A pattern that matches this text only.
std::string pattern_of(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::strchr("*?[\\", c) != nullptr) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

} // namespace

std::string suppression_of(Rule rule, const std::optional<NamedFrame>& own,
                           const std::vector<SourceFrame>& stack) {
  std::string line = page_of(rule).name;
  if (own && !own->function.empty()) {
    const std::string file = file_name(own->file);
    // Nearly every stack has these functions. The lines of others change.
    const bool is_everywhere = own->function == "main" || own->function == "<module>";
    if (own->is_python && is_everywhere)
      return line + " *" + pattern_of(line_text(file, own->line) + " in " + own->function);
    if (own->is_python) return line + " *" + pattern_of(file) + ":* in " + pattern_of(own->function);
    if (is_everywhere && !file.empty()) return line + ' ' + pattern_of(line_text(file, own->line));
    const std::string shown = in_one_line(without_anonymous_namespaces(own->function));
    return line + ' ' + pattern_of(std::string(qualified_name(shown)));
  }
  for (const SourceFrame& frame : stack)
    if (const auto file = frame.library.rfind('/'); file != std::string::npos && !is_wrapper(frame))
      return line + " */" + pattern_of(in_one_line(frame.library.substr(file + 1)));
  return line;
}

void Suppressions::read(const std::string& path) {
  std::istringstream text(text_of(path));
  unsigned number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    std::istringstream words(line);
    std::string rule, pattern;
    words >> rule;
    if (rule.empty() || rule[0] == '#') continue; // a # elsewhere may be part of the name of a lambda
    std::getline(words >> std::ws, pattern);
    pattern.erase(pattern.find_last_not_of(" \t\r") + 1);
    if (rule != "*" && page_named(rule) == nullptr) {
      std::string wrong = path;
      wrong.append(":").append(std::to_string(number)).append(": there is no rule ");
      wrong.append(rule.substr(0, 40)).append(suggestion(rule, rule_names()));
      throw std::runtime_error(wrong.append(". `cuevent watch --explain all` lists the rules"));
    }
    lines_.emplace_back(rule, pattern);
  }
}

bool Suppressions::drop(const Finding& finding, const std::vector<SourceFrame>& stack,
                        const std::vector<std::string>& python) const {
  const std::string name = page_of(finding.rule).name;
  for (const auto& [rule, pattern] : lines_) {
    if (rule != "*" && rule != name) continue;
    if (pattern.empty()) return true;
    const auto matches = [&, &wanted = pattern](const std::string& text) {
      return fnmatch(wanted.c_str(), text.c_str(), 0) == 0;
    };
    for (const SourceFrame& frame : stack) {
      const std::string shown = without_anonymous_namespaces(frame.function);
      if (matches(frame.function) || matches(shown) || matches(std::string(qualified_name(shown))) ||
          matches(frame.file) || matches(line_text(frame.file, frame.line)) || matches(frame.library))
        return true;
    }
    if (std::any_of(python.begin(), python.end(), matches)) return true;
  }
  return false;
}

bool Filter::is_of_the_program(const CallFile& process, const Finding& finding) const {
  const auto owner = [&](const Call& call) {
    return owner_of(texts_.caller_of(process, call), process.python_stack(call.stack), process.program());
  };
  if (!concerns_program(finding.rule, owner(finding.call))) return false;
  if (finding.rule != Rule::leaked || finding.earlier.empty()) return true;
  // What the program does not destroy, it may mean to end with the context. The runtime's own release at the
  // end of the process is not meant so.
  const Call& release = finding.earlier.front().call;
  return owner(release) != Owner::program;
}

/// Whether the stack is part of the end of the process, or may be: the names of its functions are unknown.
static bool is_at_exit(const std::vector<SourceFrame>& stack) {
  bool has_names = false;
  for (const SourceFrame& frame : stack) {
    has_names = has_names || !frame.function.empty();
    for (const char* end : {"exit", "__run_exit_handlers", "__cxa_finalize", "_dl_fini", "Py_FinalizeEx"})
      if (frame.function == end) return true;
  }
  return !has_names;
}

bool Filter::is_of_vendor(const CallFile& process, const Finding& finding,
                          const std::vector<SourceFrame>& stack) const {
  const auto is_vendors = [&](const Earlier& earlier) {
    return watch::is_of_vendor(finding.rule, texts_.stack_of(process, earlier.call));
  };
  std::span<const Earlier> earlier = finding.earlier;
  if (finding.rule == Rule::elapsed_without_work) {
    // A stream that a library has made is its own, so what it does there is no work that the program times.
    if (earlier.size() == 4 && is_vendors(earlier[3])) return true;
    earlier = earlier.first(2); // whoever has recorded the events, times
  }
  if (!watch::is_of_vendor(finding.rule, stack)) return false;
  // Which call an earlier one is about, a program may have decided: it destroys what a library uses.
  return std::ranges::all_of(earlier, is_vendors);
}

Kept Filter::judge(const CallFile& process, const Finding& finding) const {
  const auto stack = texts_.stack_of(process, finding.call);
  const bool is_late = finding.rule == Rule::use_after_context && finding.call.verb() == Verb::event_destroy;
  if (is_late && finding.call.returned && is_at_exit(stack)) return Kept::no;
  if (suppressions_.drop(finding, stack, process.python_stack(finding.call.stack))) return Kept::no;
  if (is_of_vendor(process, finding, stack)) return Kept::as_vendors;
  return is_of_the_program(process, finding) ? Kept::yes : Kept::no;
}

} // namespace watch
