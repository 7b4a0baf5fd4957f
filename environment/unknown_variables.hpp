// SPDX-License-Identifier: MIT
// Finds misspelt environment variables. Each product looks when it reads its own variables, and says it in
// its own way. Works without a C++ library and without memory, because it also runs inside other people's
// programs.
#pragma once

#include <cstddef>
#include <cstring>
#include <unistd.h>

namespace { namespace environment { // each product has its own copy

enum class Product { library, simulator, tools };

inline constexpr char written_variables[] =
#define VARIABLE(product, name) #name "\0"
#include "variables.inc"
    ;
inline constexpr std::size_t variable_count = [] {
  std::size_t count = 0;
  for (const char one : written_variables)
    count += one == '\0' ? 1 : 0;
  return count - 1; // without the end of the text
}();
inline constexpr char variable_prefix[] = "CUEVENT_"; // of every name
inline constexpr std::size_t prefix_size = sizeof variable_prefix - 1;

/// One name after the other, without the prefix, and without pointers, which would take relocations.
struct VariableNames {
  constexpr VariableNames() noexcept {
    std::size_t to = 0;
    const char* from = written_variables;
    for (std::size_t i = 0; i < variable_count; ++i) {
      for (from += prefix_size; *from != '\0'; ++from)
        text[to++] = *from;
      text[to++] = *from++;
    }
  }
  char text[sizeof written_variables - variable_count * prefix_size]{};
};
inline constexpr VariableNames variable_names;

/// Calls use(name) for each known variable, with the name after the prefix.
template <class Use>
void for_each_known_variable(const Use& use) {
  for (const char* name = variable_names.text; *name != '\0'; name += std::strlen(name) + 1)
    use(name);
}

inline bool begins_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

/// Whether it is for this product to say that it does not know the name. A name with the prefix of another
/// product may be a variable of a newer version of that product.
inline bool judges(Product product, const char* name) {
  if (begins_with(name, "CUEVENT_TEST_")) return false;
  if (begins_with(name, "CUEVENT_SIM_")) return product == Product::simulator;
  if (begins_with(name, "CUEVENT_WATCH")) return product == Product::tools;
  return begins_with(name, "CUEVENT_");
}

inline constexpr std::size_t longest = 64; // of a name that is compared or shown

/// The number of characters to insert, remove or change.
inline unsigned distance(const char* a, std::size_t a_size, const char* b) {
  unsigned row[longest + 1];
  for (unsigned i = 0; i <= a_size; ++i)
    row[i] = i;
  for (; *b != '\0'; ++b) {
    unsigned diagonal = row[0]++;
    for (std::size_t i = 1; i <= a_size; ++i) {
      unsigned least = diagonal + (a[i - 1] != *b ? 1U : 0U);
      diagonal = row[i];
      if (diagonal + 1 < least) least = diagonal + 1;
      if (row[i - 1] + 1 < least) least = row[i - 1] + 1;
      row[i] = least;
    }
  }
  return row[a_size];
}

/// The known variable with nearly this name, or null.
inline const char* nearest(const char* name, std::size_t size) {
  const char* found = nullptr;
  unsigned least = 4;
  if (size > longest - prefix_size) return nullptr;
  for_each_known_variable([&](const char* known) {
    const unsigned far = distance(name, size, known);
    if (far >= least) return;
    least = far;
    found = known;
  });
  return found;
}

inline bool is_known(const char* name, std::size_t size) {
  bool found = false;
  for_each_known_variable([&](const char* known) {
    found = found || (std::strlen(known) == size && std::memcmp(known, name, size) == 0);
  });
  return found;
}

class Text {
public:
  void add(const char* more) { add(more, std::strlen(more)); }
  void add(const char* more, std::size_t size) {
    for (std::size_t i = 0; i < size && used_ < sizeof text_ - 1; ++i)
      text_[used_++] = more[i] >= ' ' && more[i] <= '~' ? more[i] : '?';
    text_[used_] = '\0';
  }
  const char* get() const { return text_; }

private:
  char text_[256] = "";
  std::size_t used_ = 0;
};

/// Calls say(text) for the first eight unknown names that this product judges. Returns how many there are.
template <class Say>
[[gnu::cold]] std::size_t for_each_unknown_variable(Product product, const Say& say) {
  std::size_t count = 0;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const char* const name = *each;
    if (!judges(product, name)) continue;
    const char* const end = std::strchr(name, '=');
    const std::size_t size = end != nullptr ? static_cast<std::size_t>(end - name) : std::strlen(name);
    if (is_known(name + prefix_size, size - prefix_size) || ++count > 8) continue;
    Text text;
    text.add(name, size < longest ? size : longest);
    text.add(size > longest ? "...: cuevent has no such variable" : ": cuevent has no such variable");
    if (const char* const meant = nearest(name + prefix_size, size - prefix_size)) {
      text.add("; did you mean ");
      text.add(variable_prefix);
      text.add(meant);
      text.add("?");
    }
    say(text.get());
  }
  return count;
}

}} // namespace ::environment
