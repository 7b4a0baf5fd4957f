// SPDX-License-Identifier: MIT
// What advice and prefetching leave behind in ranges of managed memory.
#include "fixture.hpp"

#include <array>

#if CUDA_VERSION >= 13000

namespace {

constexpr std::size_t half = 1 << 20;
constexpr CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, cpu = {CU_MEM_LOCATION_TYPE_HOST, 0};
constexpr CUmemLocation node = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};

struct Ranges : Fixture {
#define FIND(name, version) cu.find<PFN_##name##_v##version>(#name, version)
  Ranges()
      : advise(FIND(cuMemAdvise, 12020)), prefetch(FIND(cuMemPrefetchAsync, 12020)),
        attribute(FIND(cuMemRangeGetAttribute, 8000)), attributes(FIND(cuMemRangeGetAttributes, 8000)),
        prefetch_batch(FIND(cuMemPrefetchBatchAsync, 13000)), discard(FIND(cuMemDiscardBatchAsync, 13000)) {
    OK(FIND(cuMemAllocManaged, 6000)(&memory, 2 * half, CU_MEM_ATTACH_GLOBAL));
  }
#undef FIND
  int value(CUmem_range_attribute which, std::size_t bytes = 2 * half) {
    int found = 77;
    OK(attribute(&found, sizeof found, which, memory, bytes));
    return found;
  }

  PFN_cuMemAdvise_v12020 advise;
  PFN_cuMemPrefetchAsync_v12020 prefetch;
  PFN_cuMemRangeGetAttribute_v8000 attribute;
  PFN_cuMemRangeGetAttributes_v8000 attributes;
  PFN_cuMemPrefetchBatchAsync_v13000 prefetch_batch;
  PFN_cuMemDiscardBatchAsync_v13000 discard;
  CUdeviceptr memory = 0;
};

} // namespace

TEST_CASE("an attribute of a range is what all its pages have in common") {
  Ranges f;
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == -2);
  OK(f.advise(f.memory, half, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
  OK(f.advise(f.memory, half, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu));
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 0);
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, half) == 1);
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == -2);
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, half) == 0);
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, half) == CU_MEM_LOCATION_TYPE_DEVICE);
  OK(f.advise(f.memory, 2 * half, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node)); // the host
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == -1);
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE) == CU_MEM_LOCATION_TYPE_HOST);
  OK(f.advise(f.memory, 1, CU_MEM_ADVISE_UNSET_READ_MOSTLY, gpu)); // one page
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, half) == 0);
}

TEST_CASE("the devices that access a range come before the host") {
  Ranges f;
  OK(f.advise(f.memory, 2 * half, CU_MEM_ADVISE_SET_ACCESSED_BY, cpu));
  OK(f.advise(f.memory, 2 * half, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu));
  std::array<int, 3> places{};
  const auto ask = [&](std::size_t bytes) {
    return f.attribute(places.data(), bytes, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, f.memory, 2 * half);
  };
  OK(ask(sizeof places));
  CHECK(places == std::array{0, -1, -2});
  CHECK(ask(5) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.advise(f.memory, half, CU_MEM_ADVISE_SET_ACCESSED_BY, node) == CUDA_ERROR_INVALID_VALUE);
  OK(f.advise(f.memory, half, CU_MEM_ADVISE_UNSET_ACCESSED_BY, gpu));
  OK(ask(sizeof places));
  CHECK(places == std::array{-1, -2, -2});
}

TEST_CASE("the last place to which a range was prefetched is known before the stream gets there") {
  Ranges f;
  cuevent::sim::hold(f.stream);
  OK(f.prefetch(f.memory, 2 * half, node, 0, f.stream));
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE) == CU_MEM_LOCATION_TYPE_HOST_NUMA);
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID) == 0);
  OK(f.prefetch(f.memory, half, cpu, 0, f.stream));
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION) == -2);
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, half) == -1);
  cuevent::sim::release(f.stream);
}

TEST_CASE("a list of attributes with a wrong one changes nothing") {
  Ranges f;
  int first = 9, second = 9;
  void* data[] = {&first, &second};
  std::size_t sizes[] = {4, 3};
  CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
  CHECK(f.attributes(data, sizes, which, 2, f.memory, half) == CUDA_ERROR_INVALID_VALUE);
  CHECK(first == 9);
  sizes[1] = 4;
  OK(f.attributes(data, sizes, which, 2, f.memory, half));
  CHECK(first == 0);
  CHECK(f.attributes(data, sizes, which, 0, f.memory, half) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.attributes(data, sizes, which, 2, f.memory, 2 * half + 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a batch prefetches each range to its place, and a discarded range loses its content") {
  Ranges f;
  CUdeviceptr pointers[] = {f.memory, f.memory + half};
  std::size_t sizes[] = {half, half}, first[] = {0, 1};
  CUmemLocation places[] = {gpu, cpu};
  OK(f.prefetch_batch(pointers, sizes, 2, places, first, 2, 0, f.stream));
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, half) == 0);
  CHECK(f.value(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION) == -2);
  first[0] = 1;
  CHECK(f.prefetch_batch(pointers, sizes, 2, places, first, 2, 0, f.stream) == CUDA_ERROR_INVALID_VALUE);
  first[0] = 0;
  CHECK(f.prefetch_batch(pointers, sizes, 2, places, first, 2, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);

  auto* const byte = reinterpret_cast<volatile char*>(f.memory);
  *byte = 5;
  cuevent::sim::hold(f.stream);
  OK(f.discard(pointers, sizes, 1, 0, f.stream));
  CHECK(*byte == 5);
  cuevent::sim::release(f.stream);
  cuevent::sim::run_until_idle();
  CHECK(*byte != 5);
  sizes[0] = 0;
  CHECK(f.discard(pointers, sizes, 1, 0, f.stream) == CUDA_ERROR_INVALID_VALUE);
}

#endif
