// SPDX-License-Identifier: MIT
#include "choices.hpp"

#include "rules/nearest_name.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace cli {

CLI::Option* Choices::limit(CLI::Option* option, std::vector<std::string> words) {
  std::string list;
  for (const std::string& word : words)
    list += (list.empty() ? "" : "|") + word;
  words_[option] = words;
  return option->check(CLI::Validator(
      [words = std::move(words)](const std::string& word) -> std::string {
        if (std::find(words.begin(), words.end(), word) != words.end()) return {};
        std::string text;
        for (std::size_t i = 0; i < words.size(); ++i)
          text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
        return word + " is not " + text + watch::suggestion(word, words);
      },
      "{" + list + "}"));
}

const std::vector<std::string>& Choices::of(const CLI::Option* option) const {
  static const std::vector<std::string> none;
  const auto found = words_.find(option);
  return found == words_.end() ? none : found->second;
}

} // namespace cli
