// SPDX-License-Identifier: MIT
#include "pointer_value.hpp"

namespace transcript {

std::string place(Lab& lab, std::uint64_t value, CUdeviceptr base, std::size_t bytes) {
  if (value == 0) return "null";
  if (value == reinterpret_cast<std::uintptr_t>(lab.home)) return "home";
  if (value == reinterpret_cast<std::uintptr_t>(lab.second_context())) return "second";
  if (value - base < bytes) return "base + " + std::to_string(value - base);
  return "other";
}

std::string pointer_value(Lab& lab, int attribute, std::uint64_t value, CUdeviceptr base, std::size_t bytes) {
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    return value == 0 ? "0" : "a number";
  case CU_POINTER_ATTRIBUTE_CONTEXT:
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    return place(lab, value, base, bytes);
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: // where the mapping begins depends on earlier allocations
    return value == 0 ? "null" : "an address";
  default:
    return std::to_string(value);
  }
}

} // namespace transcript
