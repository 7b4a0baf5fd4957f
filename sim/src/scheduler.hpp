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

/// Moves operations through time. Used under the computer's lock. An operation ends after its
/// duration. An operation starts when all of these hold:
/// - All operations that it comes after are done.
/// - Its stream is not held.
/// - Its condition holds.
class Scheduler {
public:
  explicit Scheduler(HostThread& host) : host_(host) {}

  void reset(std::optional<unsigned long long> seed);

  Time now() const { return now_; }
  unsigned long long progress() const { return progress_; } ///< operations completed so far

  void submit(const std::shared_ptr<Operation>&);
  /// Runs everything that is due by this time.
  void advance_to(Time);
  /// Advances to the next completion. Returns false if no operation would end by itself.
  bool step();
  std::optional<Time> next_end() const;
  /// Whether an operation waits for a value in memory. The host may write the value without
  /// notice.
  bool polls() const { return polls_; }

  void host_function_returned(Operation&, Time);
  void end_kernels(const std::string& text);
  /// Marks operations that never complete. Work in other contexts that waits for them continues.
  template <class Predicate>
  void abandon(Predicate);

  const std::map<unsigned long long, std::shared_ptr<Operation>>& unfinished() const { return unfinished_; }
  /// How often each kernel has started, by name, in all sessions. Each launch of a graph counts.
  const std::map<std::string, unsigned long long>& kernels() const { return kernels_; }

private:
  void start_ready();
  bool may_start(const Operation&);
  void start(Operation&);
  void finish(Operation&, Time);
  void complete(Operation&, Time);
  void forget(Operation&);

  HostThread& host_;
  Time now_ = 0;
  unsigned long long progress_ = 0;
  unsigned long long submitted_ = 0;
  bool polls_ = false;
  std::optional<std::mt19937_64> random_;
  std::map<unsigned long long, std::shared_ptr<Operation>> unfinished_; ///< by number
  std::map<unsigned long long, Operation*> ready_;                      ///< predecessors done
  std::multimap<Time, Operation*> running_;                             ///< by end time
  std::map<std::string, unsigned long long> kernels_;
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
