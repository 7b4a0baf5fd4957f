// SPDX-License-Identifier: MIT
// Memory without an address, and addresses without memory.
#include "death.hpp"
#include "fixture.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace sim = cuevent::sim;

namespace {

constexpr std::size_t piece = 2 << 20;

struct VirtualMemory : Fixture {
  CUmemGenericAllocationHandle create(CUmemAllocationHandleType shared = CU_MEM_HANDLE_TYPE_NONE) {
    CUmemAllocationProp wish{};
    wish.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wish.location = place;
    wish.requestedHandleTypes = shared;
    CUmemGenericAllocationHandle made = 0;
    OK(cu.memory_create(&made, piece, &wish, 0));
    return made;
  }
  CUdeviceptr reserve(std::size_t bytes) {
    CUdeviceptr made = 0;
    OK(cu.address_reserve(&made, bytes, 0, 0, 0));
    return made;
  }
  CUresult set_access(CUdeviceptr at, std::size_t bytes, CUmemAccess_flags flags) {
    const CUmemAccessDesc wish{place, flags};
    return cu.memory_set_access(at, bytes, &wish, 1);
  }
  CUresult make_accessible(CUdeviceptr at, std::size_t bytes) {
    return set_access(at, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  std::vector<unsigned> read(CUdeviceptr from, std::size_t count) {
    std::vector<unsigned> found(count);
    OK(cu.copy_to_host(found.data(), from, count * sizeof(unsigned), stream));
    return found;
  }

  CUmemLocation place{CU_MEM_LOCATION_TYPE_DEVICE, 0};
};

} // namespace

TEST_CASE("a segment grows by mapping memory behind it, and copies cross the border") {
  VirtualMemory f;
  const CUdeviceptr segment = f.reserve(4 * piece);
  for (const std::size_t place : {std::size_t{0}, std::size_t{1}}) {
    const auto memory = f.create();
    OK(f.cu.memory_map(segment + place * piece, piece, 0, memory, 0));
    OK(f.cu.memory_release(memory)); // the mapping keeps it
    OK(f.make_accessible(segment + place * piece, piece));
  }
  const CUdeviceptr border = segment + piece - 8;
  OK(f.cu.fill_32(border, 9, 4, f.stream));
  CHECK(f.read(border, 4) == std::vector<unsigned>(4, 9));
  CHECK(f.cu.fill_32(segment + 2 * piece - 8, 9, 4, f.stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim::live_handles().allocations == 2);
  CHECK(f.cu.address_free(segment, 4 * piece) == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.memory_unmap(segment, 4 * piece));
  CHECK(sim::live_handles().allocations == 0);
  OK(f.cu.address_free(segment, 4 * piece));
}

TEST_CASE("memory is used as far as its access allows") {
  VirtualMemory f;
  const CUdeviceptr range = f.reserve(2 * piece);
  OK(f.cu.memory_map(range, piece, 0, f.create(), 0));
  unsigned value = 0;
  CHECK(f.cu.fill_32(range, 1, 1, f.stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.copy_to_host(&value, range, 4, f.stream) == CUDA_ERROR_INVALID_VALUE);
  OK(f.set_access(range, piece, CU_MEM_ACCESS_FLAGS_PROT_READ));
  CHECK(f.cu.fill_32(range, 1, 1, f.stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.copy_to_device(range, &value, 4, f.stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.write_value_32(f.stream, range, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.copy_to_host(&value, range, 4, f.stream));
  OK(f.make_accessible(range, piece));
  OK(f.cu.fill_32(range, 1, 1, f.stream));
  CHECK(f.cu.fill_32(range + piece, 1, 1, f.stream) == CUDA_ERROR_INVALID_VALUE); // only reserved
  CHECK(f.make_accessible(range, 2 * piece) == CUDA_ERROR_INVALID_VALUE);         // with a gap
}

TEST_CASE("two addresses show the same memory, and so does a descriptor") {
  VirtualMemory f;
  const auto memory = f.create(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  int file = -1;
  OK(f.cu.memory_export(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemGenericAllocationHandle imported = 0;
  OK(f.cu.memory_import(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  CHECK(imported != memory);
  const CUdeviceptr range = f.reserve(3 * piece);
  OK(f.cu.memory_map(range, piece, 0, memory, 0));
  OK(f.cu.memory_map(range + piece, piece, 0, memory, 0));
  OK(f.cu.memory_map(range + 2 * piece, piece, 0, imported, 0));
  OK(f.make_accessible(range, 3 * piece));
  OK(f.cu.fill_32(range, 5, 1, f.stream));
  CHECK(f.read(range + piece, 1).front() == 5);
  CHECK(f.read(range + 2 * piece, 1).front() == 5);
  CHECK(f.cu.memory_export(&file, f.create(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a descriptor of memory that its maker could still shorten is refused") {
  VirtualMemory f;
  const int file = memfd_create("cuevent-sim-physical:1:0", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(file >= 0);
  REQUIRE(ftruncate(file, piece) == 0);
  CUmemGenericAllocationHandle imported = 0;
  const auto import = [&] {
    return f.cu.memory_import(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  };
  CHECK(import() == CUDA_ERROR_UNKNOWN);
  REQUIRE(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  CHECK(import() == CUDA_SUCCESS);
  close(file);
}

TEST_CASE("memory that is mapped is not freed, registered or unregistered") {
  VirtualMemory f;
  const CUdeviceptr range = f.reserve(piece);
  OK(f.cu.memory_map(range, piece, 0, f.create(), 0));
  OK(f.make_accessible(range, piece));
  void* const pointer = reinterpret_cast<void*>(range);
  CHECK(f.cu.free(range) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.host_register(pointer, 4096, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.host_unregister(pointer) == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.fill_32(range, 1, 1, f.stream));
}

TEST_CASE("a fill whose memory is unmapped before it runs ends with a fault") {
  VirtualMemory f;
  const CUdeviceptr range = f.reserve(piece);
  OK(f.cu.memory_map(range, piece, 0, f.create(), 0));
  OK(f.make_accessible(range, piece));
  sim::hold(f.stream);
  OK(f.cu.fill_32(range, 1, 1, f.stream));
  OK(f.cu.memory_unmap(range, piece)); // does not wait
  sim::release(f.stream);
  CHECK(f.cu.stream_synchronize(f.stream) == CUDA_ERROR_LAUNCH_FAILED);
  OK(f.cu.address_free(range, piece)); // works after a fault
}

TEST_CASE("addresses without memory are unmapped, and so is a mapping within a larger size") {
  VirtualMemory f;
  const CUdeviceptr range = f.reserve(2 * piece);
  OK(f.cu.memory_unmap(range + 1, 77)); // nothing is there
  OK(f.cu.memory_map(range, piece, 0, f.create(), 0));
  CHECK(f.cu.memory_unmap(range, piece - 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.memory_unmap(range + 1, piece) == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.memory_unmap(range, ~std::size_t{0}));
  OK(f.cu.memory_unmap(range + piece, piece));
  CHECK(f.cu.memory_unmap(range + 2 * piece, piece) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("released memory that is mapped nowhere is gone") {
  const Death death = death_of([] {
    VirtualMemory f;
    const auto memory = f.create();
    f.cu.memory_release(memory);
    f.cu.memory_release(memory);
  });
  CHECK(death.aborted);
  CHECK(death.says("was physical memory #1"));
}
