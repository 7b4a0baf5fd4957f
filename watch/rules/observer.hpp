// SPDX-License-Identifier: MIT
// What follows the calls of a process, next to its World.
#pragma once

#include "rules/call.hpp"
#include "rules/order_effects.hpp"

namespace watch {

/// A set of rules, or another view of the calls. It keeps a reference to the World, and what it alone needs.
class Observer {
public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// The call has been made, but the World is still as it was before.
  virtual void before(const Call&) {}
  /// What a call does to the order, if this observer sees memory, after before() of each successful call.
  virtual const OrderEffects* effects() const { return nullptr; }
  /// The World knows what the call has changed.
  virtual void after(const Call&) {}
  /// The World forgets an object, whose handle may be of another one by now. Whatever is kept for its number
  /// is of no use any more.
  virtual void forget(std::uint64_t /*number*/) {}
  virtual void forget_stream(const StreamKey&) {}
  /// There are no more calls. What a process leaves behind is a leak only if it has ended by itself.
  virtual void end(bool /*by_itself*/) {}
};

} // namespace watch
