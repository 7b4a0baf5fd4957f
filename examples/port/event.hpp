// SPDX-License-Identifier: MIT
// The installed header of a library "ferry", which moves data to devices. It does not include cuevent.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <stdexcept>

namespace ferry {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An event of the current context, from a pool.
class Event {
public:
  Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  void record(CUstream stream);
  void wait(CUstream stream) const;
  bool done() const;
  void synchronize() const;
  CUevent get() const noexcept;

private:
  void* lease_; // a PooledEvent of cuevent
};

std::size_t idle_events(CUcontext context);

} // namespace ferry
