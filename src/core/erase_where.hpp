// SPDX-License-Identifier: MIT
// Erases elements of a container by a condition, for C++17 too. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

template <class T, class Condition>
void erase_where(std::vector<T>& elements, Condition condition) {
  elements.erase(std::remove_if(elements.begin(), elements.end(), condition), elements.end());
}

template <class Key, class T, class Condition>
void erase_where(std::map<Key, T>& elements, Condition condition) {
  for (auto each = elements.begin(); each != elements.end();)
    each = condition(*each) ? elements.erase(each) : std::next(each);
}

}} // namespace cuevent::CUEVENT_ABI
