// SPDX-License-Identifier: MIT
#include "output_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace cli {

namespace {

int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(file, content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Returns errno, or 0 for success.
int create(const std::string& path, int flags, std::string_view content) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
  if (file < 0) return errno;
  int error = write_all(file, content);
  // A full disk may be reported only here. A pipe or a device has nothing to flush.
  if (error == 0 && fsync(file) != 0 && errno != EINVAL && errno != EROFS) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  return error;
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

int write_or_error(const std::string& path, std::string_view content) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return create(path, 0, content); // for example /dev/stdout

  const std::string target = target_of(path);
  const std::string part = target + ".part" + std::to_string(getpid());
  int error = create(part, O_EXCL, content);
  if (error == 0 && std::rename(part.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0 && error != EEXIST) std::remove(part.c_str());
  return error;
}

} // namespace

void write_file(const std::string& path, std::string_view content) {
  if (const int error = write_or_error(path, content); error != 0)
    throw OutputError(path + ": " + std::strerror(error));
}

bool are_same_file(const std::string& a, const std::string& b) { return target_of(a) == target_of(b); }

} // namespace cli
