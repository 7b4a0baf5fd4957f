// SPDX-License-Identifier: MIT
// An answer in its short form: one letter for the result, then what the call gave back: `.` SUCCESS,
// `.3` SUCCESS and the value 3, `n` NOT_READY.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>
#include <vector>

namespace conformance {

inline constexpr char left_out = '-'; ///< the call was not made: an object is missing, or the call could hang
inline constexpr char after_opening =
    '!'; ///< follows the answer of a call that returned only after the watchdog
         ///< had opened all gates

inline const std::string not_made(1, left_out);

std::string short_form(CUresult);
std::string short_form(CUresult, unsigned long long value); ///< the value counts only after SUCCESS
/// `.3` becomes "CUDA_SUCCESS, 3".
std::string long_form(std::string_view answer);

/// The answers of a program one after another, and back.
std::vector<std::string> split_answers(std::string_view);

} // namespace conformance
