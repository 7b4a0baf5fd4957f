// SPDX-License-Identifier: MIT
// cudaGetDeviceProperties gives the attributes of the device. For a device, compile this program with
// nvcc -cudart shared -std=c++17 -I sim/runtime
#include <cuda_runtime_api.h>

#define RUNTIME_VERSION CUDART_VERSION
#include "properties.hpp"

#include <cstdio>
#include <cstring>

namespace {

using cuevent::sim::runtime::DeviceProperties;
int different = 0;

template <class Type, std::size_t count>
void compare(const char* name, const Type (&values)[count], int first) {
  for (std::size_t i = 0; i < count; ++i, ++first) {
    int attribute = 0;
    const auto result = cudaDeviceGetAttribute(&attribute, static_cast<cudaDeviceAttr>(first), 0);
    if (result == cudaSuccess && values[i] == static_cast<Type>(attribute)) continue;
    std::printf("%s[%zu] is %lld, attribute %d is %d\n", name, i, static_cast<long long>(values[i]), first,
                attribute);
    ++different;
  }
}

} // namespace

int main() {
  cudaDeviceProp given{};
  DeviceProperties properties{};
  std::size_t free = 0, total = 0;
  const cudaError_t refusal = cudaGetDeviceProperties(&given, 99);
  std::printf("of device 99: %d\n", static_cast<int>(refusal));
  if (cudaGetDeviceProperties(&given, 0) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess)
    return 2;
  static_assert(sizeof properties == sizeof given);
  std::memcpy(&properties, &given, sizeof given);
#define BOTH(Type, name, count, attribute)                                                                   \
  static_assert(offsetof(DeviceProperties, name) == offsetof(cudaDeviceProp, name));                         \
  compare(#name, properties.name, attribute);
#include "properties.inc"
  std::printf("%s, %zu of %zu bytes\n", given.name, given.totalGlobalMem, total);
  return different == 0 && refusal == cudaErrorInvalidDevice && given.totalGlobalMem == total ? 0 : 1;
}
