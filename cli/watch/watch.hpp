// SPDX-License-Identifier: MIT
// `cuevent watch`: runs a program and reports what it does wrong with events, streams and captures.
#pragma once

#include <string>
#include <vector>

namespace cli {

struct WatchOptions {
  std::vector<std::string> program; // and its arguments
  std::string attach;               // a folder, instead of a program
  std::string explain;              // the name of a rule, instead of a program
  std::string report;               // the file of a process, instead of a program
  std::string ask;                  // a folder of reports, instead of a program
  std::string json_file;
  std::string format;           // of the findings: text, json, sarif or github; empty: as the file of --json
  std::string suppressions_out; // a file for the lines that would leave out what was found
  std::string color = "auto";   // auto, always or never
  std::string reports;          // a folder for the reports of the processes
  std::vector<std::string> suppressions;
  std::string stacks = "usual";
  bool fail = false;
  unsigned hang = 0;    // seconds without progress after which a hang is reported; 0: never
  bool cost = false;    // also report what the program wastes
  bool leaks = false;   // also report what it leaks
  bool vendor = false;  // also report what is about libraries of CUDA alone
  std::string jitter;   // "7", "1..20", or "=" and a list of holds; empty: no stream is held
  std::string check;    // a command that reads the program's output; empty: the program runs once
  unsigned limit = 300; // seconds for trying what may be a mistake, with `check` and `order`
  // Also report memory that two streams use without an order: certain, all, host, or all,host; empty: not.
  std::string order;

  bool reports_possible_order() const { return order.starts_with("all"); }
  bool guards_host_memory() const { return order.ends_with("host"); }
};

/// Returns the exit code of the program. Ends by the signal that ended the program.
int watch(const WatchOptions& options);

} // namespace cli
