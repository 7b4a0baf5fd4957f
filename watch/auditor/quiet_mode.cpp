// SPDX-License-Identifier: MIT
#include "auditor/quiet_mode.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/state.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace watch {

namespace {

constexpr int first_descriptor = 300;   // the program uses low ones, and may count on their numbers
constexpr int patience_ms = 60'000;     // for the command
constexpr int inherited_descriptor = 3; // of the command
constexpr long close_range_call = 436;  // SYS_close_range, which headers before Linux 5.9 lack

} // namespace

constexpr std::size_t stack_size = 64U << 10U;

struct QuietMemory {
  char* environment[1U << 15U]; // of the command: the program's first one, and a null
  char text[4U << 20U];
  // The stacks of the two new processes.
  alignas(16) char first_stack[stack_size], second_stack[stack_size];
};

namespace {

QuietMemory& memory() { return *state.quiet.memory; }

bool is_for_us(const char* variable) {
  return std::strncmp(variable, "LD_AUDIT=", 9) == 0 || std::strncmp(variable, "CUEVENT_WATCH", 13) == 0;
}

/// Reads into QuietMemory::text, which then ends with a null. Returns the length.
std::size_t read_text(const char* path) {
  std::size_t length = 0;
  const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  for (long read = file < 0 ? 0 : 1; read > 0 && length < sizeof memory().text - 1;) {
    read = syscall(SYS_read, file, memory().text + length, sizeof memory().text - 1 - length);
    if (read > 0) length += static_cast<std::size_t>(read);
  }
  if (file >= 0) syscall(SYS_close, file);
  memory().text[length] = '\0';
  return length;
}

/// The program may change its own environment, so this is a copy.
void copy_environment() {
  const std::size_t length = read_text("/proc/self/environ");
  std::size_t count = 0;
  for (std::size_t at = 0; at < length && count < std::size(memory().environment) - 1;
       at += std::strlen(memory().text + at) + 1)
    if (!is_for_us(memory().text + at)) memory().environment[count++] = memory().text + at;
}

/// Appends the path to QuietMode::command. Returns whether there was room.
bool append(const char* path, std::size_t length) {
  char(&command)[512] = state.quiet.command;
  const std::size_t before = std::strlen(command);
  if (before + length >= sizeof command) return false;
  std::memcpy(command + before, path, length);
  command[before + length] = '\0';
  return true;
}

/// Reads a hexadecimal number and steps over it. Not strtoull, which needs the locale of the thread.
std::uintptr_t read_address(const char*& text) {
  std::uintptr_t number = 0;
  for (;; ++text)
    if (*text >= '0' && *text <= '9')
      number = number * 16 + static_cast<std::uintptr_t>(*text - '0');
    else if (*text >= 'a' && *text <= 'f')
      number = number * 16 + static_cast<std::uintptr_t>(*text - 'a' + 10);
    else
      return number;
}

/// Names the installed command, which may have been moved together with this library. The kernel's list of
/// mapped files has the absolute path of this library, whatever LD_AUDIT says.
bool find_command() {
  const char* const from_here = CUEVENT_COMMAND_FROM_HERE;
  if (*from_here == '/') return append(from_here, std::strlen(from_here));
  read_text("/proc/self/maps"); // lines such as "7f0a00-7f0b00 r-xp 00000000 fe:01 4711   /path"
  for (const char* line = memory().text; *line != '\0';) {
    const char* end = std::strchr(line, '\n');
    if (end == nullptr) return false;
    const std::uintptr_t begin = read_address(line);
    const std::uintptr_t limit = read_address(++line);
    const auto here = reinterpret_cast<std::uintptr_t>(&find_command);
    if (begin <= here && here < limit) {
      const char* const path = std::strchr(line, '/');
      if (path == nullptr || path > end) return false;
      while (*end != '/')
        --end;
      return append(path, static_cast<std::size_t>(end + 1 - path)) &&
             append(from_here, std::strlen(from_here));
    }
    line = end + 1;
  }
  return false;
}

void say(const char* text) { syscall(SYS_write, 2, text, std::strlen(text)); }

void complain(const char* why) {
  say("cuevent watch: no report: ");
  say(why);
  say("\n");
}

bool is_still_ours(int file) {
  struct stat now {};
  return syscall(SYS_fstat, file, &now) == 0 && now.st_dev == state.quiet.identity.st_dev &&
         now.st_ino == state.quiet.identity.st_ino;
}

void on_signal(int) {
  if (cleared_by_fork->generation.load(std::memory_order_acquire) == 0)
    return; // a child without its own file
  cleared_by_fork->report_wanted.store(1, std::memory_order_release);
  region->look_wanted.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &region->look_wanted, FUTEX_WAKE, 1, nullptr, nullptr, 0L);
}

/// The command is not to inherit the program's handlers, which would run in the program's memory, nor the
/// blocked signals of this thread.
void reset_signals() {
  struct {
    void (*handler)(int);
    unsigned long rest[15];
  } none{}, old{};
  constexpr long mask_size = 8;
  for (int number = 1; number <= 64; ++number)
    if (syscall(SYS_rt_sigaction, number, nullptr, &old, mask_size) == 0 && old.handler != SIG_IGN)
      syscall(SYS_rt_sigaction, number, &none, nullptr, mask_size);
  const std::uint64_t empty = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &empty, nullptr, mask_size);
}

/// Starts a process that shares the memory of this one, but neither its files nor its handlers. As with
/// vfork, this thread goes on when the process has ended or runs a program. Its end brings no signal.
int start(int (*function)(void*), char (&stack)[stack_size]) {
  return clone(function, stack + stack_size, CLONE_VM | CLONE_VFORK, nullptr);
}

/// The process that becomes the command.
int become_command(void*) {
  reset_signals();
  const char* const arguments[] = {"cuevent", "watch", "--report", "/proc/self/fd/3", nullptr};
  syscall(SYS_execve, state.quiet.command, arguments, memory().environment);
  say("cuevent watch: no report: ");
  say(state.quiet.command);
  say(" cannot be run. Name the command `cuevent` in CUEVENT_WATCH_COMMAND\n");
  return 127;
}

/// The parent of the command. The kernel tells a parent when a program that it has started ends, so the
/// watched process must not be the parent.
int run_command(void*) {
  if (state.quiet.file == inherited_descriptor)
    syscall(SYS_fcntl, state.quiet.file, F_SETFD, 0);
  else
    syscall(SYS_dup3, state.quiet.file, inherited_descriptor, 0);
  syscall(close_range_call, inherited_descriptor + 1, ~0U, 0);
  const int child = start(&become_command, memory().second_stack);
  if (child < 0) complain("no process can be made");
  for (int waited_ms = 0; child > 0 && waited_ms < patience_ms; waited_ms += 10) {
    if (syscall(SYS_wait4, child, nullptr, __WALL | WNOHANG, nullptr) != 0) return 0;
    sleep_microseconds(10'000);
  }
  return 0;
}

} // namespace

bool prepare_quiet_mode() {
  void* const place =
      mmap(nullptr, sizeof(QuietMemory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return false;
  state.quiet.memory = static_cast<QuietMemory*>(place);
  const char* const named = std::getenv("CUEVENT_WATCH_COMMAND");
  if (named == nullptr || *named == '\0' ? !find_command() : !append(named, std::strlen(named))) return false;
  copy_environment();
  return true;
}

int make_memory_file() {
  if (is_still_ours(state.quiet.file)) syscall(SYS_close, state.quiet.file); // the parent's
  state.quiet.file = static_cast<int>(
      syscall(SYS_memfd_create, "cuevent-watch", 1U | 2U /* MFD_CLOEXEC | MFD_ALLOW_SEALING */));
  if (state.quiet.file < 0) return -1;
  const int high = static_cast<int>(syscall(SYS_fcntl, state.quiet.file, F_DUPFD_CLOEXEC, first_descriptor));
  if (high >= 0) {
    syscall(SYS_close, state.quiet.file);
    state.quiet.file = high;
  }
  syscall(SYS_fstat, state.quiet.file, &state.quiet.identity);
  return state.quiet.file;
}

void listen_to_signal() {
  const auto set_action = state.program_functions.set_signal_action;
  struct sigaction action {};
  if (set_action == nullptr || set_action(SIGUSR1, nullptr, &action) != 0 ||
      (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL)
    return;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  set_action(SIGUSR1, &action, nullptr);
}

void report_if_wanted() {
  if (cleared_by_fork->report_wanted.exchange(0, std::memory_order_acquire) == 0) return;
  if (!is_still_ours(state.quiet.file)) return complain("the program has closed the file with its calls");
  const int child = start(&run_command, memory().first_stack);
  if (child < 0) return complain("no process can be made");
  syscall(SYS_wait4, child, nullptr, __WALL, nullptr); // it has ended
}

} // namespace watch
