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
  Choices choices{choice("valid", made), null()};
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

template <class T>
void fill_allocation(Stage&, T& allocation) {
  allocation.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  allocation.bytesize = 4096;
}

struct AllocationNode {
  CUgraphNode node = nullptr;
  CUdeviceptr memory = 0;
};
AllocationNode allocate(Stage& s, CUgraph graph);

// Each kind of place with several numbers, but for the valid place.
template <class T, class Member>
void add_locations(std::vector<Change<T>>& all, Member location) {
  for (int where = -1; where <= 6; ++where)
    for (int id : {-1, 0, 1, 77})
      if (where != CU_MEM_LOCATION_TYPE_DEVICE || id != 0)
        all.push_back({"location_" + std::to_string(where) + "_" + std::to_string(id), [=](Stage&, T& t) {
                         location(t).type = converted<CUmemLocationType>(where);
                         location(t).id = id;
                       }});
}

Choices graph_node_choices();

} // namespace neighbours
