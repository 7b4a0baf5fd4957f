// SPDX-License-Identifier: MIT
#include "report/finding_text.hpp"

#include "report/filter.hpp"

namespace watch {

namespace {

const char* text_of(Certainty certainty) {
  switch (certainty) {
  case Certainty::certain:
    return "certain";
  case Certainty::possible:
    return "possible";
  default:
    return "candidate";
  }
}

} // namespace

nlohmann::ordered_json json_of(CallText& texts, const CallFile& process, const Call& call) {
  nlohmann::ordered_json json{
      {"function", call.name()}, {"process", process.process()}, {"thread", call.thread}};
  if (call.returned)
    json["result"] = code_text(call.result);
  else
    json["result"] = nullptr;
  auto& stack = json["stack"] = nlohmann::ordered_json::array();
  for (const SourceFrame& frame : texts.stack_of(process, call)) {
    nlohmann::ordered_json line{
        {"function", frame.function}, {"library", frame.library}, {"offset", frame.offset}};
    if (!frame.file.empty()) {
      line["file"] = frame.file;
      line["line"] = frame.line;
    }
    if (frame.is_inlined) line["inlined"] = true;
    stack.push_back(std::move(line));
  }
  if (const auto python = process.python_stack(call.stack); !python.empty()) json["python"] = python;
  return json;
}

nlohmann::ordered_json json_of(CallText& texts, const CallFile& process, const Finding& finding) {
  const RulePage& page = page_of(finding.rule);
  nlohmann::ordered_json json{{"rule", page.name},
                              {"class", text_of(finding.certainty)},
                              {"sentence", finding.sentence},
                              {"count", 0}};
  json["call"] = json_of(texts, process, finding.call);
  auto& earlier = json["earlier"] = nlohmann::ordered_json::array();
  for (const auto& [what, call] : finding.earlier) {
    earlier.push_back(json_of(texts, process, call));
    earlier.back()["what"] = what;
  }
  const Explanation explanation = explanation_of(process, finding);
  const auto own = texts.own_frame_of(process, finding.call);
  json["source"] = nullptr;
  if (own && !own->file.empty())
    json["source"] = {{"file", own->file}, {"line", own->line}, {"function", own->function}};
  json["suppression"] = suppression_of(finding.rule, own, texts.stack_of(process, finding.call));
  json["driver"] = explanation.driver;
  json["fix"] = explanation.fix;
  return json;
}

} // namespace watch
