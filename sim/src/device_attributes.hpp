// SPDX-License-Identifier: MIT
// The attributes of every simulated device.
#pragma once

#include <array>
#include <cstddef>

namespace cuevent::sim {

/// Where the device announces what the simulator does not model.
inline constexpr int none = 0;

/// The memory of every simulated device.
inline constexpr std::size_t all_memory = std::size_t{16} << 30;

/// By number, from 1 on: an NVIDIA H100 80GB HBM3 with driver 580.159.04 (CUDA 13.0), read on 2026-11-24.
inline constexpr std::array device_attributes{
    // clang-format off
    1024, 1024, 1024, 64, 2147483647, 65535, 65535, 49152, 65536, 32, // 1 to 10
    2147483647, 65536, 1980000, 512, 1, 132, 0, 0, 1, 0, // 11 to 20
    131072, 131072, 65536, 16384, 16384, 16384, 32768, 32768, 2048, 512, // 21 to 30
    1, 1, 0, 6, 0, 2619000, 5120, 52428800, 2048, 3, // 31 to 40
    1, 32768, 2048, 1, 32768, 32768, 8192, 8192, 32768, 0, // 41 to 50
    32, 32768, 32768, 2046, 32768, 131072, 65536, 16384, 16384, 16384, // 51 to 60
    32768, 2048, 32768, 32768, 2048, 32768, 32768, 2046, 268435456, 131072, // 61 to 70
    65000, 2097120, 32768, 32768, 9, 0, 32768, 1, 1, 1, // 71 to 80
    233472, 65536, 1, 0, 0, 0, 2, 0, 1, 1, // 81 to 90
    1, 0, 0, 0, 1, none, 232448, 0, 1, 0, // 91 to 100
    0, 1, 1, 0, 0, 32, 1, 32768000, 134217728, none, // 101 to 110
    1024, none, 1, none, 1, none, none, 100, none, none, // 111 to 120
    none, 1, 1, none, 1, 4, none, none, 1, 0, // 121 to 130
    -1, 0, 0, 0, 0, 0, 0, 0, 590352606, 381751518, // 131 to 140
    1, 1, 0, 1, 1, 0, 0, // 141 to 147
    // clang-format on
};

} // namespace cuevent::sim
