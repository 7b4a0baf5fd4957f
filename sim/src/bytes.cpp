// SPDX-License-Identifier: MIT
#include "bytes.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/uio.h>
#include <unistd.h>

namespace cuevent::sim {

namespace {

/// The kernel says if memory cannot be read. Where it does not offer that, the program's word counts.
bool copy_if_readable(void* to, const void* from, std::size_t size) {
  const int kept = errno;
  const iovec here{to, size};
  const iovec there{const_cast<void*>(from), size};
  const ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  const bool forbidden = copied < 0 && (errno == ENOSYS || errno == EPERM);
  errno = kept;
  if (forbidden) std::memcpy(to, from, size);
  return forbidden || copied == static_cast<ssize_t>(size);
}

} // namespace

void Bytes::copy(std::uint64_t offset, void* to, std::size_t size) const {
  damaged_if(offset > size_ || size > size_ - offset);
  if (!in_memory_)
    std::memcpy(to, begin_ + offset, size);
  else
    damaged_if(!copy_if_readable(to, begin_ + offset, size));
}

std::string Bytes::read(std::uint64_t offset, std::uint64_t size) const {
  constexpr std::uint64_t step = 1 << 20; // a damaged size costs no more memory than there is to read
  damaged_if(offset > size_ || size > size_ - offset);
  std::string text;
  while (text.size() < size) {
    const std::size_t before = text.size();
    text.resize(before + static_cast<std::size_t>(std::min(step, size - before)));
    copy(offset + before, text.data() + before, text.size() - before);
  }
  return text;
}

} // namespace cuevent::sim
