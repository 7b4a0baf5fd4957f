// SPDX-License-Identifier: MIT
#include "stacks.hpp"

#include "after_fork.hpp"

#include <sys/mman.h>
#include <unwind.h>

namespace watch {

/// A frame returns to `address`, which is in memory just below `above`.
struct Frame {
  std::uintptr_t address, above;
};

struct CachedStack {
  std::uint32_t number, depth, generation, reserved;
  Frame frames[depth_limit];
};

namespace {

constexpr std::size_t stacks_per_thread = 128;

std::atomic<CachedStack*> memory[thread_limit];

bool is_in_memory(const Frame& frame) {
  return *reinterpret_cast<const std::uintptr_t*>(frame.above - sizeof(std::uintptr_t)) == frame.address;
}

/// The stack is the same if each frame still returns to where it returned.
bool still_holds(const CachedStack& stack, std::uintptr_t address, std::uintptr_t above,
                 std::uint32_t generation) {
  if (stack.number == 0 || stack.generation != generation || stack.frames[0].address != address ||
      stack.frames[0].above != above)
    return false;
  for (std::uint32_t i = 1; i < stack.depth; ++i)
    if (!is_in_memory(stack.frames[i])) return false;
  return true;
}

struct Walk {
  std::uintptr_t above;
  CachedStack* stack;
  bool found, plain; // the innermost frame; no frame but of ordinary calls
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  const Frame frame{_Unwind_GetIP(context), _Unwind_GetCFA(context)};
  if (!walk.found && frame.above != walk.above) return _URC_NO_REASON; // a function of the auditor
  walk.found = true;
  if (frame.address == 0 || walk.stack->depth == depth_limit) return _URC_END_OF_STACK;
  walk.plain = walk.plain && is_in_memory(frame);
  walk.stack->frames[walk.stack->depth++] = frame;
  return _URC_NO_REASON;
}

/// The number of these frames in the file; the same frames have one number.
std::uint32_t intern(const CachedStack& stack) {
  std::uint64_t hash = stack.depth;
  for (std::uint32_t i = 0; i < stack.depth; ++i)
    hash = (hash ^ stack.frames[i].address) * 0x9E37'79B9'7F4A'7C15U;
  const Locked lock(cleared_by_fork->stacks);
  for (std::uint32_t probe = 0; probe < 64; ++probe) {
    std::atomic<std::uint32_t>& place = region->stacks_by_hash[((hash >> 40) + probe) % stack_limit];
    const std::uint32_t number = place.load(std::memory_order_relaxed);
    if (number == 0) {
      const std::uint32_t begin = region->frame_count.load(std::memory_order_relaxed);
      if (begin + 1 + stack.depth > frame_limit) return 0;
      region->frames[begin] = stack.depth;
      for (std::uint32_t i = 0; i < stack.depth; ++i)
        region->frames[begin + 1 + i] = stack.frames[i].address;
      region->frame_count.store(begin + 1 + stack.depth, std::memory_order_relaxed);
      place.store(begin, std::memory_order_relaxed); // the record that names it is published later
      return begin;
    }
    bool same = region->frames[number] == stack.depth;
    for (std::uint32_t i = 0; same && i < stack.depth; ++i)
      same = region->frames[number + 1 + i] == stack.frames[i].address;
    if (same) return number;
  }
  return 0;
}

} // namespace

CachedStack* stacks_of_slot(std::uint32_t slot) {
  CachedStack* stacks = memory[slot].load(std::memory_order_acquire);
  if (stacks != nullptr) return stacks; // of a thread that has ended, or of the parent process
  void* const place = mmap(nullptr, sizeof(CachedStack) * stacks_per_thread, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  memory[slot].store(static_cast<CachedStack*>(place), std::memory_order_release);
  return static_cast<CachedStack*>(place);
}

std::uint32_t stack_number(Thread& thread, std::uintptr_t address, std::uintptr_t above) {
  if (thread.stacks == nullptr) return 0;
  const std::uintptr_t hash = (address ^ (above << 7)) * 0x9E37'79B9'7F4A'7C15U;
  CachedStack& stack = thread.stacks[(hash >> 32) % stacks_per_thread];
  if (still_holds(stack, address, above, thread.generation)) return stack.number;
  stack.number = stack.depth = 0;
  Walk walk{above, &stack, false, true};
  _Unwind_Backtrace(&visit, &walk);
  if (stack.depth == 0) { // without unwind information, at least the caller is known
    stack.frames[0] = {address, above};
    stack.depth = 1;
  }
  const std::uint32_t number = intern(stack);
  stack.generation = thread.generation;
  stack.number = walk.plain ? number : 0; // others are walked each time
  return number;
}

} // namespace watch
