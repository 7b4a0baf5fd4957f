// SPDX-License-Identifier: MIT
#pragma once

#include "operation.hpp"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace cuevent::sim {

class HostThread;

/// Moves operations through time: each starts when all it comes after is done, its stream is not held and its
/// condition holds, and ends after its duration. Used under the computer's lock.
class Scheduler {
public:
  explicit Scheduler(HostThread& host) : host_(host) {}

  void reset(std::optional<unsigned long long> seed);

  Time now() const { return now_; }
  unsigned long long progress() const { return progress_; } ///< operations completed so far

  void submit(const std::shared_ptr<Operation>&);
  /// Runs all that is due by then.
  void advance_to(Time);
  /// Goes on to the next completion. False: nothing would end by itself.
  bool step();
  std::optional<Time> next_end() const;
  /// Some operation waits for a value in memory, which the host may write without telling.
  bool polls() const { return polls_; }

  void host_function_returned(Operation&, Time);
  void end_kernels(const std::string& text);
  /// These never complete; what waits for them in other contexts goes on.
  template <class Predicate>
  void abandon(Predicate);

  const std::map<unsigned long long, std::shared_ptr<Operation>>& unfinished() const { return unfinished_; }

private:
  void start_ready();
  bool may_start(const Operation&);
  void start(Operation&);
  void complete(Operation&, Time);
  void forget(Operation&);

  HostThread& host_;
  Time now_ = 0;
  unsigned long long progress_ = 0;
  unsigned long long submitted_ = 0;
  bool polls_ = false;
  std::optional<std::mt19937_64> random_;
  std::map<unsigned long long, std::shared_ptr<Operation>> unfinished_; ///< by number
  std::map<unsigned long long, Operation*> ready_;                      ///< nothing left to come after
  std::multimap<Time, Operation*> running_;                             ///< by end
};

template <class Predicate>
void Scheduler::abandon(Predicate predicate) {
  std::vector<std::shared_ptr<Operation>> gone;
  for (auto& [number, operation] : unfinished_)
    if (predicate(*operation)) gone.push_back(operation);
  for (auto& operation : gone) {
    operation->abandoned = true;
    forget(*operation);
  }
  start_ready();
}

} // namespace cuevent::sim
