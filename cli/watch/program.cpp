// SPDX-License-Identifier: MIT
#include "watch/program.hpp"

#include "watch/elf_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace cli {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& program, const std::string& why) {
  throw CannotStart(not_started, program + " cannot be watched: " + why);
}

std::string find_in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code error;
    if (!fs::is_directory(file, error) && access(file.c_str(), X_OK) == 0) return file;
  }
  throw CannotStart(not_found, name + ": no such program in PATH");
}

/// The loader ignores LD_AUDIT in programs that gain rights.
void refuse_rights(const std::string& program) {
  struct stat status {};
  if (stat(program.c_str(), &status) != 0)
    throw CannotStart(errno == ENOENT ? not_found : not_started, program + ": " + std::strerror(errno));
  const bool user = (status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid();
  const bool group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getegid();
  const bool capabilities =
      geteuid() != 0 && getxattr(program.c_str(), "security.capability", nullptr, 0) > 0;
  if (user || group || capabilities)
    refuse(program,
           "it runs with the rights of another user (setuid, setgid or capabilities), so the loader loads "
           "no auditing library into it. Run it as that user, or run a copy without these rights");
}

void check_file(WatchableProgram& known, const std::string& program, int scripts);

/// "#!/usr/bin/env python3": the interpreter, or the program that env would run.
void check_interpreter(WatchableProgram& known, const std::string& program, const std::string& first_line,
                       int scripts) {
  std::istringstream words(first_line.substr(2));
  std::string interpreter, argument;
  words >> interpreter >> argument;
  if (scripts > 4 || interpreter.empty()) refuse(program, "its interpreter cannot be found");
  check_file(known, interpreter, scripts + 1);
  if (fs::path(interpreter).filename() == "env" && !argument.empty() && argument[0] != '-')
    check_file(known, find_in_path(argument), scripts + 1);
}

void check_file(WatchableProgram& known, const std::string& program, int scripts) {
  refuse_rights(program);
  std::ifstream file(program, std::ios::binary);
  if (!file) return; // it can be run but not read: the loader will tell
  char first[4] = {};
  file.read(first, sizeof first);
  if (std::memcmp(first, "#!", 2) == 0) {
    file.clear();
    file.seekg(0);
    std::string line;
    std::getline(file, line);
    return check_interpreter(known, program, line, scripts);
  }
  if (std::memcmp(first,
                  "\x7f"
                  "ELF",
                  sizeof first) != 0)
    return; // a script without a first line that names its interpreter, or nothing that can be run
  const auto elf = read_elf_file(program);
  if (!elf) refuse(program, "it is not a 64-bit program, or damaged");
  known.binary = program;
  known.loader = elf->loader;
  if (elf->loader.empty())
    refuse(program,
           "it is linked statically, so no loader runs that could load the auditing library. Link it "
           "without -static: the CUDA runtime itself may stay static");
  if (elf->loader.find("ld-musl") != std::string::npos)
    refuse(program, "its C library is musl, which has no auditing interface. Build it with glibc");
  if (elf->has_name("__tsan_init") && elf->names.find("libtsan.so") == std::string::npos)
    refuse(program,
           "it contains the thread sanitizer, whose memory functions the loader would call for an auditing "
           "library before they are ready. Build it without -fsanitize=thread, or with g++, whose sanitizer "
           "is a library");
}

/// What the loader says that it would load, with what the environment adds. The program does not run.
std::string listed_libraries(const WatchableProgram& program) {
  int ends[2];
  if (program.loader.empty() || pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    unsetenv("LD_AUDIT"); // of a `cuevent watch` around this one
    execl(program.loader.c_str(), program.loader.c_str(), "--list", program.binary.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  std::string text;
  char read_now[4096];
  for (ssize_t length = 0; child > 0 && (length = ::read(ends[0], read_now, sizeof read_now)) > 0;)
    text.append(read_now, static_cast<std::size_t>(length));
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return text;
}

} // namespace

WatchableProgram watchable_program(const std::string& name) {
  WatchableProgram program;
  program.path = find_in_path(name);
  check_file(program, program.path, 0);
  return program;
}

std::uint64_t static_storage_of(const WatchableProgram& program) {
  constexpr std::uint64_t usual = 512;   // what glibc has for libraries that are opened later
  constexpr std::uint64_t common = 4096; // for other programs that this one starts
  std::uint64_t needed = 0;
  std::istringstream lines(listed_libraries(program));
  for (std::string line; std::getline(lines, line);) { // libm.so.6 => /lib/libm.so.6 (0x00007f3612a00000)
    const auto begin = line.find('/'), end = line.rfind(" (0x");
    if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
    if (const auto library = read_elf_file(line.substr(begin, end - begin)))
      needed += library->static_storage;
  }
  return usual + std::max(needed, common);
}

std::string auditing_library() {
  if (const char* const named = std::getenv("CUEVENT_WATCH_LIBRARY"); named != nullptr && *named != '\0') {
    if (access(named, R_OK) != 0)
      throw std::runtime_error(std::string(named) +
                               ", which CUEVENT_WATCH_LIBRARY names: " + std::strerror(errno));
    return fs::absolute(named);
  }
  // As far from the command as in the installation, which may have been moved; or in the build folder.
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path installed = here / fs::path(CUEVENT_WATCH_FOLDER).lexically_relative(CUEVENT_BIN_FOLDER);
  for (const fs::path& folder : {here / "../watch", installed})
    if (const fs::path file = folder / "libcuevent-watch.so"; fs::exists(file)) return fs::canonical(file);
  throw std::runtime_error("libcuevent-watch.so is neither in " + installed.lexically_normal().string() +
                           " nor named by CUEVENT_WATCH_LIBRARY: install cuevent again, or set the variable");
}

} // namespace cli
