// SPDX-License-Identifier: MIT
// A thread of the auditor in the program's process. It sleeps until the reader wants a look; then it asks the
// driver how far each stream is, and takes the Python frames of threads that wait.
#pragma once

#include "auditor/python_frames.hpp"
#include "protocol/protocol.hpp"
#include "protocol/verbs.hpp"

#include <atomic>
#include <cstdint>

namespace watch {

struct Thread;

struct Looker {
  /// What the looker and one thread of the program tell each other.
  struct Offer {
    std::atomic<PythonState> state;   // null if it runs no Python
    std::atomic<std::uint32_t> taken; // the frames are being read: the thread must not return
  };

  std::atomic<std::uint32_t> started; // or could not be
  std::atomic<std::uint32_t> failed;  // could not be
  std::atomic<std::uint32_t> looking; // the driver is being called
  std::atomic<std::uint32_t> ending;  // the program is at its exit
  Offer offers[thread_limit];         // by slot
};

/// Starts the thread, unless it was started. Not from inside the loader.
void start_looker();

/// Puts this thread into a mode in which its queries harm no capture, for good.
bool relax(unsigned library);

/// The calls during which a thread may wait for the device, or for room in a launch queue.
constexpr bool offers_python_frames(Verb verb) { return may_wait(verb) || submits_work(verb); }

/// Around such a call, outside of `begin_call` and `end_call`: the Python frames of this thread may
/// be taken in between.
void offer_python_frames(const Thread& thread);
void withdraw_python_frames(const Thread& thread);

} // namespace watch
