// SPDX-License-Identifier: MIT
// How bad a finding is, for tools that show findings of many programs.
#pragma once

#include "rules/rule_pages.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace cli {

/// "error"; "warning" if the finding is only possible, or is about waste and leaks.
inline const char* level_of(const nlohmann::ordered_json& finding) {
  const watch::RulePage* const page = watch::page_named(finding["rule"]);
  const bool is_mistake = page != nullptr && !watch::is_waste(page->rule);
  return is_mistake && finding["class"] == "certain" ? "error" : "warning";
}

/// One sentence about a hang.
inline std::string hang_text(const nlohmann::ordered_json& hang) {
  const std::string process = "process " + std::to_string(hang["process"].get<unsigned>());
  const auto& causes = hang["causes"];
  return process + (causes.empty() ? std::string(" hangs") : ": " + causes[0]["text"].get<std::string>());
}

} // namespace cli
