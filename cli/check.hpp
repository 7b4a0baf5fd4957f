// `cuevent check`: whether this machine's driver answers as the recorded one did.
#pragma once

#include "exit_code.hpp"

#include <string>

namespace cli {

/// `only`: the scenarios whose names start so.
ExitCode check(const std::string& only, bool json);

} // namespace cli
