// SPDX-License-Identifier: MIT
#include "watch/program.hpp"

#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
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

void check_file(const std::string& program, int scripts);

/// "#!/usr/bin/env python3": the interpreter, or the program that env would run.
void check_interpreter(const std::string& program, const std::string& first_line, int scripts) {
  std::istringstream words(first_line.substr(2));
  std::string interpreter, argument;
  words >> interpreter >> argument;
  if (scripts > 4 || interpreter.empty()) refuse(program, "its interpreter cannot be found");
  check_file(interpreter, scripts + 1);
  if (fs::path(interpreter).filename() == "env" && !argument.empty() && argument[0] != '-')
    check_file(find_in_path(argument), scripts + 1);
}

void check_file(const std::string& program, int scripts) {
  refuse_rights(program);
  std::ifstream file(program, std::ios::binary);
  if (!file) return; // it can be run but not read: the loader will tell
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const auto length = static_cast<std::size_t>(file.gcount());
  if (length >= 2 && std::memcmp(&header, "#!", 2) == 0) {
    file.clear();
    file.seekg(0);
    std::string line;
    std::getline(file, line);
    return check_interpreter(program, line, scripts);
  }
  if (length < sizeof header || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return; // a script without a first line that names its interpreter, or nothing that can be run
  if (header.e_ident[EI_CLASS] != ELFCLASS64) refuse(program, "it is not a 64-bit program");
  std::string loader;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof part));
    if (!file.read(reinterpret_cast<char*>(&part), sizeof part)) refuse(program, "it is damaged");
    if (part.p_type != PT_INTERP || part.p_filesz == 0 || part.p_filesz > 4096) continue;
    loader.resize(part.p_filesz - 1);
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    file.read(loader.data(), static_cast<std::streamsize>(loader.size()));
  }
  if (loader.empty())
    refuse(program,
           "it is linked statically, so no loader runs that could load the auditing library. Link it "
           "without -static: the CUDA runtime itself may stay static");
  if (loader.find("ld-musl") != std::string::npos)
    refuse(program, "its C library is musl, which has no auditing interface. Build it with glibc");
}

} // namespace

std::string watchable_program(const std::string& name) {
  std::string program = find_in_path(name);
  check_file(program, 0);
  return program;
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
