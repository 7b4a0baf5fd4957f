// SPDX-License-Identifier: MIT
// The words that options and commands take.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace cli {

/// For the errors, and for the completions of shells.
class Choices {
public:
  /// The option takes only these.
  CLI::Option* limit(CLI::Option* option, std::vector<std::string> words);

  /// The option takes others as well, or says itself what is wrong with them.
  void suggest(const CLI::Option* option, std::vector<std::string> words) {
    words_[option] = std::move(words);
  }

  /// The command takes a program and its arguments.
  void run_program(const CLI::App* command) { running_.insert(command); }
  bool runs_program(const CLI::App* command) const { return running_.contains(command); }

  /// Empty if they are not known.
  const std::vector<std::string>& of(const CLI::Option* option) const;

private:
  std::map<const CLI::Option*, std::vector<std::string>> words_;
  std::set<const CLI::App*> running_;
};

} // namespace cli
