// SPDX-License-Identifier: MIT
#include "scheduling/fence_slots.hpp"

#include "core/fork_lock.hpp"
#include "core/relaxed_mode.hpp"
#include "core/result_of.hpp"
#include "scheduling/memory_operations.hpp"

#include <map>
#include <memory>
#include <new>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t slots_per_page = page_bytes / cache_line;

/// The start value of a 32-bit counter. The counter overflows early, so that no program relies on
/// a counter that does not overflow.
constexpr std::uint32_t narrow_begin = 0xffff'ff00;

/// The counters of one context in a page of pinned memory. The page is never freed explicitly,
/// because cuMemFreeHost waits until all streams of the context are idle. The page is freed with
/// the context.
struct FencePage {
  // The id of the context. Another context may later get the same handle.
  unsigned long long id;
  FenceSlot slots[slots_per_page];
  std::unique_ptr<FencePage> next;

  bool in_use() const noexcept {
    for (const FenceSlot& slot : slots)
      if (slot.in_use.load(std::memory_order_acquire)) return true;
    return false;
  }
};

/// The pages of all contexts, by context handle. Pages of destroyed contexts cost other contexts
/// nothing. This object lives forever, because fences may outlive every static object.
class FencePages {
public:
  /// Null if there was no memory when the library was loaded.
  static FencePages* instance() noexcept { return only; }
  [[gnu::constructor(first_constructor)]] static void make() noexcept {
    only = new (std::nothrow) FencePages;
  }

  /// Returns null if all slots are taken.
  FenceSlot* take(const DriverTable& table, CUcontext context, unsigned long long id) noexcept {
    const auto lock = lock_.hold();
    if (!lock) return nullptr;
    const auto found = pages_.find({&table, context});
    if (found == pages_.end()) return nullptr;
    for (std::unique_ptr<FencePage>* each = &found->second; *each != nullptr;) {
      FencePage& page = **each;
      if (page.id == id) {
        if (FenceSlot* const slot = take_of(page)) return slot;
      } else if (!page.in_use()) { // the context is gone, and so is its memory
        *each = std::move(page.next);
        continue;
      }
      each = &page.next;
    }
    return nullptr;
  }

  /// Makes room for pages of the context.
  CUresult prepare(const DriverTable& table, CUcontext context) noexcept {
    const auto lock = lock_.hold();
    if (!lock) return CUDA_ERROR_NOT_INITIALIZED;
    return result_of([&] {
      pages_[{&table, context}];
      return CUDA_SUCCESS;
    });
  }

  /// Returns null in a forked child that cannot have the lock.
  FenceSlot* add(const DriverTable& table, CUcontext context, std::unique_ptr<FencePage> page) noexcept {
    const auto lock = lock_.hold();
    if (!lock) return nullptr;
    std::unique_ptr<FencePage>& first = pages_.find({&table, context})->second;
    page->next = std::move(first);
    first = std::move(page);
    return take_of(*first);
  }

private:
  /// Scans the slots for one that is free. The scan happens here, because giving a slot back takes
  /// no lock and so cannot wait.
  static FenceSlot* take_of(FencePage& page) noexcept {
    for (FenceSlot& slot : page.slots) {
      if (slot.in_use.load(std::memory_order_acquire)) continue;
      const std::uint64_t completed = slot.completed();
      if (completed < slot.signalled.load(std::memory_order_relaxed)) continue;
      slot.signalled.store(completed, std::memory_order_relaxed);
      slot.stream_id.store(FenceSlot::no_stream, std::memory_order_relaxed);
      slot.in_use.store(true, std::memory_order_relaxed);
      return &slot;
    }
    return nullptr;
  }

  static inline constinit FencePages* only = nullptr;

  ProcessLock lock_;
  std::map<std::pair<const DriverTable*, CUcontext>, std::unique_ptr<FencePage>> pages_;
};

/// The page's context must be current.
CUresult allocate(const DriverTable& table, FencePage& page) noexcept {
  RelaxedMode relaxed(table);
  if (const CUresult entered = relaxed.enter(); entered != CUDA_SUCCESS) return entered;
  bool wide = false;
  CUresult result = can_write_64_bits(table, wide);
  if (result != CUDA_SUCCESS) return result;
  // On a system with 64-bit addresses, the host and all devices use one address for this memory.
  void* memory = nullptr;
  constexpr unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  result = table.cuMemHostAlloc_v2020(&memory, page_bytes, flags);
  if (result != CUDA_SUCCESS) return result;
  auto* line = static_cast<std::byte*>(memory);
  for (FenceSlot& slot : page.slots) {
    slot.counter = line;
    slot.narrow = !wide;
    if (wide)
      __atomic_store_n(static_cast<std::uint64_t*>(slot.counter), 0, __ATOMIC_RELAXED);
    else
      __atomic_store_n(static_cast<std::uint32_t*>(slot.counter), narrow_begin, __ATOMIC_RELAXED);
    slot.signalled = wide ? 0 : narrow_begin;
    line += cache_line;
  }
  return result;
}

} // namespace

std::uint64_t FenceSlot::completed() const noexcept {
  if (!narrow) return __atomic_load_n(wide(), __ATOMIC_ACQUIRE);
  // The counter holds the low bits of a number that is less than 2^31 away from the newest ticket.
  // If too many signals happened between the two loads, the distance may be larger. The two values
  // then do not match in time, so read them again.
  constexpr std::uint64_t close = 1U << 30;
  std::uint64_t after = signalled.load(std::memory_order_acquire);
  while (true) {
    const std::uint64_t before = after;
    const std::uint32_t end = __atomic_load_n(static_cast<const std::uint32_t*>(counter), __ATOMIC_ACQUIRE);
    after = signalled.load(std::memory_order_acquire);
    const auto ahead = static_cast<std::int32_t>(end - static_cast<std::uint32_t>(before));
    if (after - before < close) return before + static_cast<std::uint64_t>(std::int64_t{ahead});
  }
}

CUresult take_slot(const Context& context, FenceSlot*& out) noexcept {
  const DriverTable& table = context.driver().table();
  CUresult result = context.status();
  if (result != CUDA_SUCCESS) return result;
  FencePages* const pages = FencePages::instance();
  if (pages == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const unsigned long long id = context.id();
  CUcontext const handle = context.native_handle();
  FenceSlot* slot = pages->take(table, handle, id);
  if (slot == nullptr) {
    std::unique_ptr<FencePage> page(new (std::nothrow) FencePage{id, {}, nullptr});
    if (page == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    result = pages->prepare(table, handle);
    if (result != CUDA_SUCCESS) return result;
    const ContextGuard guard(context, result);
    if (result == CUDA_SUCCESS) result = allocate(table, *page);
    if (result != CUDA_SUCCESS) return result;
    slot = pages->add(table, handle, std::move(page));
    if (slot == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  }
  out = slot;
  return result;
}

}} // namespace cuevent::CUEVENT_ABI
