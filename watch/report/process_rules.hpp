// SPDX-License-Identifier: MIT
// The rules that the options enable, applied to the calls of one process.
#pragma once

#include "cost_rules.hpp"
#include "leak_rules.hpp"
#include "rules.hpp"
#include "watch.hpp"

namespace cli {

class ProcessRules {
public:
  ProcessRules(const WatchOptions& options, const std::function<void(watch::Finding)>& report)
      : rules_(report) {
    if (options.cost) cost_.emplace(report);
    if (options.leaks) leaks_.emplace(report);
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

} // namespace cli
