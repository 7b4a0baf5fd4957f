// SPDX-License-Identifier: MIT
#include "testbed.hpp"

#include "../driver_at_hand.hpp"

namespace peers {

using cuevent::ContextGuard;

Lane::Lane(const Testbed& place) : testbed(place), stream(place.make_stream()), other(place.make_stream()) {
  const ContextGuard current(place.context);
  void* memory = nullptr;
  place.check(place.driver.table().cuMemHostAlloc_v2020(&memory, sizeof *gate_, CU_MEMHOSTALLOC_PORTABLE),
              "cuMemHostAlloc");
  gate_ = static_cast<std::uint32_t*>(memory);
  *gate_ = 0;
}

void Lane::drain() const {
  testbed.synchronize(stream);
  testbed.synchronize(other);
}

void Lane::hold() {
  const auto address = reinterpret_cast<CUdeviceptr>(gate_);
  testbed.check(testbed.driver.table().cuStreamWaitValue32_v11070(stream, address, opened_ + 1,
                                                                  CU_STREAM_WAIT_VALUE_GEQ),
                "cuStreamWaitValue32");
}

void Lane::open() { __atomic_store_n(gate_, ++opened_, __ATOMIC_RELEASE); }

Testbed& Testbed::instance() {
  static Testbed& testbed = *new Testbed;
  return testbed;
}

Testbed::Testbed()
    : driver(driver_at_hand()),
      synchronize_stream_(driver.entry_point<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize", 2000)) {
  cuevent::Driver of_this_machine;
  simulated = cuevent::Driver::try_load(of_this_machine) != CUDA_SUCCESS;
  for (std::size_t i = 0; i < most_threads; ++i)
    lanes.emplace_back(*this);
}

CUstream Testbed::make_stream() const {
  const ContextGuard current(context);
  CUstream made = nullptr;
  check(driver.table().cuStreamCreate_v2000(&made, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return made;
}

std::string Testbed::device_name() const {
  char name[256] = "";
  check(driver.entry_point<PFN_cuDeviceGetName_v2000>("cuDeviceGetName", 2000)(name, sizeof name,
                                                                               context.device()),
        "cuDeviceGetName");
  return name;
}

} // namespace peers
