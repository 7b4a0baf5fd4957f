// SPDX-License-Identifier: MIT
// What the processes of a run on simulated devices have reported. sim/README.md describes the lines.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace cli {

/// Of kernels.
enum class Names { most_frequent, all };

class SimReport {
public:
  /// Lines that make no sense are left out.
  explicit SimReport(std::string_view lines);

  std::size_t processes() const { return begun_; }

  /// What the program asked for that is not modelled: up to `most` lines. Empty if all of it is modelled.
  std::string names_text(std::size_t most) const;
  /// Which kernels ran: one line, with up to three names, or a line for each. Empty if none ran.
  std::string kernels_text(Names) const;
  /// How many processes used simulated devices, with how many calls.
  std::string processes_text() const;

private:
  struct Asked {
    std::string caller, program; // of the first call; no caller if it was only looked up
    std::set<std::string> processes;
    bool was_called = false;
  };

  void add(std::string_view line);

  std::map<std::string, std::size_t> processes_; // how many began and have not ended
  std::size_t begun_ = 0;
  unsigned long long calls_ = 0;
  std::map<std::pair<std::string, std::string>, Asked>
      asked_;                                         // by function and by what of it is not modelled
  std::map<std::string, unsigned long long> kernels_; // how often each has run
  std::set<std::string> other_drivers_;
  std::set<std::string> runtimes_;   // that ask for what a CUDA runtime of their own needs
  std::set<std::string> unmeasured_; // the versions of drivers
};

/// "1,234".
std::string with_commas(unsigned long long number);

} // namespace cli
