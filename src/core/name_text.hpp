// SPDX-License-Identifier: MIT
// Names in texts, for terminals, pictures and JSON. A name can be any bytes. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The number of bytes of the first character of a text that is not empty. Zero if it does not begin with
/// a character in UTF-8.
constexpr std::size_t character_size(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // The second byte rules out longer forms than necessary, surrogates, and what is above U+10FFFF.
  const bool is_wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                        (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return is_wrong ? 0 : size;
}

/// At most the first `most` bytes of the text, without a character that has more bytes after them.
constexpr std::string_view beginning(std::string_view text, std::size_t most) noexcept {
  if (text.size() <= most) return text;
  for (std::size_t size = most; size != 0 && most - size < 3;) {
    const std::size_t character = character_size(text.substr(--size));
    if (character > most - size) return text.substr(0, size);
    if (character != 0) break;
  }
  return text.substr(0, most);
}

/// Gives the text to `take` piece by piece. Each control character, and each byte that is not UTF-8, becomes
/// a question mark, so that the text stays in its line and cannot begin an escape sequence.
template <class Take>
constexpr void each_printable(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool is_control = size == 1 ? first < ' ' || first == 0x7f
                                      : first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    take(size == 0 || is_control ? std::string_view("?") : text.substr(0, size));
    text.remove_prefix(size == 0 ? 1 : size);
  }
}

inline std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_printable(text, [&](std::string_view piece) { out += piece; });
  return out;
}

/// The printable text for XML.
inline std::string xml_text(std::string_view text) {
  std::string out;
  each_printable(text, [&](std::string_view piece) {
    if (piece == "&")
      out += "&amp;";
    else if (piece == "<")
      out += "&lt;";
    else if (piece == ">") // "]]>" must not be in a text
      out += "&gt;";
    else if (piece == "\"")
      out += "&quot;";
    else if (piece == "\xef\xbf\xbe" || piece == "\xef\xbf\xbf") // the only other characters that XML refuses
      out += '?';
    else
      out += piece;
  });
  return out;
}

/// The text in quotes, for JSON. Each byte that is not UTF-8 becomes U+FFFD.
inline std::string json_string(std::string_view text) {
  constexpr char hexadecimal[] = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (size == 0)
      out += "\xef\xbf\xbd";
    else if (first < ' ' || first == '"' || first == '\\')
      out.append("\\u00").append(1, hexadecimal[first >> 4]).append(1, hexadecimal[first & 15]);
    else
      out += text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out += '"';
}

}} // namespace cuevent::CUEVENT_ABI
