// SPDX-License-Identifier: MIT
#include "merge/hang_sequence.hpp"

#include "rules/collectives.hpp"

#include <algorithm>
#include <utility>

namespace cli {

namespace {

/// Times hash_factor it is 1: each step doubles the number of low bits that are right.
constexpr std::uint64_t inverse_factor = [] {
  constexpr std::uint64_t factor = watch::CollectiveSequence::hash_factor;
  std::uint64_t inverse = factor; // right in 3 bits
  for (int bits = 3; bits < 64; bits *= 2)
    inverse *= 2 - factor * inverse;
  return inverse;
}();

} // namespace

HangSequence::HangSequence(std::uint64_t submitted, std::uint64_t hash, std::vector<std::string> names,
                           std::vector<std::uint32_t> last)
    : submitted_(submitted), hash_(hash), names_(std::move(names)), last_(std::move(last)),
      hashes_(last_.size()) {
  std::vector<std::uint64_t> hashes_of_names;
  hashes_of_names.reserve(names_.size());
  for (const std::string& name : names_)
    hashes_of_names.push_back(watch::CollectiveSequence::hash_of(name));
  for (std::size_t i = last_.size(); i-- > 0;)
    hashes_[i] = hash = (hash - hashes_of_names[last_[i]]) * inverse_factor;
}

const std::string* HangSequence::name_of(std::uint64_t number) const {
  const std::uint64_t older = submitted_ - last_.size();
  return number <= older || number > submitted_ ? nullptr : &names_[last_[number - older - 1]];
}

std::optional<std::uint64_t> HangSequence::hash_of_first(std::uint64_t count) const {
  const std::uint64_t older = submitted_ - last_.size();
  if (count == 0) return 0;
  if (count == submitted_) return hash_;
  if (count < older || count > submitted_) return std::nullopt;
  return hashes_[count - older];
}

std::optional<std::uint64_t> common_beginning(const HangSequence& a, const HangSequence& b) {
  const auto is_common = [&](std::uint64_t count) {
    const auto of_a = a.hash_of_first(count), of_b = b.hash_of_first(count);
    return of_a && of_b ? std::optional(*of_a == *of_b) : std::nullopt;
  };
  std::uint64_t different = std::min(a.submitted(), b.submitted()) + 1, common = 0;
  if (const auto all = is_common(different - 1); !all || *all)
    return all ? std::optional(different - 1) : std::nullopt;
  --different;
  while (different - common > 1) {
    const std::uint64_t middle = common + (different - common) / 2;
    const auto found = is_common(middle);
    if (found && !*found)
      different = middle;
    else
      common = middle; // or one of the names before is not known any more
  }
  return is_common(common).value_or(false) ? std::optional(common) : std::nullopt;
}

} // namespace cli
