// SPDX-License-Identifier: MIT
// What a worker process and the one that started it agree on.
#pragma once

#include <string_view>

namespace conformance {

inline constexpr const char* worker_argument = "--random-programs-worker";
inline constexpr int unclean = 3; ///< the exit status of a worker that asks for a new process in its place
inline constexpr std::string_view no_driver = "no driver: "; ///< begins the only line of a worker without one

} // namespace conformance
