// SPDX-License-Identifier: MIT
#include "output_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cli {

namespace {

int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

watch::OutputPlace place_of(const std::string& path, watch::Links links) {
  try {
    return watch::output_place(path, links);
  } catch (const watch::Refused& refused) {
    throw OutputError(refused.what());
  }
}

} // namespace

OutputFile::OutputFile(std::string path, watch::Links links)
    : path_(std::move(path)), place_(place_of(path_, links)) {
  if (!place_.is_device) {
    open_part(place_.folder.number());
    return;
  }
  file_ = openat(place_.folder.number(), place_.name.c_str(), O_WRONLY | O_CLOEXEC); // such as /dev/stdout
  if (file_ < 0) fail(errno);
}

OutputFile::OutputFile(const watch::Folder& folder, const std::string& name)
    : path_(folder.path() + "/" + name) {
  if (name.find('/') != std::string::npos) fail(EINVAL);
  place_.folder = watch::OpenFile(dup(folder.descriptor()));
  place_.name = name;
  if (!place_.folder.is_open()) fail(errno);
  open_part(place_.folder.number());
}

void OutputFile::open_part(int folder) {
  struct stat old {};
  const bool replaces = fstatat(folder, place_.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
  if (replaces && S_ISDIR(old.st_mode)) fail(EISDIR);
  constexpr int most_tries = 100; // others may have made files with such names
  const std::string part = place_.name + ".part" + std::to_string(getpid());
  std::string name = part;
  for (int i = 0; i < most_tries; ++i, name = part + "-" + std::to_string(i)) {
    file_ = openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file_ >= 0 || errno != EEXIST) break;
  }
  if (file_ < 0) fail(errno);
  part_ = name;
  // Who could not read the old file cannot read the new one.
  if (replaces && S_ISREG(old.st_mode) && old.st_uid == geteuid()) fchmod(file_, old.st_mode & 0777);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  if (!part_.empty()) unlinkat(place_.folder.number(), part_.c_str(), 0);
}

void OutputFile::fail(int error) const { throw OutputError(path_ + ": " + std::strerror(error)); }

void OutputFile::write(std::string_view content) {
  if (const int error = write_all(file_, content); error != 0) fail(error);
}

void OutputFile::finish() {
  // A full disk may be reported only here. A pipe or a device has nothing to flush.
  if (fsync(file_) != 0 && errno != EINVAL && errno != EROFS) fail(errno);
  if (close(std::exchange(file_, -1)) != 0) fail(errno);
  const int folder = place_.folder.number();
  if (!part_.empty() && renameat(folder, part_.c_str(), folder, place_.name.c_str()) != 0) fail(errno);
  part_.clear();
}

void write_file(const std::string& path, std::string_view content, watch::Links links) {
  OutputFile file(path, links);
  file.write(content);
  file.finish();
}

bool are_same_file(const std::string& a, watch::Links a_links, const std::string& b, watch::Links b_links) {
  try {
    const watch::OutputPlace place_a = watch::output_place(a, a_links),
                             place_b = watch::output_place(b, b_links);
    struct stat folder_a {
    }, folder_b{};
    return fstat(place_a.folder.number(), &folder_a) == 0 && fstat(place_b.folder.number(), &folder_b) == 0 &&
           folder_a.st_dev == folder_b.st_dev && folder_a.st_ino == folder_b.st_ino &&
           place_a.name == place_b.name;
  } catch (const watch::Refused&) { // which is explained when it is opened
    return false;
  }
}

} // namespace cli
