// SPDX-License-Identifier: MIT
// A copy without a stream that returns before it is done.
#include "fixture.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sim = cuevent::sim;

namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

/// Copies new bytes to memory of zeros, and at once copies the memory on a stream that waits for no other.
struct Upload : Fixture {
  explicit Upload(std::size_t size, const sim::Options& options = {})
      : Fixture(options), bytes(size), source(size, 7) {
    OK(cu.allocate(&to, bytes));
    OK(cu.allocate(&snapshot, bytes));
    void* memory = nullptr;
    OK(cu.host_allocate(&memory, bytes, 0));
    seen = static_cast<unsigned char*>(memory);
    OK(cu.fill_8(to, 0, bytes));
    OK(cu.context_synchronize());
  }

  /// Whether the stream reads old bytes.
  bool is_stale() {
    OK(cu.copy_in_device(snapshot, to, bytes, stream));
    OK(cu.stream_synchronize(stream));
    OK(cu.copy_to_host(seen, snapshot, bytes, stream));
    OK(cu.stream_synchronize(stream));
    const bool has_old = std::find(seen, seen + bytes, 0) != seen + bytes;
    OK(cu.context_synchronize());
    return has_old;
  }

  std::size_t bytes;
  std::vector<unsigned char> source;
  CUdeviceptr to = 0, snapshot = 0;
  unsigned char* seen = nullptr;
};

} // namespace

TEST_CASE("a copy of 512 KiB to 16 MiB of pageable memory returns before another stream sees the bytes") {
  const bool by_address = GENERATE(false, true);
  for (const std::size_t bytes : {4 * KiB, 256 * KiB, 512 * KiB, MiB, 4 * MiB, 16 * MiB, 16 * MiB + 1}) {
    INFO(bytes);
    Upload upload(bytes);
    const auto source = reinterpret_cast<CUdeviceptr>(upload.source.data());
    OK(by_address ? upload.cu.copy(upload.to, source, bytes)
                  : upload.cu.upload(upload.to, upload.source.data(), bytes));
    CHECK(upload.is_stale() == (bytes >= 512 * KiB && bytes <= 16 * MiB));
    CHECK_FALSE(upload.is_stale());
  }
}

TEST_CASE("with every seed, a stream that does not wait for an early copy reads old bytes") {
  for (unsigned long long seed = 1; seed <= 20; ++seed) {
    INFO(seed);
    Upload upload(MiB, {.random_order = seed});
    OK(upload.cu.upload(upload.to, upload.source.data(), MiB));
    CHECK(upload.is_stale());
  }
}

TEST_CASE("a wait for the legacy stream, and its order, include a copy that has returned early") {
  Upload upload(MiB);
  const auto copy = [&](unsigned char value) {
    std::ranges::fill(upload.source, value);
    OK(upload.cu.upload(upload.to, upload.source.data(), MiB));
  };
  copy(1);
  OK(upload.cu.stream_synchronize(nullptr));
  CHECK_FALSE(upload.is_stale());
  copy(2);
  const CUevent event = upload.event();
  OK(upload.cu.event_record(event, nullptr));
  CHECK(upload.cu.event_query(event) == CUDA_ERROR_NOT_READY);
  OK(upload.cu.stream_wait(upload.stream, event, 0));
  upload.is_stale();
  CHECK(upload.seen[MiB - 1] == 2);
  copy(3);
  const CUstream blocking = upload.new_stream(CU_STREAM_DEFAULT);
  OK(upload.cu.copy_to_host(upload.seen, upload.to, MiB, blocking));
  OK(upload.cu.stream_synchronize(blocking));
  CHECK(upload.seen[MiB - 1] == 3);
}

TEST_CASE("a copy that returns early has waited for the work before it, and has read its source") {
  Upload upload(MiB);
  const CUstream before = upload.new_stream(CU_STREAM_DEFAULT);
  const CUevent event = upload.event();
  OK(upload.work(before));
  OK(upload.cu.event_record(event, before));
  OK(upload.cu.upload(upload.to, upload.source.data(), MiB));
  CHECK(upload.cu.event_query(event) == CUDA_SUCCESS);
  std::ranges::fill(upload.source, 9);
  OK(upload.cu.context_synchronize());
  CHECK_FALSE(upload.is_stale());
  CHECK(upload.seen[0] == 7);
  CHECK(upload.seen[MiB - 1] == 7);
}

TEST_CASE("rows of 480 KiB to 8224 KiB of pageable memory return early too") {
  constexpr std::size_t width = 32 * KiB;
  const auto rows_of = [](const Upload& upload, std::size_t height) {
    CUDA_MEMCPY2D rows{};
    rows.srcMemoryType = CU_MEMORYTYPE_HOST, rows.srcHost = upload.source.data(), rows.srcPitch = width;
    rows.dstMemoryType = CU_MEMORYTYPE_DEVICE, rows.dstDevice = upload.to, rows.dstPitch = width;
    rows.WidthInBytes = width, rows.Height = height;
    return rows;
  };
  Upload upload(16 * MiB);
  for (const auto& [height, early] :
       {std::pair{std::size_t{8}, false}, {15, true}, {257, true}, {512, false}}) {
    INFO(height);
    const CUDA_MEMCPY2D rows = rows_of(upload, height);
    OK(upload.cu.find<PFN_cuMemcpy2D_v3020>("cuMemcpy2D", 3020)(&rows));
    CHECK((upload.cu.stream_query(nullptr) == CUDA_ERROR_NOT_READY) == early);
    OK(upload.cu.context_synchronize());
  }
  const CUDA_MEMCPY2D rows = rows_of(upload, 100);
  OK(upload.cu.find<PFN_cuMemcpy2DUnaligned_v3020>("cuMemcpy2DUnaligned", 3020)(&rows)); // nobody asked
  CHECK(upload.cu.stream_query(nullptr) == CUDA_SUCCESS);
}

TEST_CASE("a copy to memory of a pool returns early, and one of pinned or to managed memory does not") {
  Upload upload(4 * MiB);
  CUdeviceptr pooled = 0, managed = 0;
  OK(upload.cu.allocate_on(&pooled, MiB, upload.stream));
  OK(upload.cu.allocate_managed(&managed, MiB, CU_MEM_ATTACH_GLOBAL));
  OK(upload.cu.context_synchronize());
  OK(upload.cu.upload(managed, upload.source.data(), MiB));
  CHECK(upload.cu.stream_query(nullptr) == CUDA_SUCCESS);
  OK(upload.cu.upload(upload.to, upload.seen, MiB)); // pinned
  CHECK(upload.cu.stream_query(nullptr) == CUDA_SUCCESS);
  OK(upload.cu.upload(pooled, upload.source.data(), MiB));
  CHECK(upload.cu.stream_query(nullptr) == CUDA_ERROR_NOT_READY);
  OK(upload.cu.context_synchronize());
  const auto on = upload.cu.find<PFN_cuMemcpyHtoDAsync_v3020>("cuMemcpyHtoDAsync", 3020);
  OK(on(upload.to, upload.source.data(), 4 * MiB, CU_STREAM_LEGACY));
  CHECK(upload.cu.stream_query(nullptr) == CUDA_ERROR_NOT_READY);
  OK(on(upload.to, upload.source.data(), 4 * MiB, upload.stream)); // nobody asked
  CHECK(upload.cu.stream_query(upload.stream) == CUDA_SUCCESS);
}
