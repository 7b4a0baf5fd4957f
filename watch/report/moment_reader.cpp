// SPDX-License-Identifier: MIT
#include "report/moment_reader.hpp"

#include "report/readable_name.hpp"
#include "report/tick_clock.hpp"

#include <cuevent/error.hpp>

#include <climits>
#include <cstddef>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace watch {

using watch::ThreadSlot;

namespace {

/// The call that the thread is in, unless it changes meanwhile.
std::optional<watch::CallUnderWay> call_in(const ThreadSlot& slot, const TickClock& clock) {
  if (slot.thread.load() == 0 || slot.inside.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::uint64_t begun = slot.begun;
  const watch::CallData call = slot.call; // the process may change it
  watch::CallUnderWay found{decoded(call), {}, slot.python.load()};
  found.call.returned = false;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.inside.load(std::memory_order_relaxed) == 0 || slot.begun != begun ||
      found.call.entry >= watch::entry_count)
    return std::nullopt;
  if (begun != 0) found.age = std::max(time_now() - clock.time_of(begun), std::chrono::nanoseconds{});
  return found;
}

} // namespace

void ProcessState::request_look() {
  if (region_.look_wanted.load() != region_.look_done.load()) return; // it has not done the last one
  region_.look_wanted.fetch_add(1);
  syscall(SYS_futex, &region_.look_wanted, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool ProcessState::wait_for_look(std::chrono::nanoseconds limit) {
  for (const auto deadline = time_now() + limit; region_.look_wanted.load() != region_.look_done.load();) {
    if (time_now() >= deadline) return false;
    usleep(500);
  }
  if (region_.look_done.load() != 0) last_look_ = time_now();
  return true;
}

watch::Moment ProcessState::moment() const {
  const TickClock clock(region_.first_tick, region_.first_time);
  watch::Moment moment;
  moment.time = time_now();
  const std::uint32_t look = region_.look_done.load();
  for (std::uint32_t i = 0; i < watch::stream_limit; ++i) {
    const watch::ProbedStream& stream = region_.streams[i];
    const std::uint32_t used = stream.used.load(std::memory_order_acquire);
    if (used == 0) continue;
    watch::ProbedState& state = moment.streams.emplace_back();
    state.place = i;
    state.key = watch::key_of(stream.handle, stream.context, stream.thread);
    state.destroyed = used == 2;
    state.reached = stream.reached.load();
    state.recorded = stream.recorded.load();
    state.exact = stream.looked.load() == look;
    state.can_get_late_probe = used == 1 && !watch::is_default_stream(stream.handle) &&
                               state.recorded == state.reached && stream.result.load() == 0;
    const auto result = static_cast<CUresult>(watch::result_of(stream.result.load()));
    if (used == 1 && cuevent::kind_of(result) == cuevent::ErrorKind::device_fault) moment.fault = result;
  }
  for (const ThreadSlot& slot : region_.threads)
    if (const auto call = call_in(slot, clock)) moment.calls.push_back(*call);
  return moment;
}

std::string ProcessState::kernel_name(watch::Handle function) const {
  if (function == 0) return {};
  for (const watch::Name& name : region_.names) {
    if (name.handle.load(std::memory_order_acquire) != function) continue;
    const std::uint32_t begin = name.text.load(std::memory_order_acquire);
    if (begin >= watch::name_room) return {};
    const std::string text = file_.bytes(offsetof(Region, name_text) + begin,
                                         std::min(watch::longest_name, watch::name_room - begin));
    return readable_name(text.substr(0, text.find('\0')));
  }
  return {};
}

} // namespace watch
