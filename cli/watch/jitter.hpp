// SPDX-License-Identifier: MIT
// What `cuevent watch --jitter` has held, and the search for the holds that change a result.
#pragma once

#include "protocol/jitter_plan.hpp"
#include "report/call_text.hpp"
#include "watch/watch.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace cli {

/// The holds of a run, as the watched processes tell them.
class HeldCalls {
public:
  HeldCalls(std::string plan, watch::CallText& texts) : plan_(std::move(plan)), texts_(texts) {}

  void see(const watch::CallFile& process, const watch::Call& call);
  /// The process has ended, or is not watched any more.
  void end(const watch::CallFile& process) { can_hold_ = can_hold_ && process.region().cannot_hold == 0; }

  /// "jitter 7: 12 holds, 14.2 ms in all". Empty if nothing was to be held.
  std::string sentence() const;
  nlohmann::ordered_json json() const;

private:
  std::string plan_;
  watch::CallText& texts_;
  bool can_hold_ = true;
  unsigned long count_ = 0, microseconds_ = 0;
  nlohmann::ordered_json holds_ = nlohmann::ordered_json::array();
};

/// Runs the program without jitter and with each seed, and looks for the fewest holds that change what
/// `options.check` says of its output. Returns 1 if the result changes.
int check_with_jitter(const WatchOptions& options);

} // namespace cli
