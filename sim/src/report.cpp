// SPDX-License-Identifier: MIT
#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <memory>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif

namespace cuevent::sim {

namespace {

constexpr std::size_t longest_field = 200, longest_kernel = 400;
constexpr off_t largest_file = 1 << 20; // what comes later is left out

/// One field of a line: without tabs, line ends and other control characters.
std::string field(std::string_view text, std::size_t longest = longest_field) {
  std::string shown(text.substr(0, longest));
  std::ranges::replace_if(
      shown, [](unsigned char letter) { return letter < ' ' || letter > '~'; }, '?');
  return shown;
}

std::string absolute(std::string_view path) {
  char folder[4096];
  if (path.starts_with('/') || getcwd(folder, sizeof folder) == nullptr) return std::string(path);
  return std::string(folder) + '/' + std::string(path);
}

std::string name_of_program() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string_view all(path, length > 0 ? static_cast<std::size_t>(length) : 0);
  return field(all.substr(all.rfind('/') + 1));
}

const void* library_of(const void* address) {
  Dl_info found{};
  return dladdr(address, &found) != 0 ? found.dli_fbase : nullptr;
}

const void* own_library() {
  static const int here = 0;
  return library_of(&here);
}

/// A program can load a second libcuda.so.1 if it knows the file.
std::vector<std::string> other_drivers() {
  std::vector<std::string> found;
  const auto look = [](dl_phdr_info* library, std::size_t, void* names) {
    const std::string_view path = library->dlpi_name;
    if (path.substr(path.rfind('/') + 1).starts_with("libcuda.so") &&
        reinterpret_cast<void*>(library->dlpi_addr) != own_library())
      static_cast<std::vector<std::string>*>(names)->push_back(field(path));
    return 0;
  };
  dl_iterate_phdr(look, &found);
  return found;
}

/// Opens the folder, or returns -1 if neither this user nor root has made it: the folder of the command is
/// gone when the command has ended, and others can make one of the same name.
int open_folder(const std::string& path) {
  const std::size_t end = path.rfind('/');
  const std::string name = end == 0 || end == std::string::npos ? "/" : path.substr(0, end);
  const int folder = ::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (folder < 0) return -1;
  if (fstat(folder, &status) == 0 && (status.st_uid == geteuid() || status.st_uid == 0)) {
    if (S_ISDIR(status.st_mode)) return folder;
    close(folder);
    return ::open(name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); // a link of this user or root
  }
  close(folder);
  errno = EACCES;
  return -1;
}

/// Opens the file for one line, because a program may close descriptors that it does not know. Never waits
/// and never follows a link. Returns -1 and sets errno; EPERM for a file that must not be written.
int open_file(const std::string& path, int more_flags = 0) {
  const int folder = open_folder(path);
  if (folder < 0) return -1;
  const int file =
      openat(folder, path.c_str() + path.rfind('/') + 1,
             O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | more_flags, 0600);
  const int error = errno;
  close(folder);
  errno = error;
  if (file < 0) {
    if (errno == ELOOP || errno == ENXIO || errno == EISDIR) errno = EPERM; // a link, a pipe, a folder
    return -1;
  }
  struct stat status {};
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
      status.st_nlink == 1)
    return file;
  close(file);
  errno = EPERM;
  return -1;
}

} // namespace

std::string Report::open(std::string_view path) {
  path_ = absolute(path);
  program_ = name_of_program();
  process_ = getpid();
  const int file = open_file(path_, O_CREAT);
  struct stat status {};
  if (file >= 0 && fstat(file, &status) == 0) {
    device_ = status.st_dev;
    file_ = status.st_ino;
    close(file);
    write("process", "");
    return {};
  }
  const int error = errno;
  if (error == EPERM) return "a file of this user, neither a link nor a pipe, or a name that is free";
  // The run is the same without a report.
  std::fprintf(stderr, "cuevent sim: %s: %s. There will be no report\n", field(path_).c_str(),
               std::strerror(error));
  path_.clear();
  return {};
}

bool Report::is_new(std::string_view kind, const std::string& name) {
  return said_.size() < most_names && said_.insert(std::string(kind) + ' ' + name).second;
}

bool Report::add_call(const char* function, const std::string& what, const void* return_address) {
  const std::string name = what.empty() ? function : function + (": " + what);
  if (calls_.size() < most_names && !calls_.contains(name))
    calls_.emplace(name, field(text_of_caller(return_address)));
  if (!is_new("call", name)) return false;
  write("unmodelled",
        std::string(function) + '\t' + field(what) + '\t' + field(text_of_caller(return_address)));
  return true;
}

void Report::add_question(const char* function) {
  if (is_new("question", function)) write("missing", function);
}

void Report::add_unmeasured_driver(int version) {
  write("unmeasured", std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10));
}

bool Report::add_runtime(const std::string& library) {
  if (!is_new("runtime", library)) return false;
  write("runtime", field(library));
  return true;
}

void Report::add_end(unsigned long long calls, const std::map<std::string, unsigned long long>& kernels) {
  if (getpid() != process_) return; // a forked child has the numbers of its parent
  for (const std::string& driver : other_drivers())
    write("driver", driver);
  for (const auto& [name, count] : kernels)
    write("kernel", field(readable_kernel(name), longest_kernel) + '\t' + std::to_string(count));
  write("calls", std::to_string(calls));
}

std::map<std::string, std::string> Report::take_calls() { return std::exchange(calls_, {}); }

void Report::write(std::string_view kind, const std::string& fields) {
  if (path_.empty()) return;
  const int file = open_file(path_);
  if (file < 0) return;
  const std::string line =
      std::string(kind) + '\t' + std::to_string(getpid()) + '\t' + program_ + '\t' + fields + '\n';
  struct stat status {};
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit); // a longer file would end the program
  // A line is written at once, so the lines of several processes do not mix. Nothing is written to a file
  // that has taken the place of the one that open() has found.
  if (fstat(file, &status) == 0 && status.st_dev == device_ && status.st_ino == file_ &&
      status.st_size < largest_file && static_cast<rlim_t>(status.st_size) + line.size() <= limit.rlim_cur)
      [[maybe_unused]]
    const ssize_t written = ::write(file, line.data(), line.size());
  close(file);
}

std::string text_of_caller(const void* return_address) {
  if (return_address == nullptr) return {};
  const char* const code =
      static_cast<const char*>(return_address) - 1; // the call may be the function's last
  Dl_info found{};
  if (dladdr(code, &found) == 0 || found.dli_fname == nullptr) return {};
  std::string_view library = found.dli_fname;
  library.remove_prefix(library.rfind('/') + 1);
  if (found.dli_sname != nullptr) return std::string(found.dli_sname) + " in " + std::string(library);
  char offset[32];
  std::snprintf(offset, sizeof offset, "+%#zx",
                reinterpret_cast<std::uintptr_t>(code) - reinterpret_cast<std::uintptr_t>(found.dli_fbase));
  return std::string(library) + offset;
}

std::string library_that_contains(const void* address) {
  Dl_info found{};
  if (address == nullptr || dladdr(address, &found) == 0 || found.dli_fname == nullptr) return "the program";
  return library_of(address) == library_of(reinterpret_cast<const void*>(getauxval(AT_PHDR)))
             ? "the program"
             : found.dli_fname;
}

std::string readable_kernel(const std::string& name) {
  if (!name.starts_with("_Z")) return name; // "b" would be "bool"
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return plain ? plain.get() : name;
}

const void* caller_of_driver() {
#if __has_include(<execinfo.h>)
  const void* const own = own_library();
  if (own == library_of(reinterpret_cast<const void*>(getauxval(AT_PHDR)))) return nullptr;
  void* frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i)
    if (library_of(frames[i]) != own) return frames[i];
#endif
  return nullptr;
}

} // namespace cuevent::sim
