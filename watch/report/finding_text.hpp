// SPDX-License-Identifier: MIT
// A finding as text and as JSON.
#pragma once

#include "report/call_text.hpp"
#include "report/terminal.hpp"
#include "rules/explanation.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace watch {

/// In the words of PyTorch if the process uses it.
Explanation explanation_of(const CallFile& process, const Finding& finding);

/// How much the text says about the rule itself, which later findings of the rule need not repeat.
enum class Advice { with, without };

/// `terminal`: null if the text goes elsewhere.
std::string text_of(CallText& texts, const CallFile& process, const Finding& finding, Advice advice,
                    const Terminal* terminal = nullptr);

/// The function, the thread, the result, and all frames.
nlohmann::ordered_json json_of(CallText& texts, const CallFile& process, const Call& call);

/// Without the count.
nlohmann::ordered_json json_of(CallText& texts, const CallFile& process, const Finding& finding);

} // namespace watch
