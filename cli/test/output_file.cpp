// SPDX-License-Identifier: MIT
#include "output_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Message;
using cli::OutputError;
using cli::write_file;

class Folder {
public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "cuevent-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const char* name) const { return (path_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

private:
  fs::path path_;
};

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Limits the size of files, like a disk that becomes full.
class SizeLimit {
public:
  explicit SizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

private:
  rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

constexpr int cannot_refuse = 77; // an emulator, for example

/// The kernel refuses files without names to this process, as some file systems do.
void refuse_nameless_files() {
  const auto argument = [](unsigned number) {
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + number * sizeof(std::uint64_t));
  };
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(2);
}

/// Runs it in a child without files that have no names. Returns how the child ended.
template <class Body>
int status_without_nameless_files(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE})
      std::signal(number, SIG_DFL); // not the test framework's
    refuse_nameless_files();
    body();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

} // namespace

TEST_CASE("a file is written or replaced completely") {
  const Folder folder;
  write_file(folder / "a", "first");
  CHECK(content(folder / "a") == "first");
  write_file(folder / "a", std::string(100'000, 'x'));
  CHECK(content(folder / "a") == std::string(100'000, 'x'));
  CHECK(folder.files() == 1);
}

TEST_CASE("a link stays a link, and its target is written") {
  const Folder folder;
  write_file(folder / "file", "old");
  fs::create_symlink("file", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(content(folder / "file") == "new");
}

TEST_CASE("the error for a file that cannot be written names the file and the reason") {
  const Folder folder;
  CHECK_THROWS_MATCHES(write_file("/dev/full", "text"), OutputError,
                       Message("/dev/full: No space left on device"));
  CHECK_THROWS_MATCHES(write_file(folder / "missing/a", "text"), OutputError,
                       Message((folder / "missing/a") + ": No such file or directory"));
  fs::create_directory(folder / "b");
  CHECK_THROWS_MATCHES(write_file(folder / "b", "text"), OutputError,
                       Message((folder / "b") + ": Is a directory"));
  CHECK(folder.files() == 1);
}

TEST_CASE("a full disk keeps the old file and leaves no part of the new one") {
  const Folder folder;
  write_file(folder / "a", "old");
  {
    const SizeLimit limit(1000);
    CHECK_THROWS_MATCHES(write_file(folder / "a", std::string(5000, 'x')), OutputError,
                         Message((folder / "a") + ": File too large"));
  }
  CHECK(content(folder / "a") == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a file system without nameless files: a signal leaves no part") {
  if (WEXITSTATUS(status_without_nameless_files([] {})) == cannot_refuse)
    SKIP("no system call can be refused");
  const Folder folder;
  write_file(folder / "a", "old");
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) {
    const int status = status_without_nameless_files([&] {
      cli::OutputFile file(folder / "a");
      file.write("new");
      if (folder.files() != 2) _exit(3); // there is a part
      raise(number);
    });
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == number));
    CHECK(folder.files() == 1);
    CHECK(content(folder / "a") == "old");
  }
  CHECK(status_without_nameless_files([&] { write_file(folder / "a", "new"); }) == 0);
  CHECK(folder.files() == 1);
  CHECK(content(folder / "a") == "new");
}

TEST_CASE("a file system without nameless files: the part of a killed command is removed by the next one") {
  if (WEXITSTATUS(status_without_nameless_files([] {})) == cannot_refuse)
    SKIP("no system call can be refused");
  const Folder folder;
  const auto killed = [&] {
    cli::OutputFile file(folder / "a");
    file.write("new");
    raise(SIGKILL);
  };
  CHECK(WTERMSIG(status_without_nameless_files(killed)) == SIGKILL);
  CHECK(folder.files() == 1);
  CHECK(status_without_nameless_files([&] {
          cli::OutputFile living(folder / "a");
          living.write("first");
          if (folder.files() != 1) _exit(3); // only its own part
          if (status_without_nameless_files([&] { write_file(folder / "a", "second"); }) != 0) _exit(4);
          if (folder.files() != 2 || content(folder / "a") != "second") _exit(5);
          living.finish();
        }) == 0);
  CHECK(folder.files() == 1);
  CHECK(content(folder / "a") == "first");
}

TEST_CASE("a killed command leaves nothing, also with a long name") {
  const Folder folder;
  for (const std::string& name : {std::string("a"), std::string(255, 'n')}) {
    const pid_t child = fork();
    if (child == 0) {
      cli::OutputFile file(folder / name.c_str());
      file.write("new");
      raise(SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    CHECK(folder.files() == 0);
  }
  for (int i = 0; i < 2; ++i)
    write_file(folder / std::string(255, 'n').c_str(), "text");
  CHECK(folder.files() == 1);
}
