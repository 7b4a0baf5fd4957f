// SPDX-License-Identifier: MIT
// A mistake of a program: what the rules make of its calls.
#pragma once

#include "protocol/calls.hpp"
#include "protocol/protocol.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace watch {

/// A call as the rules see it.
struct Call : CallData {
  bool returned = true;                // false: the process ended in this call
  std::chrono::nanoseconds time{};     // when it returned, on CLOCK_MONOTONIC, to about a millisecond
  std::chrono::nanoseconds duration{}; // of calls that can block

  Verb verb() const { return entry == probe_entry ? Verb::probe : entry_data[entry].verb; }
  bool succeeded() const { return returned && result == CUDA_SUCCESS; }
  /// "cuEventRecord_ptsz".
  std::string name() const {
    const EntryData& data = entry_data[entry];
    return std::string(data.symbol) + ((marks & per_thread) != 0 ? data.suffix : "");
  }
};

enum class Rule : std::uint8_t {
  wait_never_recorded,
  wait_before_record,
  recorded_in_capture_only,
  record_in_other_context,
  use_after_destroy,
  interprocess_wait,
  destroyed_in_graph,
  elapsed_without_timing,
  elapsed_never_recorded,
  elapsed_two_contexts,
  use_after_error,
  capture_invalidated,
  capture_unjoined,
  legacy_beside_capture,
  external_outside_capture,
  timed_never_read,
  created_in_a_loop,
  blocking_in_a_loop,
  query_of_completed,
  legacy_between_streams,
  leaked,
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

/// What is known about a rule, for reports and for `cuevent watch --explain`.
struct RulePage {
  Rule rule;
  const char* name;   // "wait-never-recorded"
  const char* title;  // what the program does
  const char* driver; // what the driver does in that case
  const char* fix;
};

const RulePage& page_of(Rule rule);

/// Null if no rule has this name.
const RulePage* page_named(const std::string& name);

/// All pages, in the order of the rules.
const std::vector<RulePage>& rule_pages();

} // namespace watch
