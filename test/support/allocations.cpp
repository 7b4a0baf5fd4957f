// SPDX-License-Identifier: MIT
#include "allocations.hpp"

#include <cstdlib>
#include <functional>
#include <new>
#include <utility>

namespace {

struct Allocations {
  std::size_t count = 0;
  long live = 0;
  bool failing = false, happened = false;
  std::size_t seen = 0;                          // while failing
  std::size_t fails = 0;                         // the allocation with this number; 0: every one
  const std::function<void()>* inside = nullptr; // what an allocation calls
  std::size_t calls = 0;                         // after as many allocations
};
thread_local constinit Allocations here;

/// Null if the allocation fails.
void* allocate(std::size_t size, std::align_val_t alignment) noexcept {
  ++here.count;
  if (here.inside != nullptr && --here.calls == 0) (*std::exchange(here.inside, nullptr))();
  if (here.failing && (++here.seen == here.fails || here.fails == 0)) {
    here.happened = true;
    return nullptr;
  }
  ++here.live;
  const auto align = static_cast<std::size_t>(alignment);
  return align <= alignof(std::max_align_t) ? std::malloc(size > 0 ? size : 1)
                                            : std::aligned_alloc(align, (size + align - 1) / align * align);
}
void release(void* memory) noexcept {
  if (memory != nullptr) --here.live;
  std::free(memory);
}
constexpr std::align_val_t usual{alignof(std::max_align_t)};

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

} // namespace

// Replaces the standard library's operators in the whole program. All of them, because a sanitizer checks
// that memory is freed by the operators that allocated it.
void* operator new(std::size_t size) { return or_throw(allocate(size, usual)); }
void* operator new[](std::size_t size) { return or_throw(allocate(size, usual)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, usual); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, usual); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, alignment);
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, alignment);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
// For a constructor that throws.
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { release(memory); }

namespace test {

std::size_t allocations_of_this_thread() noexcept { return here.count; }
long live_allocations_of_this_thread() noexcept { return here.live; }

FailingAllocation::FailingAllocation(std::size_t k) noexcept {
  here.failing = true;
  here.happened = false;
  here.seen = 0;
  here.fails = k;
}
FailingAllocation::~FailingAllocation() { here.failing = false; }
bool FailingAllocation::happened() noexcept { return here.happened; }

InsideAllocation::InsideAllocation(std::size_t k, std::function<void()> run) : run_(std::move(run)) {
  here.inside = &run_;
  here.calls = k;
}
InsideAllocation::~InsideAllocation() { here.inside = nullptr; }

SafeAllocations::SafeAllocations() noexcept
    : failing_(std::exchange(here.failing, false)), inside_(std::exchange(here.inside, nullptr)) {}
SafeAllocations::~SafeAllocations() {
  here.failing = failing_;
  here.inside = inside_;
}

} // namespace test
