// SPDX-License-Identifier: MIT
// The rules: their names, and what reports and `cuevent watch --explain` say about each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace watch {

enum class Rule : std::uint8_t {
  wait_never_recorded,
  wait_before_record,
  recorded_in_capture_only,
  record_in_other_context,
  use_after_destroy,
  use_after_context,
  interprocess_wait,
  destroyed_in_graph,
  elapsed_without_timing,
  elapsed_never_recorded,
  elapsed_two_contexts,
  elapsed_too_early,
  elapsed_reversed,
  elapsed_without_work,
  record_replaced,
  use_after_error,
  refused_call,
  used_after_fork,
  device_fault,
  capture_invalidated,
  capture_unjoined,
  capture_never_ended,
  legacy_during_capture,
  external_outside_capture,
  timed_never_read,
  created_in_a_loop,
  blocking_in_a_loop,
  pageable_copy,
  allocated_in_a_loop,
  serial_host_functions,
  query_of_completed,
  legacy_between_streams,
  wait_for_own_stream,
  leaked,
  freed_while_used,
  unordered_copies,
  unordered_kernel,
  source_changed,
  used_before_copied,
};

/// What is known about a rule, for reports and for `cuevent watch --explain`.
struct RulePage {
  Rule rule;
  const char* name;   // "wait-never-recorded"
  const char* title;  // what the program does
  const char* driver; // what the driver does in that case
  const char* fix;
  const char* torch = nullptr; // the fix in the words of PyTorch, if they differ
};

const RulePage& page_of(Rule rule);

/// Null if no rule has this name.
const RulePage* page_named(const std::string& name);

std::vector<std::string> rule_names();

/// What is right, and costs more than it needs to; the others are mistakes.
constexpr bool is_waste(Rule rule) { return rule >= Rule::timed_never_read && rule <= Rule::leaked; }

/// All pages, in the order of the rules.
const std::vector<RulePage>& rule_pages();

} // namespace watch
