// SPDX-License-Identifier: MIT
// `cuevent watch --report`: what a process is doing that recorded its calls without a command. The process
// starts this command, and waits for it.
#pragma once

#include <string>

namespace cli {

/// `path` is the file with the calls. `reports` is a folder for the report, or empty. Returns the exit code.
int report_in_quiet_mode(const std::string& path, const std::string& reports);

} // namespace cli
