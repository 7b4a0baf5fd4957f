// SPDX-License-Identifier: MIT
// A stack that a signal handler may take, because it needs no lock and no memory. Whoever tells it gives it
// its number later.
#pragma once

#include "protocol/protocol.hpp"

#include <cstdint>

namespace watch {

struct TakenStack {
  std::uint32_t depth, text_length;
  std::uintptr_t addresses[depth_limit]; // as the addresses in a file: behind the call
  char text[text_limit];                 // of the Python frames
};

/// The innermost frames of this thread from the one on that is at `pc`, or returns there. Returns how many.
std::uint32_t take_frames(std::uintptr_t pc, std::uintptr_t* addresses, std::uint32_t limit);

/// All of them, and those of Python. Without room, the first one alone.
void take_stack(TakenStack& stack, std::uintptr_t pc, bool has_room_to_walk);

/// Its number in the file. 0 if there is no room.
std::uint32_t stack_number(const TakenStack& stack);

} // namespace watch
