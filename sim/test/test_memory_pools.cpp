// SPDX-License-Identifier: MIT
// Pools of the host and of managed memory, and what a pool may be.
#include "death.hpp"
#include "fixture.hpp"

namespace sim = cuevent::sim;

#if CUDA_VERSION >= 13000

namespace {

struct Pools : Fixture {
#define FIND(name, version) cu.find<PFN_##name##_v##version>(#name, version)
  explicit Pools(const sim::Options& options = {})
      : Fixture(options), create_pool(FIND(cuMemPoolCreate, 11020)),
        destroy_pool(FIND(cuMemPoolDestroy, 11020)), get_access(FIND(cuMemPoolGetAccess, 11020)),
        set_access(FIND(cuMemPoolSetAccess, 11020)), allocate(FIND(cuMemAllocFromPoolAsync, 11020)),
        free_async(FIND(cuMemFreeAsync, 11020)), standard(FIND(cuMemGetDefaultMemPool, 13000)),
        current(FIND(cuMemGetMemPool, 13000)), choose(FIND(cuMemSetMemPool, 13000)),
        choose_for_device(FIND(cuDeviceSetMemPool, 11020)), fill(FIND(cuMemsetD8, 3020)),
        to_host(FIND(cuMemcpyDtoH, 3020)), copy_async(FIND(cuMemcpyAsync, 4000)), free(FIND(cuMemFree, 3020)),
        free_host(FIND(cuMemFreeHost, 2000)), pool_attribute(FIND(cuMemPoolGetAttribute, 11020)),
        set_pool_attribute(FIND(cuMemPoolSetAttribute, 11020)), attribute(FIND(cuPointerGetAttribute, 4000)) {
  }
#undef FIND

  CUmemoryPool pool(const CUmemPoolProps& properties) {
    CUmemoryPool made = nullptr;
    OK(create_pool(&made, &properties));
    return made;
  }
  CUresult set(CUmemoryPool of, CUmemLocationType type, CUmemAccess_flags flags) {
    const CUmemAccessDesc wish = {{type, 0}, flags};
    return set_access(of, &wish, 1);
  }
  CUmemAccess_flags access(CUmemoryPool of, CUmemLocationType type) {
    CUmemLocation place = {type, 0};
    auto flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    OK(get_access(&flags, of, &place));
    return flags;
  }

  PFN_cuMemPoolCreate_v11020 create_pool;
  PFN_cuMemPoolDestroy_v11020 destroy_pool;
  PFN_cuMemPoolGetAccess_v11020 get_access;
  PFN_cuMemPoolSetAccess_v11020 set_access;
  PFN_cuMemAllocFromPoolAsync_v11020 allocate;
  PFN_cuMemFreeAsync_v11020 free_async;
  PFN_cuMemGetDefaultMemPool_v13000 standard;
  PFN_cuMemGetMemPool_v13000 current;
  PFN_cuMemSetMemPool_v13000 choose;
  PFN_cuDeviceSetMemPool_v11020 choose_for_device;
  PFN_cuMemsetD8_v3020 fill;
  PFN_cuMemcpyDtoH_v3020 to_host;
  PFN_cuMemcpyAsync_v4000 copy_async;
  PFN_cuMemFree_v3020 free;
  PFN_cuMemFreeHost_v2000 free_host;
  PFN_cuMemPoolGetAttribute_v11020 pool_attribute;
  PFN_cuMemPoolSetAttribute_v11020 set_pool_attribute;
  PFN_cuPointerGetAttribute_v4000 attribute;
};

CUmemPoolProps properties(CUmemAllocationType type, CUmemLocationType place) {
  CUmemPoolProps made{};
  made.allocType = type;
  made.location = {place, 0};
  return made;
}

const CUmemPoolProps on_host = properties(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST);
const CUmemPoolProps managed = properties(CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_LOCATION_TYPE_DEVICE);
const CUmemPoolProps on_device = properties(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE);

} // namespace

TEST_CASE("a pool of managed memory has neither a usage nor a largest size, and no pool has reserved bytes") {
  Pools f;
  CUmemoryPool made = nullptr;
  for (CUmemPoolProps wish : {on_host, managed, on_device}) {
    const bool is_managed = wish.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
    const CUresult expected = is_managed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    wish.usage = 2;
    CHECK(f.create_pool(&made, &wish) == expected);
    wish.usage = 0;
    wish.maxSize = std::size_t{1} << 40;
    CHECK(f.create_pool(&made, &wish) == expected);
    wish.maxSize = 0;
    wish.reserved[5] = 1;
    CHECK(f.create_pool(&made, &wish) == CUDA_ERROR_INVALID_VALUE);
  }
  CUmemPoolProps wish = on_device;
  wish.maxSize = ~std::size_t{0};
  CHECK(f.create_pool(&made, &wish) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("the largest size of a pool counts in chunks of 32 MiB") {
  Pools f;
  CUmemPoolProps wish = on_device;
  wish.maxSize = 1000;
  const CUmemoryPool pool = f.pool(wish);
  CUdeviceptr pointer = 0;
  OK(f.allocate(&pointer, (32 << 20) - 512, pool, f.stream));
  OK(f.allocate(&pointer, 1, pool, f.stream));
  CHECK(f.allocate(&pointer, 1, pool, f.stream) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(pointer == 0);
}

TEST_CASE("memory of a pool of the host is memory of the host, which the device can be given access to") {
  Pools f;
  const CUmemoryPool pool = f.pool(on_host);
  CHECK(f.access(pool, CU_MEM_LOCATION_TYPE_DEVICE) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(f.access(pool, CU_MEM_LOCATION_TYPE_HOST) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(f.set(pool, CU_MEM_LOCATION_TYPE_HOST, CU_MEM_ACCESS_FLAGS_PROT_NONE) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(f.set(pool, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(f.set(pool, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(f.set(pool, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CHECK(f.access(pool, CU_MEM_LOCATION_TYPE_DEVICE) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUdeviceptr pointer = 0;
  OK(f.allocate(&pointer, 1000, pool, f.stream));
  unsigned type = 0;
  OK(f.attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
  CHECK(type == CU_MEMORYTYPE_HOST);
  OK(f.fill(pointer, 7, 1000));
  CHECK(*reinterpret_cast<const char*>(pointer) == 7);
  char byte = 0;
  CHECK(f.to_host(&byte, pointer, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.free_host(reinterpret_cast<void*>(pointer)) == CUDA_ERROR_INVALID_VALUE);
  OK(f.free_async(pointer, f.stream));
}

TEST_CASE("a pool of the host allocates in no capture, which goes on") {
  Pools f;
  const CUmemoryPool pool = f.pool(on_host);
  const CUmemoryPool nowhere = f.pool(properties(CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_LOCATION_TYPE_NONE));
  CUdeviceptr pointer = 0;
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(f.allocate(&pointer, 64, pool, f.stream) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(f.allocate(&pointer, 64, nowhere, f.stream) == CUDA_ERROR_INVALID_VALUE);
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));
}

TEST_CASE("a device without access to a pool of the host copies its memory, and does not fill it") {
  Pools f;
  CUdeviceptr pointer = 0, device = 0;
  OK(f.allocate(&pointer, 64, f.pool(on_host), f.stream));
  OK(f.allocate(&device, 64, f.pool(on_device), f.stream));
  CHECK(f.fill(pointer, 7, 64) == CUDA_ERROR_INVALID_VALUE);
  OK(f.fill(device, 7, 64));
  OK(f.copy_async(pointer, device, 64, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(*reinterpret_cast<const char*>(pointer) == 7);
  CHECK(f.copy_async(pointer, device, 65, f.stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a managed pool of a device allocates in a capture") {
  Pools f;
  const CUmemoryPool pool = f.pool(managed);
  CUdeviceptr pointer = 0;
  CUgraph graph = nullptr;
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(f.allocate(&pointer, 64, pool, f.stream));
  OK(f.cu.end_capture(f.stream, &graph));
  CHECK(pointer != 0);
}

TEST_CASE("a stream takes a freed block if it comes after the free, or waits for it in a full pool") {
  Pools f;
  CUmemPoolProps wish = on_device;
  wish.maxSize = 32 << 20;
  const CUmemoryPool pool = f.pool(wish);
  const std::size_t size = 24 << 20;
  int no = 0, yes = 1;
  const auto allow = [&](int* follow, int* opportunistic, int* internal) {
    OK(f.set_pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow));
    OK(f.set_pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, opportunistic));
    OK(f.set_pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, internal));
  };
  CUstream other = nullptr;
  CUevent freed = nullptr;
  OK(f.cu.stream_create(&other, CU_STREAM_NON_BLOCKING));
  OK(f.cu.event_create(&freed, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr first = 0, second = 0;
  OK(f.allocate(&first, size, pool, f.stream));
  sim::hold(f.stream);
  OK(f.free_async(first, f.stream));
  OK(f.cu.event_record(freed, f.stream));
  allow(&no, &yes, &no);
  CHECK(f.allocate(&second, size, pool, other) == CUDA_ERROR_OUT_OF_MEMORY);
  allow(&yes, &no, &no);
  CHECK(f.allocate(&second, size, pool, other) == CUDA_ERROR_OUT_OF_MEMORY);
  SECTION("by an event") {
    OK(f.cu.stream_wait(other, freed, 0));
    OK(f.allocate(&second, size, pool, other));
  }
  SECTION("in the stream itself") { OK(f.allocate(&second, size, pool, f.stream)); }
  SECTION("by a wait of the pool") {
    allow(&no, &no, &yes);
    OK(f.allocate(&second, size, pool, other));
    CHECK(f.cu.stream_query(other) == CUDA_ERROR_NOT_READY);
  }
  CHECK(second == first);
  sim::release(f.stream);
  OK(f.cu.stream_synchronize(other));
}

TEST_CASE("cuMemFree does not wait for a fill, which ends with a fault") {
  Pools f;
  const CUmemoryPool pool = f.pool(on_device);
  const auto fill_async = f.cu.find<PFN_cuMemsetD8Async_v3020>("cuMemsetD8Async", 3020);
  CUdeviceptr pointer = 0;
  OK(f.allocate(&pointer, 1000, pool, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  sim::hold(f.stream);
  OK(fill_async(pointer, 1, 1000, f.stream));
  SECTION("for memory of a pool") {
    OK(f.free(pointer));
    sim::release(f.stream);
    CHECK(f.cu.stream_synchronize(f.stream) == CUDA_ERROR_LAUNCH_FAILED);
  }
  SECTION("but not after cuMemFreeAsync") {
    CUstream other = nullptr;
    OK(f.cu.stream_create(&other, CU_STREAM_NON_BLOCKING));
    OK(f.free_async(pointer, other));
    OK(f.cu.stream_synchronize(other));
    sim::release(f.stream);
    OK(f.cu.stream_synchronize(f.stream));
  }
}

TEST_CASE("what cuMemFree returns to a pool counts as used, and is not reserved") {
  Pools f;
  const CUmemoryPool pool = f.pool(on_host);
  CUdeviceptr pointer = 0;
  const auto size = [&](CUmemPool_attribute which) {
    std::uint64_t bytes = 0;
    OK(f.pool_attribute(pool, which, &bytes));
    return bytes;
  };
  OK(f.allocate(&pointer, 1000, pool, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  OK(f.free(pointer));
  CHECK(size(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 << 20);
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(size(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 1000);
  CHECK(size(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

TEST_CASE("each place has a pool for each type of memory") {
  Pools f;
  const auto type = CU_MEM_ALLOCATION_TYPE_MANAGED;
  CUmemLocation place = managed.location;
  CUmemoryPool of_device = nullptr, found = nullptr;
  OK(f.standard(&of_device, &place, type));
  const CUmemoryPool pool = f.pool(managed);
  OK(f.choose(&place, type, pool));
  OK(f.current(&found, &place, type));
  CHECK(found == pool);
  OK(f.standard(&found, &place, type));
  CHECK(found == of_device);
  CHECK(f.destroy_pool(of_device) == CUDA_ERROR_INVALID_VALUE);
  OK(f.destroy_pool(pool));
  OK(f.current(&found, &place, type));
  CHECK(found != of_device);
  CHECK(found != pool);

  CUmemLocation nowhere = {CU_MEM_LOCATION_TYPE_NONE, 0};
  OK(f.standard(&found, &nowhere, type));
  CHECK(found != of_device);
  CHECK(f.standard(&found, &nowhere, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_ERROR_INVALID_VALUE);
  CUmemLocation of_thread = {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  CHECK(f.standard(&found, &of_thread, type) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(f.choose(&of_thread, type, nullptr) == CUDA_ERROR_INVALID_VALUE);

  CHECK(f.choose_for_device(0, f.pool(on_host)) == CUDA_ERROR_INVALID_VALUE);
  const CUmemoryPool chosen = f.pool(managed);
  OK(f.choose_for_device(0, chosen));
  OK(f.current(&found, &place, type));
  CHECK(found == chosen);
  OK(f.current(&found, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
  CHECK(found != chosen);
}

TEST_CASE("memory of a managed pool can be prefetched, and takes no advice") {
  Pools f;
  const auto advise = f.cu.find<PFN_cuMemAdvise_v12020>("cuMemAdvise", 12020);
  const auto prefetch = f.cu.find<PFN_cuMemPrefetchAsync_v12020>("cuMemPrefetchAsync", 12020);
  CUdeviceptr pointer = 0;
  OK(f.allocate(&pointer, 1000, f.pool(managed), f.stream));
  for (const CUmem_advise advice :
       {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY})
    CHECK(advise(pointer, 1000, advice, managed.location) == CUDA_ERROR_NOT_SUPPORTED);
  OK(prefetch(pointer, 1000, managed.location, 0, f.stream));
  OK(f.fill(pointer, 7, 1000));
  char byte = 0;
  OK(f.to_host(&byte, pointer, 1));
  CHECK(byte == 7);
  OK(f.free_async(pointer, f.stream));
}

#endif
