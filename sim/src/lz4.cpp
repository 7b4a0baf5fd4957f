// SPDX-License-Identifier: MIT
#include "bytes.hpp"
#include "decompression.hpp"

namespace cuevent::sim {

std::string decompress_lz4(std::string_view compressed, std::size_t size) {
  std::string text;
  std::size_t at = 0;
  const auto next = [&] {
    damaged_if(at == compressed.size());
    return static_cast<unsigned char>(compressed[at++]);
  };
  const auto length = [&](std::size_t nibble) {
    if (nibble != 15) return nibble;
    for (std::size_t more = 255; more == 255;) {
      more = next();
      nibble += more;
      damaged_if(nibble > size);
    }
    return nibble;
  };
  for (;;) {
    const unsigned char token = next();
    const std::size_t literals = length(token >> 4U);
    damaged_if(literals > compressed.size() - at || literals > size - text.size());
    text.append(compressed.substr(at, literals));
    at += literals;
    if (at == compressed.size()) break; // the last part has no match
    const std::size_t low = next();
    const std::size_t distance = low + next() * std::size_t{256};
    std::size_t match = length(token & 15U) + 4;
    damaged_if(distance == 0 || distance > text.size() || match > size - text.size());
    for (; match != 0; --match)
      text.push_back(text[text.size() - distance]);
  }
  damaged_if(text.size() != size);
  return text;
}

} // namespace cuevent::sim
