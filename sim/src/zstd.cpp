// SPDX-License-Identifier: MIT
// Zstandard, without dictionaries and without looking at checksums. The names are those of RFC 8878.

#include "bytes.hpp"
#include "decompression.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace cuevent::sim {

namespace {

using Number = std::uint64_t;

Number byte_at(std::string_view text, std::size_t at) { return value_in<unsigned char>(text, at); }

Number little_endian(std::string_view text, std::size_t at, std::size_t bytes) {
  Number value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= byte_at(text, at + i) << (8 * i);
  return value;
}

/// Takes a part from the front.
std::string_view take(std::string_view& from, std::size_t size) {
  damaged_if(size > from.size());
  const std::string_view part = from.substr(0, size);
  from.remove_prefix(size);
  return part;
}

unsigned bits_of(Number value) { return static_cast<unsigned>(std::bit_width(value)); }

/// Reads bits from the end of a text to its beginning. In front of the beginning there are zeros.
class BackwardBits {
public:
  explicit BackwardBits(std::string_view text) : text_(text) {
    damaged_if(text.empty() || text.back() == 0);
    left_ = static_cast<std::int64_t>(text.size()) * 8 - 9 + bits_of(byte_at(text, text.size() - 1));
  }
  Number read(unsigned count) {
    Number value = 0;
    for (; count != 0; --count) {
      --left_;
      value = value << 1U | (left_ < 0 ? 0
                                       : byte_at(text_, static_cast<std::size_t>(left_ / 8)) >>
                                                 static_cast<unsigned>(left_ % 8) &
                                             1U);
    }
    damaged_if(left_ < -64); // no valid text needs more zeros
    return value;
  }
  std::int64_t left() const { return left_; } ///< below zero: zeros were read

private:
  std::string_view text_;
  std::int64_t left_;
};

// Finite state entropy

struct State {
  unsigned char symbol;
  unsigned char bits;
  std::uint16_t base;
};

using States = std::vector<State>; // as many as a power of two

States states_of(const std::vector<int>& counts, unsigned accuracy) {
  const std::size_t size = std::size_t{1} << accuracy;
  States states(size);
  std::vector<std::uint32_t> next(counts.size());
  std::size_t high = size;
  for (std::size_t symbol = 0; symbol < counts.size(); ++symbol) {
    next[symbol] = static_cast<std::uint32_t>(counts[symbol] < 0 ? 1 : counts[symbol]);
    if (counts[symbol] >= 0) continue;
    damaged_if(high == 0);
    states[--high].symbol = static_cast<unsigned char>(symbol);
  }
  const std::size_t step = (size >> 1U) + (size >> 3U) + 3;
  std::size_t place = 0;
  for (std::size_t symbol = 0; symbol < counts.size(); ++symbol)
    for (int i = 0; i < counts[symbol]; ++i) {
      states[place].symbol = static_cast<unsigned char>(symbol);
      do
        place = (place + step) & (size - 1);
      while (place >= high);
    }
  damaged_if(place != 0);
  for (State& state : states) {
    const std::uint32_t number = next[state.symbol]++;
    state.bits = static_cast<unsigned char>(accuracy + 1 - bits_of(number));
    state.base = static_cast<std::uint16_t>((number << state.bits) - size);
  }
  return states;
}

/// Takes the description of a table from the front.
States take_states(std::string_view& from, unsigned most_accuracy, std::size_t most_symbols) {
  std::size_t bit = 0;
  const auto peek = [&](unsigned count) {
    Number value = 0;
    for (unsigned i = 0; i < count; ++i) {
      const std::size_t at = bit + i;
      if (at / 8 < from.size()) value |= (byte_at(from, at / 8) >> at % 8 & 1U) << i;
    }
    return value;
  };
  const auto accuracy = static_cast<unsigned>(peek(4)) + 5;
  bit = 4;
  damaged_if(accuracy > most_accuracy);
  std::vector<int> counts;
  for (int remaining = 1 << accuracy; remaining > 0;) {
    damaged_if(counts.size() >= most_symbols || bit / 8 >= from.size());
    const unsigned bits = bits_of(static_cast<Number>(remaining) + 1);
    Number value = peek(bits);
    const Number low = (Number{1} << (bits - 1)) - 1;
    const Number threshold = (Number{1} << bits) - 1 - (static_cast<Number>(remaining) + 1);
    if ((value & low) < threshold) {
      value &= low;
      bit += bits - 1;
    } else {
      if (value > low) value -= threshold;
      bit += bits;
    }
    const int count = static_cast<int>(value) - 1;
    remaining -= count < 0 ? 1 : count;
    counts.push_back(count);
    while (count == 0) {
      const Number zeros = peek(2);
      bit += 2;
      counts.insert(counts.end(), zeros, 0);
      damaged_if(counts.size() > most_symbols);
      if (zeros != 3) break;
    }
    damaged_if(remaining < 0);
  }
  take(from, (bit + 7) / 8);
  return states_of(counts, accuracy);
}

// Literals

struct Code {
  unsigned char symbol;
  unsigned char bits;
};

using Codes = std::vector<Code>; // as many as a power of two

std::vector<unsigned char> take_weights(std::string_view& from) {
  std::vector<unsigned char> weights;
  const Number header = byte_at(take(from, 1), 0);
  if (header >= 128) {
    const std::size_t count = header - 127;
    const std::string_view nibbles = take(from, (count + 1) / 2);
    for (std::size_t i = 0; i < count; ++i)
      weights.push_back(static_cast<unsigned char>(byte_at(nibbles, i / 2) >> (i % 2 == 0 ? 4U : 0U) & 15U));
    return weights;
  }
  std::string_view text = take(from, header);
  const States states = take_states(text, 6, 255);
  BackwardBits bits(text);
  const unsigned accuracy = bits_of(states.size()) - 1;
  std::size_t now[2] = {bits.read(accuracy), bits.read(accuracy)};
  damaged_if(bits.left() < 0);
  for (std::size_t turn = 0;; turn ^= 1U) {
    damaged_if(weights.size() > 253);
    const State& state = states[now[turn]];
    weights.push_back(state.symbol);
    now[turn] = state.base + bits.read(state.bits);
    if (bits.left() >= 0) continue;
    weights.push_back(states[now[turn ^ 1U]].symbol); // the other state has a last symbol
    return weights;
  }
}

Codes take_codes(std::string_view& from) {
  std::vector<unsigned char> weights = take_weights(from);
  Number sum = 0;
  for (const unsigned char weight : weights) {
    damaged_if(weight > 12);
    sum += weight == 0 ? 0 : Number{1} << (weight - 1U);
  }
  damaged_if(sum == 0);
  const unsigned most = bits_of(sum);
  const Number rest = (Number{1} << most) - sum;
  damaged_if(most > 11 || !std::has_single_bit(rest));
  weights.push_back(static_cast<unsigned char>(bits_of(rest)));
  Codes codes;
  for (unsigned weight = 1; weight <= most; ++weight)
    for (std::size_t symbol = 0; symbol < weights.size(); ++symbol)
      if (weights[symbol] == weight)
        codes.insert(codes.end(), std::size_t{1} << (weight - 1),
                     {static_cast<unsigned char>(symbol), static_cast<unsigned char>(most + 1 - weight)});
  damaged_if(codes.size() != std::size_t{1} << most);
  return codes;
}

void decode(const Codes& codes, std::string_view text, std::size_t size, std::string& into) {
  BackwardBits bits(text);
  const unsigned most = bits_of(codes.size()) - 1;
  Number window = bits.read(most);
  for (std::size_t i = 0; i < size; ++i) {
    const Code code = codes[window];
    into.push_back(static_cast<char>(code.symbol));
    window = ((window << code.bits) & (codes.size() - 1)) | bits.read(code.bits);
  }
  damaged_if(bits.left() != -static_cast<std::int64_t>(most));
}

// Sequences

struct Range {
  std::uint32_t base;
  unsigned char bits;
};

/// The ranges follow each other: all that differs are the numbers of extra bits.
std::vector<Range> ranges(std::uint32_t first, std::size_t plain, std::initializer_list<int> bits) {
  std::vector<Range> all;
  for (std::size_t i = 0; i < plain; ++i)
    all.push_back({first++, 0});
  for (const int some : bits) {
    all.push_back({first, static_cast<unsigned char>(some)});
    first += 1U << static_cast<unsigned>(some);
  }
  return all;
}

class Frame {
public:
  Frame(std::string& text, std::size_t most) : text_(text), begin_(text.size()), most_(most) {}

  void block(std::string_view from) {
    std::string literals = take_literals(from);
    std::string_view left = literals;
    sequences(from, left);
    append(left);
  }
  void append(std::string_view some) {
    damaged_if(some.size() > most_ - text_.size());
    text_.append(some);
  }

private:
  std::string take_literals(std::string_view& from) {
    const Number first = byte_at(from, 0);
    const Number type = first & 3U, format = first >> 2U & 3U;
    if (type < 2) {
      const std::size_t header = format == 1 ? 2 : format == 3 ? 3 : 1;
      const std::size_t size = little_endian(from, 0, header) >> (header == 1 ? 3U : 4U);
      take(from, header);
      damaged_if(size > most_);
      return type == 0 ? std::string(take(from, size)) : std::string(size, take(from, 1)[0]);
    }
    const std::size_t header = format < 2 ? 3 : format + 2;
    const unsigned bits = format < 2 ? 10 : format == 2 ? 14 : 18;
    const Number sizes = little_endian(from, 0, header) >> 4U;
    const std::size_t size = sizes & ((Number{1} << bits) - 1);
    take(from, header);
    std::string_view text = take(from, sizes >> bits);
    if (type == 2) codes_ = take_codes(text);
    damaged_if(codes_.empty() || size > most_);
    std::string literals;
    if (format == 0) {
      decode(codes_, text, size, literals);
      return literals;
    }
    const std::string_view jumps = take(text, 6);
    const std::size_t quarter = (size + 3) / 4;
    damaged_if(3 * quarter > size);
    for (std::size_t i = 0; i < 3; ++i)
      decode(codes_, take(text, little_endian(jumps, 2 * i, 2)), quarter, literals);
    decode(codes_, text, size - 3 * quarter, literals);
    return literals;
  }

  struct Kind {
    States preset;
    unsigned most_accuracy;
    std::size_t symbols;
    States states{};
  };

  static void choose(Kind& kind, Number mode, std::string_view& from) {
    if (mode == 0) kind.states = kind.preset;
    if (mode == 1) kind.states = {{static_cast<unsigned char>(take(from, 1)[0]), 0, 0}};
    if (mode == 2) kind.states = take_states(from, kind.most_accuracy, kind.symbols);
    damaged_if(kind.states.empty());
    for (const State& state : kind.states)
      damaged_if(state.symbol >= kind.symbols);
  }

  void sequences(std::string_view from, std::string_view& literals) {
    static const std::vector<Range> literal_lengths =
        ranges(0, 16, {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    static const std::vector<Range> match_lengths =
        ranges(3, 32, {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    const auto next = [&] { return byte_at(take(from, 1), 0); };
    Number count = next();
    if (count == 0) return;
    if (count == 255) {
      count = next();
      count += (next() << 8U) + 0x7f00;
    } else if (count > 127) {
      count = ((count - 128) << 8U) + next();
    }
    const Number modes = next();
    choose(literal_kind_, modes >> 6U, from);
    choose(offset_kind_, modes >> 4U & 3U, from);
    choose(match_kind_, modes >> 2U & 3U, from);
    BackwardBits bits(from);
    const auto begin = [&](const Kind& kind) {
      return static_cast<std::size_t>(bits.read(bits_of(kind.states.size()) - 1));
    };
    const auto move = [&](const Kind& kind, std::size_t& state) {
      state = kind.states[state].base + bits.read(kind.states[state].bits);
    };
    std::size_t literal = begin(literal_kind_), offset = begin(offset_kind_), match = begin(match_kind_);
    for (; count != 0; --count) {
      const unsigned offset_bits = offset_kind_.states[offset].symbol;
      const Number value = (Number{1} << offset_bits) + bits.read(offset_bits);
      const Range& matching = match_lengths[match_kind_.states[match].symbol];
      const std::size_t length = matching.base + bits.read(matching.bits);
      const Range& copying = literal_lengths[literal_kind_.states[literal].symbol];
      const std::size_t copied = copying.base + bits.read(copying.bits);
      append(take(literals, copied));
      repeat(distance(value, copied == 0), length);
      if (count == 1) break;
      move(literal_kind_, literal);
      move(match_kind_, match);
      move(offset_kind_, offset);
    }
    damaged_if(bits.left() != 0);
  }

  Number distance(Number value, bool without_literals) {
    const Number recent = value > 3 ? 3 : value - 1 + (without_literals ? 1 : 0);
    Number found = value - 3;
    if (value <= 3) found = recent < 3 ? recent_[recent] : recent_[0] - 1;
    for (std::size_t i = std::min<std::size_t>(recent, 2); i != 0; --i)
      recent_[i] = recent_[i - 1];
    return recent_[0] = found;
  }

  void repeat(Number distance, std::size_t length) {
    damaged_if(distance == 0 || distance > text_.size() - begin_ || length > most_ - text_.size());
    for (; length != 0; --length)
      text_.push_back(text_[text_.size() - distance]);
  }

  static States preset(std::initializer_list<int> counts, unsigned accuracy) {
    return states_of(std::vector<int>(counts), accuracy);
  }

  std::string& text_;
  std::size_t begin_, most_;
  Codes codes_;
  Kind literal_kind_{preset({4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                             2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1},
                            6),
                     9, 36};
  Kind offset_kind_{
      preset({1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}, 5),
      8, 32};
  Kind match_kind_{
      preset({1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
              1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1},
             6),
      9, 53};
  std::array<Number, 3> recent_{1, 4, 8};
};

/// Takes a frame from the front.
void take_frame(std::string_view& from, std::string& text, std::size_t size) {
  constexpr Number magic = 0xfd2fb528, skippable = 0x184d2a50;
  const Number found = little_endian(from, 0, 4);
  take(from, 4);
  if ((found & ~Number{15}) == skippable) {
    take(from, little_endian(take(from, 4), 0, 4));
    return;
  }
  damaged_if(found != magic);
  const Number descriptor = byte_at(take(from, 1), 0);
  const bool single = (descriptor & 32U) != 0;
  const Number size_flag = descriptor >> 6U;
  damaged_if((descriptor & 3U) != 0); // a dictionary
  if (!single) take(from, 1);
  take(from, size_flag == 0 ? single : std::size_t{1} << size_flag);
  Frame frame(text, size);
  for (bool last = false; !last;) {
    const Number header = little_endian(take(from, 3), 0, 3);
    last = (header & 1U) != 0;
    const std::size_t length = header >> 3U;
    const Number type = header >> 1U & 3U;
    damaged_if(type == 3 || length > size);
    if (type == 0) frame.append(take(from, length));
    if (type == 1) frame.append(std::string(length, take(from, 1)[0]));
    if (type == 2) frame.block(take(from, length));
  }
  if ((descriptor & 4U) != 0) take(from, 4);
}

} // namespace

std::string decompress_zstd(std::string_view compressed, std::size_t size) {
  std::string text;
  while (!compressed.empty())
    take_frame(compressed, text, size);
  damaged_if(text.size() != size);
  return text;
}

} // namespace cuevent::sim
