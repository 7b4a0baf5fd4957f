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

/// The compiler splits and copies functions: "step.constprop.0" and "step.part.0.cold" are parts of "step".
std::string_view without_clones(std::string_view symbol) {
  constexpr std::string_view kinds[] = {"cold",       "constprop", "isra", "llvm",
                                        "localalias", "lto_priv",  "part", "warm"};
  for (;;) {
    std::string_view rest = symbol;
    const auto number = rest.rfind('.') + 1; // 0: there is none
    if (number != 0 && number < rest.size() && rest.find_first_not_of("0123456789", number) == rest.npos)
      rest = rest.substr(0, number - 1);
    const auto kind = rest.rfind('.');
    if (kind == rest.npos || kind == 0) return symbol;
    if (std::find(std::begin(kinds), std::end(kinds), rest.substr(kind + 1)) == std::end(kinds))
      return symbol;
    symbol = rest.substr(0, kind);
  }
}

} // namespace

std::string in_one_line(std::string name) {
  std::replace(name.begin(), name.end(), '\n', '?');
  return name;
}

std::string function_name(const std::string& symbol) {
  std::string original(without_clones(symbol));
  if (!original.starts_with("_Z")) return original; // "i" is not the type int
  int status = 0;
  char* const text = abi::__cxa_demangle(original.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : original;
  std::free(text);
  return name;
}

std::string readable_name(const std::string& symbol) { return shortened(function_name(symbol)); }

std::string without_anonymous_namespaces(std::string name) {
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  for (auto at = name.find(anonymous); at != std::string::npos; at = name.find(anonymous))
    name.erase(at, anonymous.size());
  return name;
}

std::string shortened(std::string name) {
  name = without_anonymous_namespaces(in_one_line(std::move(name)));
  if (name.size() > longest_shown) name = without_template_arguments(name);
  if (name.size() <= longest_shown) return name;
  const auto place = name.ends_with(')') ? std::min(name.rfind(" ("), name.size()) : name.size();
  const std::string end = name.substr(place);
  name.resize(place);
  if (name.size() > longest_shown) name.replace(longest_shown - 3, std::string::npos, "...");
  return name + end;
}

} // namespace watch
