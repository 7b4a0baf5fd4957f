// SPDX-License-Identifier: MIT
// File descriptors that are closed.
#pragma once

#include <cerrno>
#include <system_error>
#include <unistd.h>

/// `result`, unless it is an error of a call of the kernel. An interruption is no error.
inline int checked(int result) {
  if (result < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category());
  return result;
}

class Descriptor {
public:
  explicit Descriptor(int number) : number_(checked(number)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(number_); }
  operator int() const noexcept { return number_; }

private:
  int number_;
};
