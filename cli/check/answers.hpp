// SPDX-License-Identifier: MIT
// Reads the lines of a transcript, and the list of known differences.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

using Answers = std::map<std::string, std::string, std::less<>>; // by case name

/// The answers of one driver in one run.
struct Transcript {
  std::vector<std::string> about; // the name and version of the driver
  Answers answers;

  /// Whether the driver is the simulated one.
  bool is_of_simulator() const;

  /// Adds what a line says: `# about the driver` or `name = answer`. Ignores any other line, because a driver
  /// may print too. If a name comes twice, its first answer counts.
  void add(std::string_view line);
};

/// Why the simulated driver answers some questions differently from a device. Refers to the line that it was
/// read from.
struct KnownDifference {
  std::string_view prefix, reason; // neither is empty
  bool seen = false;               // or the answers may also agree
};

/// What a line `prefix of names: reason` says. With a `?` before it, the answers differ at times. Nothing for
/// a comment and for any other line.
std::optional<KnownDifference> known_difference_in(std::string_view line);

} // namespace cli
