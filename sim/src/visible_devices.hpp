// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>
#include <vector>

namespace cuevent::sim {

enum class Visibility {
  devices, ///< the program sees `numbers`, which may be none
  twice,   ///< a device is named twice, so that cuInit refuses the value
  unknown, ///< no device was asked what the value means
};

struct VisibleDevices {
  Visibility meaning = Visibility::devices;
  std::vector<int> numbers; ///< in the machine, in the order of the program
};

/// What a program sees if CUDA_VISIBLE_DEVICES has this value.
VisibleDevices visible_devices(std::string_view value, int devices);

} // namespace cuevent::sim
