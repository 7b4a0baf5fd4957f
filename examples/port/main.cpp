// SPDX-License-Identifier: MIT
// A test of the library "ferry" of event.hpp, which uses cuevent inside. Its users include only its header.
#include "../../support/gpu.hpp"
#include "event.hpp"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace {

std::atomic<long> allocations{0};

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("not true: %s\n", what);
  std::exit(1);
}

void throws(const char* expected, void (*call)()) {
  try {
    call();
  } catch (const ferry::Error& error) {
    return require(std::string(error.what()).find(expected) != std::string::npos, error.what());
  }
  require(false, expected);
}

} // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

int main() try {
  cuevent::Driver::instance(); // throws DriverUnavailable here, and not inside ferry
  throws("CUDA_ERROR_INVALID_CONTEXT", [] { ferry::Event(); }); // no context is current
  const gpu::Gpu gpu;
  const gpu::Stream stream = gpu.stream(), other = gpu.stream();
  static_assert(sizeof(ferry::Event) == sizeof(void*));

  CUevent first = nullptr;
  {
    ferry::Event event;
    first = event.get();
    require(event.done(), "an event that was never recorded is done");
    event.record(stream);
    event.wait(other);
    event.synchronize();
    require(event.done(), "the event is done");
    ferry::Event moved = std::move(event);
    // NOLINTNEXTLINE(bugprone-use-after-move): what it checks
    require(moved.get() == first && event.get() == nullptr, "a move takes the event");
    event = std::move(moved);
    require(event.get() == first, "an assignment takes the event");
  }
  require(ferry::idle_events(gpu.context.native_handle()) == 1, "the event is back in the pool");

  const long before = allocations;
  for (int i = 0; i < 1000; ++i) {
    const ferry::Event event; // without a record: the simulated driver's takes memory
    require(event.get() == first, "the event is used again");
  }
  require(allocations == before, "no event needs an allocation");

  std::optional<ferry::Event> event(std::in_place);
  event->record(stream);
  std::thread([&event] { event.reset(); }).join(); // it ends on any thread
  throws("CUDA_ERROR_INVALID_HANDLE", [] {
    ferry::Event empty;
    const ferry::Event taken = std::move(empty);
    empty.record(nullptr); // NOLINT(bugprone-use-after-move): what it checks
  });
  std::puts("1,000 events: one cuEventCreate, no allocation");
} catch (const cuevent::DriverUnavailable& error) {
  std::puts(error.what());
  return 77;
}
