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

struct Variable {
  Product product;
  const char* name;
};
inline constexpr Variable known_variables[] = {
#define VARIABLE(product, name) {Product::product, #name},
#include "variables.inc"
};

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
  if (size > longest) return nullptr;
  for (const Variable& known : known_variables) {
    const unsigned far = distance(name, size, known.name);
    if (far >= least) continue;
    least = far;
    found = known.name;
  }
  return found;
}

inline bool is_known(const char* name, std::size_t size) {
  for (const Variable& known : known_variables)
    if (std::strlen(known.name) == size && std::memcmp(known.name, name, size) == 0) return true;
  return false;
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
std::size_t for_each_unknown_variable(Product product, const Say& say) {
  std::size_t count = 0;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const char* const name = *each;
    if (!judges(product, name)) continue;
    const char* const end = std::strchr(name, '=');
    const std::size_t size = end != nullptr ? static_cast<std::size_t>(end - name) : std::strlen(name);
    if (is_known(name, size) || ++count > 8) continue;
    Text text;
    text.add(name, size < longest ? size : longest);
    text.add(size > longest ? "...: cuevent has no such variable" : ": cuevent has no such variable");
    if (const char* const meant = nearest(name, size)) {
      text.add("; did you mean ");
      text.add(meant);
      text.add("?");
    }
    say(text.get());
  }
  return count;
}

}} // namespace ::environment
