// SPDX-License-Identifier: MIT
// One line of JSON.
#pragma once

#include "core/name_text.hpp"

#include <string>
#include <string_view>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Appends an object to the text: `JsonLine(text).add("span", 1).add("end", 20)`. After each add() the line
/// has its end.
class JsonLine {
public:
  explicit JsonLine(std::string& text) : text_(text) {}
  JsonLine(const JsonLine&) = delete;
  JsonLine& operator=(const JsonLine&) = delete;

  JsonLine& add(std::string_view key, long long value) {
    add_key(key);
    text_ += std::to_string(value);
    text_ += end;
    return *this;
  }
  JsonLine& add(std::string_view key, std::string_view value) {
    add_key(key);
    text_ += json_string(value);
    text_ += end;
    return *this;
  }

private:
  void add_key(std::string_view key) {
    if (!first_) text_.resize(text_.size() - end.size());
    text_ += first_ ? "{\"" : ",\"";
    text_ += key;
    text_ += "\":";
    first_ = false;
  }

  static constexpr std::string_view end = "}\n";

  std::string& text_;
  bool first_ = true;
};

}} // namespace cuevent::CUEVENT_ABI
