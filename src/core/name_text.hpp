// SPDX-License-Identifier: MIT
// Names in texts, for terminals, pictures and JSON. A name can be any bytes: others may have chosen it. All
// that is shown or written goes through this file. Internal to the library.
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

/// The code of a character in UTF-8.
constexpr unsigned code_of(std::string_view character) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  unsigned code = byte(0);
  if (character.size() > 1) code &= 0x7fu >> character.size();
  for (std::size_t i = 1; i < character.size(); ++i)
    code = code << 6 | (byte(i) & 0x3fu);
  return code;
}

/// Whether the character only shows itself. Others move the cursor, begin an escape sequence, end the line,
/// or turn around the order in which the characters around them are shown.
constexpr bool is_plain(unsigned code) noexcept {
  const auto is_in = [&](unsigned first, unsigned last) { return code >= first && code <= last; };
  const bool is_control = code < ' ' || is_in(0x7f, 0x9f) || is_in(0x2028, 0x2029);
  const bool is_direction = code == 0x61c || is_in(0x200e, 0x200f) || is_in(0x202a, 0x202e) ||
                            is_in(0x2066, 0x206f) || is_in(0xfff9, 0xfffb);
  return !is_control && !is_direction;
}

/// Gives the text to `plain` character by character, and to `other` each character that is not plain, and
/// each byte that is not UTF-8.
template <class Plain, class Other>
constexpr void each_character(std::string_view text, const Plain& plain, const Other& other) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const std::string_view piece = text.substr(0, size == 0 ? 1 : size);
    if (size != 0 && is_plain(code_of(piece)))
      plain(piece);
    else
      other(piece);
    text.remove_prefix(piece.size());
  }
}

/// Gives the text to `take` piece by piece. Each character that is not plain, and each byte that is not
/// UTF-8, becomes a question mark, so that the text stays in its line and shows what it is.
template <class Take>
constexpr void each_printable(std::string_view text, const Take& take) {
  each_character(text, take, [&](std::string_view) { take("?"); });
}

inline std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_printable(text, [&](std::string_view piece) { out += piece; });
  return out;
}

/// The printable text, whose line breaks stay. A byte of control shows its number: "\\x1b".
inline std::string printable_lines(std::string_view text) {
  constexpr char hexadecimal[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  each_character(
      text, [&](std::string_view piece) { out += piece; },
      [&](std::string_view piece) {
        const auto first = static_cast<unsigned char>(piece[0]);
        if (first == '\n')
          out += '\n';
        else if (first < 0x80)
          out.append("\\x").append(1, hexadecimal[first >> 4]).append(1, hexadecimal[first & 15]);
        else
          out += '?';
      });
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

/// The character as JSON writes it by its number: "\\u202e".
inline std::string json_escape(std::string_view character) {
  constexpr char hexadecimal[] = "0123456789abcdef";
  const unsigned code = code_of(character); // no character above U+FFFF is escaped
  std::string out = "\\u";
  for (const unsigned shift : {12u, 8u, 4u, 0u})
    out += hexadecimal[code >> shift & 15u];
  return out;
}

/// The text in quotes, for JSON. Each byte that is not UTF-8 becomes U+FFFD. Characters that are not plain
/// are written by their numbers.
inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  each_character(
      text,
      [&](std::string_view piece) {
        out += piece == "\"" || piece == "\\" ? json_escape(piece) : std::string(piece);
      },
      [&](std::string_view piece) {
        out += character_size(piece) == 0 ? "\xef\xbf\xbd" : json_escape(piece);
      });
  return out += '"';
}

}} // namespace cuevent::CUEVENT_ABI
