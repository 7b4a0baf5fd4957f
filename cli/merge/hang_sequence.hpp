// SPDX-License-Identifier: MIT
// The collectives that a rank has submitted to one stream: how many, a hash of all names, the last names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cli {

class HangSequence {
public:
  HangSequence() = default;
  /// `last` has places in `names`. The hash is the one of watch::CollectiveSequence.
  HangSequence(std::uint64_t submitted, std::uint64_t hash, std::vector<std::string> names,
               std::vector<std::uint32_t> last);

  std::uint64_t submitted() const { return submitted_; }
  std::uint64_t hash() const { return hash_; }

  /// The name of a collective, counted from 1. Null if it is not among the last ones.
  const std::string* name_of(std::uint64_t number) const;

  /// The hash of the first names. Nothing if too many came later.
  std::optional<std::uint64_t> hash_of_first(std::uint64_t count) const;

private:
  std::uint64_t submitted_ = 0, hash_ = 0;
  std::vector<std::string> names_;
  std::vector<std::uint32_t> last_;
  std::vector<std::uint64_t> hashes_; // before each of the last names
};

/// The length of the common beginning of both. Nothing if it is not known.
std::optional<std::uint64_t> common_beginning(const HangSequence& a, const HangSequence& b);

} // namespace cli
