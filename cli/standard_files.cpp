// SPDX-License-Identifier: MIT
#include "standard_files.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace cli {

void fill_closed_descriptors() {
  int file = 0;
  while ((file = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && file <= STDERR_FILENO) {
  }
  if (file > STDERR_FILENO) close(file);
}

} // namespace cli
