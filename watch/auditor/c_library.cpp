// SPDX-License-Identifier: MIT
#include "auditor/c_library.hpp"

#include "auditor/host_guards.hpp"
#include "auditor/loaded_library.hpp"
#include "auditor/pinned_memory.hpp"
#include "auditor/segv_handler.hpp"
#include "auditor/state.hpp"

#include <csignal>
#include <cstring>
#include <iterator>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace watch {

namespace {

/// What the arguments name.
enum class Shape : std::uint8_t {
  bytes,   // an address, and a number of bytes
  items,   // an address, and behind it the size of an item and their number
  pieces,  // an array of iovec, and their number
  message, // a msghdr
};

/// A function that passes memory to the kernel.
struct MemoryFunction {
  const char* name;
  Shape shape;
  std::uint8_t memory, size; // arguments, from 0
  bool is_write;             // of the host to the memory
};

constexpr MemoryFunction memory_functions[] = {
    {"read", Shape::bytes, 1, 2, true},           {"__read_chk", Shape::bytes, 1, 2, true},
    {"pread", Shape::bytes, 1, 2, true},          {"pread64", Shape::bytes, 1, 2, true},
    {"__pread_chk", Shape::bytes, 1, 2, true},    {"__pread64_chk", Shape::bytes, 1, 2, true},
    {"recv", Shape::bytes, 1, 2, true},           {"__recv_chk", Shape::bytes, 1, 2, true},
    {"recvfrom", Shape::bytes, 1, 2, true},       {"__recvfrom_chk", Shape::bytes, 1, 2, true},
    {"getrandom", Shape::bytes, 0, 1, true},      {"fread", Shape::items, 0, 1, true},
    {"__fread_chk", Shape::items, 0, 2, true}, // behind the size of the memory
    {"fread_unlocked", Shape::items, 0, 1, true}, {"readv", Shape::pieces, 1, 2, true},
    {"preadv", Shape::pieces, 1, 2, true},        {"preadv64", Shape::pieces, 1, 2, true},
    {"preadv2", Shape::pieces, 1, 2, true},       {"preadv64v2", Shape::pieces, 1, 2, true},
    {"recvmsg", Shape::message, 1, 0, true},      {"write", Shape::bytes, 1, 2, false},
    {"pwrite", Shape::bytes, 1, 2, false},        {"pwrite64", Shape::bytes, 1, 2, false},
    {"send", Shape::bytes, 1, 2, false},          {"sendto", Shape::bytes, 1, 2, false},
    {"fwrite", Shape::items, 0, 1, false},        {"fwrite_unlocked", Shape::items, 0, 1, false},
    {"writev", Shape::pieces, 1, 2, false},       {"pwritev", Shape::pieces, 1, 2, false},
    {"pwritev64", Shape::pieces, 1, 2, false},    {"pwritev2", Shape::pieces, 1, 2, false},
    {"pwritev64v2", Shape::pieces, 1, 2, false},  {"sendmsg", Shape::message, 1, 0, false},
};

// Behind the functions of memory.
enum OtherFunction : std::size_t {
  change_action = std::size(memory_functions),
  change_action_inside,
  change_handler,
  change_handler_of_bsd,
  change_handler_of_system_v,
  change_mask,
  change_mask_of_thread,
  protect,
  unmap,
  remap,
  function_count
};
static_assert(function_count <= c_function_limit);

using Word = std::uintptr_t;

template <class Function>
Function real(std::size_t index) {
  return reinterpret_cast<Function>(state.c_library.functions[index]);
}

void note(std::uint64_t begin, std::uint64_t size, bool is_write, std::uintptr_t caller) {
  const UsePlace place{caller, false, true};
  const std::uint64_t end = size > ~begin ? ~std::uint64_t{0} : begin + size;
  const bool is_told =
      cleared_by_fork->uses.is_on.load(std::memory_order_relaxed) != 0 && !is_of_a_library(caller);
  if (size != 0) note_host_use(begin, end, is_write, is_told ? &place : nullptr);
}

void note(const iovec* pieces, std::size_t count, bool is_write, std::uintptr_t caller) {
  for (std::size_t i = 0; pieces != nullptr && i < count && i < 1024; ++i) // IOV_MAX: the kernel refuses more
    note(reinterpret_cast<std::uintptr_t>(pieces[i].iov_base), pieces[i].iov_len, is_write, caller);
}

void note(const MemoryFunction& function, const Word (&words)[6], std::uintptr_t caller) {
  const Word memory = words[function.memory], size = words[function.size];
  std::uint64_t bytes = 0;
  switch (function.shape) {
  case Shape::bytes:
    return note(memory, size, function.is_write, caller);
  case Shape::items:
    if (__builtin_mul_overflow(size, words[function.size + 1], &bytes)) bytes = ~std::uint64_t{0};
    return note(memory, bytes, function.is_write, caller);
  case Shape::pieces:
    return note(reinterpret_cast<const iovec*>(memory), size, function.is_write, caller);
  case Shape::message:
    if (const auto* const message = reinterpret_cast<const msghdr*>(memory); message != nullptr)
      note(message->msg_iov, message->msg_iovlen, function.is_write, caller);
    return;
  }
}

/// All arguments and the result are passed in registers of whole words, whatever their types are.
template <std::size_t Index>
Word use_memory(Word a, Word b, Word c, Word d, Word e, Word f) {
  if (state.guards.count.load(std::memory_order_relaxed) != 0) {
    const Word words[] = {a, b, c, d, e, f};
    note(memory_functions[Index], words, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
  }
  return real<Word (*)(Word, Word, Word, Word, Word, Word)>(Index)(a, b, c, d, e, f);
}

/// The set without SIGSEGV, in `copy` if it has the signal.
const sigset_t* without_segv(const sigset_t* set, sigset_t& copy) {
  if (set == nullptr) return nullptr;
  constexpr std::uint64_t signal = std::uint64_t{1} << (SIGSEGV - 1);
  std::uint64_t first = 0;
  std::memcpy(&first, set, sizeof first);
  if ((first & signal) == 0) return set;
  copy = *set;
  first &= ~signal;
  std::memcpy(&copy, &first, sizeof first);
  return &copy;
}

using ChangeAction = int (*)(int, const struct sigaction*, struct sigaction*);
template <std::size_t Index>
int set_signal_action(int signal, const struct sigaction* action, struct sigaction* old) {
  if (signal == SIGSEGV && change_segv_action(action, old)) return 0;
  if (action == nullptr) return real<ChangeAction>(Index)(signal, action, old);
  struct sigaction changed = *action;
  sigset_t mask;
  changed.sa_mask = *without_segv(&action->sa_mask, mask);
  return real<ChangeAction>(Index)(signal, &changed, old);
}

using Handler = void (*)(int);
template <std::size_t Index, int Flags>
Handler set_signal_handler(int signal, Handler handler) {
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  action.sa_flags = Flags;
  if (signal == SIGSEGV && handler != SIG_ERR && change_segv_action(&action, &old)) return old.sa_handler;
  return real<Handler (*)(int, Handler)>(Index)(signal, handler);
}

using ChangeMask = int (*)(int, const sigset_t*, sigset_t*);
template <std::size_t Index>
int set_signal_mask(int how, const sigset_t* set, sigset_t* old) {
  sigset_t copy;
  return real<ChangeMask>(Index)(how, how == SIG_UNBLOCK ? set : without_segv(set, copy), old);
}

/// The program's own protection replaces what the guards have set.
void leave(Word begin, Word size) {
  if (__atomic_load_n(&cleared_by_fork->pinned.count, __ATOMIC_RELAXED) == 0)
    return; // whose lock is not held
  note_protection(begin, begin + size);
  give_back_in(begin, begin + size);
}
int change_protection(void* begin, std::size_t size, int protection) {
  leave(reinterpret_cast<Word>(begin), size);
  return real<int (*)(void*, std::size_t, int)>(protect)(begin, size, protection);
}
int end_mapping(void* begin, std::size_t size) {
  leave(reinterpret_cast<Word>(begin), size);
  return real<int (*)(void*, std::size_t)>(unmap)(begin, size);
}
Word move_mapping(Word begin, Word size, Word c, Word d, Word e) {
  leave(begin, size);
  return real<Word (*)(Word, Word, Word, Word, Word)>(remap)(begin, size, c, d, e);
}

void replace(const link_map& map, const char* name, std::size_t index, void* hook) {
  void*& function = state.c_library.functions[index];
  void* const found = exported_function(map, name, nullptr);
  if (found == nullptr || found == hook) return;
  if (function == nullptr) function = found;
  redirect_function(map, name, nullptr, hook);
}

template <class Function>
void replace_other(const link_map& map, const char* name, OtherFunction index, Function* hook) {
  replace(map, name, index, reinterpret_cast<void*>(hook));
}

template <std::size_t... Index>
void replace_memory_functions(const link_map& map, std::index_sequence<Index...>) {
  (replace(map, memory_functions[Index].name, Index, reinterpret_cast<void*>(&use_memory<Index>)), ...);
}

} // namespace

void replace_c_functions(const link_map& map) {
  const char* const name = linked_name(map);
  if (name == nullptr ||
      (std::strcmp(name, "libc.so.6") != 0 && std::strcmp(name, "libpthread.so.0") != 0)) // up to glibc 2.33
    return;
  replace_memory_functions(map, std::make_index_sequence<std::size(memory_functions)>());
  replace_other(map, "sigaction", change_action, &set_signal_action<change_action>);
  replace_other(map, "__sigaction", change_action_inside, &set_signal_action<change_action_inside>);
  replace_other(map, "signal", change_handler, &set_signal_handler<change_handler, SA_RESTART>);
  replace_other(map, "ssignal", change_handler_of_bsd,
                &set_signal_handler<change_handler_of_bsd, SA_RESTART>);
  constexpr int flags_of_system_v = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  replace_other(map, "__sysv_signal", change_handler_of_system_v,
                &set_signal_handler<change_handler_of_system_v, flags_of_system_v>);
  replace_other(map, "sigprocmask", change_mask, &set_signal_mask<change_mask>);
  replace_other(map, "pthread_sigmask", change_mask_of_thread, &set_signal_mask<change_mask_of_thread>);
  replace_other(map, "mprotect", protect, &change_protection);
  replace_other(map, "munmap", unmap, &end_mapping);
  replace_other(map, "mremap", remap, &move_mapping);
}

int set_segv_action(const struct sigaction* action, struct sigaction* old) {
  const auto set = real<ChangeAction>(change_action);
  return set == nullptr ? -1 : set(SIGSEGV, action, old);
}

} // namespace watch
