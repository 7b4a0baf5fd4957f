// SPDX-License-Identifier: MIT
#include "auditor/stacks.hpp"

#include "auditor/python_frames.hpp"
#include "auditor/recorder.hpp"
#include "auditor/state.hpp"
#include "auditor/taken_stack.hpp"

#include <atomic>
#include <cstring>
#include <link.h>
#include <sys/mman.h>
#include <unwind.h>

namespace watch {

/// A frame returns to `address`, which is in memory just below `above`.
struct Frame {
  std::uintptr_t address, above;
};

struct CachedStack {
  std::uint32_t number; // in the file; 0 if it is not there yet
  std::uint32_t depth, generation;
  std::uint32_t is_plain; // can be recognised in memory
  std::uint32_t identity; // no other stack of the cache has or had it
  Frame frames[depth_limit];
};

// Of glibc 2.35 and later: where the unwinder finds a function's table of frames. The result is larger in
// newer versions.
__attribute__((weak, visibility("default"))) int find_object(void* address,
                                                             void* result) __asm__("_dl_find_object");

// Of the unwinder, which is part of this library, and of the linker.
extern "C" void register_table(const void* table, void* place) __asm__("__register_frame_info");
extern "C" const ElfW(Ehdr) own_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

namespace {

// A step of a large model has some hundred, and each of them in several Python functions. What is not in the
// cache takes 50 times as long. Pages are taken when they are needed.
constexpr std::size_t stacks_per_thread = 512, places_per_thread = 2048;
// Stacks in the same place of the cache. All launches through the CUDA runtime have the same innermost frame,
// and many have the same depth.
constexpr std::size_t ways = 8;

/// A stack with Python frames that lie where they lay.
struct PythonPlace {
  std::uint64_t place;  // also of the stack
  std::uint32_t number; // of both in the file; 0: none
};

/// Of one thread. All zeros is an empty one.
struct StackCache {
  CachedStack stacks[stacks_per_thread]; // Thread::stacks
  PythonPlace places[places_per_thread];
  std::uint32_t last_identity, next_way;
};

StackCache& cache_of(const Thread& thread) { return *reinterpret_cast<StackCache*>(thread.stacks); }

bool is_in_memory(const Frame& frame) {
  return *reinterpret_cast<const std::uintptr_t*>(frame.above - sizeof(std::uintptr_t)) == frame.address;
}

/// The stack is the same if each frame still returns to where it returned.
bool still_holds(const CachedStack& stack, std::uintptr_t address, std::uintptr_t above,
                 std::uint32_t generation) {
  if (stack.depth == 0 || stack.is_plain == 0 || stack.generation != generation ||
      stack.frames[0].address != address || stack.frames[0].above != above)
    return false;
  for (std::uint32_t i = 1; i < stack.depth; ++i)
    if (!is_in_memory(stack.frames[i])) return false;
  return true;
}

/// Where the frames of this library are described. The header that says so has one form with each linker.
const void* own_table() {
  const auto* const begin = reinterpret_cast<const unsigned char*>(&own_header);
  const auto* part = reinterpret_cast<const ElfW(Phdr)*>(begin + own_header.e_phoff);
  for (unsigned i = 0; i < own_header.e_phnum; ++i, ++part) {
    if (part->p_type != PT_GNU_EH_FRAME) continue;
    const unsigned char* const header = begin + part->p_vaddr;
    constexpr unsigned char relative_int32 = 0x1b;
    if (header[0] != 1 || header[1] != relative_int32) return nullptr;
    std::int32_t distance = 0;
    std::memcpy(&distance, header + 4, sizeof distance);
    return header + 4 + distance;
  }
  return nullptr;
}

bool finds_own_table() {
  std::uint64_t result[64];
  return find_object(reinterpret_cast<void*>(&_Unwind_Backtrace), result) == 0;
}

/// The unwinder ends the process if it does not find its own table. With a second auditor in the process,
/// such as the one of `cuevent sim`, some versions of glibc do not find the tables of auditors. Then it gets
/// its own from here. That costs each later search a little, so it is not done in other processes.
bool can_unwind() {
  if (&find_object == nullptr) return true;
  enum : std::uint32_t { unknown, yes, no };
  std::uint32_t known = state.unwinder.known.load(std::memory_order_acquire);
  if (known != unknown) return known == yes;
  const Locked lock(cleared_by_fork->locks.stacks);
  known = state.unwinder.known.load(std::memory_order_relaxed);
  if (known != unknown) return known == yes;
  known = yes;
  if (!finds_own_table()) {
    const void* const table = own_table();
    if (table == nullptr)
      known = no;
    else
      register_table(table, state.unwinder.own_table);
  }
  state.unwinder.known.store(known, std::memory_order_release);
  return known == yes;
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

/// The words that stand for a stack in the file: see Region::frames.
struct Content {
  std::uint64_t words[1 + depth_limit + text_limit / 8];
  std::uint32_t count = 0;

  void add(std::uint64_t word) { words[count++] = word; }
};

/// False if that cannot be known.
bool is_of_interpreter(std::uintptr_t address) {
  if (&find_object == nullptr) return false;
  std::uint64_t result[64]; // the fourth word is the object
  return find_object(reinterpret_cast<void*>(address), result) == 0 &&
         reinterpret_cast<const link_map*>(result[3]) == state.python.interpreter;
}

/// From 3.13 on, an interpreter calls the same function from other places once the caller has run a few
/// times. So one address stands for all its frames, and the Python frames tell the rest.
Content content_of(const CachedStack& stack, bool with_python = false) {
  Content content;
  content.add(0);
  for (std::uint32_t i = 0; i < stack.depth; ++i) {
    if (with_python && is_of_interpreter(stack.frames[i].address)) {
      content.add(reinterpret_cast<std::uintptr_t>(state.python.state_of_this_thread) + 1); // returns there
      break;
    }
    content.add(stack.frames[i].address);
  }
  content.words[0] = content.count - 1;
  return content;
}

/// Of this length, which lies behind the words.
void end_with_text(Content& content, std::size_t length) {
  auto* const text = reinterpret_cast<char*>(content.words + content.count);
  while (length % 8 != 0)
    text[length++] = '\0';
  content.count += static_cast<std::uint32_t>(length / 8);
  content.words[0] |= static_cast<std::uint64_t>(length / 8) << 32;
}

void add_python_frames(Content& content, PythonState thread) {
  auto* const text = reinterpret_cast<char*>(content.words + content.count);
  end_with_text(content, python_frames(thread, text, text_limit));
}

/// The number of this stack in the file; the same stack has one number.
std::uint32_t intern(const Content& content) {
  std::uint64_t hash = 0;
  for (std::uint32_t i = 0; i < content.count; ++i)
    hash = (hash ^ content.words[i]) * 0x9E37'79B9'7F4A'7C15U;
  const Locked lock(cleared_by_fork->locks.stacks);
  for (std::uint32_t probe = 0; probe < 64; ++probe) {
    std::atomic<std::uint32_t>& place = region->stacks_by_hash[((hash >> 40) + probe) % stack_limit];
    const std::uint32_t number = place.load(std::memory_order_relaxed);
    if (number == 0) {
      const std::uint32_t begin = region->frame_count.load(std::memory_order_relaxed);
      if (begin + content.count > frame_limit) return 0;
      if (!has_memory(region->frames + begin, content.count * sizeof content.words[0])) return 0;
      std::memcpy(region->frames + begin, content.words, content.count * sizeof content.words[0]);
      region->frame_count.store(begin + content.count, std::memory_order_relaxed);
      place.store(begin, std::memory_order_relaxed); // the record that names it is published later
      return begin;
    }
    // Behind a shorter stack there may be no memory yet. The first word has both lengths.
    if (number + content.count <= frame_limit && region->frames[number] == content.words[0] &&
        std::memcmp(region->frames + number, content.words, content.count * sizeof content.words[0]) == 0)
      return number;
  }
  return 0;
}

/// The stack of this thread, walked now if it was not walked before.
CachedStack& stack_of(Thread& thread, std::uintptr_t address, std::uintptr_t above) {
  const std::uintptr_t hash = (address ^ (above << 7)) * 0x9E37'79B9'7F4A'7C15U;
  CachedStack* const set = thread.stacks + (hash >> 32) % (stacks_per_thread / ways) * ways;
  for (std::size_t i = 0; i < ways; ++i)
    if (still_holds(set[i], address, above, thread.generation)) return set[i];
  CachedStack& stack = set[thread.next_way++ % ways];
  stack.number = stack.depth = 0;
  stack.generation = thread.generation;
  stack.identity = ++cache_of(thread).last_identity;
  Walk walk{above, &stack, false, true};
  if (can_unwind()) _Unwind_Backtrace(&visit, &walk);
  if (stack.depth == 0) { // without unwind information, at least the caller is known
    stack.frames[0] = {address, above};
    stack.depth = 1;
  }
  stack.is_plain = walk.plain ? 1 : 0;
  return stack;
}

/// The number of the stack with these Python frames, which are written if they are new.
std::uint32_t number_in_python(StackCache& cache, const CachedStack& stack, PythonState python) {
  constexpr std::uint64_t factor = 0x9E37'79B9'7F4A'7C15U;
  const std::uint64_t place = (python_place(python) ^ stack.identity) * factor;
  PythonPlace* const set = cache.places + (place >> 40) % (places_per_thread / ways) * ways;
  for (std::size_t i = 0; i < ways; ++i)
    if (set[i].place == place && set[i].number != 0) return set[i].number;
  Content content = content_of(stack, true);
  add_python_frames(content, python);
  PythonPlace& made = set[cache.next_way++ % ways];
  made = {place, intern(content)};
  return made.number;
}

} // namespace

CachedStack* stacks_of_slot(std::uint32_t slot) {
  CachedStack* stacks = state.stacks[slot].load(std::memory_order_acquire);
  if (stacks != nullptr) { // of a thread that has ended, or of the parent process: other frames, then
    if (madvise(stacks, sizeof(StackCache), MADV_DONTNEED) != 0) // as for locked memory
      std::memset(static_cast<void*>(stacks), 0, sizeof(StackCache));
    return stacks;
  }
  void* const place =
      mmap(nullptr, sizeof(StackCache), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  state.stacks[slot].store(static_cast<CachedStack*>(place), std::memory_order_release);
  return static_cast<CachedStack*>(place);
}

std::uint32_t stack_number(Thread& thread, std::uintptr_t address, std::uintptr_t above, bool with_python) {
  if (thread.stacks == nullptr) return 0;
  CachedStack& stack = stack_of(thread, address, above);
  PythonState const python = with_python ? python_state_of_this_thread() : nullptr;
  // The same native frames may be in other Python functions now.
  if (python != nullptr) return number_in_python(cache_of(thread), stack, python);
  if (stack.number == 0) stack.number = intern(content_of(stack));
  return stack.number;
}

std::uint32_t python_stack_number(PythonState thread) {
  Content content;
  content.add(0);
  add_python_frames(content, thread);
  return content.words[0] == 0 ? 0 : intern(content);
}

namespace {

struct WalkFrom {
  std::uintptr_t pc;
  std::uintptr_t* addresses;
  std::uint32_t count, limit;
};

_Unwind_Reason_Code visit_from(_Unwind_Context* context, void* data) {
  WalkFrom& walk = *static_cast<WalkFrom*>(data);
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (walk.count == 0 && address != walk.pc) return _URC_NO_REASON; // of the auditor, or of the signal
  if (address == 0 || walk.count == walk.limit) return _URC_END_OF_STACK;
  walk.addresses[walk.count++] = address;
  return _URC_NO_REASON;
}

} // namespace

std::uint32_t take_frames(std::uintptr_t pc, std::uintptr_t* addresses, std::uint32_t limit) {
  WalkFrom walk{pc, addresses, 0, limit};
  if (can_unwind()) _Unwind_Backtrace(&visit_from, &walk);
  return walk.count;
}

void take_stack(TakenStack& stack, std::uintptr_t pc, bool has_room_to_walk) {
  stack.depth = has_room_to_walk ? take_frames(pc, stack.addresses, depth_limit) : 0;
  stack.text_length = 0;
  if (stack.depth == 0) stack.addresses[stack.depth++] = pc;
  if (PythonState const python = has_room_to_walk ? python_state_of_this_thread() : nullptr)
    stack.text_length = static_cast<std::uint32_t>(python_frames(python, stack.text, text_limit));
}

std::uint32_t stack_number(const TakenStack& stack) {
  Content content;
  content.add(0);
  for (std::uint32_t i = 0; i < stack.depth; ++i)
    content.add(stack.addresses[i]);
  content.words[0] = content.count - 1;
  std::memcpy(content.words + content.count, stack.text, stack.text_length);
  end_with_text(content, stack.text_length);
  return intern(content);
}

} // namespace watch
