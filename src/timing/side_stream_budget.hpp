// How many side streams the timers of a context use together. Inside the library only.
#pragma once

#include <cuevent/context.hpp>

#include <atomic>
#include <cstddef>
#include <memory>

namespace cuevent {

/// The side streams of one context. There is one of these for each context that ever had a side
/// stream, and it is never destroyed: so no lock is needed, which a fork could leave locked.
struct SideStreams {
  Driver driver;
  unsigned long long id; // of the context
  std::atomic<std::size_t> in_use{0};
  SideStreams* next = nullptr;

  struct GiveBack {
    void operator()(SideStreams* of_context) const noexcept {
      of_context->in_use.fetch_sub(1, std::memory_order_relaxed);
    }
  };
};

/// The right to use one side stream, given back at its end. Null if it was not granted.
using SideStreamPermit = std::unique_ptr<SideStreams, SideStreams::GiveBack>;

/// Granted if fewer than `most` side streams are in use in the context, whoever uses them. Any
/// thread. Throws std::bad_alloc.
SideStreamPermit permit_side_stream(const Context& context, std::size_t most);

} // namespace cuevent
