// SPDX-License-Identifier: MIT
#include "temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cli {

namespace {

/// Folders of commands that were killed: a command that lives holds a lock. A folder that is being made has a
/// minute.
void remove_left_behind(const std::string& place, const std::string& prefix) {
  const watch::OpenFile folder(open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return;
  for (const std::string& name : watch::names_in(folder.number())) {
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6) continue;
    const watch::OpenFile left(
        openat(folder.number(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    std::error_code ignored;
    if (left.is_open() && fstat(left.number(), &status) == 0 && status.st_uid == geteuid() &&
        time(nullptr) - status.st_mtime > 60 && flock(left.number(), LOCK_EX | LOCK_NB) == 0)
      std::filesystem::remove_all(std::filesystem::path(place) / name, ignored);
  }
}

} // namespace

std::vector<std::string> temporary_places() {
  std::vector<std::string> places{"/tmp", "/dev/shm"};
  const char* const named = std::getenv("TMPDIR");
  if (named != nullptr && *named != '\0') places.insert(places.begin(), std::filesystem::absolute(named));
  return places;
}

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  std::string place, wrong;
  for (const std::string& each : temporary_places()) {
    place = each;
    path = std::filesystem::path(place) / (prefix + "XXXXXX");
    if (mkdtemp(path.data()) != nullptr) break;
    wrong += (wrong.empty() ? "" : "; ") + path + ": " + std::strerror(errno);
    path.clear();
  }
  if (path.empty()) throw std::runtime_error(wrong);
  try {
    const watch::Folder checked(path, watch::Folder::Kind::own);
    lock_ = watch::OpenFile(fcntl(checked.descriptor(), F_DUPFD_CLOEXEC, 0));
    flock(lock_.number(), LOCK_EX | LOCK_NB);
    remove_left_behind(place, prefix); // nobody else can replace a folder there, as was checked
  } catch (const watch::Refused&) {
    rmdir(path.c_str());
    throw;
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

} // namespace cli
