// SPDX-License-Identifier: MIT
#include "output_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace cli {

namespace {

/// Who could not read the old file cannot read the new one, not even while it is written.
mode_t first_mode(const struct stat& old) {
  if (!S_ISREG(old.st_mode)) return 0666;
  if (old.st_uid == geteuid()) return 0600;
  return (old.st_mode & S_IROTH) != 0 ? 0644 : 0600; // the group of another user's file is not known here
}

/// Then the mode says nothing about the group: it has the most that any entry of the list allows instead.
bool has_access_list(const watch::OutputPlace& place) {
  const watch::OpenFile old(
      openat(place.folder.number(), place.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return !old.is_open() || fgetxattr(old.number(), "system.posix_acl_access", nullptr, 0) > 0;
}

/// The mode and the group of an old file of this user.
void keep_access(int file, const watch::OutputPlace& place, const struct stat& old) {
  struct stat now {};
  mode_t mode = old.st_mode & 0777;
  const bool is_given = fchown(file, static_cast<uid_t>(-1), old.st_gid) == 0;
  const bool is_other_group = !is_given && (fstat(file, &now) != 0 || now.st_gid != old.st_gid);
  if (is_other_group || has_access_list(place)) mode &= 0707u | (mode & 07u) << 3; // no more than all others
  fchmod(file, mode);
}

watch::OutputPlace place_of(const std::string& path, watch::Links links) {
  try {
    return watch::output_place(path, links);
  } catch (const watch::Refused& refused) {
    throw OutputError(refused.what());
  }
}

} // namespace

int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

OutputFile::OutputFile(std::string path, watch::Links links)
    : path_(std::move(path)), place_(place_of(path_, links)) {
  if (!place_.is_device) {
    make();
    return;
  }
  device_ = watch::open_device(place_); // such as /dev/stdout
  if (!device_.is_open()) fail(errno);
}

OutputFile::OutputFile(const watch::Folder& folder, const std::string& name)
    : path_(folder.path() + "/" + name) {
  if (name.find('/') != std::string::npos) fail(EINVAL);
  place_.folder = watch::OpenFile(fcntl(folder.descriptor(), F_DUPFD_CLOEXEC, 0));
  place_.name = name;
  if (!place_.folder.is_open()) fail(errno);
  make();
}

void OutputFile::make() {
  struct stat old {};
  const bool replaces = fstatat(place_.folder.number(), place_.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
  if (replaces && S_ISDIR(old.st_mode)) fail(EISDIR);
  try {
    file_.emplace(place_.folder.number(), place_.name, first_mode(old));
  } catch (const std::system_error& error) {
    fail(error.code().value());
  }
  if (S_ISREG(old.st_mode) && old.st_uid == geteuid()) keep_access(file_->descriptor(), place_, old);
}

void OutputFile::fail(int error) const {
  const char* const advice =
      error == EPERM ? "; a file of another user in a sticky folder has this name: remove it there" : "";
  throw OutputError(path_ + ": " + std::strerror(error) + advice);
}

int OutputFile::descriptor() const { return file_ ? file_->descriptor() : device_.number(); }

void OutputFile::write(std::string_view content) {
  if (const int error = write_all(descriptor(), content); error != 0) fail(error);
}

void OutputFile::finish() {
  // A full disk may be reported only here. A pipe or a device has nothing to flush.
  if (fsync(descriptor()) != 0 && errno != EINVAL && errno != EROFS) fail(errno);
  if (const int error = file_ ? file_->publish() : 0; error != 0) fail(error);
  file_.reset();
  if (device_.is_open() && close(device_.release()) != 0) fail(errno);
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
