// SPDX-License-Identifier: MIT
// cudaGetDeviceProperties: the attributes of the device in one structure.
#include "properties.hpp"

#include "runtime.hpp"
#include "unmodelled.hpp"

namespace cuevent::sim { namespace runtime {
namespace {

/// The elements have consecutive attributes. Attributes that the driver's version lacks stay 0.
template <class Type, std::size_t count>
void get(Type (&elements)[count], int first, CUdevice device) {
  for (Type& element : elements) {
    int value = 0;
    if (cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(first++), device) == CUDA_SUCCESS)
      element = static_cast<Type>(value);
  }
}

/// The locally unique identifier stays 0: only Windows has one.
Error get(DeviceProperties* properties, int ordinal) {
  if (properties == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  CUdevice device = 0;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = cuDeviceGet(&device, ordinal);
  if (result != CUDA_SUCCESS) return told(result);
  *properties = {};
  cuDeviceGetName(properties->name, sizeof properties->name, device);
  cuDeviceGetUuid(&properties->uuid, device);
  cuDeviceTotalMem(&properties->totalGlobalMem, device);
#define BOTH(Type, name, count, attribute) get(properties->name, attribute, device);
#include "properties.inc"
#undef BOTH
  return CUDA_SUCCESS;
}

} // namespace

#if RUNTIME_VERSION < 13000
/// CUDA 12 has the structure of CUDA 11 under the old name.
RUNTIME Error cudaGetDeviceProperties(void*, int) {
  return cueventUnmodelled("cudaGetDeviceProperties", __builtin_return_address(0));
}
RUNTIME Error cudaGetDeviceProperties_v2(DeviceProperties* properties, int device) {
  return get(properties, device);
}
#else
RUNTIME Error cudaGetDeviceProperties(DeviceProperties* properties, int device) {
  return get(properties, device);
}
#endif

}} // namespace cuevent::sim::runtime
