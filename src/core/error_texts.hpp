// SPDX-License-Identifier: MIT
// The rows of errors.inc in little space: without pointers, each of which would take a relocation of 24
// bytes, and with one byte for each phrase that is frequent in the texts. Internal to the library.
#pragma once

#include <cuevent/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Byte 1 in a text is the first phrase. In the order of their first characters, the longer ones first.
/// Changing the list changes the size of the library, and no text.
constexpr std::string_view phrases[] = {
    " already ",
    " is not ",
    " failed",
    " that ",
    " not ",
    "ALREADY_",
    "INVALID_",
    "NOT_",
    "STREAM_CAPTURE_",
    "SUPPORTED",
    "a kernel ",
    "an ",
    "a ",
    "capture",
    "context",
    "call",
    "deprecated: the profiler ",
    "ed ",
    "er ",
    "in ",
    "memory",
    "operation",
    "process",
    "resource",
    "support",
    "stream",
    "the process can do no more CUDA work: restart it",
    "the device",
    "this ",
    "the ",
    "valid",
};
constexpr std::size_t phrase_count = std::size(phrases);
static_assert(phrase_count < ' ', "they have the numbers of control characters");

/// By character: the number of the first phrase that begins with it plus 1, or 0.
struct FirstPhrases {
  constexpr FirstPhrases() noexcept {
    for (std::size_t i = phrase_count; i-- > 0;)
      with[static_cast<unsigned char>(phrases[i][0])] = static_cast<unsigned char>(i + 1);
  }
  unsigned char with[128]{};
};
constexpr FirstPhrases first_phrases;

/// The number of the phrase that the text begins with, or phrase_count. Compilers limit the steps of what
/// they compute, so only phrases with the right first character are compared.
constexpr std::size_t phrase_at(const char* text) noexcept {
  for (std::size_t i = first_phrases.with[static_cast<unsigned char>(*text)]; i != 0 && i <= phrase_count;
       ++i) {
    const std::string_view phrase = phrases[i - 1];
    if (phrase[0] != *text) break;
    std::size_t same = 1;
    while (same < phrase.size() && text[same] == phrase[same])
      ++same;
    if (same == phrase.size()) return i - 1;
  }
  return phrase_count;
}

constexpr std::size_t size_of_phrases() noexcept {
  std::size_t size = 0;
  for (const std::string_view phrase : phrases)
    size += phrase.size() + 1;
  return size;
}

constexpr char common_prefix[] = "CUDA_ERROR_"; // of all names except CUDA_SUCCESS
constexpr std::size_t prefix_size = sizeof common_prefix - 1;
constexpr char written_rows[] = "CUDA_ERROR_SUCCESS\0the call succeeded\0\0"
#define CUEVENT_ERROR(code, name, Class, kind, text, advice) #name "\0" text "\0" advice "\0"
#include <cuevent/errors.inc>
    ;

struct ErrorRow {
  short code;
  unsigned char kind;   // an ErrorKind
  unsigned short begin; // of the coded strings: the name without the prefix, the text, the advice
};
constexpr ErrorRow unplaced_rows[] = {
    {0, static_cast<unsigned char>(ErrorKind::success), 0},
#define CUEVENT_ERROR(code, name, Class, kind, text, advice)                                                 \
  {code, static_cast<unsigned char>(ErrorKind::kind), 0},
#include <cuevent/errors.inc>
};
constexpr std::size_t row_count = std::size(unplaced_rows);

/// Gives `put` the coded strings byte by byte, and `begin_row` each row's number.
template <class BeginRow, class Put>
constexpr void code_rows(const BeginRow& begin_row, const Put& put) {
  const char* from = written_rows;
  for (std::size_t row = 0; row < row_count; ++row) {
    begin_row(row);
    from += prefix_size;
    for (int strings = 0; strings < 3;) {
      const std::size_t phrase = phrase_at(from);
      put(phrase < phrase_count ? static_cast<char>(phrase + 1) : *from);
      if (*from == '\0') ++strings;
      from += phrase < phrase_count ? phrases[phrase].size() : 1;
    }
  }
}

constexpr std::size_t coded_size = [] {
  std::size_t size = 0;
  code_rows([](std::size_t) {}, [&](char) { ++size; });
  return size;
}();

struct ErrorTexts {
  ErrorRow rows[row_count];
  char coded[coded_size];
  char phrases[size_of_phrases()];
};
inline constexpr ErrorTexts error_texts = [] {
  ErrorTexts made{};
  std::size_t to = 0;
  code_rows(
      [&](std::size_t row) {
        made.rows[row] = unplaced_rows[row];
        made.rows[row].begin = static_cast<unsigned short>(to);
      },
      [&](char one) { made.coded[to++] = one; });
  to = 0;
  for (const std::string_view phrase : phrases) {
    for (const char one : phrase)
      made.phrases[to++] = one;
    made.phrases[to++] = '\0';
  }
  return made;
}();
static_assert(coded_size <= 0xffff, "a place has 16 bits");
static_assert(
    [] { // std::is_sorted is a constant in C++20 only
      for (std::size_t i = 1; i < std::size(error_texts.rows); ++i)
        if (error_texts.rows[i].code < error_texts.rows[i - 1].code) return false;
      return true;
    }(),
    "the rows are looked up by bisection");

/// Null for a code that has no row.
inline const ErrorRow* find_row(int code) noexcept {
  const ErrorRow* const row = std::partition_point(std::begin(error_texts.rows), std::end(error_texts.rows),
                                                   [&](const ErrorRow& each) { return each.code < code; });
  return row != std::end(error_texts.rows) && row->code == code ? row : nullptr;
}

constexpr std::size_t longest_row = [] {
  std::size_t longest = 0, from = 0;
  for (std::size_t row = 0; row < row_count; ++row) {
    const std::size_t begin = from;
    for (int strings = 0; strings < 3; ++from)
      if (written_rows[from] == '\0') ++strings;
    longest = std::max(longest, from - begin);
  }
  return longest;
}();

/// What errors.inc says about a code. Needs no memory.
struct ErrorText {
  [[gnu::cold]] explicit ErrorText(int code) noexcept;

  const char* prefix = "";
  const char* name = "CUresult";
  const char* after_name = " "; // and before the number
  const char* end = "";
  const char* text = "an error that this version of cuevent does not know";
  const char* advice = "";

private:
  char decoded_[longest_row]; // uninitialised
};

constexpr std::size_t longest_message = 400;

/// "CUDA_ERROR_NOT_READY (600)", or "CUresult 987" for an unknown code. If `before_text` is not empty, the
/// text follows.
[[gnu::cold]] void write_name(char (&out)[longest_message], int code, const ErrorText& said,
                              const char* before_text = "") noexcept;

}} // namespace cuevent::CUEVENT_ABI
