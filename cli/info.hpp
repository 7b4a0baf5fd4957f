// SPDX-License-Identifier: MIT
// `cuevent info`: the driver of this machine, or why there is none.
#pragma once

#include "exit_code.hpp"

namespace cli {

ExitCode info(bool json);

} // namespace cli
