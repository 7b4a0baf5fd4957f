// SPDX-License-Identifier: MIT
// What a program leaks: objects that it creates and never destroys. Plain calls in, findings out.
#pragma once

#include "rules/contexts.hpp"

#include <functional>
#include <set>
#include <tuple>
#include <utility>

namespace watch {

/// Counts the objects of one process that are left, by the stack that created them.
/// Thread-safety: none; one thread calls it.
class LeakRules {
public:
  explicit LeakRules(std::function<void(Finding)> report) : report_(std::move(report)) {}

  /// Takes the next call of the process, in the order of its records.
  void see(const Call& call);

  /// The process has ended by itself: reports what is left.
  void end();

private:
  enum class Kind : std::uint8_t { event, stream, graph, exec, context };
  using Object = std::pair<Kind, Handle>;

  /// Objects of one kind and one stack.
  struct Leak {
    Call created;                 // the first of them
    std::optional<Call> released; // their primary context, before they were destroyed
    unsigned long count = 0;
  };
  /// The kind, the stack that created them, and the stack that released their context.
  using LeakKey = std::tuple<Kind, std::uint32_t, std::uint32_t>;

  void create(Kind kind, Handle handle, const Call& call);
  void destroy(Kind kind, Handle handle) { objects_.erase({kind, handle}); }
  void end_context(const Call& call, Handle context);
  void leak(Kind kind, const Call& created, const std::optional<Call>& released);

  std::function<void(Finding)> report_;
  Contexts contexts_;
  std::map<Object, Call> objects_;   // that live, and the calls that created them
  std::map<LeakKey, Leak> leaks_;    // objects that nobody will destroy any more
  std::set<Handle> captured_graphs_; // that were there before the capture into them
};

} // namespace watch
