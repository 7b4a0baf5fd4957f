// SPDX-License-Identifier: MIT
// `cuevent watch --ask FOLDER`: reports of all processes of this host that report to the folder.
#pragma once

#include <string>

namespace cli {

int ask_for_reports(const std::string& folder);

} // namespace cli
