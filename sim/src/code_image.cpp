// SPDX-License-Identifier: MIT
#include "code_image.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

namespace cuevent::sim {

namespace {

/// The words and signs of PTX, without comments and strings.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.' || c == '%';
  };
  for (std::size_t i = 0; i < text.size();) {
    const auto skip_to = [&](std::string_view end) {
      const auto found = text.find(end, i + 1);
      i = found == std::string_view::npos ? text.size() : found + end.size();
    };
    if (text.substr(i, 2) == "//") {
      skip_to("\n");
    } else if (text.substr(i, 2) == "/*") {
      skip_to("*/");
    } else if (text[i] == '"') {
      skip_to("\"");
    } else if (in_word(text[i])) {
      const std::size_t begin = i;
      while (i < text.size() && in_word(text[i]))
        ++i;
      words.push_back(text.substr(begin, i - begin));
    } else {
      if (std::isspace(static_cast<unsigned char>(text[i])) == 0) words.push_back(text.substr(i, 1));
      ++i;
    }
  }
  return words;
}

std::size_t number(std::string_view word) { return std::strtoull(std::string(word).c_str(), nullptr, 0); }

/// .u32, .b8, .f64 and so on; 0 for anything else.
std::size_t size_of_type(std::string_view word) {
  if (word.size() < 3 || word[0] != '.' || std::strchr("usbf", word[1]) == nullptr) return 0;
  const std::size_t bits = number(word.substr(2));
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

struct Declaration {
  std::string_view name;
  std::size_t bytes = 0, element = 0, alignment = 0;
  bool managed = false;
  std::size_t end = 0; ///< the first word behind it
};

/// From behind .param, .global, .const or .shared to a sign that ends a declaration.
Declaration declaration(const std::vector<std::string_view>& words, std::size_t at) {
  Declaration found;
  for (; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (word == ".align" && at + 1 < words.size()) {
      found.alignment = number(words[++at]);
    } else if (word == ".attribute") { // (.managed), or another list in brackets
      while (at < words.size() && words[at] != ")")
        found.managed |= words[at++] == ".managed";
    } else if (const std::size_t size = size_of_type(word)) {
      found.element = size;
    } else if (word[0] != '.') {
      found.name = word;
      break;
    }
  }
  found.bytes = found.element;
  for (++at; at + 1 < words.size() && words[at] == "["; at += words[at + 1] == "]" ? 2 : 3)
    found.bytes *= words[at + 1] == "]" ? 0 : number(words[at + 1]);
  if (found.alignment == 0) found.alignment = found.element;
  found.end = at;
  return found;
}

/// To the end of a body. Calls act(word, place) for each word in it.
template <class Act>
void read_body(const std::vector<std::string_view>& words, std::size_t& at, Act act) {
  for (int depth = 0; at < words.size(); ++at) {
    if (words[at] == "{") ++depth;
    if (words[at] == "}" && --depth == 0) break;
    if (depth == 0 && words[at] == ";") break;
    act(words[at], at);
  }
}

/// What a body uses of what is declared before it.
class Uses {
public:
  void declare(std::string_view name) { declared_.insert(name); }
  void add(std::string_view word, std::set<std::string>& to) const {
    if (declared_.count(word) != 0) to.emplace(word);
  }

private:
  std::set<std::string_view> declared_;
};

KernelCode read_kernel(const std::vector<std::string_view>& words, std::size_t& at, const Uses& uses,
                       std::set<std::string>& used) {
  KernelCode code;
  std::size_t offset = 0;
  for (; at < words.size() && words[at] != "{" && words[at] != ";"; ++at) {
    if (words[at] == ".param") {
      const Declaration one = declaration(words, at + 1);
      const std::size_t alignment = one.alignment == 0 ? 1 : one.alignment;
      offset = (offset + alignment - 1) / alignment * alignment;
      code.parameters.push_back({offset, one.bytes});
      offset += one.bytes;
      at = one.end - 1;
    } else if (words[at] == ".maxntid" || words[at] == ".reqntid") {
      constexpr std::size_t most = 1'024;
      std::size_t threads = std::min(number(words[++at]), most);
      while (at + 2 < words.size() && words[at + 1] == ",") {
        at += 2;
        threads = std::min(threads * std::min(number(words[at]), most), most);
      }
      code.most_threads = static_cast<int>(threads);
    } else if (words[at] == ".explicitcluster") {
      code.explicit_cluster = true;
    } else if (words[at] == ".reqnctapercluster") {
      for (int& extent : code.cluster)
        extent = 1;
      for (std::size_t i = 0; i < 3 && at + 1 < words.size(); ++i) {
        code.cluster[i] = static_cast<int>(std::min<std::size_t>(number(words[++at]), 1'024));
        if (at + 1 >= words.size() || words[at + 1] != ",") break;
        ++at;
      }
    }
  }
  read_body(words, at, [&](std::string_view word, std::size_t place) {
    if (word == ".shared") code.shared += declaration(words, place + 1).bytes;
    uses.add(word, used);
  });
  return code;
}

Variable read_variable(const std::vector<std::string_view>& words, const Declaration& of, std::size_t& at) {
  Variable variable;
  variable.bytes = of.bytes;
  variable.managed = of.managed;
  at = of.end;
  if (at >= words.size() || words[at] != "=") return variable;
  for (++at; at < words.size() && words[at] != ";"; ++at) {
    if (std::isdigit(static_cast<unsigned char>(words[at][0])) == 0) continue;
    const unsigned long long value = number(words[at]);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    variable.initial.insert(variable.initial.end(), bytes, bytes + std::min<std::size_t>(of.element, 8));
  }
  return variable;
}

/// By the word before the declaration.
Linkage linkage_of(std::string_view word) {
  if (word == ".visible") return Linkage::global;
  return word == ".weak" || word == ".common" ? Linkage::weak : Linkage::local;
}

} // namespace

CodeImage read_ptx(std::string_view text) {
  CodeImage image;
  const std::vector<std::string_view> words = words_of(text);
  Uses uses;
  for (std::size_t at = 0; at + 1 < words.size(); ++at) {
    const std::string_view before = at == 0 ? std::string_view() : words[at - 1];
    const bool elsewhere = before == ".extern";
    if (words[at] == ".entry") {
      const std::string name(words[at + 1]);
      at += 2;
      uses.declare(words[at - 1]);
      KernelCode kernel = read_kernel(words, at, uses, image.uses[name]);
      kernel.linkage = linkage_of(before);
      if (elsewhere) image.elsewhere.insert(name);
      if (elsewhere) continue;
      if (!image.kernels.contains(name)) image.order.insert(image.order.begin(), name);
      image.kernels[name] = std::move(kernel);
    } else if (words[at] == ".func") {
      std::size_t name = at + 1;
      if (words[name] == "(") // what it returns
        while (name + 1 < words.size() && words[name++] != ")") {
        }
      if (name >= words.size()) break;
      uses.declare(words[name]);
      if (elsewhere)
        image.elsewhere.emplace(words[name]);
      else
        image.functions.emplace(words[name], linkage_of(before));
      while (at < words.size() && words[at] != "{" && words[at] != ";")
        ++at;
      std::set<std::string>& used = image.uses[std::string(words[name])];
      read_body(words, at, [&](std::string_view word, std::size_t) { uses.add(word, used); });
    } else if (words[at] == ".global" || words[at] == ".const") {
      const Declaration one = declaration(words, at + 1);
      const std::string name(one.name);
      const bool constant = words[at] == ".const";
      Variable variable = read_variable(words, one, at);
      variable.constant = constant;
      variable.linkage = linkage_of(before);
      uses.declare(one.name);
      if (!elsewhere) image.variables[name] = std::move(variable);
    } else if (words[at] == ".target" && words[at + 1].starts_with("sm_")) {
      image.target = static_cast<int>(number(words[at + 1].substr(3)));
    }
  }
  return image;
}

bool is_built_in(std::string_view function) {
  return function == "vprintf" || function == "malloc" || function == "free" || function == "__assertfail" ||
         function.starts_with("__cuda_syscall") || function.starts_with("cnp");
}

bool needs_other_code(const CodeImage& code) {
  return std::any_of(code.uses.begin(), code.uses.end(), [&](const auto& body) {
    return std::any_of(body.second.begin(), body.second.end(), [&](const std::string& name) {
      return code.elsewhere.contains(name) && !code.functions.contains(name) &&
             !code.kernels.contains(name) && !is_built_in(name);
    });
  });
}

} // namespace cuevent::sim
