// SPDX-License-Identifier: MIT
// Calls of watched processes as text and as JSON: the function, the thread, and the stack.
#pragma once

#include "report/symbols.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace watch {

/// "thread 2314 (python3)"
std::string thread_text(const CallFile& process, unsigned thread);

class CallText {
public:
  /// The first frame outside the CUDA runtime and the driver. Other frames get no names, which takes long.
  std::optional<SourceFrame> caller_of(const CallFile& process, const watch::Call& call);

  /// Without the frames in which every thread begins.
  std::vector<SourceFrame> stack_of(const CallFile& process, const watch::Call& call);

  /// The function, the thread, the result, and the stack, as several lines.
  std::string text_of(const CallFile& process, const watch::Call& call);

  /// The stack as several lines. The stack `python_stack` has the Python frames.
  std::string frames_of(const CallFile& process, const watch::Call& call, std::uint32_t python_stack);

  nlohmann::ordered_json json_of(const CallFile& process, const watch::Call& call);

  /// The first Python frame that is not of a package, or the caller.
  std::string place_of(const CallFile& process, const watch::Call& call);

private:
  Symbols symbols_;
};

} // namespace watch
