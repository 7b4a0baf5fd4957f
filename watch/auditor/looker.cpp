// SPDX-License-Identifier: MIT
#include "auditor/looker.hpp"

#include "auditor/host_guards.hpp"
#include "auditor/kernel_calls.hpp"
#include "auditor/lone_thread.hpp"
#include "auditor/pending_sources.hpp"
#include "auditor/probes.hpp"
#include "auditor/stacks.hpp"
#include "auditor/state.hpp"
#include "auditor/tick_rate.hpp"
#include "protocol/calls.hpp"
#include "protocol/ticks.hpp"

#include <algorithm>
#include <cstring>
#include <linux/futex.h>
#include <sys/prctl.h>

namespace watch {

namespace {

constexpr std::int64_t patience_us = 50'000;      // for the locks of all streams together
constexpr int judging_pauses = 500;               // at the exit
constexpr std::int64_t late_patience_us = 20'000; // until what is done has reached late probes
constexpr std::uint64_t long_submission_us = 50'000;

std::int64_t now_us() {
  const timespec now = time_since_start();
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

/// Finds the last probe that is reached, by halving. The caller holds the lock.
void look_at(Stream& stream) {
  const ProbedStream& told = shown(stream);
  std::uint64_t low = told.reached.load(std::memory_order_relaxed);
  std::uint64_t high = told.recorded.load(std::memory_order_relaxed) + 1; // not reached
  for (std::uint64_t number = high - 1; high - low > 1; number = low + (high - low) / 2) {
    const CUresult result = query_probe(stream, number);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) return;
    (result == CUDA_SUCCESS ? low : high) = number;
  }
}

/// In quiet mode, nobody reads meanwhile, and knows of work behind the last probe.
bool wants_late_probe(Stream& stream) {
  return shown(stream).probe_wanted.exchange(0, std::memory_order_relaxed) != 0 || region->overwrites != 0;
}

/// Returns the number of streams that have got a late probe in this look, and have not reached it.
std::uint32_t look_at_streams(std::uint32_t look, bool (&is_relaxed)[library_limit]) {
  const std::int64_t deadline = now_us() + patience_us;
  std::uint32_t late = 0;
  const std::uint32_t count = cleared_by_fork->streams.count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    Stream& stream = cleared_by_fork->streams.places[i];
    if (stream.handle.load(std::memory_order_relaxed) == 0) continue;
    const long left = deadline - now_us();
    const TryLocked lock(stream.lock, left > 0 ? left : 0);
    if (!lock || stream.handle.load(std::memory_order_relaxed) == 0) continue;
    bool& relaxed = is_relaxed[stream.library];
    relaxed = relaxed || relax(stream.library);
    if (!relaxed) continue;
    look_at(stream);
    ProbedStream& told = shown(stream);
    if (stream.late_probe_in != look && wants_late_probe(stream) && add_late_probe(stream))
      stream.late_probe_in = look;
    if (stream.late_probe_in == look)
      late += told.recorded.load(std::memory_order_relaxed) != told.reached.load(std::memory_order_relaxed);
    told.looked.store(look, std::memory_order_release);
  }
  return late;
}

bool may_wait_long(const ThreadSlot& slot, std::uint64_t begun) {
  const std::uint16_t entry = slot.call.entry;
  if (entry >= entry_count || !offers_python_frames(entry_data[entry].verb)) return false;
  const std::uint64_t now = ticks();
  return can_block(entry_data[entry].verb) || (begun < now && now - begun > ticks_in(long_submission_us));
}

/// The thread stays in its call while its frames are read: see `withdraw_python_frames`.
std::uint32_t python_stack_of(const ThreadSlot& slot, Looker::Offer& offer) {
  const PythonState python = offer.state.load(std::memory_order_acquire);
  const std::uint64_t begun = slot.begun;
  if (python == nullptr || slot.inside.load(std::memory_order_acquire) == 0 || !may_wait_long(slot, begun) ||
      python_is_ending())
    return 0;
  offer.taken.store(1, std::memory_order_seq_cst);
  std::uint32_t stack = 0;
  if (slot.inside.load(std::memory_order_seq_cst) != 0 && slot.begun == begun &&
      offer.state.load(std::memory_order_acquire) == python)
    stack = python_stack_number(python);
  offer.taken.store(0, std::memory_order_release);
  return stack;
}

void look_at_threads() {
  for (ThreadSlot& slot : region->threads) {
    if (slot.thread.load(std::memory_order_relaxed) == 0) return; // slots are taken in order
    slot.python.store(python_stack_of(slot, cleared_by_fork->looker.offers[&slot - region->threads]),
                      std::memory_order_release);
  }
}

/// Runs before the driver's own handler, which was registered earlier. From here on, looks do not call the
/// driver.
void end_looks(void*) {
  HostUses& uses = cleared_by_fork->uses;
  for (int i = 0; i < judging_pauses && uses.unjudged.load(std::memory_order_seq_cst) != 0; ++i)
    sleep_microseconds(20);
  if (uses.is_on.load(std::memory_order_relaxed) != 0) end_guards();
  cleared_by_fork->looker.ending.store(1, std::memory_order_seq_cst);
  for (int i = 0; i < 10'000 && cleared_by_fork->looker.looking.load(std::memory_order_seq_cst) != 0; ++i)
    sleep_microseconds(20);
}

/// If the watch was abandoned, the hooks note no destructions.
bool may_call_driver() {
  return cleared_by_fork->looker.ending.load(std::memory_order_seq_cst) == 0 &&
         region->abandoned.load(std::memory_order_relaxed) == 0;
}

template <class Look>
void look_if_allowed(Look look) {
  cleared_by_fork->looker.looking.store(1, std::memory_order_seq_cst);
  if (may_call_driver()) look();
  cleared_by_fork->looker.looking.store(0, std::memory_order_seq_cst);
}

/// Until that time is over, or a use by the host is to be judged.
void sleep_until_news(std::uint32_t known, std::int64_t microseconds) {
  const timespec time{0, microseconds * 1000};
  syscall(SYS_futex, &cleared_by_fork->uses.news, FUTEX_WAIT, known, &time, nullptr, 0L);
}

bool has_copies() {
  return cleared_by_fork->sources.count.load(std::memory_order_seq_cst) != 0 || has_host_uses();
}

/// As long as copies are pending, and nobody wants another look. It takes a tenth of the time.
void watch_copies(std::uint32_t done, bool (&is_relaxed)[library_limit]) {
  constexpr std::int64_t shortest_pause_us = 200, longest_pause_us = 900'000, share = 10;
  constexpr unsigned looks = 1000; // then the thread asks whether it is the only one
  bool are_pending = true;
  for (unsigned i = 0;
       are_pending && i < looks && region->look_wanted.load(std::memory_order_relaxed) == done; ++i) {
    const std::int64_t begun = now_us();
    const std::uint32_t known = cleared_by_fork->uses.news.load(std::memory_order_seq_cst);
    are_pending = false;
    look_if_allowed([&] {
      are_pending = look_at_guards(is_relaxed);
      are_pending = look_at_sources(is_relaxed) || are_pending;
    });
    const std::int64_t pause = share * (now_us() - begun);
    if (are_pending) sleep_until_news(known, std::clamp(pause, shortest_pause_us, longest_pause_us));
  }
}

void* run(void*) {
  syscall(SYS_prctl, PR_SET_NAME, "cuevent-watch", 0L, 0L, 0L);
  bool is_relaxed[library_limit] = {};
  std::uint32_t done = region->look_done.load(std::memory_order_relaxed);
  while (!is_only_thread()) {
    const std::uint32_t wanted = region->look_wanted.load(std::memory_order_acquire);
    if (wanted == done) {
      std::atomic<std::uint32_t>& sleeps = cleared_by_fork->sources.sleeps;
      sleeps.store(1, std::memory_order_seq_cst);
      if (has_copies() && may_call_driver()) {
        sleeps.store(0, std::memory_order_relaxed);
        watch_copies(done, is_relaxed);
        continue;
      }
      if (!may_call_driver()) give_back_all();
      const timespec second{1, 0};
      syscall(SYS_futex, &region->look_wanted, FUTEX_WAIT, done, &second, nullptr, 0L);
      sleeps.store(0, std::memory_order_relaxed);
      continue;
    }
    look_if_allowed([&] {
      for (const std::int64_t deadline = now_us() + late_patience_us;
           look_at_streams(wanted, is_relaxed) != 0 && now_us() < deadline;)
        sleep_microseconds(1000);
      look_at_threads();
    });
    done = wanted;
    region->look_done.store(done, std::memory_order_release);
    syscall(SYS_futex, &region->look_done, FUTEX_WAKE, 0x7FFF'FFFF, nullptr, nullptr, 0L);
    report_if_wanted();
  }
  return nullptr; // the C library then ends the process, if this was its last thread
}

} // namespace

bool relax(unsigned library) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const auto exchange = state.libraries[library].probing.exchange_mode;
  return exchange != nullptr && exchange(&mode) == CUDA_SUCCESS;
}

void start_looker() {
  Lock& started = cleared_by_fork->looker.started;
  if (started.load(std::memory_order_relaxed) != 0 || started.exchange(1, std::memory_order_relaxed) != 0)
    return;
  if (!start_thread(&run)) {
    cleared_by_fork->looker.failed.store(1, std::memory_order_relaxed);
    return;
  }
  if (region->overwrites != 0) listen_to_signal();
  if (state.program_functions.call_at_exit != nullptr)
    state.program_functions.call_at_exit(&end_looks, nullptr, nullptr);
}

void offer_python_frames(const Thread& thread) {
  cleared_by_fork->looker.offers[thread.slot - region->threads].state.store(python_state_of_this_thread(),
                                                                            std::memory_order_relaxed);
}

void withdraw_python_frames(const Thread& thread) {
  Looker::Offer& offer = cleared_by_fork->looker.offers[thread.slot - region->threads];
  if (offer.state.load(std::memory_order_relaxed) == nullptr) return;
  offer.state.store(nullptr, std::memory_order_relaxed); // the next call may not offer its frames
  // The looker sees that the call is over, or this thread sees `taken`.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  while (offer.taken.load(std::memory_order_acquire) != 0)
    sleep_microseconds(20);
}

} // namespace watch
