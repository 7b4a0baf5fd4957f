// SPDX-License-Identifier: MIT
// The report of one process of a job that hangs: what `cuevent watch --reports` writes.
#pragma once

#include "merge/hang_sequence.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// "the communicator stream", or "communicator stream 2", by its place in HangReport::communicators.
std::string name_of_communicator(std::size_t index);

/// A stream with collectives.
struct HangCommunicator {
  enum class State { idle, in_collective, in_send_receive, held };
  State state = State::idle;
  std::string stream{};
  HangSequence sequence{};
  std::uint64_t reached = 0;      // collectives
  std::uint64_t reached_next = 0; // when it has reached the work that it is in
};

struct HangCause {
  std::string text{};
  bool is_nccl = false, is_fault = false;
};

struct HangThread {
  std::string name{}, inside{}, after{}, place{}; // inside or after a call
  std::chrono::nanoseconds age{};
};

struct HangReport {
  std::string file{};
  std::optional<unsigned> rank{};
  unsigned size = 0; // 0 if unknown
  std::string host{};
  unsigned process = 0;
  std::chrono::nanoseconds time{};    // since 1970
  std::chrono::nanoseconds still{};   // without progress
  std::chrono::nanoseconds watched{}; // `still` cannot be longer
  std::chrono::nanoseconds limit{};   // a process that is still for that long is stuck
  std::chrono::nanoseconds moved{};   // when it submitted work again after the report; 0 if never
  bool is_outdated = false;           // it did so before another report of the job was made
  bool answered = true, has_all_calls = true;
  std::vector<HangCommunicator> communicators{};
  std::vector<HangCause> causes{};
  std::vector<HangThread> threads{};

  bool is_stuck() const { return still >= limit && !is_outdated; }
  bool may_be_stuck() const { return is_stuck() || (watched < limit && !is_outdated); }
  bool has_fault() const;
  /// What it waits for is work of NCCL and nothing else.
  bool waits_for_others() const;
  /// The first cause that other ranks cannot end, or null.
  const HangCause* own_cause() const;
};

/// what() reads "hang-rank3-12.json: the report has version 2, ...".
struct HangReportError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether the file begins as a report of a hang does.
bool is_hang_report(const std::string& path);

/// The text of a file. Throws HangReportError, whose what() then names no file.
HangReport hang_report_in(std::string_view text);

/// Throws HangReportError.
HangReport read_hang_report(const std::string& path);

} // namespace cli
