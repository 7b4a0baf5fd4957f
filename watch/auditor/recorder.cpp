// SPDX-License-Identifier: MIT
#include "auditor/recorder.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/looker.hpp"
#include "auditor/quiet_mode.hpp"
#include "auditor/stacks.hpp"
#include "auditor/state.hpp"
#include "protocol/ticks.hpp"

#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

namespace watch {

namespace {

constexpr long patience_s = 10; // how long a call waits for a reader that does not read

constexpr std::size_t page_size = 4096; // or a multiple, which the kernel rounds to
constexpr std::uint64_t largest_share = 256U << 20U;

/// Writes `text`, and then `number`, at `at`.
char* append(char* at, const char* text) {
  const std::size_t length = std::strlen(text);
  std::memcpy(at, text, length + 1);
  return at + length;
}
char* append(char* at, unsigned number) {
  char digits[12];
  unsigned count = 0;
  do
    digits[count++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  while (count > 0)
    *at++ = digits[--count];
  *at = '\0';
  return at;
}

/// Shows a file to the reader: DIR/PROCESS.new becomes DIR/PROCESS-TIME.calls. After an exec the process
/// makes another file, and the reader may not have seen the first one yet.
void publish(const char* path, const char* kind) {
  char* at = append(append(append(state.file.published, state.options.folder), "/"),
                    static_cast<unsigned>(process_number()));
  const timespec now = time_since_start();
  at = append(append(at, "-"), static_cast<unsigned>(now.tv_sec));
  append(append(append(at, "-"), static_cast<unsigned>(now.tv_nsec)), kind);
  syscall(SYS_renameat, AT_FDCWD, path, AT_FDCWD, state.file.published);
}

/// Whether this process may make a file of that size. Otherwise the kernel would end it with SIGXFSZ.
bool is_within_limit(std::uint64_t size) {
  std::uint64_t limits[2] = {};
  return syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, nullptr, limits) != 0 || limits[0] >= size;
}

constexpr std::size_t grows_from = offsetof(Region, name_text), grows_to = offsetof(Region, records);

std::uint64_t records_wanted() { return state.options.is_quiet ? record_limit : records_taken_out; }
std::size_t size_wanted() { return region_size(records_wanted()); }

/// A program may need memory that is shared itself: a quarter of a small file system is left.
bool leaves_a_share(int file) {
  struct statfs status {};
  if (syscall(SYS_fstatfs, file, &status) != 0 || status.f_type != TMPFS_MAGIC) return true;
  const auto bytes = [&](auto blocks) {
    return static_cast<std::uint64_t>(blocks) * static_cast<std::uint64_t>(status.f_bsize);
  };
  const std::uint64_t quarter = bytes(status.f_blocks) / 4;
  const std::uint64_t needed = size_wanted() - (grows_to - grows_from);
  return bytes(status.f_bavail) >= needed + (quarter < largest_share ? quarter : largest_share);
}

/// Linux has this call since 5.14.
bool take_memory(void* begin, std::size_t size) {
  constexpr int populate_write = 23;
  return syscall(SYS_madvise, begin, size, populate_write) == 0;
}

/// Null if there is no room.
void* map(int file) {
  const std::size_t size = size_wanted();
  if (!is_within_limit(size) || syscall(SYS_ftruncate, file, size) != 0) return nullptr;
  // The memory that is needed in any case, now: a file system that is full later would end the program with
  // SIGBUS.
  if (syscall(SYS_fallocate, file, 0, 0L, grows_from) != 0 ||
      syscall(SYS_fallocate, file, 0, grows_to, size - grows_to) != 0)
    return nullptr;
  void* const place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (place == MAP_FAILED) return nullptr;
  state.file.grows = take_memory(static_cast<char*>(place) + grows_from, page_size);
  if (!state.file.grows && syscall(SYS_fallocate, file, 0, grows_from, grows_to - grows_from) != 0) {
    munmap(place, size);
    return nullptr;
  }
  return place;
}

/// Whether the folder is this user's alone. In somebody else's, others would read the records, and could
/// end this process by making the file shorter. The command has looked at the folders above it. No
/// descriptor is used: the program may have few.
bool is_own_folder() {
  struct stat status {};
  return syscall(SYS_newfstatat, AT_FDCWD, state.options.folder, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(status.st_mode) && status.st_uid == static_cast<uid_t>(syscall(SYS_geteuid)) &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The reader does not see the file yet. `path` is set to its name.
void* map_new_file(char* path) {
  append(append(append(append(path, state.options.folder), "/"), static_cast<unsigned>(process_number())),
         ".new");
  const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* const place = leaves_a_share(file) ? map(file) : nullptr;
  if (place == nullptr) ftruncate(file, 0);
  close(file);
  if (place == nullptr) // the reader says so
    publish(path, is_within_limit(size_wanted()) ? ".no-room" : ".limited");
  return place;
}

/// Another process may read it, and nobody can make it shorter under that process.
void* map_new_memory() {
  const int file = make_memory_file();
  void* const place = file < 0 ? nullptr : map(file);
  constexpr int add_seals = 1033, seals = 1 | 2 | 4; // F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
  if (place != nullptr) syscall(SYS_fcntl, file, add_seals, seals);
  return place;
}

/// Where numbers of processes are unique.
std::uint64_t name_space_of_numbers() {
  struct stat status {};
  return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &status, 0) == 0 ? status.st_ino : 0;
}

/// The memory of this process, complete but for its modules.
Region* make_region(char* path) {
  void* const place = state.options.is_quiet ? map_new_memory() : map_new_file(path);
  if (place == nullptr) return nullptr;
  const Options& options = state.options;
  auto* const made = static_cast<Region*>(place); // of zeros, which are valid values
  made->version = protocol_version;
  made->process = static_cast<std::uint32_t>(process_number());
  made->name_space = name_space_of_numbers();
  made->stacks = options.stacks;
  made->features = options.features;
  if (region != nullptr) { // it is the parent's
    made->forked = state.initialized.load(std::memory_order_relaxed) != 0 ? had_initialized : had_loaded;
    made->parent = region->process;
  }
  made->overwrites = options.is_quiet ? 1 : 0;
  made->record_mask = records_wanted() - 1;
  made->launches_need_more =
      options.stacks != Stacks::usual || options.has(jitter) || options.has(memory_use);
  made->first_tick = ticks();
  const timespec now = time_since_start();
  made->first_time = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  made->frame_count.store(1, std::memory_order_relaxed); // 0 stands for no stack
  return made;
}

/// Whether the command has ended. It is taken to be there if nothing can be known, as after chroot.
bool reader_has_ended() {
  char path[folder_limit + sizeof reader_lock];
  append(append(append(path, state.options.folder), "/"), reader_lock);
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const bool ended = syscall(SYS_flock, file, LOCK_SH | LOCK_NB) == 0;
  syscall(SYS_close, file);
  return ended;
}

} // namespace

bool has_lost_reader() {
  if (!reader_has_ended()) return false;
  syscall(SYS_unlinkat, AT_FDCWD, state.file.published, 0);
  region->abandoned.store(1, std::memory_order_relaxed);
  return true;
}

namespace {

void start() {
  const Locked lock(cleared_by_fork->locks.starting);
  if (cleared_by_fork->generation.load(std::memory_order_relaxed) != 0) return;
  char path[folder_limit + 40];
  const bool can_make = state.options.is_quiet || (is_own_folder() && !reader_has_ended());
  Region* const made = can_make ? make_region(path) : nullptr;
  if (made == nullptr) {
    cleared_by_fork->failed.store(1, std::memory_order_relaxed);
    return;
  }
  if (region != nullptr) munmap(region, size_wanted()); // after a fork: the parent's
  region = made;
  cleared_by_fork->generation.store(++state.file.last_generation, std::memory_order_release);
  const link_map* first = state.some_library;
  while (first != nullptr && first->l_prev != nullptr)
    first = first->l_prev;
  for (; first != nullptr; first = first->l_next)
    add_module(*first);
  if (state.options.is_quiet) return;
  publish(path, ".calls");
  has_lost_reader(); // while the file was made
}

/// A slot of a thread that has ended, or one that was never used. Null if all are taken: the calls of this
/// thread are not recorded then.
ThreadSlot* take_slot(std::uint32_t number) {
  const auto take = [number](ThreadSlot& slot) {
    std::uint32_t owner = slot.thread.load(std::memory_order_relaxed);
    if (owner != 0 && owner != number && thread_lives(static_cast<int>(region->process), owner)) return false;
    if (!slot.thread.compare_exchange_strong(owner, number, std::memory_order_acq_rel)) return false;
    slot.inside.store(0, std::memory_order_relaxed);
    return true;
  };
  // Each look is a call of the kernel, so a thread takes few of them, in turns. Used slots are preferred,
  // for a program with many short threads is to use little memory.
  const std::uint32_t used = region->slots_used.load(std::memory_order_relaxed);
  const unsigned looks = used < thread_limit ? 8 : 256;
  for (unsigned i = 0; i < looks && used > 0; ++i) {
    ThreadSlot& slot = region->threads[region->slots_seen.fetch_add(1, std::memory_order_relaxed) %
                                       (used < thread_limit ? used : thread_limit)];
    if (take(slot)) return &slot;
  }
  while (region->slots_used.load(std::memory_order_relaxed) < thread_limit) {
    const std::uint32_t fresh = region->slots_used.fetch_add(1, std::memory_order_relaxed);
    if (fresh < thread_limit && take(region->threads[fresh])) return &region->threads[fresh];
  }
  region->lost_threads.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

} // namespace

void start_recording(const link_map& known) {
  state.some_library = &known;
  if (cleared_by_fork->generation.load(std::memory_order_acquire) == 0) start();
}

bool adopt_thread() {
  ClearedByFork& shared = *cleared_by_fork;
  if (shared.generation.load(std::memory_order_acquire) == 0) {
    if (shared.failed.load(std::memory_order_relaxed) != 0 || state.some_library == nullptr) return false;
    start();
    if (shared.generation.load(std::memory_order_acquire) == 0) return false;
  }
  current_thread = {};
  current_thread.number = thread_number();
  current_thread.slot = take_slot(current_thread.number);
  if (current_thread.slot == nullptr) return false;
  const auto place = static_cast<std::uint32_t>(current_thread.slot - region->threads);
  current_thread.stacks = stacks_of_slot(place);
  // A reader of overwritten records sees none of these.
  if (place < launch_ring_limit && region->overwrites == 0)
    current_thread.launches = &region->launches[place];
  if ((region->features & probes) != 0)
    withdraw_python_frames(current_thread); // of a thread that had the slot before
  current_thread.generation = shared.generation.load(std::memory_order_relaxed);
  return true;
}

bool wait_for_room(std::uint64_t number) {
  const time_t deadline = time_since_start().tv_sec + patience_s;
  for (unsigned waits = 0; !has_room_for(number); ++waits) {
    if (region->abandoned.load(std::memory_order_relaxed) != 0) return false;
    if ((waits % 100 == 0 && has_lost_reader()) || time_since_start().tv_sec >= deadline) {
      region->lost.fetch_add(1, std::memory_order_relaxed);
      region->abandoned.store(1, std::memory_order_relaxed);
      return false;
    }
    sleep_microseconds(100);
  }
  return true;
}

void record_apart(const CallData& call) { record(call); }

bool finds_room_for_launch(Thread& thread) {
  if (thread.launches == nullptr) return false;
  ThreadSlot& slot = *thread.slot;
  slot.launches_up_to = thread.launches->taken.load(std::memory_order_acquire) + launch_limit;
  return slot.launches < slot.launches_up_to;
}

void note_exit() {
  // A forked child that has made no call yet still has its parent's file.
  if (region != nullptr && region->process == static_cast<std::uint32_t>(process_number()))
    region->exited.store(1, std::memory_order_release);
}

bool has_memory(const void* begin, std::size_t size) {
  if (!state.file.grows) return true;
  const std::uintptr_t from = reinterpret_cast<std::uintptr_t>(begin) & ~(page_size - 1);
  return take_memory(reinterpret_cast<void*>(from), reinterpret_cast<std::uintptr_t>(begin) + size - from);
}

void add_module(const link_map& module) {
  if (region == nullptr) return;
  const Locked lock(cleared_by_fork->locks.modules);
  const std::uint32_t count = region->module_count.load(std::memory_order_relaxed);
  if (count >= module_limit) return;
  Module& added = region->modules[count];
  added.base = module.l_addr;
  added.opened = static_cast<std::uint32_t>(region->written.load(std::memory_order_relaxed)) + 1;
  std::uint32_t size = region->path_size.load(std::memory_order_relaxed);
  if (size == 0) size = 1; // the empty path
  char* const path = region->path_text + size;
  const bool is_there = size + longest_path <= path_room && has_memory(path, longest_path);
  const std::size_t room = is_there ? longest_path : 0; // the rest is of zeros
  std::size_t length = 0;
  if (module.l_name != nullptr && module.l_name[0] != '\0') {
    const std::size_t name_length = std::strlen(module.l_name);
    if (module.l_name[0] != '/' && std::strchr(module.l_name, '/') != nullptr) { // a relative path
      const long written = room == 0 ? 0 : syscall(SYS_getcwd, path, room);
      if (written > 0) path[(length = static_cast<std::size_t>(written)) - 1] = '/';
    }
    if (length + name_length >= room) return;
    std::memcpy(path + length, module.l_name, name_length + 1);
    length += name_length;
  } else {
    const ssize_t written = room == 0 ? 0 : readlink("/proc/self/exe", path, room - 1);
    if (written <= 0) return;
    path[length = static_cast<std::size_t>(written)] = '\0';
  }
  added.path = size;
  region->path_size.store(size + static_cast<std::uint32_t>(length) + 1, std::memory_order_relaxed);
  region->module_count.store(count + 1, std::memory_order_release);
}

void close_module(const link_map& module) {
  if (state.some_library == &module) { // the program itself stays, and so does its place in the list
    const link_map* first = &module;
    while (first->l_prev != nullptr)
      first = first->l_prev;
    state.some_library = first != &module && first->l_name[0] == '\0' ? first : nullptr;
  }
  if (region == nullptr) return;
  const Locked lock(cleared_by_fork->locks.modules);
  for (std::uint32_t i = region->module_count.load(std::memory_order_relaxed); i-- > 0;)
    if (region->modules[i].base == module.l_addr && region->modules[i].closed == 0) {
      region->modules[i].closed =
          static_cast<std::uint32_t>(region->written.load(std::memory_order_relaxed)) + 1;
      return;
    }
}

} // namespace watch
