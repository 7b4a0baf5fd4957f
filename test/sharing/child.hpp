// SPDX-License-Identifier: MIT
// A process that joins a semaphore.
#pragma once

#include <cuevent/timeline_semaphore.hpp>

#include <string>
#include <sys/types.h>

namespace test {

struct Programs {
  std::string participant, plain_c;
  int kills = 20;
};
/// Set by main.
Programs& programs();

class Child {
public:
  /// Starts `program` with `role` and a new handle of the semaphore, which only the child keeps.
  Child(const std::string& program, const std::string& role, cuevent::TimelineSemaphore& semaphore,
        int data = -1)
      : Child(program, role, semaphore.export_handle(), data) {}
  /// The same with any descriptor, which is closed here.
  Child(const std::string& program, const std::string& role, int descriptor, int data = -1);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }

  void kill();
  /// Waits for the end: "exited with 0", or "killed by signal 9".
  std::string wait();

private:
  pid_t process_ = -1;
};

} // namespace test
