// SPDX-License-Identifier: MIT
#include "auditor/asked_memory.hpp"

#include "auditor/state.hpp"

#include <iterator>

namespace watch {

FoundMemory found_memory(const Library& library, std::uint64_t address) {
  if (library.pointer_attributes == nullptr) return {};
  CUpointer_attribute questions[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::uint64_t type = 0, managed = 0, begin = 0, size = 0; // each has room for what the driver writes
  void* answers[] = {&type, &managed, &begin, &size};
  if (library.pointer_attributes(std::size(questions), questions, answers, address) != CUDA_SUCCESS)
    return {};
  if (type == 0 || address - begin >= size) return {};
  return {managed != 0, begin, size};
}

bool is_unasked(std::uint64_t address) {
  AskedAddresses& asked = cleared_by_fork->asked;
  const std::uint64_t now = address ^ (asked.generation.load(std::memory_order_relaxed) + 1) << 48U;
  auto& place = asked.places[(address * 0x9E37'79B9'7F4A'7C15U) >> 52U];
  return place.exchange(now, std::memory_order_relaxed) != now;
}

void forget_asked_addresses() { cleared_by_fork->asked.generation.fetch_add(1, std::memory_order_relaxed); }

} // namespace watch
