// SPDX-License-Identifier: MIT
// A second process of the running program, which plays one scenario.
#pragma once

#include "lab.hpp"
#include "start_again.hpp"

#include <sys/types.h>

#include <optional>

namespace transcript {

class Child {
public:
  Child(const Lab& lab, const std::string& scenario, const std::vector<std::string>& arguments = {},
        Errors errors = Errors::to_ours);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::optional<std::string> read_line(); // from its standard output; empty at the end
  bool tell(const std::string& line);     // to its standard input; false if it has ended
  void say(const std::string& line);      // the same, but throws SetUpFailure
  std::string finish();                   // waits until it ends: "exited 0", "killed by signal 11"

private:
  pid_t pid_ = -1;
  int from_ = -1;
  int to_ = -1;
  std::string unread_;
};

// Passes on the lines of the other process until that process asks for an answer. False if it has ended.
bool relay(Lab&, Child&);

// In a helper process:
std::string heard(); // the next line of standard input
std::string ask();   // the same, after a request for it

} // namespace transcript
