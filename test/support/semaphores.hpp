// SPDX-License-Identifier: MIT
// What the tests of semaphores share.
#pragma once

#include <cuevent/timeline_semaphore.hpp>

#include <unistd.h>

namespace test {

/// A descriptor that the test closes, unless an import has taken it over.
class Handle {
public:
  explicit Handle(int descriptor) : descriptor_(descriptor) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { end(); }
  void end() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }
  int get() const { return descriptor_; }
  void taken() { descriptor_ = -1; }

private:
  int descriptor_;
};

/// Releases all streams at the end of a test, also if a call before has failed.
class Release {
public:
  explicit Release(cuevent::TimelineSemaphore& semaphore) : semaphore_(semaphore) {}
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
  ~Release() { semaphore_.abandon(); }

private:
  cuevent::TimelineSemaphore& semaphore_;
};

inline cuevent::TimelineSemaphore join(const cuevent::Context& context,
                                       cuevent::TimelineSemaphore& semaphore) {
  Handle handle(semaphore.export_handle());
  cuevent::TimelineSemaphore joined = cuevent::TimelineSemaphore::import(context, handle.get());
  handle.taken();
  return joined;
}

} // namespace test
