// SPDX-License-Identifier: MIT
// Tells signals to this process alone from signals to its whole process group.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <sys/types.h>

namespace cli {

/// A process of the group that does nothing but take its signals. The kernel does not tell whether a signal
/// was sent to a process or to its group. What the witness has got too was for the group.
class GroupWitness {
public:
  using Counts = std::array<std::uint8_t, 65>; // by the number of the signal

  /// Call it with all signals blocked. If no process can be started, there is no witness.
  GroupWitness();
  GroupWitness(const GroupWitness&) = delete;
  GroupWitness& operator=(const GroupWitness&) = delete;
  ~GroupWitness();

  pid_t process() const { return process_; } // 0: there is none

  /// The signals of the group since the last call. Nothing if there is no witness, or if it is stopped.
  std::optional<Counts> take();

  /// Continues this process, which is going to stop, when the other one is not stopped any more.
  void continue_with(pid_t other);
  void continued();

private:
  struct Request {
    std::uint32_t number; // of the answer; 0: no answer
    pid_t watched;        // 0: none
  };
  struct Answer {
    std::uint32_t number;
    Counts counts;
  };

  [[noreturn]] static void run(int socket, pid_t command);
  bool send(Request request) const;

  pid_t process_ = 0;
  int socket_ = -1;
  std::uint32_t last_ = 0;
};

} // namespace cli
