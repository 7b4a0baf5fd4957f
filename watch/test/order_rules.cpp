// SPDX-License-Identifier: MIT
// Orders that no program can force to happen in its calls.
#include "rules/order_rules.hpp"
#include "written_calls.hpp"

#include <algorithm>
#include <iterator>

using watch::MemoryPart;

namespace {

constexpr std::uint64_t first = 0x10, second = 0x20, third = 0x30; // streams
constexpr std::uint64_t memory = 0x10'0000, other = 0x20'0000;

class Ordered : public WrittenProcess {
public:
  Ordered()
      : WrittenProcess([](const watch::World& world, watch::Report report) {
          return watch::order_rules(world, std::move(report), {});
        }) {
    for (const std::uint64_t stream : {first, second, third})
      see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    for (const std::uint64_t address : {memory, other})
      allocate(address);
  }

  void allocate(std::uint64_t address) {
    see(MemoryPart::allocated, {address, 4096});
    see("cuMemAlloc_v2", {});
  }
  void allocate(std::uint64_t address, std::uint64_t size, std::uint64_t stream) {
    see(MemoryPart::allocated, {address, size});
    see("cuMemAllocAsync", {stream});
  }
  void free(std::uint64_t address, std::uint64_t stream) {
    see(MemoryPart::freed, {address, stream});
    see("cuMemFreeAsync", {stream});
  }
  void set(std::uint64_t address, std::uint64_t stream) {
    see(MemoryPart::written, {address, 512, 1});
    see("cuMemsetD8Async", {stream});
  }
};

} // namespace

TEST_CASE("two streams that set the same memory are found", "[order]") {
  Ordered process;
  process.set(memory, first);
  process.set(memory, second);
  CHECK(process.end().find("unordered-copies") == 0);
}

TEST_CASE("a fill or a copy without a stream uses memory, of rows and boxes too", "[order]") {
  for (const char* const call : {"cuMemsetD8_v2", "cuMemsetD2D8_v2", "cuMemsetD2D16_v2", "cuMemsetD2D32_v2",
                                 "cuMemcpyPeer", "cuMemcpy3DPeer"}) {
    INFO(call);
    Ordered process;
    process.set(memory, first);
    process.see(MemoryPart::written, {memory, 512, 1});
    process.see(call, {});
    CHECK(process.end().find("unordered-copies") == 0);
  }
}

TEST_CASE("a copy on the legacy stream may order the contexts whose memory it uses", "[order]") {
  const struct {
    const char* call;
    std::vector<std::pair<MemoryPart, std::uint64_t>> parts;
    bool orders;
  } calls[] = {{"cuMemcpyDtoD_v2", {{MemoryPart::read, memory}, {MemoryPart::written, other}}, true},
               {"cuMemcpyDtoA_v2", {{MemoryPart::read, memory}, {MemoryPart::array, 0}}, true},
               {"cuMemsetD8_v2", {{MemoryPart::written, memory}}, false}};
  for (const auto& [call, parts, orders] : calls) {
    INFO(call);
    Ordered process;
    process.set(memory, reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY));
    process.context = 0x401;
    for (const auto& [part, address] : parts)
      process.see(part, {address, 512, 1});
    process.see(call, {});
    CHECK(process.end().empty() == orders);
  }
}

TEST_CASE("a fill without a stream is named with the legacy stream, also as the earlier one", "[order]") {
  Ordered process;
  process.see(MemoryPart::written, {memory, 512, 1});
  process.see(MemoryPart::read, {other, 512, 1}); // of the device, so the call returns at once
  process.see("cuMemcpyDtoD_v2", {});
  process.set(memory, first);
  CHECK(process.end() == "unordered-copies 1: a memset on stream 0x10 overwrites memory that a copy on the "
                         "legacy stream of context 0x400 writes, and nothing orders the two; the other one "
                         "was submitted here; the memory was allocated here");
}

TEST_CASE("both calls of a finding have the places at which they can be held", "[order]") {
  watch::World world;
  std::vector<watch::HoldPlace> places;
  world.add(watch::order_rules(world,
                               [&](const watch::Finding& finding) {
                                 places = {finding.earlier.front().call.place, finding.call.place};
                               },
                               {}));
  const auto part = [&](MemoryPart kind, std::uint64_t one, std::uint64_t two, std::uint64_t three) {
    watch::CallData data{};
    data.entry = watch::memory_entry;
    data.count = 4;
    data.thread = 1;
    const std::uint64_t words[] = {static_cast<std::uint64_t>(kind), one, two, three};
    std::copy(std::begin(words), std::end(words), data.words);
    world.see(watch::decoded(data));
  };
  const auto set = [&](std::uint64_t stream, std::uint64_t number, std::uint64_t submission) {
    part(MemoryPart::place, number, submission, 0);
    part(MemoryPart::written, memory, 512, 1);
    world.see(call_of("cuMemsetD8Async", {stream}, 0x400));
  };
  for (const std::uint64_t stream : {first, second})
    world.see(call_of("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING}, 0x400));
  part(MemoryPart::allocated, memory, 4096, 0);
  world.see(call_of("cuMemAlloc_v2", {}, 0x400));
  set(first, 0, 7);
  set(second, 1, 9);
  REQUIRE(places.size() == 2);
  CHECK((places[0].stream == 0 && places[0].submission == 7));
  CHECK((places[1].stream == 1 && places[1].submission == 9));
}

TEST_CASE("values order streams, whatever version of the functions writes and waits", "[order]") {
  const std::pair<const char*, const char*> versions[] = {
      {"cuStreamWriteValue32", "cuStreamWaitValue32"},
      {"cuStreamWriteValue64", "cuStreamWaitValue64"},
      {"cuStreamWriteValue32_v2", "cuStreamWaitValue32_v2"},
      {"cuStreamWriteValue64_v2", "cuStreamWaitValue64_v2"}};
  for (const auto& [write, wait] : versions) {
    INFO(write);
    Ordered process;
    process.set(memory, first);
    process.see(write, {first, other, 1, 0});
    process.see(wait, {second, other, 1, CU_STREAM_WAIT_VALUE_GEQ});
    process.set(memory, second);
    CHECK(process.end() == "");
  }
}

TEST_CASE("the host may go on before the call has returned that tells it", "[order]") {
  Ordered process;
  process.set(memory, first);
  process.see(MemoryPart::told_host, {first}); // thread 1 is about to write a value
  process.thread = 2;                          // which polls it
  process.set(memory, second);
  process.thread = 1;
  process.see("cuStreamWriteValue32_v2", {first, other, 1, 0});
  CHECK(process.end().empty());
}

TEST_CASE("a capture that has failed leaves nothing for the next one", "[order]") {
  Ordered process;
  for (const CUresult result : {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_SUCCESS}) {
    const std::uint64_t stream = result == CUDA_SUCCESS ? second : first;
    process.see("cuStreamBeginCapture_v2", {stream, CU_STREAM_CAPTURE_MODE_RELAXED});
    process.set(memory, stream);
    process.see("cuStreamEndCapture", {stream, 0x500}, result);
  }
  process.see("cuGraphInstantiateWithFlags", {0x600, 0x500});
  CHECK(process.end().empty());
}

TEST_CASE("each part of freed memory is ordered behind the free", "[order]") {
  Ordered process;
  process.allocate(0x30'0000, 8192, first);
  process.set(other, first);
  process.free(0x30'0000, first);
  process.allocate(0x30'0000, 4096, second);
  process.allocate(0x30'1000, 4096, third);
  process.set(other, third);
  CHECK(process.end().empty());
}

TEST_CASE("work whose memory is not told may tell the host anything", "[order]") {
  Ordered process;
  process.set(memory, first);
  process.see("cuMemcpyWithAttributesAsync", {first});
  process.set(memory, second);
  CHECK(process.end().empty());
}

namespace {

/// As the auditor tells a copy: what it reads, then what it writes.
std::uint64_t shape(watch::Named named) { return static_cast<std::uint64_t>(named) << 30U | 1U; }

} // namespace

TEST_CASE("a copy of what no call has allocated orders something only if it may wait", "[order]") {
  constexpr std::uint64_t unknown = 0x70'0000, host = 0x7FFF'0000, small = 2 << 20, large = small + 4;
  using watch::Named;
  struct {
    const char* what;
    std::uint64_t from, to, size;
    Named from_named, to_named;
    bool may_wait;
  } const copies[] = {
      {"from pageable memory, staged", host, other, small, Named::of_host, Named::of_device, false},
      {"the same, told by the address", host, other, small, Named::by_address, Named::by_address, false},
      {"from pageable memory, more than is staged", host, other, large, Named::of_host, Named::of_device,
       true},
      {"to pageable memory", other, host, small, Named::of_device, Named::of_host, true},
      {"from unknown memory of the device", unknown, other, small, Named::of_device, Named::of_device, false},
      {"to unknown memory of the device", other, unknown, small, Named::of_device, Named::of_device, false},
  };
  for (const auto& copy : copies) {
    INFO(copy.what);
    Ordered process;
    process.set(memory, first);
    process.see(MemoryPart::read, {copy.from, copy.size, shape(copy.from_named)});
    process.see(MemoryPart::written, {copy.to, copy.size, shape(copy.to_named)});
    process.see("cuMemcpyAsync", {first});
    process.set(memory, second);
    CHECK(process.end().empty() == copy.may_wait);
  }
}

TEST_CASE("only copies that were seen to return early are not taken for waits", "[order]") {
  constexpr std::uint64_t host = 0x7FFF'0000, large = 0x40'0000, size = 4 << 20;
  using watch::Named;
  struct {
    const char *what, *made_by, *call;
    Named named = Named::of_host;
    std::uint64_t bytes = size;
    watch::Handle made_in = 0x400;
    std::uint8_t marks = 0;
    bool returns_early = false;
  } const copies[] = {
      {.what = "as measured", .made_by = "cuMemAlloc_v2", .call = "cuMemcpyHtoD_v2", .returns_early = true},
      {.what = "the least",
       .made_by = "cuMemAlloc_v2",
       .call = "cuMemcpyHtoD_v2",
       .bytes = 512 << 10,
       .returns_early = true},
      {.what = "too little", .made_by = "cuMemAlloc_v2", .call = "cuMemcpyHtoD_v2", .bytes = (512 << 10) - 1},
      {.what = "too much", .made_by = "cuMemAlloc_v2", .call = "cuMemcpyHtoD_v2", .bytes = (16 << 20) + 1},
      {.what = "of a pool", .made_by = "cuMemAllocAsync", .call = "cuMemcpyHtoD_v2", .returns_early = true},
      {.what = "mapped", .made_by = "cuMemMap", .call = "cuMemcpyHtoD_v2", .returns_early = true},
      {.what = "managed", .made_by = "cuMemAllocManaged", .call = "cuMemcpyHtoD_v2"},
      {.what = "of another context", .made_by = "cuMemAlloc_v2", .call = "cuMemcpyHtoD_v2", .made_in = 0x401},
      {.what = "by address",
       .made_by = "cuMemAlloc_v2",
       .call = "cuMemcpy",
       .named = Named::by_address,
       .returns_early = true},
      {.what = "as one row", .made_by = "cuMemAlloc_v2", .call = "cuMemcpy2D_v2", .returns_early = true},
      {.what = "unaligned", .made_by = "cuMemAlloc_v2", .call = "cuMemcpy2DUnaligned_v2"},
      {.what = "to the host", .made_by = "cuMemAlloc_v2", .call = "cuMemcpyDtoH_v2"},
      {.what = "on the default stream of the thread",
       .made_by = "cuMemAlloc_v2",
       .call = "cuMemcpyHtoD_v2",
       .marks = watch::per_thread,
       .returns_early = true},
  };
  for (const auto& copy : copies) {
    INFO(copy.what);
    Ordered process;
    const bool is_mapped = std::string(copy.made_by) == "cuMemMap";
    const bool is_managed = std::string(copy.made_by) == "cuMemAllocManaged";
    const auto made = is_mapped ? MemoryPart::mapped : MemoryPart::allocated;
    process.see(is_managed ? MemoryPart::allocated_managed : made, {large, 8 * size});
    process.see_call(call_of(copy.made_by, {first}, copy.made_in));
    process.see("cuStreamSynchronize", {first});
    process.see(MemoryPart::read, {host, copy.bytes, shape(copy.named)});
    process.see(MemoryPart::written,
                {large, copy.bytes, shape(copy.named == Named::of_host ? Named::of_device : copy.named)});
    watch::Call call = call_of(copy.call, {});
    call.marks = copy.marks;
    process.see_call(call);
    process.set(large, first);
    CHECK(process.end().empty() != copy.returns_early);
  }
}

TEST_CASE("memory that others see is imported, and handles are given away again", "[order]") {
  constexpr std::uint64_t handle = 0x99;
  for (const bool is_imported : {true, false}) {
    Ordered process;
    process.see(MemoryPart::handle, {handle, 1});
    process.see("cuMemImportFromShareableHandle", {});
    if (!is_imported) {
      process.see(MemoryPart::handle, {handle, 0});
      process.see("cuMemCreate", {});
    }
    process.see(MemoryPart::mapped, {0x80'0000, 4096, handle});
    process.see("cuMemMap", {});
    process.set(memory, first);
    process.see(MemoryPart::written, {0x80'0000, 4, 1});
    process.see("cuMemsetD32Async", {first});
    process.set(memory, second);
    CHECK(process.end().empty() == is_imported);
  }
}

TEST_CASE("a free that was refused leaves the memory alive", "[order]") {
  for (const bool has_stream : {false, true}) {
    Ordered process;
    process.see(MemoryPart::freed, {memory, has_stream ? first : 0});
    if (!has_stream) process.see("cuMemFree_v2", {}); // recorded before it fails
    if (has_stream)
      process.see("cuMemFreeAsync", {first}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    else
      process.see("cuMemFree_v2", {}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    process.set(memory, first);
    CHECK(process.end().empty());
  }
}

TEST_CASE("a use after a stream-ordered free is found, unless the free may come later", "[order]") {
  for (const bool is_held : {false, true}) {
    Ordered process;
    process.allocate(memory, 4096, first);
    if (is_held) process.see("cuStreamWaitValue32_v2", {first, other, 1, CU_STREAM_WAIT_VALUE_GEQ});
    process.free(memory, first);
    process.set(memory, second);
    CHECK((process.end().find("freed-while-used") == 0) == !is_held);
  }
}

TEST_CASE("a copy that is refused because its memory was freed is found", "[order]") {
  for (const std::uint64_t address : {memory, std::uint64_t{0x70'0000}}) {
    Ordered process;
    process.see(MemoryPart::freed, {memory, 0});
    process.see("cuMemFree_v2", {});
    process.see(MemoryPart::written, {address, 512, 1});
    process.see("cuMemsetD8Async", {first}, CUDA_ERROR_INVALID_VALUE);
    CHECK((process.end().find("freed-while-used") == 0) == (address == memory));
  }
}

TEST_CASE("a launch whose memory was freed is found, also if it fails or the process ends in it", "[order]") {
  constexpr std::uint64_t graph = 0x70, exec = 0x80;
  for (const bool is_freed : {false, true})
    for (const CUresult result : {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_ILLEGAL_ADDRESS})
      for (const bool returns : {false, true}) {
        INFO(is_freed << result << returns);
        Ordered process;
        process.see("cuStreamBeginCapture_v2", {third, CU_STREAM_CAPTURE_MODE_RELAXED});
        process.set(memory, third);
        process.see("cuStreamEndCapture", {third, graph});
        process.see("cuGraphInstantiateWithFlags", {exec, graph, 0});
        if (is_freed) {
          process.see(MemoryPart::freed, {memory, 0});
          process.see("cuMemFree_v2", {});
        }
        watch::Call launch = call_of("cuGraphLaunch", {exec, second, 1});
        launch.result = static_cast<std::uint32_t>(result);
        launch.returned = returns;
        process.see_call(launch);
        CHECK((process.end().find("freed-while-used 1") == 0) == is_freed);
      }
}

TEST_CASE("a captured free ends nothing, whether the driver takes it or not", "[order]") {
  for (const CUresult result : {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE})
    for (const bool is_freed_later : {false, true}) {
      Ordered process;
      process.allocate(memory, 4096, first);
      process.see("cuStreamBeginCapture_v2", {third, CU_STREAM_CAPTURE_MODE_RELAXED});
      process.see(MemoryPart::freed, {memory, third});
      process.see("cuMemFreeAsync", {third}, result);
      process.see("cuStreamEndCapture", {third, 0x70});
      process.set(memory, first);
      if (is_freed_later) process.free(memory, first);
      process.set(memory, second);
      const std::string found = process.end();
      CHECK((found.find("unordered-copies") == 0) == !is_freed_later);
      CHECK((found.find("freed-while-used") == 0) == is_freed_later);
    }
}

TEST_CASE("memory of a graph may get an address that other memory of a graph had", "[order]") {
  for (const bool is_captured : {false, true}) {
    Ordered process;
    process.see(MemoryPart::found, {0x50'0000, 4096});
    process.see(MemoryPart::read, {0x50'0000, 512, 1});
    process.see(MemoryPart::written, {other, 512, 1});
    process.see("cuMemcpyDtoDAsync_v2", {first});
    if (is_captured) process.see("cuStreamBeginCapture_v2", {third, CU_STREAM_CAPTURE_MODE_RELAXED});
    process.see(MemoryPart::allocated, {0x50'0000, 4096});
    if (is_captured)
      process.see("cuMemAllocAsync", {third});
    else
      process.see("cuGraphAddMemAllocNode", {0x73, 0x70});
    process.set(0x50'0000, second);
    CHECK(process.end().empty());
  }
}

TEST_CASE("the driver may know memory of a pool that was freed", "[order]") {
  Ordered process;
  process.allocate(memory, 4096, first);
  process.free(memory, first);
  process.see(MemoryPart::found, {memory, 4096});
  process.set(memory, first);
  CHECK(process.end().find("freed-while-used") == 0);
}

TEST_CASE("memory that somebody else shares may get the address of what was freed", "[order]") {
  Ordered process;
  process.allocate(memory, 4096, first);
  process.free(memory, first);
  process.see(MemoryPart::found, {memory, 4096});
  process.see("cuIpcOpenMemHandle_v2", {});
  process.set(memory, first);
  CHECK(process.end().empty());
}

TEST_CASE("what the driver tells about an address does not replace what calls have told", "[order]") {
  Ordered process;
  process.set(memory, first);
  process.see(MemoryPart::found, {memory - 4096, 1 << 20});
  process.set(memory, second);
  CHECK(process.end().find("unordered-copies") == 0);
}

TEST_CASE("copies and fills of memory that is not known are counted", "[order]") {
  watch::World world;
  watch::OrderBlindness blind;
  world.add(watch::order_rules(world, [](const watch::Finding&) {}, {false, false, &blind}));
  const auto part = [&](MemoryPart kind, std::uint64_t address) {
    watch::CallData data{};
    data.entry = watch::memory_entry;
    data.count = 4;
    data.thread = 1;
    const std::uint64_t words[] = {static_cast<std::uint64_t>(kind), address, 4, 1};
    std::copy(std::begin(words), std::end(words), data.words);
    world.see(watch::decoded(data));
  };
  part(MemoryPart::written, 0x70'0000);
  world.see(call_of("cuMemsetD32Async", {first}));
  part(MemoryPart::array, 0);
  part(MemoryPart::array, 0);
  world.see(call_of("cuMemcpyAtoA_v2", {}));
  CHECK(blind.memory.unknown == 1);
  CHECK(blind.memory.arrays == 1);
}

TEST_CASE("a graph is not known if a node of another kind is added", "[order]") {
  Ordered process;
  process.see("cuGraphCreate", {0x500, 0});
  for (const std::uint64_t node : {0x71U, 0x72U}) {
    process.see(MemoryPart::written, {memory, 512, 1});
    process.see("cuGraphAddMemsetNode", {node, 0x500});
  }
  SECTION("a child graph") { process.see("cuGraphAddChildGraphNode", {0x73, 0x500, 0x501}); }
  SECTION("a conditional node") {
    constexpr std::uint64_t conditional = 13; // CU_GRAPH_NODE_TYPE_CONDITIONAL
    process.see("cuGraphAddNode_v2", {0x73, 0x500, 0, conditional});
    process.see(MemoryPart::written, {memory, 512, 1});
    process.see("cuGraphAddMemsetNode", {0x74, 0x501}); // in its body
  }
  process.see("cuGraphInstantiateWithFlags", {0x600, 0x500});
  process.set(memory, first);
  process.see("cuGraphLaunch", {0x600, second});
  CHECK(process.end().empty());
}

TEST_CASE("a captured graph is not known if the program has changed it during the capture", "[order]") {
  constexpr std::uint64_t graph = 0x70, exec = 0x80, another = 0x90;
  bool is_known = false;
  Ordered process;
  process.see("cuGraphCreate", {another, 0});
  process.see("cuStreamBeginCapture_v2", {third, CU_STREAM_CAPTURE_MODE_RELAXED});
  SECTION("not changed") { is_known = true; }
  SECTION("another graph was changed") {
    is_known = true;
    process.see("cuGraphAddNode_v2", {0x73, another, 0, 13});
  }
  SECTION("a conditional node") { process.see("cuGraphAddNode_v2", {0x73, graph, 0, 13}); }
  SECTION("a memset node") {
    process.see(MemoryPart::written, {other, 512, 1});
    process.see("cuGraphAddMemsetNode", {0x73, graph});
  }
  SECTION("an edge") { process.see("cuGraphAddDependencies", {graph}); }
  process.see("cuStreamEndCapture", {third, graph});
  process.see("cuGraphInstantiateWithFlags", {exec, graph, 0});
  process.set(memory, first);
  process.see("cuGraphLaunch", {exec, second, 1});
  process.set(memory, second);
  CHECK((process.end().find("unordered-copies") == 0) == is_known);
}

TEST_CASE("a captured graph without work is known, and orders nothing", "[order]") {
  constexpr std::uint64_t event = 0x60, graph = 0x70, exec = 0x80;
  Ordered process;
  process.see("cuEventCreate", {event, CU_EVENT_DISABLE_TIMING});
  process.see("cuStreamBeginCapture_v2", {third, CU_STREAM_CAPTURE_MODE_RELAXED});
  process.see("cuEventRecord", {event, third});
  process.see("cuStreamEndCapture", {third, graph});
  process.see("cuGraphInstantiateWithFlags", {exec, graph, 0});
  process.set(memory, first);
  process.see("cuGraphLaunch", {exec, second, 1});
  process.set(memory, second);
  CHECK(process.end().find("unordered-copies") == 0);
}

TEST_CASE("branches of a capture are not compared if their dependencies were set", "[order]") {
  for (const bool is_set : {false, true}) {
    Ordered process;
    process.see("cuEventCreate", {0x700, CU_EVENT_DISABLE_TIMING});
    process.see("cuStreamBeginCapture_v2", {first, CU_STREAM_CAPTURE_MODE_RELAXED});
    process.see("cuEventRecord", {0x700, first});
    process.see("cuStreamWaitEvent", {second, 0x700, 0});
    process.set(memory, first);
    if (is_set) process.see("cuStreamUpdateCaptureDependencies", {second, 1});
    process.set(memory, second);
    process.see("cuStreamEndCapture", {first, 0x500});
    process.see("cuGraphInstantiateWithFlags", {0x600, 0x500});
    CHECK(process.end().empty() == is_set);
  }
}

TEST_CASE("a wait for the context includes a destroyed stream, whose handle another stream has", "[order]") {
  Ordered process;
  process.set(memory, first);
  process.see("cuStreamDestroy_v2", {first});
  process.see("cuStreamCreate", {first, CU_STREAM_NON_BLOCKING});
  process.set(other, first);
  process.see("cuCtxSynchronize", {});
  process.set(memory, second);
  CHECK(process.end().empty());
}
