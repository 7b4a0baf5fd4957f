// SPDX-License-Identifier: MIT
// Libraries of the host: the files that `ar` makes.
#pragma once

#include <string_view>
#include <vector>

namespace cuevent::sim {

bool is_archive(std::string_view file);

/// The files in it, without the tables of `ar`. Throws Damaged.
std::vector<std::string_view> members_of(std::string_view archive);

} // namespace cuevent::sim
