// SPDX-License-Identifier: MIT
#include "auditor/costs.hpp"

namespace watch {

namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

bool is_pageable_side(const Library& library, CUmemorytype type, const void* host, CUdeviceptr device) {
  if (type == CU_MEMORYTYPE_HOST) return is_pageable(library, address_of(host));
  return type == CU_MEMORYTYPE_UNIFIED && is_pageable(library, device);
}

template <class Copy>
bool copies_pageable_rows(const Library& library, const Copy* copy) {
  return copy != nullptr && (is_pageable_side(library, copy->srcMemoryType, copy->srcHost, copy->srcDevice) ||
                             is_pageable_side(library, copy->dstMemoryType, copy->dstHost, copy->dstDevice));
}

} // namespace

bool is_pageable(const Library& library, std::uint64_t memory) {
  if (library.pointer_attributes == nullptr) return false;
  unsigned type = 0; // stays 0 for memory that the driver does not know
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* answers[] = {&type};
  return library.pointer_attributes(1, asked, answers, memory) == CUDA_SUCCESS && type == 0;
}

bool copies_pageable(const Library& library, CUdeviceptr to, CUdeviceptr from, std::size_t, CUstream) {
  return is_pageable(library, to) || is_pageable(library, from);
}
bool copies_pageable(const Library& library, CUdeviceptr, const void* from, std::size_t, CUstream) {
  return is_pageable(library, address_of(from));
}
bool copies_pageable(const Library& library, void* to, CUdeviceptr, std::size_t, CUstream) {
  return is_pageable(library, address_of(to));
}
bool copies_pageable(const Library& library, void* to, CUarray, std::size_t, std::size_t, CUstream) {
  return is_pageable(library, address_of(to));
}
bool copies_pageable(const Library& library, CUarray, std::size_t, const void* from, std::size_t, CUstream) {
  return is_pageable(library, address_of(from));
}
bool copies_pageable(const Library& library, const CUDA_MEMCPY2D* copy, CUstream) {
  return copies_pageable_rows(library, copy);
}
bool copies_pageable(const Library& library, const CUDA_MEMCPY3D* copy, CUstream) {
  return copies_pageable_rows(library, copy);
}

} // namespace watch
