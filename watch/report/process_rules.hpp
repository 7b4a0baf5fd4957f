// SPDX-License-Identifier: MIT
// The rules that the options enable, applied to the calls of one process.
#pragma once

#include "rules/cost_rules.hpp"
#include "rules/leak_rules.hpp"
#include "rules/rules.hpp"

#include <functional>
#include <optional>

namespace watch {

/// The rules that are opt-in.
struct OptInRules {
  bool cost = false;  // what the program wastes
  bool leaks = false; // what it leaks
};

class ProcessRules {
public:
  ProcessRules(OptInRules opt_in, const std::function<void(watch::Finding)>& report) : rules_(report) {
    if (opt_in.cost) cost_.emplace(report);
    if (opt_in.leaks) leaks_.emplace(report);
  }

  void see(const watch::Call& call) {
    rules_.see(call);
    if (cost_) cost_->see(call);
    if (leaks_) leaks_->see(call);
  }

  /// There are no more calls. What a process leaves behind is a leak only if it has ended by itself.
  void end(bool by_itself) {
    if (cost_) cost_->end();
    if (leaks_ && by_itself) leaks_->end();
  }

private:
  watch::Rules rules_;
  std::optional<watch::CostRules> cost_;
  std::optional<watch::LeakRules> leaks_;
};

} // namespace watch
