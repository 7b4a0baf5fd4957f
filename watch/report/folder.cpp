// SPDX-License-Identifier: MIT
#include "report/folder.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <optional>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace watch {

namespace {

constexpr int most_links = 40; // as in the kernel

/// This user or root. In a user namespace, the files of root may belong to another number, as "/" does.
bool is_trusted(uid_t owner) {
  struct stat root {};
  return owner == geteuid() || owner == 0 || (stat("/", &root) == 0 && owner == root.st_uid);
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Refused(path + ": " + why);
}
[[noreturn]] void refuse_with_error(const std::string& path) { refuse(path, std::strerror(errno)); }

std::string name_of_user(uid_t user) { return "user " + std::to_string(user); }

bool others_may_write(const struct stat& status) { return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0; }

void check_folder(const std::string& path, const struct stat& status, Folder::Kind kind) {
  if (kind == Folder::Kind::own ? status.st_uid != geteuid() : !is_trusted(status.st_uid))
    refuse(path, "others may write there, because the folder belongs to " + name_of_user(status.st_uid) +
                     ": run the command as that user, or name a folder of your own");
  if (!others_may_write(status)) return;
  if (kind == Folder::Kind::own)
    refuse(path, "others may write there: choose a folder that is yours alone (chmod go-w)");
  if ((status.st_mode & S_ISVTX) == 0)
    refuse(path, "others may write there, and could replace what is written: take the right away (chmod "
                 "go-w), or make the folder sticky (chmod +t)");
}

/// Nobody else may rename a folder above it and put another one in its place.
void check_parents(const std::string& path, int folder) {
  OpenFile above(openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat last {};
  fstat(folder, &last);
  for (;;) {
    struct stat status {};
    if (!above.is_open() || fstat(above.number(), &status) != 0) refuse_with_error(path);
    if (status.st_ino == last.st_ino && status.st_dev == last.st_dev) return; // the root folder
    if (!is_trusted(status.st_uid) || (others_may_write(status) && (status.st_mode & S_ISVTX) == 0))
      refuse(path, "others may write to a folder above it, and could replace it: choose a folder below your "
                   "home folder, /dev/shm or /tmp");
    last = status;
    above = OpenFile(openat(above.number(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
}

std::string text_of_link(int folder, const char* name) {
  char text[PATH_MAX];
  const ssize_t length = readlinkat(folder, name, text, sizeof text);
  return length <= 0 ? std::string() : std::string(text, static_cast<std::size_t>(length));
}

/// What the kernel calls links in /proc are files that are already open.
bool is_in_proc(int folder) {
  struct statfs status {};
  return fstatfs(folder, &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

OpenFile open_folder(int from, const std::string& name, int flags = 0) {
  return OpenFile(openat(from, name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | flags));
}

/// The number that a user namespace shows for root is also that of all other users that it does not know. So
/// what has it is root's only where nobody else could have made it.
bool is_trusted_in(int folder, uid_t owner) {
  struct stat status {};
  return owner == geteuid() || owner == 0 ||
         (is_trusted(owner) && fstat(folder, &status) == 0 && is_trusted(status.st_uid) &&
          !others_may_write(status));
}

/// The text of a link that this user or root has made. Nothing if the name is no link.
std::optional<std::string> trusted_link(const std::string& path, int folder, const std::string& name) {
  const OpenFile link(openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!link.is_open() || fstat(link.number(), &status) != 0 || !S_ISLNK(status.st_mode)) return std::nullopt;
  if (!is_trusted_in(folder, status.st_uid))
    refuse(path, "a link of " + name_of_user(status.st_uid) + ": remove it, or name another file");
  return text_of_link(link.number(), "");
}

/// Opens what is in the place now. It may have become a link meanwhile.
OpenFile open_place(const OutputPlace& place, int flags) {
  const int nofollow = is_in_proc(place.folder.number()) ? 0 : O_NOFOLLOW;
  return OpenFile(openat(place.folder.number(), place.name.c_str(), flags | O_CLOEXEC | O_NOCTTY | nofollow));
}

/// Takes the first name out of the path.
std::string take_name(std::string& path) {
  path.erase(0, std::min(path.find_first_not_of('/'), path.size()));
  const std::string name = path.substr(0, path.find('/'));
  path.erase(0, std::min(path.find_first_not_of('/', name.size()), path.size()));
  return name.empty() ? "." : name;
}

/// The place that a path names. Links on the way to it are followed if this user or root has made them, and
/// so is a link in its place if `links` says so. `advice`: for a path on which something is missing.
OutputPlace place_of(const std::string& path, Links links, const char* advice = "") {
  OutputPlace place;
  std::string rest = path;
  place.folder = open_folder(AT_FDCWD, path.starts_with('/') ? "/" : path.empty() ? "" : ".");
  for (int count = 0; place.folder.is_open();) {
    place.name = take_name(rest);
    const int folder = place.folder.number();
    const bool is_last = rest.empty(), is_dots = place.name == "." || place.name == "..";
    std::optional<std::string> link;
    if (!is_dots && !(is_last && links == Links::replace)) link = trusted_link(path, folder, place.name);
    if (!link || is_in_proc(folder)) { // only the kernel can follow a link in /proc
      if (is_last && !is_dots) return place;
      place.folder = open_folder(folder, place.name, link ? 0 : O_NOFOLLOW);
      place.name = ".";
      if (is_last && place.folder.is_open()) return place;
    } else if (++count > most_links) {
      errno = ELOOP;
      break;
    } else {
      if (link->starts_with('/')) place.folder = open_folder(AT_FDCWD, "/");
      rest.insert(0, *link + '/');
    }
  }
  refuse(path, std::string(std::strerror(errno)) + (errno == ENOENT ? advice : ""));
}

} // namespace

OpenFile::~OpenFile() {
  if (number_ >= 0) close(number_);
}

Folder::Folder(const std::string& path, Kind kind) : path_(path) {
  const OutputPlace place = place_of(path, Links::follow, ": name a folder whose parent is there");
  // Not for the group, whatever the umask says: such a folder would be refused.
  if (mkdirat(place.folder.number(), place.name.c_str(), kind == Kind::own ? 0700 : 0755) != 0 &&
      errno != EEXIST)
    refuse_with_error(path);
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  file_ = OpenFile(openat(place.folder.number(), place.name.c_str(), flags));
  struct stat status {};
  if (!file_.is_open() && (errno == ENOTDIR || errno == ELOOP)) refuse(path, "not a folder: name a folder");
  if (!file_.is_open() || fstat(file_.number(), &status) != 0) refuse_with_error(path);
  check_folder(path, status, kind);
  if (kind == Kind::own) check_parents(path, file_.number());
  const std::string descriptor = "/proc/self/fd/" + std::to_string(file_.number());
  const std::string real = text_of_link(AT_FDCWD, descriptor.c_str());
  if (real.starts_with('/')) path_ = real;
}

std::vector<std::string> names_in(int descriptor) {
  std::vector<std::string> found;
  OpenFile copy(openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const folder = copy.is_open() ? fdopendir(copy.release()) : nullptr;
  if (folder == nullptr) return found;
  while (const dirent* const entry = readdir(folder))
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      found.emplace_back(entry->d_name);
  closedir(folder);
  std::sort(found.begin(), found.end());
  return found;
}

bool Folder::is_in_place() const {
  struct stat here {
  }, there{};
  return fstat(file_.number(), &here) == 0 && stat(path_.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

OpenFile open_input(const std::string& path, Pipes pipes) {
  // A plain open of a pipe would wait.
  OpenFile file = open_place(place_of(path, Links::follow), O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (!file.is_open() || fstat(file.number(), &status) != 0) refuse_with_error(path);
  if (S_ISREG(status.st_mode)) return file;
  if (pipes == Pipes::refused || !S_ISFIFO(status.st_mode)) refuse(path, "not a regular file");
  if (!is_trusted(status.st_uid))
    refuse(path, "a pipe of " + name_of_user(status.st_uid) + ": name another file");
  fcntl(file.number(), F_SETFL, O_RDONLY); // who writes to it may be slow
  return file;
}

OpenFile open_device(const OutputPlace& place) {
  // /dev/stdout may be a file, which has what the program wrote.
  OpenFile file = open_place(place, O_WRONLY | O_APPEND);
  struct stat status {};
  // Another file may be in the place since it was looked at.
  if (file.is_open() && !is_in_proc(place.folder.number()) && fstat(file.number(), &status) == 0 &&
      !S_ISCHR(status.st_mode) &&
      (S_ISREG(status.st_mode) || !is_trusted_in(place.folder.number(), status.st_uid))) {
    file = OpenFile();
    errno = EACCES;
  }
  return file;
}

OutputPlace output_place(const std::string& path, Links links) {
  OutputPlace place = place_of(path, links);
  const int folder = place.folder.number();
  struct stat status {};
  const bool is_open = is_in_proc(folder);
  const bool is_there = fstatat(folder, place.name.c_str(), &status, is_open ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
  if (is_there && S_ISDIR(status.st_mode)) errno = EISDIR, refuse_with_error(path);
  if (!is_there || links == Links::replace) return place;
  place.is_device = is_open || !(S_ISREG(status.st_mode) || S_ISLNK(status.st_mode));
  if (!is_open && place.is_device && !S_ISCHR(status.st_mode) && !is_trusted_in(folder, status.st_uid))
    refuse(path, "a pipe of " + name_of_user(status.st_uid) + ": remove it, or name another file");
  return place;
}

} // namespace watch
