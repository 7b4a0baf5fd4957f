// SPDX-License-Identifier: MIT
// The stacks of calls, as a reader wants them.
#pragma once

#include "report/symbols.hpp"
#include "rules/call.hpp"

#include <optional>
#include <string>
#include <vector>

namespace watch {

/// "thread 2314 (python3)"
std::string thread_text(const CallFile& process, unsigned thread);

/// "CUDA_ERROR_INVALID_HANDLE"
std::string code_text(unsigned code);

struct NamedFrame {
  std::string text;
  bool is_own = false;       // of the program, and not of a library that it uses
  std::string place = {};    // of the call, also if the text lacks its line
  std::string function = {}; // this and the file are empty if they are unknown
  std::string file = {};     // of the source
  int line = 0;
  bool is_python = false;
};

/// Of a Python frame `train.py:12 in step`.
NamedFrame python_frame(const std::string& text);

/// The program's own frames as lines, the innermost first. What lies between them is folded, and what lies
/// outside of them left out. If none is the program's own, all frames are shown.
std::vector<std::string> folded(const std::vector<NamedFrame>& frames);

/// The same without the outer frames that the stack above shows too.
std::vector<std::string> folded_below(const std::vector<NamedFrame>& above,
                                      const std::vector<NamedFrame>& frames);

class CallText {
public:
  /// The first frame outside of the driver and what wraps it. Other frames get no names, which takes long.
  std::optional<SourceFrame> caller_of(const CallFile& process, const Call& call);

  /// Without the frames in which every thread begins.
  std::vector<SourceFrame> stack_of(const CallFile& process, const Call& call);

  /// All frames except the frames of the interpreter. The stack `python_stack` has the Python frames.
  std::vector<NamedFrame> frames_of(const CallFile& process, const Call& call, std::uint32_t python_stack);

  /// The innermost frame of the program. Nothing if there is none.
  std::optional<NamedFrame> own_frame_of(const CallFile& process, const Call& call);

  /// The same as a text. If there is none, a frame of any code.
  std::string place_of(const CallFile& process, const Call& call);

  /// "put_back (pool.cpp:7)", of the function that begins at this address.
  std::string function_at(const CallFile& process, Handle address);

private:
  Symbols symbols_;
};

} // namespace watch
