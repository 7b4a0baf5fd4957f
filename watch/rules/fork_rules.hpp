// SPDX-License-Identifier: MIT
// The rules for a process that another one has forked.
#pragma once

#include "protocol/protocol.hpp"
#include "rules/finding.hpp"
#include "rules/world.hpp"

namespace watch {

/// What the parent had done with the driver.
struct Fork {
  Forked before = not_forked;
  std::uint32_t parent = 0; // its number
};

/// In a forked child, objects of its parent, and calls that cannot work any more.
std::shared_ptr<Observer> fork_rules(const World& world, Report report, Fork fork);

} // namespace watch
