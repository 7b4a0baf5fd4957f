// SPDX-License-Identifier: MIT
// A finding as text and as JSON.
#pragma once

#include "report/call_text.hpp"
#include "rules/finding.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace watch {

/// The advice of the page, in the words of PyTorch if the process uses it.
std::string fix_for(const CallFile& process, Rule rule);

/// How much the text says about the rule itself, which later findings of the rule need not repeat.
enum class Advice { with, without };

std::string text_of(CallText& texts, const CallFile& process, const Finding& finding, Advice advice);

/// The function, the thread, the result, and all frames.
nlohmann::ordered_json json_of(CallText& texts, const CallFile& process, const Call& call);

/// Without the count.
nlohmann::ordered_json json_of(CallText& texts, const CallFile& process, const Finding& finding);

} // namespace watch
