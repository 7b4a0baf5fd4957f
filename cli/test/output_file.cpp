// SPDX-License-Identifier: MIT
#include "output_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>

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
