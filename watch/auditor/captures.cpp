// SPDX-License-Identifier: MIT
#include "auditor/captures.hpp"

#include "auditor/state.hpp"

namespace watch {

namespace {

void remember_origin(std::uint64_t stream) {
  for (auto& origin : cleared_by_fork->captures.origins)
    if (std::uint64_t free = 0; origin.compare_exchange_strong(free, stream, std::memory_order_relaxed))
      return;
}

bool forget_origin(std::uint64_t stream) {
  for (auto& origin : cleared_by_fork->captures.origins)
    if (std::uint64_t known = stream; origin.compare_exchange_strong(known, 0, std::memory_order_relaxed))
      return true;
  return false;
}

} // namespace

void count_capture_before() { cleared_by_fork->captures.count.fetch_add(1, std::memory_order_seq_cst); }

void count_capture_after(Verb verb, CUresult result, std::uint64_t stream) {
  bool over = begins_capture(verb) && result != CUDA_SUCCESS;
  // Default streams cannot be destroyed, and each thread has a per-thread stream with the same handle.
  if (begins_capture(verb) && result == CUDA_SUCCESS && !is_default_stream(stream)) remember_origin(stream);
  if (verb == Verb::capture_end && ends_capture(result)) {
    forget_origin(stream);
    over = true;
  }
  if (verb == Verb::stream_destroy && result == CUDA_SUCCESS && cleared_by_fork->captures.are_active())
    over = forget_origin(stream); // nobody can end its capture
  if (over) cleared_by_fork->captures.count.fetch_sub(1, std::memory_order_seq_cst);
}

} // namespace watch
