// SPDX-License-Identifier: MIT
// One line of JSON.
#pragma once

#include <string>
#include <string_view>

namespace cuevent {

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
    text_ += '"';
    while (!value.empty())
      value.remove_prefix(add_character(value));
    text_ += '"';
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

  /// Returns the number of bytes that it has written. A byte that is not UTF-8 becomes U+FFFD.
  std::size_t add_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x20 || first == '"' || first == '\\') {
      constexpr char hexadecimal[] = "0123456789abcdef";
      text_ += "\\u00";
      text_ += hexadecimal[first >> 4];
      text_ += hexadecimal[first & 15];
      return 1;
    }
    const std::size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    bool valid = length != 0 && first < 0xf5 && length <= text.size();
    for (std::size_t i = 1; valid && i < length; ++i)
      valid = (byte(i) & 0xc0) == 0x80;
    // The second byte rules out longer forms than necessary, surrogates, and what is above U+10FFFF.
    if (valid && length > 2)
      valid = !(first == 0xe0 && byte(1) < 0xa0) && !(first == 0xed && byte(1) > 0x9f) &&
              !(first == 0xf0 && byte(1) < 0x90) && !(first == 0xf4 && byte(1) > 0x8f);
    text_ += valid ? text.substr(0, length) : "\xef\xbf\xbd";
    return valid ? length : 1;
  }

  static constexpr std::string_view end = "}\n";

  std::string& text_;
  bool first_ = true;
};

} // namespace cuevent
