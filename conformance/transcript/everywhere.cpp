// SPDX-License-Identifier: MIT
#include "everywhere.hpp"

#include <algorithm>

namespace transcript {
namespace {

void with_captures(Lab& lab, const std::string& name, const CallOn& call, bool captured) {
  std::vector<std::string> parts;
  const auto ask = [&](CUstreamCaptureMode mode, unsigned flags) {
    Stream origin(lab, flags), bystander(lab);
    lab.must(lab.cu.StreamBeginCapture(origin, mode), "begin");
    std::string part = lab.name_of(call(captured ? origin : bystander));
    part += ", " + capture_state(lab, origin);
    CUgraph graph = nullptr;
    lab.cu.StreamEndCapture(origin, &graph);
    if (captured && graph != nullptr) part += ", " + node_types(lab, graph);
    if (graph != nullptr) lab.cu.GraphDestroy(graph);
    parts.push_back(part);
  };
  for (const Mode& mode : capture_modes)
    ask(mode.value, CU_STREAM_NON_BLOCKING);
  if (!captured) ask(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_DEFAULT);
  lab.shows(name + (captured ? ".captured" : ".next_to_capture"), joined(parts));
}

} // namespace

void everywhere(Lab& lab, const std::string& name, const CallOn& call) {
  Stream stream(lab);
  {
    const Current none(lab, nullptr);
    lab.is(name + ".no_context", call(stream));
  }
  with_captures(lab, name, call, false);
}

void everywhere_and_captured(Lab& lab, const std::string& name, const CallOn& call) {
  everywhere(lab, name, call);
  with_captures(lab, name, call, true);
}

void wrong_in_pairs(Lab& lab, const std::string& name, const std::vector<std::string>& arguments,
                    const std::function<CUresult(const std::vector<bool>&)>& call) {
  const auto wrong = [&](std::size_t one, std::size_t other) {
    std::vector<bool> which(arguments.size());
    which[one] = which[other] = true;
    return call(which);
  };
  for (std::size_t one = 0; one < arguments.size(); ++one) {
    for (std::size_t other = one; other < arguments.size(); ++other)
      lab.is(name + "." + arguments[one] + (other == one ? "" : "_and_" + arguments[other]),
             wrong(one, other));
    {
      const Current none(lab, nullptr);
      lab.is(name + ".no_context_and_" + arguments[one], wrong(one, one));
    }
    Stream origin(lab);
    lab.must(lab.cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
    lab.is(name + ".capture_and_" + arguments[one], wrong(one, one));
    end_capture(lab, origin);
  }
}

std::string joined(const std::vector<std::string>& parts) {
  if (std::all_of(parts.begin(), parts.end(), [&](const std::string& part) { return part == parts.front(); }))
    return parts.front();
  std::string text;
  for (const std::string& part : parts)
    text += (text.empty() ? "" : " / ") + part;
  return text;
}

std::string joined(Lab& lab, const std::vector<CUresult>& results) {
  std::vector<std::string> names;
  for (const CUresult result : results)
    names.push_back(lab.name_of(result));
  return joined(names);
}

} // namespace transcript
