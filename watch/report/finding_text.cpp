// SPDX-License-Identifier: MIT
#include "report/finding_text.hpp"

namespace watch {

namespace {

std::string result_text(const Call& call) {
  if (!call.returned) return ", did not return";
  return call.result == 0 ? std::string() : ": " + code_text(call.result);
}

std::string indented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += "      " + line + '\n';
  return text;
}

} // namespace

Explanation explanation_of(const CallFile& process, const Finding& finding) {
  return explanation_of(finding, process.has_loaded("libtorch") ? Words::torch : Words::driver);
}

std::string text_of(CallText& texts, const CallFile& process, const Finding& finding, Advice advice,
                    const Terminal* terminal) {
  const RulePage& page = page_of(finding.rule);
  const Call& call = finding.call;
  const auto frames_of = [&](const Call& of) {
    auto all = texts.frames_of(process, of, of.stack);
    if (terminal != nullptr) terminal->show_paths(all);
    return all;
  };
  // Below the program's innermost frame, which is the first line.
  const auto with_source = [&](const std::vector<NamedFrame>& all, std::vector<std::string> lines) {
    const auto source = terminal != nullptr ? terminal->source_line(process, all) : std::nullopt;
    if (source && !lines.empty()) lines.insert(lines.begin() + 1, *source);
    return indented(lines);
  };
  const auto frames = frames_of(call);
  std::string text = std::string("cuevent watch: ") + page.name + ": " + finding.sentence + "\n  in " +
                     call.name() + ", " + thread_text(process, call.thread) + " of process " +
                     std::to_string(process.process()) + result_text(call) + '\n' +
                     with_source(frames, folded(frames));
  for (const auto& [what, before] : finding.earlier) {
    text += "  " + what + ": " + before.name();
    if (before.thread != call.thread) text += ", " + thread_text(process, before.thread);
    const auto others = frames_of(before);
    text += result_text(before) + '\n' + with_source(others, folded_below(frames, others));
  }
  if (advice == Advice::without) return text;
  const Explanation explanation = explanation_of(process, finding);
  return text + "  the driver: " + explanation.driver + "\n  to fix it: " + explanation.fix + '\n';
}

} // namespace watch
