// SPDX-License-Identifier: MIT
// Which programs can be watched, and where the auditing library is.
#pragma once

#include <string>

namespace cli {

/// The file that the shell would run for this name. Throws std::runtime_error if there is none, or if the
/// loader would not load an auditing library into the program.
std::string watchable_program(const std::string& name);

/// The auditing library: the one that CUEVENT_WATCH_LIBRARY names, or the one of this build or installation.
std::string auditing_library();

} // namespace cli
