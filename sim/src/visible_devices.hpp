// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace cuevent::sim {

/// The numbers of the devices that a program sees, in its order, if CUDA_VISIBLE_DEVICES has this value.
/// Empty for a value whose meaning is not documented, such as one that names a device twice.
std::optional<std::vector<int>> visible_devices(std::string_view value, int devices);

} // namespace cuevent::sim
