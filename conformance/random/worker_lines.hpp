// SPDX-License-Identifier: MIT
// What a worker process and the one that started it agree on.
#pragma once

#include <string_view>

namespace conformance {

inline constexpr const char* worker_argument = "--random-programs-worker";
inline constexpr const char* partner_argument = "--random-programs-partner";
inline constexpr std::string_view no_driver = "no driver: "; ///< begins the only line of a worker without one
inline constexpr char last_program = '|'; ///< ends the line of a program after which the process cannot go on
inline constexpr int no_partner = 3;      ///< the exit status if the other process of a program died
inline constexpr int hung = 124; ///< the exit status if a call did not return although all gates were open

} // namespace conformance
