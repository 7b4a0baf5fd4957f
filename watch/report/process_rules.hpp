// SPDX-License-Identifier: MIT
// The rules that the options enable, applied to the calls of one process.
#pragma once

#include "rules/fork_rules.hpp"
#include "rules/order_rules.hpp"
#include "rules/rules.hpp"

#include <optional>

namespace watch {

/// The rules that not every process gets.
struct OptInRules {
  bool cost = false;                                // what the program wastes
  bool leaks = false;                               // what it leaks
  Fork fork = {};                                   // if the process is a forked child
  std::optional<OrderOptions> order = std::nullopt; // memory that two streams use without an order
};

/// What follows the calls of one process.
inline void add_rules(World& world, OptInRules opt_in, const Report& report) {
  for (const auto rules : {fault_rules, lifetime_rules, event_rules, early_rules, replaced_rules, time_rules,
                           capture_rules, refused_rules})
    world.add(rules(world, report));
  if (opt_in.fork.before != not_forked) world.add(fork_rules(world, report, opt_in.fork));
  if (opt_in.cost) world.add(cost_rules(world, report));
  if (opt_in.cost) world.add(lost_time_rules(world, report));
  if (opt_in.leaks) world.add(leak_rules(world, report));
  if (opt_in.order) world.add(order_rules(world, report, *opt_in.order));
}

} // namespace watch
