// SPDX-License-Identifier: MIT
// A mistake of a program: what the rules make of its calls.
#pragma once

#include "protocol/calls.hpp"
#include "protocol/protocol.hpp"
#include "rules/rule_pages.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace watch {

/// A call as the rules see it.
struct Call : CallData {
  bool returned = true;                // false: the process ended in this call
  std::chrono::nanoseconds time{};     // when it returned, on CLOCK_MONOTONIC, to about a millisecond
  std::chrono::nanoseconds duration{}; // of calls that can block

  Verb verb() const {
    if (is_of_the_program()) return entry_data[entry].verb;
    return entry == probe_entry ? Verb::probe : Verb::graph_event;
  }
  bool is_of_the_program() const { return entry < entry_count; }
  bool succeeded() const { return returned && result == CUDA_SUCCESS; }
  /// "cuEventRecord_ptsz".
  std::string name() const {
    const EntryData& data = entry_data[entry];
    return std::string(data.symbol) + ((marks & per_thread) != 0 ? data.suffix : "");
  }
};

/// An earlier call that matters: "the event was created".
struct Earlier {
  std::string what;
  Call call;
};

struct Finding {
  Rule rule;
  std::string sentence;
  Call call;
  std::vector<Earlier> earlier;
  unsigned long count = 1; // how often it happened
};

} // namespace watch
