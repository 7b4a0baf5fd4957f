// SPDX-License-Identifier: MIT
// The rules, one set for each subject, each in the file of its name. They run in `cuevent watch`, not in the
// watched process, and look at the World before each call.
#pragma once

#include "rules/finding.hpp"
#include "rules/world.hpp"

namespace watch {

using Rules = std::shared_ptr<Observer>;

Rules event_rules(const World& world, Report report);    // records and waits that fail
Rules early_rules(const World& world, Report report);    // waits before the record that they need
Rules replaced_rules(const World& world, Report report); // records that are lost
Rules time_rules(const World& world, Report report);     // times between events
Rules refused_rules(const World& world, Report report);  // calls that fail for a reason that is known
Rules lifetime_rules(const World& world, Report report); // what is used after its end
Rules capture_rules(const World& world, Report report);  // what invalidates captures, and what they lack
Rules fault_rules(const World& world, Report report);    // device work that fails
Rules cost_rules(const World& world, Report report);     // calls that are right, and cost more than they need
Rules lost_time_rules(const World& world, Report report); // time that is lost in harmless calls
Rules leak_rules(const World& world, Report report);      // objects that are never destroyed

/// Whether the result tells that device work has failed.
bool is_fault(const Call& call);

/// Whether nothing is wrong with the call itself: it has returned, what it uses lives, and neither a capture
/// nor a fault of the device has decided its result.
bool is_of_interest(const World& world, const Call& call);

} // namespace watch
