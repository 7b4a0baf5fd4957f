// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "fixture.hpp"

namespace sim = cuevent::sim;

TEST_CASE("cuGetProcAddress returns the newest variant of the requested version") {
  sim::Machine machine;
  void *first = nullptr, *second = nullptr, *third = nullptr, *fourth = nullptr;
  CUdriverProcAddressQueryResult status{};
  OK(sim::get_proc_address("cuCtxCreate", &first, 11000, 0, &status));
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
  OK(sim::get_proc_address("cuCtxCreate", &second, 11040, 0, &status));
  OK(sim::get_proc_address("cuCtxCreate", &third, 12000, 0, &status));
  CHECK(first != second);
  CHECK(second == third);
  CHECK(sim::get_proc_address("cuEventRecord", &first, 1000, 0, &status) == CUDA_SUCCESS);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(first == nullptr);
  CHECK(sim::get_proc_address("cuNoSuchThing", &first, 12000, 0, &status) == CUDA_SUCCESS);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(sim::get_proc_address("cuEventRecord", &first, 13010, 0, &status) == CUDA_ERROR_INVALID_VALUE);
  OK(sim::get_proc_address("cuEventRecord", &first, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
  OK(sim::get_proc_address("cuEventRecord", &second, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                           &status));
  CHECK(first != second);
  OK(sim::get_proc_address("cuEventCreate", &third, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                           &status));
  OK(sim::get_proc_address("cuEventCreate", &fourth, 12000, 0, &status));
  CHECK(third == fourth);
}

TEST_CASE("an older driver lacks functions that came later") {
  sim::Machine machine({.driver_version = 12000});
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK(sim::get_proc_address("cuEventRecord", &found, 12000, 0, &status) == CUDA_SUCCESS);
  CHECK(sim::get_proc_address("cuCtxRecordEvent", &found, 12000, 0, &status) == CUDA_SUCCESS);
  CHECK(found == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(sim::get_proc_address("cuCtxRecordEvent", &found, 12050, 0, &status) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a newer driver has functions that came later, and models none of them") {
  if (sim::newest_driver_version < 13050) SKIP("the headers are older than CUDA 13.0");
  void *found = nullptr, *newer = nullptr;
  CUdriverProcAddressQueryResult status{};
  int version = 0;
  {
    sim::Machine machine;
    OK(sim::get_proc_address("cuGraphGetId", &found, sim::usual_driver_version, 0, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    OK(sim::get_proc_address("cuLaunchHostFunc", &newer, sim::usual_driver_version, 0, &status));
  }
  sim::Machine machine({.driver_version = 13050});
  OK(RawDriver().find<PFN_cuDriverGetVersion_v2020>("cuDriverGetVersion", 12000)(&version));
  CHECK(version == 13050);
  OK(sim::get_proc_address("cuGraphGetId", &found, 13010, 0, &status));
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
  CHECK(death_of([&] { reinterpret_cast<CUresult (*)()>(found)(); }).says("cuGraphGetId: not modelled"));
  CHECK(sim::get_proc_address("cuGraphGetId", &found, 13000, 0, &status) == CUDA_SUCCESS);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  OK(sim::get_proc_address("cuLaunchHostFunc", &found, 13000, 0, &status));
  CHECK(found == newer); // the version of CUDA 10, which is modelled
  OK(sim::get_proc_address("cuLaunchHostFunc", &found, 13010, 0, &status));
  CHECK(found != newer);
  CHECK(
      death_of([&] { reinterpret_cast<CUresult (*)()>(found)(); }).says("cuLaunchHostFunc_v2: not modelled"));
  CHECK(sim::get_proc_address("cuEventRecord", &found, 13051, 0, &status) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("timed waits use the virtual clock in stepped mode only") {
  Fixture f;
  const auto clock = f.cu.find<long long (*)()>("cueventClockNow", 12000);
  const auto pause = f.cu.find<void (*)(long long)>("cueventPause", 12000);
  const CUevent e = f.event();
  OK(f.work(f.stream));
  OK(f.cu.event_record(e, f.stream));
  const long long before = clock();
  pause(1'000'000);
  CHECK(clock() == before + 1'000'000);
  CHECK(f.cu.event_query(e) == CUDA_SUCCESS);
  sim::reset({.mode = sim::Mode::running});
  void* found = nullptr;
  CHECK(sim::get_proc_address("cueventClockNow", &found, 12000, 0, nullptr) == CUDA_SUCCESS);
  CHECK(found == nullptr);
}

TEST_CASE("each simulated process names the other one") {
  sim::Machine machine;
  void *other = nullptr, *back = nullptr;
  OK(sim::get_proc_address("cueventOtherProcess", &other, 12000, 0, nullptr));
  CHECK(other == reinterpret_cast<void*>(sim::get_proc_address_of(1)));
  OK(sim::get_proc_address_of(1)("cueventOtherProcess", &back, 12000, 0, nullptr));
  CHECK(back == reinterpret_cast<void*>(sim::get_proc_address_of(0)));
}

TEST_CASE("only functions that need no driver work before cuInit") {
  sim::Machine machine;
  const RawDriver cu;
  const char* name = nullptr;
  CHECK(cu.get_error_name(CUDA_ERROR_NOT_READY, &name) == CUDA_SUCCESS);
  CHECK(std::string(name) == "CUDA_ERROR_NOT_READY");
  CHECK(cu.get_error_name(static_cast<CUresult>(998), &name) == CUDA_ERROR_INVALID_VALUE);
  int count = 0;
  CHECK(cu.device_get_count(&count) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cu.init(0) == CUDA_SUCCESS);
  CHECK(cu.device_get_count(&count) == CUDA_SUCCESS);
  CHECK(count == 1);
}

TEST_CASE("a function that is not modelled is found, and aborts with its name and the caller's stack") {
  sim::Machine machine;
  void *create = nullptr, *plain = nullptr, *per_thread = nullptr;
  CUdriverProcAddressQueryResult status{};
  OK(sim::get_proc_address("cuImportExternalMemory", &create, 12000, 0, &status));
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
  REQUIRE(create != nullptr);
  const Death death = death_of([&] { reinterpret_cast<CUresult (*)()>(create)(); });
  CHECK(death.aborted);
  CHECK(death.says("cuImportExternalMemory: not modelled"));
  CHECK(death.says("modelled.txt"));
#if __has_include(<execinfo.h>)
  CHECK(death.says("called from:"));
  CHECK(death.says("[0x"));
#endif
  OK(sim::get_proc_address("cuImportExternalMemory", &create, 5000, 0, &status));
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(create == nullptr);
  OK(sim::get_proc_address("cuMemMapArrayAsync", &plain, 12000, 0, nullptr));
  OK(sim::get_proc_address("cuMemMapArrayAsync", &per_thread, 12000,
                           CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr));
  CHECK(plain != per_thread);
  CHECK(per_thread != nullptr);
}

TEST_CASE("no private table of the driver exists, which is said once") {
  const Death death = death_of([] {
    sim::Machine machine;
    void* found = nullptr;
    sim::get_proc_address("cuGetExportTable", &found, 12000, 0, nullptr);
    const auto get_table = reinterpret_cast<PFN_cuGetExportTable_v3000>(found);
    const CUuuid id{};
    const void* table = &id;
    for (int i = 0; i < 2; ++i)
      if (get_table(&table, &id) != CUDA_ERROR_INVALID_VALUE || table != nullptr) std::abort();
  });
  CHECK_FALSE(death.aborted);
  CHECK(death.says("a private table of the driver"));
  CHECK(death.report.find("private") == death.report.rfind("private"));
}

TEST_CASE("functions that are not modelled can be missing") {
  sim::Options options;
  options.unmodelled = sim::Unmodelled::missing;
  sim::Machine machine(options);
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  OK(sim::get_proc_address("cuImportExternalMemory", &found, 12000, 0, &status));
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(found == nullptr);
  OK(sim::get_proc_address("cuEventRecord", &found, 12000, 0, &status));
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
}
