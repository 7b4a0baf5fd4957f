// SPDX-License-Identifier: MIT
// Where the threads of a process are: inside the driver, or outside since their last calls.
#pragma once

#include "report/call_text.hpp"
#include "rules/moment.hpp"
#include "rules/observer.hpp"

#include <nlohmann/json.hpp>
#include <unordered_map>

namespace watch {

/// The last calls of each thread.
class LastCalls : public Observer {
public:
  void after(const Call& call) override;

  /// The threads that have been inside the driver for long, then the one that has submitted work last.
  nlohmann::ordered_json json(const CallFile& process, CallText& texts, const Moment& moment) const;

private:
  struct Thread {
    std::chrono::nanoseconds left{}, submitted{}; // the ends of its last call, and of its last submission
    Call placed;                                  // the last call with a stack
  };
  void drop_oldest();

  std::unordered_map<std::uint32_t, Thread> threads_;
};

} // namespace watch
