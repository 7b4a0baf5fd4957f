// SPDX-License-Identifier: MIT
// One call, asked wherever the driver may refuse it.
#pragma once

#include "scene.hpp"

namespace transcript {

using CallOn = std::function<CUresult(CUstream)>;

// Without a context, and next to captures of the three modes and of a blocking stream (relaxed). An answer of
// several parts is "first / second / ...", or one part if all are equal.
void everywhere(Lab& lab, const std::string& name, const CallOn& call);

// The same, and on a stream that captures, with the nodes of its graph.
void everywhere_and_captured(Lab& lab, const std::string& name, const CallOn& call);

// Calls a function with each of its arguments wrong (plainly, without a context, next to a global capture),
// and with each two of them wrong. The call gets which ones are.
void wrong_in_pairs(Lab& lab, const std::string& name, const std::vector<std::string>& arguments,
                    const std::function<CUresult(const std::vector<bool>&)>& call);

// A value that an enumeration may not have.
template <class Enum>
Enum number(int value) {
  return static_cast<Enum>(value);
}

// Parts of one answer.
std::string joined(const std::vector<std::string>& parts);
std::string joined(Lab& lab, const std::vector<CUresult>& results);

} // namespace transcript
