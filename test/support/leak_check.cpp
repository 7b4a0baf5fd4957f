// SPDX-License-Identifier: MIT
// The leak check at the end of a program survives a thread-local variable of a library that was loaded later:
// leak_check LIBRARY. The leak sanitizer takes 16 bytes before such memory for the loader's, if the memory is
// 16 bytes behind the begin of a page. They are the allocator's, and the check ends with "Tracer caught
// signal 11". test/meson.build turns that guess off.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace {

constexpr std::uintptr_t page = 4096, critical = 16;
constexpr std::size_t size = 32; // of the library's variable
void* kept[1000];

std::uintptr_t place_in_page(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % page; }

} // namespace

int main(int, char** arguments) {
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) return 2;
  const auto words = reinterpret_cast<void* (*)()>(dlsym(library, "thread_local_words"));
  std::uintptr_t last = 0, before = 0;
  for (void*& each : kept) { // until the next one would be at the critical place
    each = std::malloc(size);
    before = last;
    last = place_in_page(each);
    if ((2 * last - before) % page == critical && before != 0) break;
  }
  constexpr int skipped = 77;
  return place_in_page(words()) == critical ? 0 : skipped;
}
