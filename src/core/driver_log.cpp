// SPDX-License-Identifier: MIT
#include "core/driver_log.hpp"

#include "core/fork_lock.hpp"
#include "core/status.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr std::string_view returning = "Returning ";

/// Whether the line reads "Returning <number>...".
bool names_a_call(std::string_view line) noexcept {
  if (line.size() <= returning.size() || std::memcmp(line.data(), returning.data(), returning.size()) != 0)
    return false;
  const char digit = line.data()[returning.size()];
  return digit >= '0' && digit <= '9';
}

/// The lines about one refused call. Nobody waits for a slot: a line that finds its slot held is dropped. So
/// a callback neither blocks nor allocates, in a signal handler and in a forked child too.
class Slot {
public:
  [[gnu::always_inline]] bool try_hold() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  [[gnu::always_inline]] void let_go() noexcept { held_.store(false, std::memory_order_release); }

  // For the holder
  const void* owner = nullptr; ///< the thread
  bool complete = false;       ///< the last line has come

  std::string_view lines() const noexcept { return {text_, used_}; }
  std::string_view last_line() const noexcept {
    const std::size_t begin = lines().rfind('\n') + 1;
    return {text_ + begin, used_ - begin};
  }
  void clear() noexcept {
    used_ = 0;
    complete = false;
  }
  /// Whether another callback for the same driver has brought the line: two tables can call one driver, for
  /// example if one of them goes through the functions of a tool.
  bool repeats(std::string_view line, const void* source) const noexcept {
    if (source == source_ || used_ == 0) return false;
    return complete ? line == last_line() : !names_a_call(line);
  }
  /// Keeps room for the last line, which names the call.
  void add(std::string_view line, bool is_last, const void* source) noexcept {
    if (complete) clear();
    source_ = source;
    const std::size_t end = is_last ? sizeof text_ : sizeof text_ - room_for_the_name;
    if (used_ + 1 >= end) return;
    if (used_ != 0) text_[used_++] = '\n';
    for (const char one : line.substr(0, end - used_))
      text_[used_++] = static_cast<unsigned char>(one) < ' ' || one == '\x7f' ? ' ' : one;
    complete = is_last;
  }

private:
  static constexpr std::size_t room_for_the_name = 128;

  std::atomic<bool> held_{false};
  const void* source_ = nullptr; ///< the callback
  std::size_t used_ = 0;
  char text_[most_words]{};
};

// Not thread-local, because the first use of a thread-local buffer can allocate, which ends a process that
// has no memory. Room for 64 threads that were refused a call and have not asked about it. Made with the
// first callback, and never freed.
constexpr unsigned slot_count = 64;
constinit std::atomic<Slot*> slots{nullptr};
constinit std::atomic<unsigned> next_slot{0};

struct Mine {
  unsigned slot;  ///< 0: none; otherwise its number plus 1
  unsigned keeps; ///< the number of KeepLog
};
constinit thread_local Mine own_slot [[gnu::tls_model("initial-exec")]] = {0, 0};

/// The thread's slot, held. Null if it has none.
[[gnu::cold]] Slot* hold_mine() noexcept {
  if (own_slot.slot == 0) return nullptr;
  Slot& slot = slots.load(std::memory_order_acquire)[own_slot.slot - 1];
  if (!slot.try_hold()) return nullptr;
  if (slot.owner == &own_slot) return &slot;
  slot.let_go(); // another thread has taken it
  return nullptr;
}

/// The oldest slot, held, for this thread. Null if others hold the oldest ones.
[[gnu::cold]] Slot* hold_oldest() noexcept {
  for (int tries = 0; tries < 4; ++tries) {
    const unsigned number = next_slot.fetch_add(1, std::memory_order_relaxed) % slot_count;
    Slot& slot = slots.load(std::memory_order_acquire)[number];
    if (!slot.try_hold()) continue;
    slot.clear();
    slot.owner = &own_slot;
    own_slot.slot = number + 1;
    return &slot;
  }
  return nullptr;
}

/// Called by the driver in a refused call, on its thread.
[[gnu::cold]] void CUDA_CB take_line(void* source, CUlogLevel level, char* message, std::size_t length) {
  if (static_cast<int>(level) != 0 || message == nullptr || own_slot.keeps != 0) return; // 0: an error
  while (length != 0 && static_cast<unsigned char>(message[length - 1]) <= ' ')
    --length;
  if (length == 0) return;
  const std::string_view line(message, length);
  Slot* slot = hold_mine();
  if (slot == nullptr) slot = hold_oldest();
  if (slot == nullptr) return;
  if (!slot->repeats(line, source)) slot->add(line, names_a_call(line), source);
  slot->let_go();
}

/// Whether the line reads "Returning <result> (<name>) from <call>". The driver may name a version of the
/// function: cuEventDestroy_v2.
[[gnu::cold]] bool is_about(std::string_view line, CUresult result, std::string_view call) noexcept {
  if (!names_a_call(line)) return false;
  const int number = std::atoi(line.data() + returning.size()); // ends at the space before the name
  constexpr std::string_view from = " from ";
  const std::size_t place = line.rfind(from);
  if (place == std::string_view::npos || number != static_cast<int>(result)) return false;
  const char* const name = line.data() + place + from.size();
  const std::size_t size = line.size() - place - from.size();
  return size >= call.size() && std::memcmp(name, call.data(), call.size()) == 0 &&
         (size == call.size() || name[call.size()] == '_');
}

// The callbacks. A thread may hold this lock during a driver call.
ProcessLock changing;
// Guarded by the lock
DriverLog chosen = DriverLog::on;
KeptTable* newest_kept = nullptr;

[[gnu::cold]] void register_in(KeptTable& table) noexcept {
  if (slots.load(std::memory_order_relaxed) == nullptr)
    slots.store(new (std::nothrow) Slot[slot_count], std::memory_order_release);
  if (slots.load(std::memory_order_relaxed) == nullptr) return; // the texts have no reasons then
  CUlogsCallbackHandle handle = nullptr;
  if (table.log == nullptr && table.cuLogsRegisterCallback_v12090(take_line, &table, &handle) == CUDA_SUCCESS)
    table.log = handle;
}
void unregister_in(KeptTable& table) noexcept {
  if (table.log != nullptr) (void)table.cuLogsUnregisterCallback_v12090(std::exchange(table.log, nullptr));
}

} // namespace

[[gnu::cold]] void start_log(KeptTable& table) noexcept {
  const auto lock = changing.hold();
  if (!lock) return;
  table.older_with_log = std::exchange(newest_kept, &table);
  if (chosen == DriverLog::on) register_in(table);
}

[[gnu::cold]] void stop_log(KeptTable& table) noexcept {
  const auto lock = changing.hold();
  if (!lock) return;
  for (KeptTable** each = &newest_kept; *each != nullptr; each = &(*each)->older_with_log) {
    if (*each != &table) continue;
    *each = table.older_with_log;
    break;
  }
  unregister_in(table);
}

[[gnu::cold]] DriverLog set_driver_log(DriverLog wanted) noexcept {
  const auto lock = changing.hold();
  if (!lock) return chosen;
  for (KeptTable* table = newest_kept; table != nullptr; table = table->older_with_log)
    wanted == DriverLog::on ? register_in(*table) : unregister_in(*table);
  return std::exchange(chosen, wanted);
}

[[gnu::cold]] LoggedLines::LoggedLines(CUresult result, const char* call, Words then) noexcept {
  Slot* const slot = call != nullptr ? hold_mine() : nullptr;
  if (slot == nullptr) return;
  const std::string_view all = slot->lines();
  const std::size_t last = all.size() - slot->last_line().size();
  if (slot->complete && is_about(slot->last_line(), result, call)) {
    std::memcpy(text, all.data(), all.size());
    size = all.size();
    reasons_size = last == 0 ? 0 : last - 1;
    if (then == Words::take) slot->clear();
  }
  slot->let_go();
}

[[gnu::cold]] DriverWords::DriverWords(CUresult result, const char* call, Words then) noexcept {
  const LoggedLines lines(result, call, then);
  char* out = text;
  for (const char one : lines.reasons()) {
    *out++ = one == '\n' ? ';' : one;
    if (one == '\n') *out++ = ' ';
  }
  *out = '\0';
}

KeepLog::KeepLog() noexcept { ++own_slot.keeps; }
KeepLog::~KeepLog() { --own_slot.keeps; }

}} // namespace cuevent::CUEVENT_ABI
