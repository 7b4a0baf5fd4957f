// SPDX-License-Identifier: MIT
#include "output_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
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

/// The file that a path names, with links resolved.
std::string target_of(const std::string& path) {
  std::error_code failed;
  // Absolute first, because a path that does not exist yet stays relative otherwise.
  const auto whole = std::filesystem::absolute(path, failed);
  if (failed) return path;
  const auto resolved = std::filesystem::weakly_canonical(whole, failed);
  return failed ? path : resolved.string();
}

bool is_regular_or_new(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

} // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(target_of(path_)) {
  if (is_regular_or_new(path_)) part_ = target_ + ".part" + std::to_string(getpid());
  // Otherwise for example /dev/stdout.
  const std::string& name = part_.empty() ? path_ : part_;
  file_ = open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (part_.empty() ? 0 : O_EXCL), 0666);
  if (file_ >= 0) return;
  const int error = errno;
  part_.clear(); // not this one's
  fail(error);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  if (!part_.empty()) std::remove(part_.c_str());
}

void OutputFile::fail(int error) const { throw OutputError(path_ + ": " + std::strerror(error)); }

void OutputFile::write(std::string_view content) {
  if (const int error = write_all(file_, content); error != 0) fail(error);
}

void OutputFile::finish() {
  // A full disk may be reported only here. A pipe or a device has nothing to flush.
  if (fsync(file_) != 0 && errno != EINVAL && errno != EROFS) fail(errno);
  if (close(std::exchange(file_, -1)) != 0) fail(errno);
  if (!part_.empty() && std::rename(part_.c_str(), target_.c_str()) != 0) fail(errno);
  part_.clear();
}

void write_file(const std::string& path, std::string_view content) {
  OutputFile file(path);
  file.write(content);
  file.finish();
}

bool are_same_file(const std::string& a, const std::string& b) { return target_of(a) == target_of(b); }

} // namespace cli
