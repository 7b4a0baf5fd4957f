// SPDX-License-Identifier: MIT
#include "new_file.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace cli {

namespace {

/// Files with a part, which a signal that ends the command removes. More than it writes at the same time.
struct Known {
  std::atomic<NewFile*> file{nullptr};
  pid_t process = 0; // a child has a copy of this list
} known[4];

std::string link_to(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

/// The beginning of the names of this file's parts. A name has 255 bytes at most.
std::string part_of(const std::string& name) { return name.substr(0, 200) + ".cuevent-part"; }

/// Parts of commands that were killed. The lock of a command that lives does not let go.
void remove_left_behind(int folder, const std::string& beginning) {
  for (const std::string& name : watch::names_in(folder)) {
    if (!name.starts_with(beginning)) continue;
    const watch::OpenFile part(openat(folder, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status {};
    if (part.is_open() && fstat(part.number(), &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_uid == geteuid() && flock(part.number(), LOCK_EX | LOCK_NB) == 0)
      unlinkat(folder, name.c_str(), 0);
  }
}

/// Other handlers stay: such a command returns from what it does, and removes its files itself.
void on_end(void (*handler)(int)) {
  for (const int number :
       {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXCPU, SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM}) {
    struct sigaction action {
    }, old{};
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    if (sigaction(number, nullptr, &old) == 0 && (old.sa_flags & SA_SIGINFO) == 0 &&
        old.sa_handler == SIG_DFL)
      sigaction(number, &action, nullptr);
  }
}

} // namespace

NewFile::NewFile(int folder, std::string name, mode_t mode) : folder_(folder), name_(std::move(name)) {
  const int flags = O_WRONLY | O_CLOEXEC;
  const auto take = [&](int opened) {
    if (opened < 0) return false;
    file_ = watch::OpenFile(opened);
    flock(opened, LOCK_EX | LOCK_NB);
    return true;
  };
  // A file without a name gets one through /proc.
  if (access("/proc/self/fd", X_OK) == 0 && take(openat(folder, ".", flags | O_TMPFILE, mode))) return;
  const auto make = [&](const char* part) {
    if (!take(openat(folder, part, flags | O_CREAT | O_EXCL | O_NOFOLLOW, mode))) return false;
    struct stat status {};
    if (fstat(file_.number(), &status) != 0 || status.st_nlink != 0) return true;
    errno = EEXIST; // another command has removed it before it was locked
    return false;
  };
  if (!make_part(make)) throw std::system_error(errno, std::generic_category());
}

NewFile::~NewFile() { forget_part(); }

int NewFile::publish() {
  if (part_.empty()) {
    const std::string file = link_to(file_.number());
    const auto link = [&](const char* name) {
      return linkat(AT_FDCWD, file.c_str(), folder_, name, AT_SYMLINK_FOLLOW) == 0;
    };
    if (link(name_.c_str())) return 0;
    if (errno != EEXIST || !make_part(link)) return errno;
  }
  if (renameat(folder_, part_.c_str(), folder_, name_.c_str()) != 0) return errno;
  forget_part();
  return 0;
}

/// Finds a name with which make(name) does not fail because the name is taken.
template <class Make>
bool NewFile::make_part(const Make& make) {
  const std::string beginning = part_of(name_);
  remove_left_behind(folder_, beginning);
  on_end(&remove_parts);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before); // until the part is known
  constexpr int most_tries = 100;        // others may have made files with such names
  for (int i = 0; i < most_tries && part_.empty(); ++i) {
    const std::string part = beginning + std::to_string(getpid()) + (i == 0 ? "" : "-" + std::to_string(i));
    if (make(part.c_str()))
      part_ = part;
    else if (errno != EEXIST)
      break;
  }
  const int error = errno;
  for (Known& each : known)
    if (!part_.empty() && each.file == nullptr) {
      each.process = getpid();
      each.file = this;
      break;
    }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return !part_.empty();
}

void NewFile::forget_part() {
  if (part_.empty()) return;
  unlinkat(folder_, part_.c_str(), 0); // nothing is there if the file has its name
  for (Known& each : known)
    if (each.file == this) each.file = nullptr;
  part_.clear();
}

void NewFile::remove_parts(int signal) {
  for (const Known& each : known)
    if (const NewFile* const file = each.file; file != nullptr && each.process == getpid())
      unlinkat(file->folder_, file->part_.c_str(), 0);
  raise(signal); // which now has its usual effect
}

} // namespace cli
