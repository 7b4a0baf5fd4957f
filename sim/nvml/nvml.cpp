// SPDX-License-Identifier: MIT
// A small NVML, for what PyTorch asks: its allocator calls functions of NVML without a check that there is
// one. What a simulated device has no answer for is NVML_ERROR_NOT_SUPPORTED. Other functions are not
// exported, so a program that looks for them finds that they are absent.

#include "../src/device_identity.hpp"

#include <cuda.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#define NVML extern "C" __attribute__((visibility("default")))

namespace sim = cuevent::sim;

namespace {

using Status = int; // nvmlReturn_t
constexpr Status success = 0, invalid_argument = 2, not_supported = 3, not_found = 6, insufficient_size = 7;
using Device = std::uintptr_t; // the ordinal, plus 1

/// All devices of the machine, whatever CUDA_VISIBLE_DEVICES says. Does not initialise the driver: programs
/// ask NVML so that they can still fork.
unsigned devices() {
  const char* const set = std::getenv("CUEVENT_SIM_DEVICES");
  const int number = set == nullptr ? 0 : std::atoi(set); // the driver refuses what is no number
  return number < 1 ? 1 : static_cast<unsigned>(number);
}

template <class Matches>
Status find(Device* device, Matches matches) {
  for (unsigned number = 0; number != devices(); ++number) {
    if (!matches(static_cast<int>(number))) continue;
    *device = number + 1;
    return success;
  }
  return not_found;
}

struct Fabric { // nvmlGpuFabricInfoV_t; version 3 has more members
  unsigned version;
  unsigned char cluster[16];
  Status status;
  unsigned clique;
  unsigned char state; // 0: the device is in no fabric
  unsigned health;
};

} // namespace

NVML Status nvmlInit_v2() { return success; }
NVML Status nvmlShutdown() { return success; }

NVML const char* nvmlErrorString(Status status) {
  switch (status) {
  case success:
    return "Success";
  case invalid_argument:
    return "Invalid Argument";
  case not_supported:
    return "Not Supported";
  case not_found:
    return "Not Found";
  case insufficient_size:
    return "Insufficient Size";
  default:
    return "Unknown Error";
  }
}

NVML Status nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return invalid_argument;
  *count = devices();
  return success;
}

NVML Status nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (device == nullptr || index >= devices()) return invalid_argument;
  *device = index + 1;
  return success;
}

NVML Status nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Device* device) {
  if (bus == nullptr || device == nullptr) return invalid_argument;
  const auto place = sim::place_of(bus);
  return find(device, [&](int number) { return place == sim::place_of(sim::bus_id_of(number).c_str()); });
}

NVML Status nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  if (uuid == nullptr || device == nullptr) return invalid_argument;
  return find(device, [&](int number) { return uuid == sim::uuid_text_of(number); });
}

NVML Status nvmlDeviceGetUUID(Device device, char* text, unsigned room) {
  if (device == 0 || device > devices() || text == nullptr) return invalid_argument;
  const std::string uuid = sim::uuid_text_of(static_cast<int>(device) - 1);
  if (room <= uuid.size()) return insufficient_size;
  std::memcpy(text, uuid.c_str(), uuid.size() + 1);
  return success;
}

NVML Status nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return version != nullptr && cuDriverGetVersion(version) == CUDA_SUCCESS ? success : invalid_argument;
}

NVML Status nvmlDeviceGetGpuFabricInfoV(Device device, Fabric* fabric) {
  if (device == 0 || fabric == nullptr) return invalid_argument;
  const unsigned version = fabric->version;
  std::memset(fabric, 0, sizeof *fabric);
  fabric->version = version;
  return success;
}

NVML Status nvmlDeviceGetComputeRunningProcesses(Device, unsigned*, void*) { return not_supported; }
NVML Status nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned, int*) { return not_supported; }
NVML Status nvmlDeviceGetNvLinkRemotePciInfo_v2(Device, unsigned, void*) { return not_supported; }
