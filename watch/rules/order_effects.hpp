// SPDX-License-Identifier: MIT
// What a call does to the order of work, apart from what its verb says.
#pragma once

#include "order/order.hpp"

#include <vector>

namespace watch {

/// What the host may learn from work, and what it does to the work behind it.
struct HostEffects {
  bool stores_for_host = false; // the host may see that it has begun
  bool ends_for_host = false;   // the host may see that it is done, or waits for it
  bool may_wait = false;        // for something that is not known
  bool waits_for_host = false;  // perhaps, and so for work that the host knows to be done

  void add(const HostEffects& other) {
    stores_for_host = stores_for_host || other.stores_for_host;
    ends_for_host = ends_for_host || other.ends_for_host;
    may_wait = may_wait || other.may_wait;
    waits_for_host = waits_for_host || other.waits_for_host;
  }
};

struct OrderEffects : HostEffects {
  bool waits_for_device = false;      // the host may wait for all work
  std::vector<OrderMark> behind = {}; // the driver orders the work behind these
  /// Of a copy: if it is on the legacy stream, it is as work of the legacy streams of these contexts, too.
  std::vector<std::uint64_t> contexts = {};
};

/// Of work that may do anything.
inline constexpr HostEffects unknown_effects{true, true, true};

} // namespace watch
