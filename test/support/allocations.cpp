// SPDX-License-Identifier: MIT
#include "allocations.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local constinit std::size_t allocations = 0;
}

// Replaces the standard library's operators in the whole program.
void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace test {

std::size_t allocations_of_this_thread() noexcept { return allocations; }

} // namespace test
