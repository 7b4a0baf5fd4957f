// SPDX-License-Identifier: MIT
// `cuevent info`: describes the driver of this machine, or says why there is none.
#pragma once

#include "exit_code.hpp"

namespace cli {

ExitCode info(bool json);

} // namespace cli
