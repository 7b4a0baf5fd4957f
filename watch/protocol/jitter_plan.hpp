// SPDX-License-Identifier: MIT
// Which submissions `cuevent watch --jitter` holds back, and for how long. The auditor follows a plan, and
// the command makes smaller ones from it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace watch {

inline constexpr std::uint32_t longest_hold_us = 2000;
inline constexpr std::uint32_t hold_limit = 4096; // of a plan that lists its holds
/// In CUEVENT_WATCH_JITTER, "7" is the seed of a plan. "=2.5:1400,3.1:2000" lists the holds: submission 5 of
/// stream 2 for 1,400 us, and another. The list may be empty. "=wait" holds nothing: the host waits after
/// each submission until its stream is done.
inline constexpr char jitter_variable[] = "CUEVENT_WATCH_JITTER";
inline constexpr char waiting_plan[] = "=wait";

/// Streams are numbered from 0 in the order of their first submissions, and the submissions of each from 1.
struct HoldPlace {
  std::uint32_t stream = 0, submission = 0; // no submission: not known

  bool is_known() const { return submission != 0; }
};

struct Hold {
  std::uint32_t stream = 0, submission = 0, microseconds = 0;
  friend auto operator<=>(const Hold&, const Hold&) = default;
};

/// Bits that depend on all of these, and on nothing else.
constexpr std::uint64_t drawn_bits(std::uint64_t seed, std::uint32_t stream, std::uint32_t submission) {
  std::uint64_t bits = seed * 0x9E37'79B9'7F4A'7C15U + (std::uint64_t{stream} << 32U | submission);
  for (const unsigned shift : {30U, 27U, 31U})
    bits = (bits ^ (bits >> shift)) * 0xBF58'476D'1CE4'E5B9U;
  return bits ^ (bits >> 32U);
}

/// How long this submission is held in microseconds, or 0. With odd seeds, any submission may be held. With
/// even seeds, one stream is always last. Later submissions are held less often, so that a long program is
/// not much slower, and what is held does not depend on the time.
constexpr std::uint32_t hold_of_seed(std::uint64_t seed, std::uint32_t stream, std::uint32_t submission) {
  constexpr std::uint64_t scale = 1U << 20U, all_of_the_first = 64, streams = 4;
  const std::uint64_t bits = drawn_bits(seed, stream, submission);
  const std::uint64_t share =
      scale * all_of_the_first / std::max<std::uint64_t>(submission, all_of_the_first);
  if (seed % 2 == 0)
    return stream == (seed / 2 + streams - 1) % streams && bits % scale < share ? longest_hold_us : 0;
  constexpr std::uint32_t shortest = 100;
  const auto drawn = static_cast<std::uint32_t>((bits >> 32U) % (longest_hold_us - shortest + 1));
  return bits % scale < share / 2 ? shortest + drawn : 0;
}

} // namespace watch
