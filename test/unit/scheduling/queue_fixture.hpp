// SPDX-License-Identifier: MIT
// What the tests of a CompletionQueue share.
#pragma once

#include "recording_fixture.hpp"

#include <cuevent/completion_queue.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace test {

/// Results in the order in which the callbacks received them.
using Results = std::vector<CUresult>;
/// The numbers of callbacks and their results, in the order in which the callbacks ran.
using Ran = std::vector<std::pair<int, CUresult>>;

struct QueueFixture : RecordingFixture {
  Results results; // outlives the queue, whose end runs callbacks
  Ran ran;
  cuevent::CompletionQueue queue{context};

  auto note() {
    return [this](CUresult result) { results.push_back(result); };
  }
  auto note(int number) {
    return [this, number](CUresult result) { ran.emplace_back(number, result); };
  }
  /// Whether polls on this thread find the work complete.
  void all_pending() { recording.fail_always("cuEventQuery", CUDA_ERROR_NOT_READY); }
  void all_complete() { recording.fail_nothing(); }
  /// The numbers of `ran`.
  std::vector<int> order() const {
    std::vector<int> numbers;
    for (const auto& each : ran)
      numbers.push_back(each.first);
    return numbers;
  }
  void poll_until_empty() {
    while (queue.pending() != 0)
      queue.poll();
  }
  std::ptrdiff_t queries() {
    const Names calls = recording.calls();
    return std::count(calls.begin(), calls.end(), "cuEventQuery");
  }
};

} // namespace test
