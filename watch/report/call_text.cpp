// SPDX-License-Identifier: MIT
#include "report/call_text.hpp"

#include "report/call_owner.hpp"
#include "report/readable_name.hpp"

#include <cuevent/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace watch {

namespace {

constexpr std::size_t lines_shown = 16;
constexpr std::size_t wrappers_shown = 3;

/// At the end of a stack, this may be the start of a thread too.
bool is_unnamed_libc(const SourceFrame& frame) {
  return frame.function.empty() && frame.library.ends_with("/libc.so.6");
}

/// The frames between the program and the driver, the program's side first.
std::string through_text(std::vector<NamedFrame> frames) {
  const std::size_t all = frames.size();
  std::reverse(frames.begin(), frames.end());
  std::erase_if(frames, [](const NamedFrame& frame) { return frame.text.find("+0x") != std::string::npos; });
  if (frames.empty())
    return "through " + std::to_string(all) + (all == 1 ? " frame" : " frames") +
           " of libraries without names";
  std::string text;
  const std::size_t shown = std::min(frames.size(), wrappers_shown);
  for (std::size_t i = 0; i < shown; ++i)
    text += (i == 0 ? "through " : ", ") + frames[i].text;
  return all > shown ? text + " and " + std::to_string(all - shown) + " more" : text;
}

} // namespace

std::string code_text(unsigned code) {
  // "CUDA_ERROR_INVALID_HANDLE (400): ..."
  const std::string text = cuevent::driver_category().message(static_cast<int>(code));
  return text.substr(0, text.find(' '));
}

std::optional<SourceFrame> CallText::caller_of(const CallFile& process, const Call& call) {
  std::vector<SourceFrame> frames; // up to the first that is no wrapper
  for (const std::uint64_t address : process.stack(call.stack)) {
    for (SourceFrame& frame : symbols_.frames(process, address))
      frames.push_back(std::move(frame));
    if (!std::all_of(frames.begin(), frames.end(), is_wrapper)) break;
  }
  const std::size_t caller = caller_among(frames);
  return caller == frames.size() ? std::nullopt : std::optional(std::move(frames[caller]));
}

std::vector<SourceFrame> CallText::stack_of(const CallFile& process, const Call& call) {
  std::vector<SourceFrame> frames;
  for (const std::uint64_t address : process.stack(call.stack))
    for (SourceFrame& frame : symbols_.frames(process, address))
      frames.push_back(std::move(frame));
  while (!frames.empty() && (is_start(frames.back()) || is_unnamed_libc(frames.back())))
    frames.pop_back();
  return frames;
}

std::string thread_text(const CallFile& process, unsigned thread) {
  std::ifstream file("/proc/" + std::to_string(process.process()) + "/task/" + std::to_string(thread) +
                     "/comm");
  std::string name;
  std::getline(file, name);
  return "thread " + std::to_string(thread) + (name.empty() ? "" : " (" + name + ")");
}

NamedFrame python_frame(const std::string& text) {
  NamedFrame frame{text, !is_python_package(text), text};
  frame.is_python = true;
  const auto name = text.rfind(" in ");
  const auto line = text.rfind(':', name);
  if (name == std::string::npos || line == std::string::npos) return frame;
  frame.function = text.substr(name + 4);
  frame.file = text.substr(0, line);
  frame.line = std::atoi(text.c_str() + line + 1);
  return frame;
}

std::vector<NamedFrame> CallText::frames_of(const CallFile& process, const Call& call,
                                            std::uint32_t python_stack) {
  std::vector<NamedFrame> frames;
  const auto python = process.python_stack(python_stack);
  const auto stack = stack_of(process, call);
  const std::size_t caller = caller_among(stack);
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const SourceFrame& frame = stack[i];
    if (!python.empty() && is_python(frame.library)) break; // the Python frames say more
    const bool wraps = is_wrapper(frame) && i != caller;
    const bool is_own = !wraps && owner_of(frame, {}, process.program()) == Owner::program;
    const bool has_name = wraps && !frame.function.empty();
    frames.push_back({shortened(has_name ? std::string(qualified_name(frame.function)) : frame.text()),
                      is_own, frame.place(), frame.function, frame.file, frame.line});
  }
  for (const std::string& frame : python)
    frames.push_back(python_frame(frame));
  return frames;
}

std::vector<std::string> folded(const std::vector<NamedFrame>& frames) {
  const auto is_own = [](const NamedFrame& frame) { return frame.is_own; };
  const auto first = std::find_if(frames.begin(), frames.end(), is_own);
  const auto last = std::find_if(frames.rbegin(), frames.rend(), is_own).base();
  std::vector<std::string> lines;
  if (first == frames.end()) {
    for (const NamedFrame& frame : frames)
      lines.push_back(frame.text);
  } else {
    lines.push_back(first->text);
    if (first != frames.begin()) lines.push_back(through_text({frames.begin(), first}));
    for (auto frame = first + 1; frame != last;) {
      const auto next = std::find_if(frame, last, is_own);
      if (next == frame) lines.push_back(frame->text);
      if (next - frame > 1) lines.push_back("... " + std::to_string(next - frame) + " frames of libraries");
      frame = next == frame ? next + 1 : next;
    }
  }
  if (lines.size() > lines_shown) {
    const std::size_t more = lines.size() - lines_shown;
    lines.resize(lines_shown);
    lines.push_back("and " + std::to_string(more) + " more");
  }
  return lines;
}

std::vector<std::string> folded_below(const std::vector<NamedFrame>& above,
                                      const std::vector<NamedFrame>& frames) {
  const auto [mine, theirs] =
      std::mismatch(frames.rbegin(), frames.rend(), above.rbegin(), above.rend(),
                    [](const NamedFrame& a, const NamedFrame& b) { return a.place == b.place; });
  const auto is_own = [](const NamedFrame& frame) { return frame.is_own; };
  const auto shared = mine.base(); // the first of them
  if (std::count_if(shared, frames.end(), is_own) < 2) return folded(frames);
  auto lines = folded({frames.begin(), shared});
  lines.push_back(lines.empty() ? "as above"
                                : "as above from " + std::find_if(shared, frames.end(), is_own)->text);
  return lines;
}

std::string CallText::function_at(const CallFile& process, Handle address) {
  return symbols_.frames(process, address + 1).back().text(); // as if a call there had returned
}

std::optional<NamedFrame> CallText::own_frame_of(const CallFile& process, const Call& call) {
  auto frames = frames_of(process, call, call.stack);
  const auto own =
      std::find_if(frames.begin(), frames.end(), [](const NamedFrame& frame) { return frame.is_own; });
  return own == frames.end() ? std::nullopt : std::optional(std::move(*own));
}

std::string CallText::place_of(const CallFile& process, const Call& call) {
  if (const auto own = own_frame_of(process, call)) return own->text;
  if (const auto python = process.python_stack(call.stack); !python.empty()) return python.front();
  const auto caller = caller_of(process, call);
  return caller ? caller->text() : call.name();
}

} // namespace watch
