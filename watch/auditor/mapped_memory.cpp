// SPDX-License-Identifier: MIT
#include "auditor/mapped_memory.hpp"

#include "auditor/kernel_calls.hpp"

#include <cstring>
#include <fcntl.h>

namespace watch {

namespace {

/// Reads lines such as "7f0a00-7f0b00 rw-p 00000000 fe:01 4711   /path", in pieces.
class Mappings {
public:
  Mappings()
      : file_(static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC))) {}
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;
  ~Mappings() {
    if (file_ >= 0) syscall(SYS_close, file_);
  }

  std::uint64_t begin = 0, end = 0;
  char access[4] = {};

  /// False at the end.
  bool next() {
    if (character() == 0) return false;
    begin = number();
    end = number();
    for (char& each : access) {
      each = character();
      ++at_;
    }
    while (character() != 0 && character() != '\n')
      ++at_;
    ++at_;
    return end != 0;
  }

private:
  /// The next one, or 0 at the end.
  char character() {
    if (at_ >= length_) {
      const long length = file_ < 0 ? 0 : syscall(SYS_read, file_, text_, sizeof text_);
      length_ = length > 0 ? static_cast<unsigned>(length) : 0;
      at_ = 0;
    }
    return length_ == 0 ? '\0' : text_[at_];
  }
  /// Hexadecimal, and the character behind it.
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (;; ++at_) {
      const char digit = character();
      if (digit >= '0' && digit <= '9')
        value = value * 16 + static_cast<std::uint64_t>(digit - '0');
      else if (digit >= 'a' && digit <= 'f')
        value = value * 16 + static_cast<std::uint64_t>(digit - 'a' + 10);
      else
        break;
    }
    ++at_;
    return value;
  }

  int file_;
  char text_[1024];
  unsigned at_ = 0, length_ = 0;
};

} // namespace

bool is_readable_and_writable(std::uint64_t begin, std::uint64_t end) {
  for (Mappings each; begin < end && each.next();) {
    if (each.end <= begin) continue;
    if (each.begin > begin || std::memcmp(each.access, "rw-", 3) != 0) return false;
    begin = each.end;
  }
  return begin >= end;
}

} // namespace watch
