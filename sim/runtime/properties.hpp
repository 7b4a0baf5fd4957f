// SPDX-License-Identifier: MIT
// cudaDeviceProp, as the CUDA of RUNTIME_VERSION lays it out.
#pragma once

#include <cuda.h>

#include <cstddef>

/// For properties.inc. Who includes it defines BOTH.
#if RUNTIME_VERSION < 13000
#define OLD BOTH
#define NEW(Type, name, count, attribute)
#else
#define OLD(Type, name, count, attribute)
#define NEW BOTH
#endif

namespace cuevent::sim::runtime {

struct DeviceProperties {
  char name[256];
  CUuuid uuid;
  char luid[8];
  unsigned luidDeviceNodeMask;
  std::size_t totalGlobalMem;
#define BOTH(Type, name, count, attribute) Type name[count];
#include "properties.inc"
#undef BOTH
  int reserved[RUNTIME_VERSION < 13000 ? 63 : 56];
};
static_assert(sizeof(DeviceProperties) == (RUNTIME_VERSION < 13000 ? 1032 : 1008));

} // namespace cuevent::sim::runtime
