// SPDX-License-Identifier: MIT
// What a person at a terminal sees, and a file or a pipe does not get.
#pragma once

#include "report/call_text.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace watch {

/// The path as somebody in this folder writes it: relative, if it leads up by no more steps than that.
std::string path_from(const std::string& folder, const std::string& file, int most_steps_up);

/// With colours for the rule, and for what follows.
std::string coloured(const std::string& text);

/// Findings are read where the source is.
class Terminal {
public:
  /// `folder`: in which the command runs.
  explicit Terminal(std::string folder) : folder_(std::move(folder)) {}

  /// Gives the program's frames the path of their source.
  void show_paths(std::vector<NamedFrame>& frames) const;

  /// The line at which the program's innermost frame calls. Nothing if the source is not there, or is newer
  /// than the file that was compiled from it.
  std::optional<std::string> source_line(const CallFile& process,
                                         const std::vector<NamedFrame>& frames) const;

private:
  std::string folder_;
};

} // namespace watch
