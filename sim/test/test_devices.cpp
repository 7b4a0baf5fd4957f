// SPDX-License-Identifier: MIT
#include "fixture.hpp"

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sim = cuevent::sim;

namespace {

constexpr int count = sim::most_devices;

/// A context of the device, which is current.
CUcontext context_of(const Fixture& f, CUdevice device) {
  CUcontext made = nullptr;
  OK(f.cu.context_create(&made, 0, device));
  return made;
}

} // namespace

TEST_CASE("each device has its own name, UUID and bus, and the same properties") {
  Fixture f({.devices = count});
  const auto get = f.cu.find<PFN_cuDeviceGet_v2000>("cuDeviceGet", 2000);
  const auto name_of = f.cu.find<PFN_cuDeviceGetName_v2000>("cuDeviceGetName", 2000);
  const auto uuid_of = f.cu.find<PFN_cuDeviceGetUuid_v11040>("cuDeviceGetUuid", 11040);
  const auto total = f.cu.find<PFN_cuDeviceTotalMem_v3020>("cuDeviceTotalMem", 3020);
  int found = 0;
  OK(f.cu.device_get_count(&found));
  CHECK(found == count);
  std::set<std::string> names, uuids;
  std::set<int> buses;
  std::set<std::pair<int, std::size_t>> others;
  for (int i = 0; i < count; ++i) {
    CUdevice device = -1;
    OK(get(&device, i));
    CHECK(device == i);
    char name[100] = {};
    CUuuid uuid{};
    int bus = 0, processors = 0;
    std::size_t bytes = 0;
    OK(name_of(name, sizeof name, device));
    OK(uuid_of(&uuid, device));
    OK(f.cu.device_get_attribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device));
    OK(f.cu.device_get_attribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    OK(total(&bytes, device));
    names.insert(name);
    uuids.insert({uuid.bytes, sizeof uuid.bytes});
    buses.insert(bus);
    others.insert({processors, bytes});
  }
  CHECK(names.size() == count);
  CHECK(uuids.size() == count);
  CHECK(buses.size() == count);
  CHECK(others.size() == 1);
  CUdevice device = -1;
  CHECK(get(&device, count) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("every form of a bus id names its device") {
  Fixture f({.devices = count});
  const auto id_of = f.cu.find<PFN_cuDeviceGetPCIBusId_v4010>("cuDeviceGetPCIBusId", 4010);
  const auto by_id = f.cu.find<PFN_cuDeviceGetByPCIBusId_v4010>("cuDeviceGetByPCIBusId", 4010);
  for (CUdevice device = 0; device < count; ++device) {
    char full[32];
    OK(id_of(full, sizeof full, device));
    const std::string number = std::to_string(device + 1);
    for (const std::string& id : {std::string(full), "0000:0" + number + ":00", "0:" + number + ":0.0",
                                  "00000000:0" + number + ":00.0", "0" + number + ":00.0", number + ":0.0"}) {
      CAPTURE(id);
      CUdevice found = -1;
      OK(by_id(&found, id.c_str()));
      CHECK(found == device);
    }
  }
  CUdevice found = -1;
  CHECK(by_id(&found, "0:9:0.0") == CUDA_ERROR_INVALID_DEVICE);
  CHECK(by_id(&found, "1:1:0.0") == CUDA_ERROR_INVALID_DEVICE);
  CHECK(by_id(&found, "0:1:0.0 or") == CUDA_ERROR_INVALID_VALUE);
  CHECK(found == -1);
}

TEST_CASE("peer access of two contexts says nothing about other devices") {
  Fixture f({.devices = count});
  const auto can = f.cu.find<PFN_cuDeviceCanAccessPeer_v4000>("cuDeviceCanAccessPeer", 4000);
  const auto enable = f.cu.find<PFN_cuCtxEnablePeerAccess_v4000>("cuCtxEnablePeerAccess", 4000);
  const auto disable = f.cu.find<PFN_cuCtxDisablePeerAccess_v4000>("cuCtxDisablePeerAccess", 4000);
  for (CUdevice from = 0; from < count; ++from)
    for (CUdevice to = 0; to < count; ++to) {
      int answer = -1;
      OK(can(&answer, from, to));
      CHECK(answer == (from != to));
    }
  std::vector<CUcontext> contexts;
  for (CUdevice device = 0; device < count; ++device)
    contexts.push_back(context_of(f, device));
  for (const CUcontext from : contexts) {
    OK(f.cu.context_push(from));
    for (const CUcontext to : contexts)
      CHECK(enable(to, 0) == (from == to ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_SUCCESS));
  }
  OK(f.cu.context_push(contexts[2]));
  OK(disable(contexts[5]));
  CHECK(disable(contexts[5]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  for (const std::size_t other : std::vector<std::size_t>{0, 1, 3, 4, 6, 7})
    CHECK(enable(contexts[other], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  OK(f.cu.context_push(contexts[5]));
  CHECK(enable(contexts[2], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
}

TEST_CASE("events order streams of any two devices, and each device keeps its own memory") {
  Fixture f({.devices = count});
  std::vector<CUstream> streams;
  std::vector<CUevent> events;
  std::vector<CUdeviceptr> memory;
  for (CUdevice device = 0; device < count; ++device) {
    context_of(f, device);
    streams.push_back(f.new_stream());
    events.push_back(f.event());
    CUdeviceptr made = 0;
    OK(f.cu.allocate(&made, 4));
    memory.push_back(made);
    std::size_t available = 0, all = 0;
    OK(f.cu.memory_info(&available, &all));
    const auto ordinal = f.cu.find<PFN_cuPointerGetAttribute_v4000>("cuPointerGetAttribute", 4000);
    int found = -1;
    OK(ordinal(&found, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, made));
    CHECK(found == device);
  }
  // A chain through all devices, whose first link is held.
  sim::hold(streams[0]);
  OK(f.cu.fill_32(memory[0], 41, 1, streams[0]));
  OK(f.cu.event_record(events[0], streams[0]));
  const auto copy = f.cu.find<PFN_cuMemcpyDtoDAsync_v3020>("cuMemcpyDtoDAsync", 3020);
  for (std::size_t i = 1; i < count; ++i) {
    OK(f.cu.stream_wait(streams[i], events[i - 1], 0));
    OK(copy(memory[i], memory[i - 1], 4, streams[i]));
    OK(f.cu.event_record(events[i], streams[i]));
  }
  for (const CUstream stream : streams)
    CHECK(f.cu.stream_query(stream) == CUDA_ERROR_NOT_READY);
  sim::release(streams[0]);
  OK(f.cu.stream_synchronize(streams.back()));
  for (std::size_t i = 0; i < count; ++i) {
    unsigned value = 0;
    OK(f.cu.copy_to_host(&value, memory[i], 4, streams[i]));
    OK(f.cu.stream_synchronize(streams[i]));
    CHECK(value == 41);
    for (std::size_t j = 0; j < count; ++j) {
      float ms = -1;
      CHECK(f.cu.event_elapsed(&ms, events[i], events[j]) ==
            (i == j ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE));
    }
  }
}

TEST_CASE("an event of any device opens in another process, on that device") {
  Fixture f({.devices = count});
  RawDriver other(sim::get_proc_address_of(1));
  OK(other.init(0));
  for (CUdevice device = 0; device < count; ++device) {
    context_of(f, device);
    const CUstream stream = f.new_stream();
    const CUevent event = f.event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    sim::hold(stream);
    OK(f.cu.event_record(event, stream));
    CUipcEventHandle handle{};
    OK(f.cu.ipc_export(&handle, event));
    CUcontext context = nullptr;
    CUevent opened = nullptr;
    OK(other.context_create(&context, 0, device));
    OK(other.ipc_open(&opened, handle));
    CHECK(other.event_query(opened) == CUDA_ERROR_NOT_READY);
    sim::release(stream);
    OK(f.cu.stream_synchronize(stream));
    OK(other.event_query(opened));
  }
}
