// SPDX-License-Identifier: MIT
// Objects and arrays of JSON. Internal to the library.
#pragma once

#include "core/name_text.hpp"

#include <string>
#include <string_view>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The members of an object, or the elements of an array. Values are JSON already.
class JsonList {
public:
  JsonList& operator()(std::string_view name, const std::string& value) {
    if (!text_.empty()) text_ += ',';
    text_.append(json_string(name)).append(":").append(value);
    return *this;
  }
  JsonList& operator()(const std::string& value) {
    text_ += (text_.empty() ? "" : ",") + value;
    return *this;
  }
  std::string object() const { return "{" + text_ + "}"; }
  std::string array() const { return "[" + text_ + "]"; }

private:
  std::string text_;
};

template <class Elements, class Text>
std::string json_array(const Elements& elements, const Text& text) {
  JsonList list;
  for (const auto& each : elements)
    list(text(each));
  return list.array();
}

}} // namespace cuevent::CUEVENT_ABI
