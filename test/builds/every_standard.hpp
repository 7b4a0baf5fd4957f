// SPDX-License-Identifier: MIT
// The functions of every_standard.cpp, one set for each C++ standard.
#pragma once

#include "every_header.hpp"

#include <cstddef>

namespace builds {

struct Number {
  const char* name;
  std::size_t value;
};

struct Standard {
  long language; // __cplusplus
  cuevent::ArrayView<Number> layout;

  CUresult (*make)(cuevent::DriverEvent& out, const cuevent::Context& context, cuevent::EventFlags flags);
  bool (*record)(cuevent::DriverEvent& event, CUstream stream); // whether it is complete
  float (*elapsed)(const cuevent::DriverEvent& begin, const cuevent::DriverEvent& end);
  cuevent::EventRecordNode (*add_after)(cuevent::Graph& graph, const cuevent::DriverEvent& event,
                                        cuevent::ArrayView<CUgraphNode> after);
  cuevent::PooledEvent (*acquire)(cuevent::EventPool& pool, CUstream stream);
  void (*when_complete)(cuevent::CompletionQueue& queue, CUstream stream, int& calls);
  std::uint64_t (*reached)(cuevent::TimelineFence& fence);
  std::chrono::nanoseconds (*left)(cuevent::Deadline deadline);
  bool (*equal)(const cuevent::Context& a, const cuevent::Context& b);
  std::string (*text)(const cuevent::DriverEvent& event);
};

Standard cpp17();
Standard cpp20();
Standard cpp23();

} // namespace builds
