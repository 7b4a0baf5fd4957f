// SPDX-License-Identifier: MIT
#include "report/call_text.hpp"

#include "report/call_owner.hpp"

#include <cuevent/error.hpp>

#include <algorithm>
#include <fstream>

namespace watch {

using watch::Call;

namespace {

constexpr std::size_t frames_shown = 16;

/// Frames of the loader and of the start of a thread say nothing.
bool is_start(const SourceFrame& frame) {
  return frame.function == "_start" || frame.function.starts_with("__libc_start") ||
         frame.function == "start_thread" || frame.function.starts_with("__clone") ||
         frame.function == "clone3";
}

/// At the end of a stack, this may be the start of a thread too.
bool is_unnamed_libc(const SourceFrame& frame) {
  return frame.function.empty() && frame.library.ends_with("/libc.so.6");
}

/// The Python frames say more than the interpreter's own frames.
bool is_interpreter(const SourceFrame& frame) {
  const std::string name = frame.library.substr(frame.library.rfind('/') + 1);
  return name.starts_with("python") || name.starts_with("libpython");
}

std::string code_text(unsigned code) {
  // "CUDA_ERROR_INVALID_HANDLE (400): ..."
  const std::string text = cuevent::driver_category().message(static_cast<int>(code));
  return text.substr(0, text.find(' '));
}

} // namespace

std::optional<SourceFrame> CallText::caller_of(const CallFile& process, const Call& call) {
  for (const std::uint64_t address : process.stack(call.stack))
    if (SourceFrame frame = symbols_.frame(process, address); !is_cuda_runtime(frame))
      return is_start(frame) ? std::nullopt : std::optional(std::move(frame));
  return std::nullopt;
}

std::vector<SourceFrame> CallText::stack_of(const CallFile& process, const Call& call) {
  std::vector<SourceFrame> frames;
  for (const std::uint64_t address : process.stack(call.stack))
    frames.push_back(symbols_.frame(process, address));
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

std::string CallText::text_of(const CallFile& process, const Call& call) {
  std::string text = call.name() + ", " + thread_text(process, call.thread) + " of process " +
                     std::to_string(process.process());
  if (!call.returned)
    text += ", did not return";
  else if (call.result != 0)
    text += ": " + code_text(call.result);
  return text + '\n' + frames_of(process, call, call.stack);
}

std::string CallText::frames_of(const CallFile& process, const Call& call, std::uint32_t python_stack) {
  std::string text;
  auto frames = stack_of(process, call);
  const auto python = process.python_stack(python_stack);
  if (!python.empty()) frames.erase(std::find_if(frames.begin(), frames.end(), is_interpreter), frames.end());
  for (std::size_t i = 0; i < frames.size() && i < frames_shown; ++i)
    text += "      " + frames[i].text() + '\n';
  if (frames.size() > frames_shown)
    text += "      and " + std::to_string(frames.size() - frames_shown) + " more\n";
  for (std::size_t i = 0; i < python.size() && i < frames_shown; ++i)
    text += (i == 0 ? "    in Python\n      " : "      ") + python[i] + '\n';
  return text;
}

nlohmann::ordered_json CallText::json_of(const CallFile& process, const Call& call) {
  nlohmann::ordered_json json{
      {"function", call.name()}, {"process", process.process()}, {"thread", call.thread}};
  if (call.returned)
    json["result"] = code_text(call.result);
  else
    json["result"] = nullptr;
  auto& stack = json["stack"] = nlohmann::ordered_json::array();
  for (const SourceFrame& frame : stack_of(process, call)) {
    nlohmann::ordered_json line{
        {"function", frame.function}, {"library", frame.library}, {"offset", frame.offset}};
    if (!frame.file.empty()) {
      line["file"] = frame.file;
      line["line"] = frame.line;
    }
    stack.push_back(std::move(line));
  }
  if (const auto python = process.python_stack(call.stack); !python.empty()) json["python"] = python;
  return json;
}

std::string CallText::place_of(const CallFile& process, const Call& call) {
  const auto python = process.python_stack(call.stack);
  for (const std::string& frame : python)
    if (!is_python_package(frame)) return frame;
  if (!python.empty()) return python.front();
  const auto caller = caller_of(process, call);
  return caller ? caller->text() : call.name();
}

} // namespace watch
