// SPDX-License-Identifier: MIT
#include "report/readable_name.hpp"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <string_view>

namespace watch {

namespace {

constexpr std::size_t longest_shown = 100;

/// The arguments of templates can be long, and say little.
std::string without_template_arguments(const std::string& name) {
  std::string text;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_operator = text.ends_with("operator") || text.ends_with("operator<") ||
                             text.ends_with("operator>") || text.ends_with("operator-");
    if (name[i] == '<' && !is_operator && depth++ == 0) text += "<...";
    if (depth == 0) text += name[i];
    if (name[i] == '>' && depth > 0 && --depth == 0) text += '>';
  }
  return text;
}

} // namespace

std::string in_one_line(std::string name) {
  std::replace(name.begin(), name.end(), '\n', '?');
  return name;
}

std::string readable_name(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return shortened(symbol); // "i" is not the type int
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return shortened(std::move(name));
}

std::string shortened(std::string name) {
  name = in_one_line(std::move(name));
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  for (auto at = name.find(anonymous); at != std::string::npos; at = name.find(anonymous))
    name.erase(at, anonymous.size());
  if (name.size() > longest_shown) name = without_template_arguments(name);
  if (name.size() <= longest_shown) return name;
  const auto place = name.ends_with(')') ? name.rfind(" (") : std::string::npos;
  const std::string end = place == std::string::npos ? std::string() : name.substr(place);
  return name.replace(longest_shown - 3, std::string::npos, "...") + end;
}

} // namespace watch
