// SPDX-License-Identifier: MIT
#include "recording/mark_words.hpp"

#include "core/relaxed_mode.hpp"
#include "core/result_of.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

Status MarkWords::create(const Context& context) noexcept {
  const DriverTable& table = context.driver().table();
  CUresult result = thrown_by([this] { free_.reserve(words); });
  if (result != CUDA_SUCCESS) return {result, "FlightRecorder"};
  const ContextGuard current(context, result);
  if (result != CUDA_SUCCESS) return {result, "cuCtxPushCurrent"};
  RelaxedMode relaxed(table); // an allocation can invalidate captures
  result = relaxed.enter();
  if (result != CUDA_SUCCESS) return {result, "cuThreadExchangeStreamCaptureMode"};
  context_ = context;
  void* page = nullptr;
  result = table.cuMemHostAlloc_v2020(&page, words * sizeof(std::uint32_t), CU_MEMHOSTALLOC_PORTABLE);
  if (result != CUDA_SUCCESS) return {result, "cuMemHostAlloc"};
  for (std::size_t i = words; i-- != 0;)
    free_.push_back(static_cast<std::uint32_t*>(page) + i);
  return {};
}

std::uint32_t* MarkWords::take() noexcept {
  if (!exists()) return nullptr;
  const auto lock = lock_.hold();
  if (!lock || free_.empty()) return nullptr;
  std::uint32_t* const word = free_.back();
  free_.pop_back();
  __atomic_store_n(word, 0U, __ATOMIC_RELAXED);
  return word;
}

void MarkWords::give_back(std::uint32_t* word) noexcept {
  if (const auto lock = lock_.hold()) free_.push_back(word);
}

}} // namespace cuevent::CUEVENT_ABI
