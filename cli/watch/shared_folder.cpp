// SPDX-License-Identifier: MIT
#include "watch/shared_folder.hpp"

#include "protocol/protocol.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace cli {

namespace {

/// Folders of commands that were killed, but not one that is being made. Files that no command took fill
/// /dev/shm.
void remove_left_behind(const std::filesystem::path& place) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(place, ignored)) {
    const std::string path = entry.path();
    struct stat status {};
    if (!entry.path().filename().string().starts_with("cuevent-watch-") ||
        lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
      continue;
    const std::string lock = path + "/" + watch::reader_lock;
    constexpr time_t shortest_age = 60;
    const auto is_old = [&] { return time(nullptr) - status.st_mtime > shortest_age; };
    const watch::OpenFile file(open(lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.is_open()) {
      if (errno == ENOENT && is_old()) rmdir(path.c_str()); // killed before it could lock the folder
    } else if (fstat(file.number(), &status) == 0 && is_old() &&
               flock(file.number(), LOCK_EX | LOCK_NB) == 0) {
      std::filesystem::remove_all(path, ignored);
    }
  }
}

std::string new_folder() {
  for (const char* place : {"/dev/shm", "/tmp"})
    remove_left_behind(place);
  for (const std::uint64_t processes :
       {8u, 0u}) // for which there has to be room, and as much for the program
    for (const char* place : {"/dev/shm", "/tmp"}) {
      struct statvfs status {};
      if (statvfs(place, &status) != 0 || std::uint64_t{status.f_bavail} * status.f_frsize <
                                              2 * processes * watch::region_size(watch::records_taken_out))
        continue;
      std::string path = std::string(place) + "/cuevent-watch-XXXXXX";
      if (mkdtemp(path.data()) != nullptr) return path;
    }
  throw std::runtime_error("no folder for the records of the calls can be made in /dev/shm or /tmp");
}

} // namespace

SharedFolder::SharedFolder(const std::string& named) : is_ours_(named.empty()) {
  folder_.emplace(is_ours_ ? new_folder() : named, watch::Folder::Kind::own);
  if (path().size() >= watch::folder_limit)
    throw std::runtime_error(path() + ": the name of the folder is too long. Choose one of less than " +
                             std::to_string(watch::folder_limit) + " bytes");
  lock();
}

SharedFolder::~SharedFolder() {
  lock_ = watch::OpenFile(); // a named folder keeps the file, which says to later processes that nobody reads
  std::error_code ignored;
  if (is_ours_) std::filesystem::remove_all(path(), ignored);
}

void SharedFolder::lock() {
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  lock_ = watch::OpenFile(openat(folder_->descriptor(), watch::reader_lock, flags, 0600));
  if (!lock_.is_open() || flock(lock_.number(), LOCK_EX | LOCK_NB) != 0)
    throw std::runtime_error(path() + (errno == EWOULDBLOCK ? ": another `cuevent watch` uses this folder"
                                                            : std::string(": ") + std::strerror(errno)));
}

void SharedFolder::check() const {
  if (!folder_->is_in_place())
    throw std::runtime_error(path() +
                             ": the folder was moved or replaced, so processes that start now are not "
                             "watched. Begin again with a folder that stays");
}

} // namespace cli
