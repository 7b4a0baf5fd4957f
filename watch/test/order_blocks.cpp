// SPDX-License-Identifier: MIT
// The blocks of PyTorch's allocator, which gives memory away again without a call of the driver.
#include "rules/order_rules.hpp"
#include "written_calls.hpp"

using watch::MemoryPart;

namespace {

constexpr std::uint64_t one = 0x10, other = 0x20, event = 0x50; // streams, and an event
constexpr std::uint64_t segment = 0x10'0000, block = segment + 0x1000, size = 0x1000;
constexpr std::uint64_t usual = 0, of_a_graph = 1; // pools

template <bool All>
watch::Rules rules(const watch::World& world, watch::Report report) {
  return watch::order_rules(world, std::move(report), {All});
}

class Blocks : public WrittenProcess {
public:
  explicit Blocks(watch::Rules order(const watch::World&, watch::Report) = &rules<false>)
      : WrittenProcess(order) {
    for (const std::uint64_t stream : {one, other})
      see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    see("cuEventCreate", {event, 0});
    see(MemoryPart::allocated, {segment, 0x10'0000});
    see("cuMemAlloc_v2", {});
    allocate(block, size);
  }

  void allocate(std::uint64_t address, std::uint64_t bytes, std::uint64_t pool = usual) {
    see(MemoryPart::block_allocated, {address, bytes, pool});
  }
  void free(std::uint64_t address) { see(MemoryPart::block_freed, {address, size, usual}); }
  void kernel(std::uint64_t address, std::uint64_t stream, MemoryPart part = MemoryPart::pointers) {
    see(part, {address});
    see("cuLaunchKernel", {stream, 0x900});
  }
  void set(std::uint64_t address, std::uint64_t bytes, std::uint64_t stream) {
    see(MemoryPart::written, {address, bytes, 1});
    see("cuMemsetD8Async", {stream});
  }
  void read(std::uint64_t address, std::uint64_t bytes, std::uint64_t stream) {
    see(MemoryPart::read, {address, bytes, 1});
    see("cuMemcpyDtoHAsync_v2", {stream});
  }
  void let_wait(std::uint64_t stream, std::uint64_t behind) {
    see("cuEventRecord", {event, behind});
    see("cuStreamWaitEvent", {stream, event, 0});
  }
};

} // namespace

TEST_CASE("a block whose memory is used again before its use is over is found at its free", "[order]") {
  Blocks process;
  process.kernel(block, other);
  process.free(block);
  process.allocate(block, size);
  process.kernel(block, one);
  CHECK(process.end() ==
        "freed-while-used 1: memory of 4,096 bytes is freed while a kernel on stream 0x20 uses "
        "it: a kernel on stream 0x10 uses the memory next, and nothing orders the two; it is "
        "used by this call; it was allocated here; the allocator gave it away again here; this "
        "call uses it next");
}

TEST_CASE("a free block is no mistake until its memory is used again", "[order]") {
  Blocks process;
  process.kernel(block, other);
  process.free(block);
  SECTION("it is not given away again") { process.kernel(block + size, one); }
  SECTION("its stream waits before it is given away again") {
    process.let_wait(one, other);
    process.allocate(block, size);
    process.kernel(block, one);
  }
  SECTION("its stream waits before it is used again") {
    process.allocate(block, size);
    process.let_wait(one, other);
    process.kernel(block, one);
  }
  SECTION("the host has waited, as the allocator does for each stream of record_stream") {
    process.see("cuEventRecord", {event, other});
    process.see("cuEventQuery", {event});
    process.allocate(block, size);
    process.kernel(block, one);
  }
  SECTION("the same stream uses it again") {
    process.allocate(block, size);
    process.kernel(block, other);
  }
  SECTION("only another part of it is given away again") {
    process.allocate(block + size / 2, size / 2);
    process.kernel(block + size / 2, one);
  }
  SECTION("the segment is freed before, which waits") {
    process.see(MemoryPart::freed, {segment, 0});
    process.see("cuMemFree_v2", {});
    process.see(MemoryPart::allocated, {segment, 0x10'0000});
    process.see("cuMemAlloc_v2", {});
    process.allocate(block, size);
    process.kernel(block, one);
  }
  CHECK(process.end().empty());
}

TEST_CASE("what is left of a free block keeps its uses", "[order]") {
  Blocks process;
  process.read(block, size, other);
  process.free(block);
  const auto use = [&](std::uint64_t address) {
    process.allocate(address, 512);
    process.set(address, 512, one);
  };
  SECTION("below") { use(block); }
  SECTION("in the middle") { use(block + 1024); }
  SECTION("above, after the middle was given away") {
    process.allocate(block + 1024, 512);
    use(block + size - 512);
  }
  SECTION("after another block was there, which nobody used") {
    process.allocate(block, size);
    process.free(block);
    use(block);
  }
  SECTION("in a larger block") {
    process.allocate(segment, 0x10000);
    process.set(segment, 0x10000, one);
  }
  CHECK(process.end().find("freed-while-used 1: memory of 4,096 bytes is freed while a copy") == 0);
}

TEST_CASE("two blocks of one segment have nothing to do with each other", "[order]") {
  Blocks process;
  process.allocate(block + size, size);
  process.set(block, size, one);
  process.kernel(block + size, other);
  process.set(block + size, 16, other);
  process.set(block, 16, one);
  CHECK(process.end().empty());
}

TEST_CASE("a copy over a whole block that a kernel has the begin of is certain", "[order]") {
  Blocks process;
  SECTION("the kernel came first") {
    process.kernel(block, one);
    process.set(block, size, other);
    CHECK(process.end() ==
          "unordered-kernel 1: a memset on stream 0x20 overwrites memory that a kernel on stream "
          "0x10 uses, and nothing orders the two; the other one was submitted here; the memory "
          "was allocated here");
  }
  SECTION("the copy came first") {
    process.set(block, size, other);
    process.kernel(block, one);
    CHECK(process.end() ==
          "unordered-kernel 1: a kernel on stream 0x10 uses memory that a memset on stream 0x20 "
          "writes, and nothing orders the two; the other one was submitted here; the memory was "
          "allocated here");
  }
}

TEST_CASE("what may be no use of a block is not certain", "[order]") {
  Blocks process;
  const auto kernel_and_set = [&](std::uint64_t address, std::uint64_t bytes, MemoryPart part) {
    process.set(block, bytes, other);
    process.kernel(address, one, part);
  };
  SECTION("a slice is set") { kernel_and_set(block, size / 2, MemoryPart::pointers); }
  SECTION("an argument lies inside, and may be a number") {
    kernel_and_set(block + 512, size, MemoryPart::pointers);
  }
  SECTION("a word of a structure may be old") { kernel_and_set(block, size, MemoryPart::words_inside); }
  SECTION("the copy only reads") {
    process.read(block, size, other);
    process.kernel(block, one);
  }
  SECTION("a kernel may poll a few bytes") {
    constexpr std::uint64_t status = segment + 0x8000;
    process.allocate(status, 128);
    process.set(status, 128, other);
    process.kernel(status, one);
  }
  SECTION("the free block had an old word") {
    process.kernel(block, other, MemoryPart::words_inside);
    process.free(block);
    process.allocate(block, size);
    process.kernel(block, one);
  }
  CHECK(process.end().empty());
}

TEST_CASE("a structure with the begin of a block makes a conflict possible after three times", "[order]") {
  Blocks process(&rules<true>);
  const auto kernel_and_set = [&](std::uint64_t address) {
    process.set(block, size, other);
    process.kernel(address, one, MemoryPart::words_inside);
    process.see("cuCtxSynchronize", {});
  };
  SECTION("the begin") {
    for (int i = 0; i < 3; ++i) {
      CHECK(process.end().empty());
      kernel_and_set(block);
    }
    CHECK(
        process.end() ==
        "unordered-kernel 1: a kernel on stream 0x10 may use memory that a memset on stream 0x20 may use at "
        "the same time: nothing orders the two; a part of a larger argument points there; the other one was "
        "submitted here; the memory was allocated here");
  }
  SECTION("a word that lies inside is a number") {
    for (int i = 0; i < 3; ++i)
      kernel_and_set(block + 512);
    CHECK(process.end().empty());
  }
  SECTION("a structure with the begin of a segment, which is no tensor") {
    process.free(block);
    process.see("cuCtxSynchronize", {});
    for (int i = 0; i < 3; ++i) {
      process.set(segment, 4096, other);
      process.kernel(segment, one, MemoryPart::words_inside);
      process.see("cuCtxSynchronize", {});
    }
    CHECK(process.end().empty());
  }
}

TEST_CASE("an old word of a structure makes an early free possible after three times", "[order]") {
  Blocks process(&rules<true>);
  for (int i = 0; i < 3; ++i) {
    CHECK(process.end().empty());
    process.kernel(block, other, MemoryPart::words_inside);
    process.free(block);
    process.allocate(block, size);
    process.kernel(block, one);
    process.see("cuCtxSynchronize", {});
  }
  CHECK(
      process.end().find("freed-while-used 1: memory of 4,096 bytes may be freed too early while a kernel on "
                         "stream 0x20 may use it") == 0);
}

TEST_CASE("a graph whose block was freed is found when it is launched", "[order]") {
  Blocks process;
  constexpr std::uint64_t input = segment + 0x8000, graph = 0x500, exec = 0x600;
  const auto capture = [&] {
    process.see("cuStreamBeginCapture_v2", {one, 0});
    process.kernel(input, one);
    process.see("cuStreamEndCapture", {one, graph});
    process.see("cuGraphInstantiateWithFlags", {exec, graph});
  };
  SECTION("of the usual pool") {
    process.allocate(input, size);
    capture();
    process.free(input);
    process.see("cuGraphLaunch", {exec, one});
    CHECK(process.end().find("freed-while-used 1: a kernel on stream 0x10 uses memory after it was freed") ==
          0);
  }
  SECTION("of the graph's own pool, which keeps the memory") {
    process.allocate(input, size, of_a_graph);
    capture();
    process.free(input);
    process.see("cuGraphLaunch", {exec, one});
    CHECK(process.end().empty());
  }
  SECTION("that lives") {
    process.allocate(input, size);
    capture();
    process.see("cuGraphLaunch", {exec, one});
    process.free(input);
    CHECK(process.end().empty());
  }
}

TEST_CASE("a block that lies in no memory of a call is not believed", "[order]") {
  watch::World world;
  watch::OrderBlindness blind;
  world.add(watch::order_rules(world, [](const watch::Finding&) {}, {.blind = &blind}));
  const auto part = [&](MemoryPart kind, std::uint64_t address, std::uint64_t bytes) {
    watch::CallData data{};
    data.entry = watch::memory_entry;
    data.count = 4;
    data.thread = 1;
    data.words[0] = static_cast<std::uint64_t>(kind);
    data.words[1] = address;
    data.words[2] = bytes;
    world.see(watch::decoded(data));
  };
  part(MemoryPart::allocated, segment, 0x10'0000);
  world.see(call_of("cuMemAlloc_v2", {}));
  part(MemoryPart::block_allocated, 0x70'0000, size);
  part(MemoryPart::block_allocated, block, 0);
  part(MemoryPart::block_allocated, block, ~std::uint64_t{0});
  part(MemoryPart::block_freed, 0x70'0000, size);
  CHECK(blind.blocks == 0);
  part(MemoryPart::block_allocated, block, size);
  CHECK(blind.blocks == 1);
}
