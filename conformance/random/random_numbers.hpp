// SPDX-License-Identifier: MIT
// Pseudo-random numbers that are the same on every platform, which <random> does not promise for its
// distributions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace conformance {

class RandomNumbers { // SplitMix64
public:
  explicit RandomNumbers(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t mixed = (state_ += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }

  unsigned below(unsigned bound) { return static_cast<unsigned>(next() % bound); }
  bool percent(unsigned chance) { return below(100) < chance; }

  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<unsigned>(values.size()))];
  }

private:
  std::uint64_t state_;
};

} // namespace conformance
