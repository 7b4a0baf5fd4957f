// SPDX-License-Identifier: MIT
// A structure as an argument: a valid one, and those in which one member differs.
#pragma once

#include "choices.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace neighbours {

template <class T>
using Change = std::pair<std::string, std::function<void(Stage&, T&)>>;

// It has room for several: an argument can be an array.
template <class T>
Choices structure(std::function<void(Stage&, T&)> fill, std::vector<Change<T>> changes,
                  std::size_t elements = 4) {
  const auto made = [fill, elements](Stage& s) {
    T* const all = static_cast<T*>(s.room(elements * sizeof(T)));
    fill(s, *all);
    return all;
  };
  Choices choices{choice("valid", made), choice("null", [](Stage&) { return Word{0}; })};
  for (const Change<T>& change : changes)
    choices.push_back(choice(change.first, [made, change](Stage& s) {
      T* const all = made(s);
      change.second(s, *all);
      return all;
    }));
  return choices;
}

inline std::string label_of(const std::string& member, const std::string& value) {
  std::string label = member + ":";
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value.compare(i, 2, "s.") == 0)
      ++i;
    else if (value[i] != '(' && value[i] != ')' && value[i] != ' ')
      label += value[i];
  }
  return label;
}

// Also to an enumerator that the type does not have.
template <class To, class From>
To converted(From value) {
  return (To)value;
}

// One member with one value: the label says both.
// clang-format off
#define CHANGE(type, member, value)                                                                          \
  Change<type> { label_of(#member, #value), [](Stage& s, type& changed) {                                    \
    (void)s;                                                                                                 \
    changed.member = converted<std::remove_reference_t<decltype(changed.member)>>(value);                    \
  }}
// clang-format on

constexpr std::size_t huge = std::size_t{1} << 40;
constexpr std::size_t largest = std::numeric_limits<std::size_t>::max();

// Valid ones, which other structures have as members.
void fill_copy(Stage& s, CUDA_MEMCPY3D& copy);
void fill_values(Stage& s, CUstreamBatchMemOpParams& operation);

Choices graph_node_choices();

} // namespace neighbours
