// SPDX-License-Identifier: MIT
#include "auditor/segv_handler.hpp"

#include "auditor/host_guards.hpp"
#include "auditor/kernel_calls.hpp"
#include "auditor/recorder.hpp"
#include "auditor/state.hpp"
#include "auditor/tick_rate.hpp"
#include "protocol/ticks.hpp"

#include <cstring>
#include <ucontext.h>

namespace watch {

namespace {

constexpr std::size_t room_to_walk = std::size_t{16} << 10; // of an alternate stack
constexpr std::size_t kernel_signals = 8;                   // bytes of a set of signals
constexpr long patience_us = 20'000;
constexpr std::uint64_t time_of_retry_us = 100; // from the end of the handler until it begins again

/// As the kernel has it.
struct KernelAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

void on_segv(int signal, siginfo_t* info, void* context);

std::uintptr_t place_of(const ucontext_t& context) {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
#else
  return context.uc_mcontext.pc;
#endif
}

/// Whether the instruction writes. On arm64, the kernel tells in a record behind the registers.
bool is_write(const ucontext_t& context) {
#if defined(__x86_64__)
  return (context.uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  constexpr std::uint32_t syndrome = 0x4553'5201, writes = 1U << 6U;
  const auto* at = reinterpret_cast<const unsigned char*>(context.uc_mcontext.__reserved);
  const auto* const end = at + sizeof context.uc_mcontext.__reserved;
  while (end - at >= 16) {
    std::uint32_t head[2];
    std::uint64_t value = 0;
    std::memcpy(head, at, sizeof head);
    std::memcpy(&value, at + sizeof head, sizeof value);
    if (head[0] == syndrome) return (value & writes) != 0;
    if (head[0] == 0 || head[1] == 0) return false;
    at += head[1];
  }
  return false;
#endif
}

/// The handler may run on a small stack of the program.
bool has_room_to_walk() {
  stack_t stack{};
  if (syscall(SYS_sigaltstack, nullptr, &stack) != 0) return false;
  if ((stack.ss_flags & SS_ONSTACK) == 0) return true;
  const auto here = reinterpret_cast<std::uintptr_t>(&stack);
  return here - reinterpret_cast<std::uintptr_t>(stack.ss_sp) > room_to_walk;
}

/// Whether the driver uses the memory, perhaps by a function of the C library.
bool is_in_driver(std::uintptr_t place) {
  if (is_adopted(current_thread) && current_thread.slot->inside.load(std::memory_order_relaxed) != 0)
    return true;
  if (is_of_a_library(place)) return true;
  std::uintptr_t frames[2];
  return has_room_to_walk() && take_frames(place, frames, 2) == 2 && is_of_a_library(frames[1]);
}

/// Runs on the stack on which the program's handler would, and restarts what it would.
int set_handler() {
  struct sigaction action {};
  const struct sigaction& of_program = state.segv.of_program;
  const bool has_handler = of_program.sa_handler != SIG_DFL && of_program.sa_handler != SIG_IGN;
  action.sa_sigaction = &on_segv;
  action.sa_flags = SA_SIGINFO | (has_handler ? of_program.sa_flags & (SA_ONSTACK | SA_RESTART) : SA_RESTART);
  std::memset(&action.sa_mask, 0xFF, sizeof action.sa_mask);
  return set_segv_action(&action, nullptr);
}

bool is_own_handler_set() {
  KernelAction action{};
  return syscall(SYS_rt_sigaction, SIGSEGV, nullptr, &action, kernel_signals) == 0 &&
         action.handler == &on_segv;
}

bool is_blocked_here() {
  std::uint64_t blocked = 0;
  return syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, kernel_signals) != 0 ||
         (blocked >> (SIGSEGV - 1) & 1U) != 0;
}

/// False if the C library tells nobody.
bool note_forks() {
  const auto call_at_fork = state.program_functions.call_at_fork;
  if (state.segv.notes_forks) return true;
  state.segv.notes_forks =
      call_at_fork != nullptr && call_at_fork(&begin_fork, &end_fork, nullptr, nullptr) == 0;
  return state.segv.notes_forks;
}

/// The program's signal. An instruction that has failed fails again, and another signal is sent again.
void give_to_program(siginfo_t* info) {
  end_guards();
  if (state.segv.is_set.exchange(0, std::memory_order_acq_rel) != 0)
    set_segv_action(&state.segv.of_program, nullptr);
  if (info->si_code <= 0) // sent by somebody
    syscall(SYS_rt_tgsigqueueinfo, process_number(), thread_number(), SIGSEGV, info);
}

/// Whether another thread may have given the pages back meanwhile: the instruction is tried again, once.
bool may_be_over(std::uintptr_t place, std::uintptr_t address, std::uint64_t begun) {
  LastFault& last = current_thread.last_fault;
  const bool is_same =
      last.place == place && last.address == address && begun - last.tick < ticks_in(time_of_retry_us);
  last = {place, address, ticks()};
  return !is_same;
}

void on_segv(int, siginfo_t* info, void* data) {
  const std::uint64_t begun = ticks();
  const ucontext_t& context = *static_cast<const ucontext_t*>(data);
  const std::uintptr_t place = place_of(context);
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (info->si_code != SEGV_ACCERR) return give_to_program(info);
  const UsePlace of_program{place, true, has_room_to_walk()};
  const bool is_told =
      cleared_by_fork->uses.is_on.load(std::memory_order_relaxed) != 0 && !is_in_driver(place);
  if (note_host_use(address, address + 1, is_write(context), is_told ? &of_program : nullptr)) {
    current_thread.last_fault = {};
    return;
  }
  if (!may_be_over(place, address, begun)) give_to_program(info);
}

} // namespace

bool prepare_segv_handler() {
  if (is_blocked_here() || cleared_by_fork->uses.is_over.load(std::memory_order_relaxed) != 0) return false;
  if (state.segv.is_set.load(std::memory_order_acquire) == 0) {
    const TryLocked lock(cleared_by_fork->locks.segv, patience_us);
    if (!lock) return false;
    if (state.segv.is_set.load(std::memory_order_relaxed) == 0) {
      if (!note_forks() || set_segv_action(nullptr, &state.segv.of_program) != 0 || set_handler() != 0)
        return false;
      state.segv.is_set.store(1, std::memory_order_release);
    }
  }
  cleared_by_fork->uses.is_on.store(1, std::memory_order_relaxed);
  if (is_own_handler_set()) return true;
  state.segv.is_set.store(0, std::memory_order_relaxed); // the program has set another one, by itself
  end_guards();
  return false;
}

bool change_segv_action(const struct sigaction* action, struct sigaction* old) {
  if (state.segv.is_set.load(std::memory_order_acquire) == 0) return false;
  const TryLocked lock(cleared_by_fork->locks.segv, patience_us); // or a handler has interrupted the holder
  if (state.segv.is_set.load(std::memory_order_relaxed) == 0) return false;
  const struct sigaction before = state.segv.of_program;
  if (action != nullptr) {
    state.segv.of_program = *action;
    set_handler();
  }
  if (old != nullptr) *old = before;
  return true;
}

} // namespace watch
