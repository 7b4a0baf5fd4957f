// SPDX-License-Identifier: MIT
#include "auditor/host_guards.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/looker.hpp"
#include "auditor/memory.hpp"
#include "auditor/pinned_memory.hpp"
#include "auditor/probes.hpp"
#include "auditor/recorder.hpp"
#include "auditor/segv_handler.hpp"
#include "auditor/state.hpp"

#include <algorithm>
#include <iterator>
#include <linux/futex.h>
#include <sys/mman.h>

namespace watch {

namespace {

constexpr long query_patience_us = 1000; // for the lock of a stream, which the looker holds for a moment
constexpr long fork_patience_us = 20'000;

Guards& guards() { return state.guards; }
HostUses& uses() { return cleared_by_fork->uses; }

std::uint64_t page_size() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

/// The whole pages in it.
Target pages_of(std::uint64_t begin, std::uint64_t size) {
  const std::uint64_t page = page_size();
  const std::uint64_t first = (begin + page - 1) / page * page, last = (begin + size) / page * page;
  return first < last && begin + size > begin ? Target{first, last - first} : Target{};
}

void allow(std::uint64_t begin, std::uint64_t end) {
  if (begin < end)
    mprotect(reinterpret_cast<void*>(begin), static_cast<std::size_t>(end - begin), PROT_READ | PROT_WRITE);
}

/// Returns whether it was this caller who has given it back. Several may try: first the pages can be used
/// again, and then the place is free, so whoever finds no guard finds memory that can be used.
bool give_back(Guard& guard, std::uint64_t number) {
  const std::uint64_t begin = guard.begin.load(std::memory_order_acquire);
  const std::uint64_t end = guard.end.load(std::memory_order_acquire);
  if (number == 0 || guard.number.load(std::memory_order_seq_cst) != number) return false;
  guard.is_unwanted.store(1, std::memory_order_seq_cst);
  allow(begin, end);
  if (guard.is_changing.load(std::memory_order_seq_cst) != 0) return false;
  if (!guard.number.compare_exchange_strong(number, 0, std::memory_order_seq_cst)) return false;
  guards().count.fetch_sub(1, std::memory_order_seq_cst);
  return true;
}

/// Each guard that is in use, with its number.
template <class Visit>
void for_each_guard(Visit visit) {
  if (guards().count.load(std::memory_order_seq_cst) == 0) return;
  for (Guard& guard : guards().places)
    if (const std::uint64_t number = guard.number.load(std::memory_order_seq_cst); number != 0)
      visit(guard, number);
}

bool overlaps(const Guard& guard, std::uint64_t begin, std::uint64_t end) {
  return guard.begin.load(std::memory_order_acquire) < end &&
         begin < guard.end.load(std::memory_order_acquire);
}

/// A free place, with nothing forbidden yet. Null if there is none.
Guard* take_place(GuardKind kind, std::uint64_t number, Stream* stream, std::uint64_t probe) {
  const Locked lock(uses().lock);
  const auto free =
      std::find_if(std::begin(guards().places), std::end(guards().places),
                   [](const Guard& each) { return each.number.load(std::memory_order_seq_cst) == 0; });
  if (free == std::end(guards().places)) return nullptr;
  free->is_unwanted.store(0, std::memory_order_relaxed);
  free->begin.store(0, std::memory_order_relaxed);
  free->end.store(0, std::memory_order_relaxed);
  free->kind.store(kind, std::memory_order_relaxed);
  free->stream.store(stream, std::memory_order_relaxed);
  free->handle.store(stream->handle.load(std::memory_order_relaxed), std::memory_order_relaxed);
  free->probe.store(probe, std::memory_order_relaxed);
  guards().count.fetch_add(1, std::memory_order_seq_cst);
  free->number.store(number, std::memory_order_seq_cst);
  return free;
}

bool may_guard() {
  return uses().is_over.load(std::memory_order_seq_cst) == 0 &&
         uses().is_fork.load(std::memory_order_seq_cst) == 0;
}

/// Forbids the use. Of two copies with the same pages, the later one has them: it is done last, and a use of
/// these pages comes too early for it too.
void forbid(Guard& guard, std::uint64_t number, const Target& pages) {
  const std::uint64_t begin = pages.begin, end = pages.begin + pages.size;
  const bool is_source = guard.kind.load(std::memory_order_relaxed) == GuardKind::source;
  const Locked pinned(cleared_by_fork->pinned.lock); // so that nobody frees the memory meanwhile
  const Locked lock(uses().lock);
  bool has_target = false;
  for_each_guard([&](Guard& other, std::uint64_t of_other) {
    if (&other == &guard || !overlaps(other, begin, end)) return;
    if (is_source && other.kind.load(std::memory_order_relaxed) == GuardKind::target)
      has_target = true;
    else
      give_back(other, of_other);
  });
  // A use finds the guard as long as it is forbidden: from here on, nobody else frees the place.
  guard.is_changing.store(1, std::memory_order_seq_cst);
  if (has_target || !may_guard() || !is_plain(begin, end) ||
      guard.is_unwanted.load(std::memory_order_seq_cst) != 0) {
    guard.is_changing.store(0, std::memory_order_seq_cst);
    give_back(guard, number);
    return;
  }
  guard.begin.store(begin, std::memory_order_release);
  guard.end.store(end, std::memory_order_release);
  const int left = is_source ? PROT_READ : PROT_NONE;
  mprotect(reinterpret_cast<void*>(begin), static_cast<std::size_t>(pages.size), left);
  guard.is_changing.store(0, std::memory_order_seq_cst);
  if (!may_guard() || guard.is_unwanted.load(std::memory_order_seq_cst) != 0) give_back(guard, number);
}

/// Whether a probe is reached. The caller is in relaxed capture mode.
enum class Reached : std::uint8_t { no, perhaps, not_asked };
Reached ask(Stream& stream, std::uint64_t handle, std::uint64_t probe, long patience_us) {
  const TryLocked lock(stream.lock, patience_us);
  if (!lock) return Reached::not_asked;
  const ProbedStream& told = shown(stream);
  if (stream.handle.load(std::memory_order_seq_cst) != handle || stream.events[0] == nullptr ||
      told.reached.load(std::memory_order_relaxed) >= probe ||
      told.recorded.load(std::memory_order_relaxed) < probe)
    return Reached::perhaps;
  return query_probe(stream, probe) == CUDA_ERROR_NOT_READY ? Reached::no : Reached::perhaps;
}

void give_back_if_reached(Guard& guard, std::uint64_t number, long patience_us) {
  Stream* const stream = guard.stream.load(std::memory_order_relaxed);
  if (ask(*stream, guard.handle.load(std::memory_order_relaxed), guard.probe.load(std::memory_order_relaxed),
          patience_us) == Reached::perhaps)
    give_back(guard, number);
}

void wake_looker() {
  start_looker();
  if (cleared_by_fork->sources.sleeps.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &region->look_wanted, FUTEX_WAKE, 1, nullptr, nullptr, 0L);
}

void tell_use(const HostUse& use) {
  CallData record{};
  record.entry = memory_entry;
  record.count = 4;
  record.thread = use.thread;
  const bool is_target = use.kind == GuardKind::target;
  record.words[0] =
      static_cast<std::uint64_t>(is_target ? MemoryPart::target_used : MemoryPart::source_changed);
  record.words[1] = use.number;
  record.words[2] = is_target ? std::uint64_t{use.is_write} : changed_here;
  record.words[3] = region->stacks == Stacks::none ? 0 : stack_number(use.stack);
  watch::record(record);
}

/// False if that is not known yet.
bool judge(const HostUse& use) {
  const Reached reached = ask(*use.stream, use.handle, use.probe, 0);
  if (reached == Reached::no) tell_use(use);
  return reached != Reached::not_asked;
}

/// Null if all places are in use: the use is not told then.
HostUse* take_use() {
  for (HostUse& use : uses().uses)
    if (std::uint32_t none = HostUse::none;
        use.state.compare_exchange_strong(none, HostUse::in_work, std::memory_order_acquire)) {
      uses().unjudged.fetch_add(1, std::memory_order_seq_cst);
      return &use;
    }
  return nullptr;
}

void end_use(HostUse& use) {
  use.state.store(HostUse::none, std::memory_order_release);
  uses().unjudged.fetch_sub(1, std::memory_order_seq_cst);
}

/// What was guarded is as it was before the guard was given back.
struct GuardedCopy {
  explicit GuardedCopy(const Guard& guard)
      : kind(guard.kind.load(std::memory_order_relaxed)),
        stream(guard.stream.load(std::memory_order_relaxed)),
        handle(guard.handle.load(std::memory_order_relaxed)),
        probe(guard.probe.load(std::memory_order_relaxed)) {}

  GuardKind kind;
  Stream* stream;
  std::uint64_t handle, probe;
};

void note_use(const GuardedCopy& copy, std::uint64_t number, bool is_write, const UsePlace& place) {
  HostUse* const use = take_use();
  if (use == nullptr) return;
  use->kind = copy.kind;
  use->thread = thread_number();
  use->is_write = is_write;
  use->number = number;
  use->stream = copy.stream;
  use->handle = copy.handle;
  use->probe = copy.probe;
  take_stack(use->stack, place.pc, place.has_room_to_walk);
  if (place.is_interrupted) ++use->stack.addresses[0];
  use->state.store(HostUse::taken, std::memory_order_release);
  uses().news.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &uses().news, FUTEX_WAKE, 1, nullptr, nullptr, 0L);
}

} // namespace

Target target_of(CUdeviceptr to, CUdeviceptr, std::size_t size, CUstream) { return {to, size}; }
Target target_of(void* to, CUdeviceptr, std::size_t size, CUstream) {
  return {reinterpret_cast<std::uintptr_t>(to), size};
}
Target target_of(void* to, CUarray, std::size_t, std::size_t size, CUstream) {
  return {reinterpret_cast<std::uintptr_t>(to), size};
}
Target target_of(const CUDA_MEMCPY2D* copy, CUstream) {
  if (copy == nullptr ||
      (copy->dstMemoryType != CU_MEMORYTYPE_HOST && copy->dstMemoryType != CU_MEMORYTYPE_UNIFIED))
    return {};
  const std::uint64_t base = copy->dstMemoryType == CU_MEMORYTYPE_HOST
                                 ? reinterpret_cast<std::uintptr_t>(copy->dstHost)
                                 : copy->dstDevice;
  const std::uint64_t pitch = copy->dstPitch == 0 ? copy->WidthInBytes : copy->dstPitch;
  if (copy->Height > 1 && pitch != copy->WidthInBytes) return {}; // what lies between the rows is no target
  return {base + copy->dstY * pitch + copy->dstXInBytes, copy->WidthInBytes * copy->Height};
}

GuardedTarget begin_target(unsigned library, const CallData& call, const Target& target) {
  const Target pages = pages_of(target.begin, target.size);
  if (pages.size == 0 || cleared_by_fork->captures.are_active()) return {};
  {
    const Locked lock(cleared_by_fork->pinned.lock);
    if (!is_pinned(target.begin, target.begin + target.size)) return {};
  }
  know_stream(library, call);
  return {pages};
}

void note_target(Thread& thread, GuardedTarget& target, const CallData& call) {
  if (target.pages.size == 0) return;
  if (cleared_by_fork->captures.are_active()) return;
  std::uint64_t probe = 0;
  start_looker();
  const bool can_judge = cleared_by_fork->looker.failed.load(std::memory_order_relaxed) == 0;
  Stream* const stream =
      can_judge && prepare_segv_handler() ? record_probe_behind(thread, call, probe) : nullptr;
  if (stream == nullptr) return tell_number(call, MemoryPart::target, 0);
  {
    const Library& library = state.libraries[stream->library];
    const OwnCalls own(library);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (library.probing.exchange_mode(&mode) != CUDA_SUCCESS) return tell_number(call, MemoryPart::target, 0);
    const std::uint64_t handle = stream->handle.load(std::memory_order_relaxed);
    const bool is_done = ask(*stream, handle, probe, 0) == Reached::perhaps;
    library.probing.exchange_mode(&mode);
    if (is_done) return;
  }
  const std::uint64_t number = uses().last.fetch_add(1, std::memory_order_relaxed) + 1;
  target.guard = take_place(GuardKind::target, number, stream, probe);
  if (target.guard != nullptr) target.number = number;
  tell_number(call, MemoryPart::target, target.number);
}

void guard_target(const GuardedTarget& target) {
  if (target.guard == nullptr) return;
  forbid(*target.guard, target.number, target.pages);
  wake_looker();
}

void guard_source(const SourceProbe& probe, std::uint64_t number) {
  const Source& source = probe.source;
  if (number == 0 || (source.rows != 1 && source.pitch != source.width)) return;
  const Target pages = pages_of(source.begin, source.width * source.rows);
  if (pages.size == 0 || !prepare_segv_handler()) return;
  if (Guard* const guard = take_place(GuardKind::source, number, probe.stream, probe.number))
    forbid(*guard, number, pages);
}

void give_back_reached() {
  if (guards().count.load(std::memory_order_seq_cst) == 0) return;
  for (unsigned index = 0; index < library_limit; ++index) {
    const Library& library = state.libraries[index];
    if (library.map == nullptr || library.probing.exchange_mode == nullptr) continue;
    const OwnCalls own(library);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (library.probing.exchange_mode(&mode) != CUDA_SUCCESS) continue;
    for_each_guard([&](Guard& guard, std::uint64_t number) {
      if (guard.stream.load(std::memory_order_relaxed)->library == index)
        give_back_if_reached(guard, number, query_patience_us);
    });
    library.probing.exchange_mode(&mode);
  }
}

void give_back_all() {
  for_each_guard([](Guard& guard, std::uint64_t number) { give_back(guard, number); });
}

void give_back_in(std::uint64_t begin, std::uint64_t end) {
  for_each_guard([&](Guard& guard, std::uint64_t number) {
    if (overlaps(guard, begin, end)) give_back(guard, number);
  });
}

void give_back_source(std::uint64_t number) {
  for_each_guard([&](Guard& guard, std::uint64_t of_guard) {
    if (guard.kind.load(std::memory_order_relaxed) == GuardKind::source && of_guard == number)
      give_back(guard, of_guard);
  });
}

void give_back_guards_of(const Stream& stream) {
  for_each_guard([&](Guard& guard, std::uint64_t number) {
    if (guard.stream.load(std::memory_order_relaxed) == &stream) give_back(guard, number);
  });
}

void end_guards() {
  uses().is_over.store(1, std::memory_order_seq_cst);
  give_back_all();
}

bool is_target_guarded(std::uint64_t begin, std::uint64_t end) {
  bool is_guarded = false;
  for_each_guard([&](const Guard& guard, std::uint64_t) {
    is_guarded = is_guarded || (guard.kind.load(std::memory_order_relaxed) == GuardKind::target &&
                                overlaps(guard, begin, end));
  });
  return is_guarded;
}

bool look_at_guards(bool (&is_relaxed)[library_limit]) {
  const auto is_ready = [&](const Stream& stream) {
    bool& relaxed = is_relaxed[stream.library];
    return relaxed = relaxed || relax(stream.library);
  };
  for (HostUse& use : uses().uses)
    if (use.state.load(std::memory_order_acquire) == HostUse::taken && is_ready(*use.stream) && judge(use))
      end_use(use);
  for_each_guard([&](Guard& guard, std::uint64_t number) {
    if (is_ready(*guard.stream.load(std::memory_order_relaxed))) give_back_if_reached(guard, number, 0);
  });
  return has_host_uses();
}

bool has_host_uses() {
  return guards().count.load(std::memory_order_seq_cst) != 0 ||
         uses().unjudged.load(std::memory_order_seq_cst) != 0;
}

bool note_host_use(std::uint64_t begin, std::uint64_t end, bool is_write, const UsePlace* place) {
  bool was_guarded = false;
  for_each_guard([&](Guard& guard, std::uint64_t number) {
    const GuardedCopy copy(guard);
    if (!overlaps(guard, begin, end) || (copy.kind == GuardKind::source && !is_write)) return;
    was_guarded = true;
    if (give_back(guard, number) && place != nullptr) note_use(copy, number, is_write, *place);
  });
  return was_guarded;
}

void begin_fork() {
  uses().is_fork.fetch_add(1, std::memory_order_seq_cst);
  const TryLocked lock(uses().lock, fork_patience_us); // whoever has it may be about to forbid a use
  give_back_all();
}

void end_fork() { uses().is_fork.fetch_sub(1, std::memory_order_seq_cst); }

} // namespace watch
