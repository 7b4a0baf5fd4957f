// SPDX-License-Identifier: MIT
#include "os_process.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cuevent::sim {

namespace {

constexpr int seals_of_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Nothing if there is no such process.
std::optional<OsProcess> process_of(int id) {
  const std::string path = "/proc/" + std::to_string(id) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[1024] = {};
  const ssize_t got = ::read(file, text, sizeof text - 1);
  close(file);
  const char* const name_end = got > 0 ? std::strrchr(text, ')') : nullptr; // a name may contain one
  char state = 0;
  OsProcess found{id, 0};
  constexpr const char* start_is_20th = " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                        "%*s %*s %llu";
  if (name_end == nullptr || std::sscanf(name_end + 1, start_is_20th, &state, &found.start) != 2 ||
      state == 'Z' || state == 'X')
    return std::nullopt;
  return found;
}

bool is_link_of(const std::string& path, const char* kind) {
  char name[128] = {};
  if (readlink(path.c_str(), name, sizeof name - 1) < 0) return false;
  const std::string wanted = name_of_link(kind);
  if (std::strncmp(name, wanted.c_str(), wanted.size()) == 0) return true;
  errno = ENOENT;
  return false;
}

bool is_offered(int file, const OfferedFile& offered) {
  struct stat found {};
  if (fstat(file, &found) != 0) return false;
  errno = ENOENT;
  return S_ISREG(found.st_mode) && found.st_uid == geteuid() && found.st_ino == offered.inode &&
         static_cast<unsigned long long>(found.st_size) == offered.bytes;
}

} // namespace

std::string name_of_link(const char* kind) { return "/memfd:" + (std::string("cuevent-sim-") + kind); }

OsProcess this_os_process() {
  static OsProcess self;
  if (self.id != getpid()) self = process_of(getpid()).value_or(OsProcess{getpid(), 0}); // after a fork, too
  return self;
}

bool lives(const OsProcess& process) { return process_of(process.id) == process; }

int make_offered_file(const char* kind, std::size_t bytes) {
  const int file =
      memfd_create((std::string("cuevent-sim-") + kind).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return -1;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0 && fcntl(file, F_ADD_SEALS, seals_of_size) == 0)
    return file;
  close(file);
  return -1;
}

bool has_fixed_size(int file) {
  const int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & seals_of_size) == seals_of_size;
}

unsigned long long inode_of(int file) {
  struct stat found {};
  return fstat(file, &found) == 0 ? found.st_ino : 0;
}

OfferedFile offer_file(const char* kind, std::size_t bytes) {
  const int file = make_offered_file(kind, bytes);
  return {this_os_process(), file, inode_of(file), bytes};
}

void withdraw(OfferedFile& offered) {
  if (offered.number >= 0 && inode_of(offered.number) == offered.inode) close(offered.number);
  offered.number = -1;
}

/// Opening may wait, or do something, if the number has become another file. So the file is looked at first.
int open_offered_file(const char* kind, const OfferedFile& offered) {
  const std::string link =
      "/proc/" + std::to_string(offered.process.id) + "/fd/" + std::to_string(offered.number);
  if (!is_link_of(link, kind)) return -1;
  const int seen = open(link.c_str(), O_PATH | O_CLOEXEC);
  if (seen < 0) return -1;
  int file = -1;
  if (is_offered(seen, offered))
    file = open(("/proc/self/fd/" + std::to_string(seen)).c_str(), O_RDWR | O_CLOEXEC);
  const int error = errno;
  close(seen);
  errno = error;
  if (file < 0) return -1;
  if (has_fixed_size(file)) return file;
  close(file);
  errno = ENOENT;
  return -1;
}

unsigned sum_of_handle(const void* handle, std::size_t bytes) {
  const auto* const first = static_cast<const unsigned char*>(handle);
  return std::accumulate(first, first + bytes - sizeof(unsigned), 2166136261u,
                         [](unsigned sum, unsigned char byte) { return (sum ^ byte) * 16777619u; });
}

std::size_t whole_pages(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

} // namespace cuevent::sim
