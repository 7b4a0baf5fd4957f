// SPDX-License-Identifier: MIT
// Arrays, mipmapped arrays, textures and surfaces, with the answers of an H100 (driver 580.159.04,
// 2026-11-27).
#include "death.hpp"
#include "fixture.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace sim = cuevent::sim;

namespace {

using Bytes = std::vector<unsigned char>;

Bytes pattern(std::size_t size) {
  Bytes made(size);
  for (std::size_t i = 0; i < size; ++i)
    made[i] = static_cast<unsigned char>(i * 7 + i / 256);
  return made;
}

CUDA_ARRAY3D_DESCRIPTOR shape(std::size_t width, std::size_t height = 0, std::size_t depth = 0,
                              unsigned flags = 0, int format = CU_AD_FORMAT_UNSIGNED_INT8,
                              unsigned channels = 1) {
  return {width, height, depth, static_cast<CUarray_format>(format), channels, flags};
}

struct Arrays : Fixture {
  CUresult creation(const CUDA_ARRAY3D_DESCRIPTOR& wish) {
    CUarray made = nullptr;
    const CUresult result = cu.array_create_3d(&made, &wish);
    if (result == CUDA_SUCCESS) OK(cu.array_destroy(made));
    return result;
  }
  CUarray make(const CUDA_ARRAY3D_DESCRIPTOR& wish) {
    CUarray made = nullptr;
    OK(cu.array_create_3d(&made, &wish));
    return made;
  }
  CUDA_MEMCPY2D rows_to(CUarray to, std::size_t x, std::size_t y, std::size_t width,
                        std::size_t height) const {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source.data();
    copy.srcPitch = 65;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to;
    copy.dstXInBytes = x;
    copy.dstY = y;
    copy.WidthInBytes = width;
    copy.Height = height;
    return copy;
  }
  CUDA_MEMCPY3D box_to(CUarray to, std::size_t z, std::size_t width, std::size_t height,
                       std::size_t depth) const {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source.data();
    copy.srcPitch = 16;
    copy.srcHeight = 8;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to;
    copy.dstZ = z;
    copy.WidthInBytes = width;
    copy.Height = height;
    copy.Depth = depth;
    return copy;
  }
  Bytes box_of(CUarray from, std::size_t width, std::size_t height, std::size_t depth) const {
    Bytes found(width * height * depth);
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = from;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = found.data();
    copy.dstPitch = width;
    copy.dstHeight = height;
    copy.WidthInBytes = width;
    copy.Height = height;
    copy.Depth = depth;
    OK(cu.copy_box(&copy));
    return found;
  }
  CUDA_RESOURCE_DESC resource(CUarray of) const {
    CUDA_RESOURCE_DESC made{};
    made.resType = CU_RESOURCE_TYPE_ARRAY;
    made.res.array.hArray = of;
    return made;
  }
  CUDA_RESOURCE_DESC line(CUdeviceptr at) const {
    CUDA_RESOURCE_DESC made{};
    made.resType = CU_RESOURCE_TYPE_LINEAR;
    made.res.linear = {at, CU_AD_FORMAT_UNSIGNED_INT8, 1, 4096};
    return made;
  }
  CUresult texture(const CUDA_RESOURCE_DESC& from, const CUDA_TEXTURE_DESC& as = {},
                   const CUDA_RESOURCE_VIEW_DESC* view = nullptr) {
    CUtexObject made = 0;
    const CUresult result = cu.texture_create(&made, &from, &as, view);
    if (result == CUDA_SUCCESS) OK(cu.texture_destroy(made));
    return result;
  }

  Bytes source = pattern(std::size_t{1} << 13);
};

constexpr CUresult refused = CUDA_ERROR_INVALID_VALUE;

} // namespace

TEST_CASE("a format says how many channels an array can have") {
  Arrays f;
  const auto channels = [&f](int format) {
    std::string made;
    for (unsigned count = 0; count <= 5; ++count)
      if (f.creation(shape(64, 64, 0, 0, format, count)) == CUDA_SUCCESS) made += std::to_string(count);
    return made;
  };
  for (const int format : {1, 2, 3, 8, 9, 10, 0x10, 0x20})
    CHECK(channels(format) == "124");
  for (const int format : {0, 4, 7, 11, 0x1f, 0x90, 0x9f, 0xb0, 0xcc, 0xff})
    CHECK(channels(format).empty());
  const char* const by_turns[] = {"1", "2", "4"};
  for (int format = 0xc0; format <= 0xcb; ++format)
    CHECK(channels(format) == by_turns[(format - 0xc0) % 3]);
  for (const int format : {0x21, 0x4f, 0x51, 0x8f, 0x100})
    CHECK(channels(format).empty());
  CHECK(channels(0x50) == "4");
  CHECK(f.creation(shape(64, 64, 0, 0, 0x91, 1)) == refused);
}

TEST_CASE("sizes and flags of arrays are accepted as on a device") {
  Arrays f;
  struct Size {
    std::size_t width, height, depth;
    std::vector<unsigned> flags; // that are accepted
  };
  const std::vector<unsigned> asked = {0, 1, 2, 3, 4, 5, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x200, ~0U};
  const Size sizes[] = {{0, 0, 0, {}},
                        {0, 1, 0, {}},
                        {0, 0, 1, {}},
                        {1, 0, 0, {0, 2, 0x80, 0x100}},
                        {1, 0, 1, {1, 3}},
                        {1, 1, 1, {0, 1, 2, 3, 0x40, 0x80, 0x100}},
                        {5, 7, 0, {0, 2, 8, 0x40, 0x80, 0x100}},
                        {5, 7, 3, {0, 1, 2, 3, 0x40, 0x80, 0x100}},
                        {1, 65537, 0, {}},
                        {2, 2, 16385, {0, 0x40, 0x80, 0x100}},
                        {2, 16385, 2, {1, 3}}};
  for (const Size& size : sizes) {
    std::vector<unsigned> accepted;
    for (const unsigned flags : asked)
      if (f.creation(shape(size.width, size.height, size.depth, flags)) == CUDA_SUCCESS)
        accepted.push_back(flags);
    CAPTURE(size.width, size.height, size.depth);
    CHECK(accepted == size.flags);
  }
  for (const auto& [width, height, depth] :
       {std::array<std::size_t, 3>{131072, 0, 0}, {65536, 65536, 0}, {131072, 65536, 0}, {16384, 2, 2}})
    OK(f.creation(shape(width, height, depth)));
  for (const auto& [width, height, depth] :
       {std::array<std::size_t, 3>{131073, 0, 0}, {131073, 1, 0}, {16385, 2, 2}, {~std::size_t{0}, 0, 0}})
    CHECK(f.creation(shape(width, height, depth)) == refused);
  OK(f.creation(shape(6, 6, 6, CUDA_ARRAY3D_CUBEMAP)));
  CHECK(f.creation(shape(6, 6, 7, CUDA_ARRAY3D_CUBEMAP)) == refused);
  OK(f.creation(shape(6, 6, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED)));
  CHECK(f.creation(shape(6, 6, 13, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED)) == refused);
  for (const unsigned flags : {0x41U, 0x81U}) // layers that are sparse or deferred
    OK(f.creation(shape(64, 64, 2, flags)));
  OK(f.creation(shape(64, 64, 0, 0x82)));     // a deferred surface
  for (const unsigned flags : {0x42U, 0xc0U}) // a sparse surface, sparse and deferred
    CHECK(f.creation(shape(64, 64, 0, flags)) == refused);
  CHECK(f.creation(shape(64, 64, 2, 9)) == refused); // layers to gather from
}

TEST_CASE("an array tells its shape, counts as memory, and is destroyed once") {
  Arrays f;
  std::size_t before = 0, after = 0, total = 0;
  OK(f.cu.memory_info(&before, &total));
  CUarray made = f.make(shape(4096, 4096, 0, 0, CU_AD_FORMAT_FLOAT));
  OK(f.cu.memory_info(&after, &total));
  CHECK(before - after == std::size_t{64} << 20);
  CHECK(sim::live_handles().allocations == 1);
  OK(f.cu.array_destroy(made));
  OK(f.cu.memory_info(&after, &total));
  CHECK(before == after);
  CHECK(sim::live_handles().allocations == 0);

  made = f.make(shape(5, 7, 3, CUDA_ARRAY3D_SURFACE_LDST));
  CUDA_ARRAY3D_DESCRIPTOR box{};
  OK(f.cu.array_descriptor_3d(&box, made));
  CHECK((box.Width == 5 && box.Height == 7 && box.Depth == 3 && box.Flags == CUDA_ARRAY3D_SURFACE_LDST));
  CUDA_ARRAY_DESCRIPTOR rows{};
  OK(f.cu.array_descriptor(&rows, made));
  CHECK((rows.Width == 5 && rows.Height == 7 && rows.NumChannels == 1));
  CHECK(f.cu.array_descriptor(nullptr, made) == refused);
  CHECK(f.cu.array_descriptor(&rows, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.array_destroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  OK(f.cu.array_destroy(made));
  CHECK(f.cu.array_create(nullptr, &rows) == refused);
  CHECK(f.cu.array_create(&made, nullptr) == refused);
  CHECK(f.cu.array_create_3d(nullptr, &box) == refused);
  CHECK(f.cu.array_create_3d(&made, nullptr) == refused);
}

TEST_CASE("a use of a destroyed array ends the program") {
  const Death death = death_of([] {
    Arrays f;
    const CUarray made = f.make(shape(64, 64));
    OK(f.cu.array_destroy(made));
    CUDA_ARRAY_DESCRIPTOR rows{};
    f.cu.array_descriptor(&rows, made);
  });
  CHECK(death.aborted);
  CHECK(death.says("array #1"));
}

TEST_CASE("flags of arrays go together if each two of them do") {
  Arrays f;
  constexpr unsigned gather = CUDA_ARRAY3D_TEXTURE_GATHER, sparse = CUDA_ARRAY3D_SPARSE,
                     deferred = CUDA_ARRAY3D_DEFERRED_MAPPING, surface = CUDA_ARRAY3D_SURFACE_LDST,
                     layered = CUDA_ARRAY3D_LAYERED, cubemap = CUDA_ARRAY3D_CUBEMAP;
  for (const unsigned flags :
       {surface | gather, gather | sparse, surface | gather | deferred, 0x100 | surface | deferred})
    OK(f.creation(shape(64, 32, 0, flags)));
  for (const unsigned flags : {sparse | surface, sparse | deferred, 0x100 | sparse | surface, 0x10U, 0x20U})
    CHECK(f.creation(shape(64, 32, 0, flags)) == refused);
  OK(f.creation(shape(64, 32, 4, layered | surface | deferred)));
  CHECK(f.creation(shape(64, 0, 4, layered | sparse)) == refused);
  CHECK(f.creation(shape(64, 64, 6, cubemap | sparse)) == refused);
  OK(f.creation(shape(64, 32, 0, 0x8000'0000)));
  const std::size_t beyond = std::size_t{1} << 32; // the lower bits of a size count
  OK(f.creation(shape(64 + beyond, 32 + beyond)));
  CHECK(f.creation(shape(beyond, 32)) == refused);
}

TEST_CASE("an array of compressed blocks has a block for 16 elements") {
  Arrays f;
  std::size_t before = 0, after = 0, total = 0;
  OK(f.cu.memory_info(&before, &total));
  const CUarray made = f.make(shape(1024, 1024, 0, 0, 0x91, 4)); // blocks of 8 bytes
  OK(f.cu.memory_info(&after, &total));
  CHECK(before - after == 1024 * 1024 / 2);
  OK(f.cu.array_destroy(made));
  CHECK(f.creation(shape(1024, 1024, 0, 0, 0x91, 1)) == refused);
}

TEST_CASE("a handle of something else is refused where an array is looked at first") {
  Arrays f;
  const CUDA_ARRAY3D_DESCRIPTOR wish = shape(64, 32);
  CUmipmappedArray levels = nullptr;
  OK(f.cu.mipmapped_create(&levels, &wish, 2));
  const auto array = reinterpret_cast<CUarray>(levels);
  CUarray out = nullptr;
  CHECK(f.cu.copy_host_to_array(array, 0, f.source.data(), 64) == refused);
  CHECK(f.cu.array_plane(&out, array, 0) == refused);
  CHECK(f.cu.mipmapped_level(&out, reinterpret_cast<CUmipmappedArray>(f.make(wish)), 0) == refused);
  OK(f.cu.mipmapped_destroy(levels));
}

TEST_CASE("a copy of a sparse array without memory succeeds, and one of a deferred array faults") {
  Arrays f;
  const CUarray sparse = f.make(shape(64, 32, 0, CUDA_ARRAY3D_SPARSE));
  Bytes found(64);
  OK(f.cu.copy_host_to_array(sparse, 0, f.source.data(), 64));
  OK(f.cu.copy_array_to_host(found.data(), sparse, 0, 64));
  for (const bool of_host : {true, false}) {
    const Death death = death_of([of_host] {
      Arrays g;
      const CUarray deferred = g.make(shape(64, 32, 0, CUDA_ARRAY3D_DEFERRED_MAPPING));
      CUdeviceptr memory = 0;
      OK(g.cu.allocate(&memory, 64));
      Bytes to(64);
      if (of_host) {
        CHECK(g.cu.copy_array_to_host(to.data(), deferred, 0, 64) == CUDA_ERROR_LAUNCH_FAILED);
      } else {
        OK(g.cu.copy_array_to_device(memory, deferred, 0, 64));
        CHECK(g.cu.context_synchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
      }
      std::abort(); // instead of the end of a process with a fault
    });
    CHECK(death.aborted);
    CHECK_FALSE(death.says("FAILED"));
  }
}

TEST_CASE("a node that copies an array without memory is not modelled") {
  const Death death = death_of([] {
    Arrays f;
    const CUarray sparse = f.make(shape(16, 8, 0, CUDA_ARRAY3D_SPARSE));
    const CUDA_MEMCPY3D copy = f.box_to(sparse, 0, 16, 8, 1);
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    OK(f.cu.graph_create(&graph, 0));
    f.cu.add_copy_node(&node, graph, nullptr, 0, &copy, f.context);
  });
  CHECK(death.says("a node that copies a deferred or sparse array"));
}

TEST_CASE("a view of rows shows all of them, and one of plain memory is not looked at") {
  Arrays f;
  const CUDA_RESOURCE_DESC of = f.resource(f.make(shape(64, 32, 0, 0, CU_AD_FORMAT_FLOAT)));
  CUDA_RESOURCE_VIEW_DESC view{};
  view.format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
  view.width = 64;
  view.height = 32;
  OK(f.texture(of, {}, &view));
  CUdeviceptr memory = 0;
  OK(f.cu.allocate(&memory, 1 << 16));
  view.width = 63;
  CHECK(f.texture(of, {}, &view) == refused);
  OK(f.texture(f.line(memory), {}, &view));
  view.width = 64;
  view.reserved[0] = 1;
  CHECK(f.texture(of, {}, &view) == refused);
  view.reserved[0] = 0;
  view.format = CU_RES_VIEW_FORMAT_NONE;
  CUtexObject made = 77;
  const CUDA_TEXTURE_DESC plain{};
  CHECK(f.cu.texture_create(&made, &of, &plain, &view) == refused);
  CHECK(made == 0);
}

TEST_CASE("only deferred and sparse arrays tell about their memory") {
  Arrays f;
  const CUarray plain = f.make(shape(64, 64)), deferred = f.make(shape(64, 64, 0, 0x80)),
                sparse = f.make(shape(1024, 1024, 0, 0x40));
  CUDA_ARRAY_MEMORY_REQUIREMENTS memory{};
  CHECK(f.cu.array_requirements(&memory, plain, 0) == refused);
  CHECK(f.cu.array_requirements(nullptr, deferred, 0) == refused);
  CHECK(f.cu.array_requirements(&memory, nullptr, 0) == refused);
  OK(f.cu.array_requirements(&memory, deferred, 0));
  CHECK((memory.size == 65536 && memory.alignment == 65536));
  CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
  CHECK(f.cu.array_sparse_properties(&tiles, plain) == refused);
  OK(f.cu.array_sparse_properties(&tiles, sparse));
  CHECK((tiles.tileExtent.width == 256 && tiles.tileExtent.height == 256 && tiles.tileExtent.depth == 1));
  CUarray plane = nullptr;
  CHECK(f.cu.array_plane(&plane, plain, 0) == refused);
  CHECK(f.cu.array_plane(&plane, nullptr, 0) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("lines of an array come back as they were copied") {
  Arrays f;
  const CUarray line = f.make(shape(4096)), other = f.make(shape(4096)), rows = f.make(shape(64, 64));
  Bytes found(4096);
  OK(f.cu.copy_host_to_array(line, 100, f.source.data(), 3996));
  CHECK(f.cu.copy_host_to_array(line, 100, f.source.data(), 3997) == refused);
  CHECK(f.cu.copy_host_to_array(line, ~std::size_t{0}, f.source.data(), 2) == refused);
  CHECK(f.cu.copy_host_to_array(nullptr, 0, f.source.data(), 64) == refused);
  CHECK(f.cu.copy_host_to_array(line, 0, nullptr, 64) == refused);
  OK(f.cu.copy_host_to_array(nullptr, 0, nullptr, 0));
  OK(f.cu.copy_array_to_host(found.data(), line, 100, 3996));
  CHECK(std::memcmp(found.data(), f.source.data(), 3996) == 0);

  CUdeviceptr memory = 0;
  OK(f.cu.allocate(&memory, 4096));
  OK(f.cu.copy_array_to_array(other, 7, line, 100, 1000));
  OK(f.cu.copy_array_to_device(memory, other, 7, 1000));
  OK(f.cu.copy_device_to_array(other, 2000, memory, 1000));
  OK(f.cu.context_synchronize()); // the stream does not wait for the default stream
  OK(f.cu.copy_array_to_host_async(found.data(), other, 2000, 1000, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(std::memcmp(found.data(), f.source.data(), 1000) == 0);
  CHECK(f.cu.copy_array_to_host_async(found.data(), other, 0, 5000, f.stream) == refused);

  OK(f.cu.copy_host_to_array(rows, 0, f.source.data(), 64)); // the first row, and no more
  CHECK(f.cu.copy_host_to_array(rows, 0, f.source.data(), 128) == refused);
  CHECK(f.cu.copy_host_to_array(rows, 10, f.source.data(), 60) == refused);
  OK(f.cu.copy_array_to_array(rows, 0, line, 0, 64));
  const CUarray wide = f.make(shape(64, 0, 0, 0, CU_AD_FORMAT_FLOAT, 4)); // nothing has to be aligned
  OK(f.cu.copy_host_to_array(wide, 8, f.source.data(), 1016));
  CHECK(f.cu.copy_host_to_array(wide, 0, f.source.data(), 1040) == refused);
  OK(f.cu.copy_host_to_array(wide, 0, f.source.data(), 1));
}

TEST_CASE("rows and boxes of an array come back as they were copied") {
  Arrays f;
  const CUarray rows = f.make(shape(64, 64)), line = f.make(shape(4096));
  struct Part {
    std::size_t x, y, width, height;
    CUresult result;
  };
  const Part parts[] = {
      {0, 0, 65, 64, refused},      {0, 0, 64, 65, refused},      {1, 0, 64, 64, refused},
      {0, 1, 64, 64, refused},      {0, 0, 0, 64, CUDA_SUCCESS},  {0, 0, 64, 0, CUDA_SUCCESS},
      {65, 0, 0, 1, CUDA_SUCCESS},  {0, 64, 64, 0, CUDA_SUCCESS}, {0, 64, 1, 1, refused},
      {0, 0, 64, 64, CUDA_SUCCESS}, {1, 1, 63, 63, CUDA_SUCCESS}};
  for (const Part& part : parts) {
    const CUDA_MEMCPY2D copy = f.rows_to(rows, part.x, part.y, part.width, part.height);
    CAPTURE(part.x, part.y, part.width, part.height);
    CHECK(f.cu.copy_rows(&copy) == part.result);
    CHECK(f.cu.copy_rows_async(&copy, f.stream) == part.result);
  }
  OK(f.cu.stream_synchronize(f.stream));
  const Bytes whole = f.box_of(rows, 64, 64, 1);
  CHECK(whole[5] == f.source[5]);                   // of the first copy
  CHECK(whole[64 * 3 + 9] == f.source[65 * 2 + 8]); // of the second
  CUDA_MEMCPY2D copy = f.rows_to(nullptr, 0, 0, 64, 64);
  CHECK(f.cu.copy_rows(&copy) == refused);
  copy = f.rows_to(line, 0, 0, 64, 64);
  CHECK(f.cu.copy_rows(&copy) == refused);
  copy.Height = 1;
  OK(f.cu.copy_rows(&copy));

  for (const unsigned flags : {0U, unsigned{CUDA_ARRAY3D_LAYERED}}) {
    const CUarray box = f.make(shape(16, 8, 4, flags));
    const CUDA_MEMCPY3D good[] = {f.box_to(box, 0, 16, 8, 4), f.box_to(box, 4, 16, 8, 0)};
    for (const CUDA_MEMCPY3D& each : good)
      OK(f.cu.copy_box(&each));
    const CUDA_MEMCPY3D bad[] = {f.box_to(box, 0, 16, 8, 5), f.box_to(box, 1, 16, 8, 4),
                                 f.box_to(box, 0, 17, 8, 4), f.box_to(box, 0, 16, 9, 4)};
    for (const CUDA_MEMCPY3D& each : bad)
      CHECK(f.cu.copy_box(&each) == refused);
    CHECK(f.box_of(box, 16, 8, 4) == Bytes(f.source.begin(), f.source.begin() + 512));
    const CUDA_MEMCPY3D last = f.box_to(box, 3, 16, 8, 1);
    OK(f.cu.copy_box_async(&last, f.stream));
    OK(f.cu.stream_synchronize(f.stream));
    const Bytes changed = f.box_of(box, 16, 8, 4);
    CHECK(Bytes(changed.begin() + 384, changed.end()) == Bytes(f.source.begin(), f.source.begin() + 128));
    CUDA_MEMCPY3D level = f.box_to(box, 0, 16, 8, 4);
    level.dstLOD = 1;
    CHECK(f.cu.copy_box(&level) == refused);
  }
}

TEST_CASE("an array is used by captured copies and by nodes") {
  Arrays f;
  const CUarray line = f.make(shape(256)), box = f.make(shape(16, 8, 4)), other = f.make(shape(16, 8, 4));
  void* pinned = nullptr;
  OK(f.cu.host_allocate(&pinned, 256, 0));
  std::memcpy(pinned, f.source.data(), 256);
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUDA_ARRAY3D_DESCRIPTOR told{};
  OK(f.cu.array_descriptor_3d(&told, line));
  OK(f.cu.copy_host_to_array_async(line, 0, pinned, 256, f.stream));
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));

  CUDA_MEMCPY3D copy = f.box_to(box, 0, 16, 8, 4);
  CUgraphNode node = nullptr;
  OK(f.cu.add_copy_node(&node, graph, nullptr, 0, &copy, f.context));
  CUDA_MEMCPY3D kept{};
  OK(f.cu.copy_node_parameters(node, &kept));
  CHECK((kept.dstArray == box && kept.dstPitch == 0));
  CUgraphExec exec = nullptr;
  OK(f.cu.instantiate(&exec, graph, 0));
  OK(f.cu.graph_launch(exec, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(f.box_of(line, 256, 1, 1) == Bytes(f.source.begin(), f.source.begin() + 256));
  CHECK(f.box_of(box, 16, 8, 4) == Bytes(f.source.begin(), f.source.begin() + 512));

  copy.dstArray = other;
  CHECK(f.cu.exec_set_copy(exec, node, &copy, f.context) == refused);
  copy = f.box_to(box, 0, 17, 8, 4);
  CHECK(f.cu.add_copy_node(&node, graph, nullptr, 0, &copy, f.context) == refused);
}

TEST_CASE("an exec takes another array for a copy of one row") {
  Arrays f;
  const CUarray line = f.make(shape(256)), rows = f.make(shape(64, 64));
  CUDA_MEMCPY3D copy = f.box_to(line, 0, 16, 1, 1);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(f.cu.graph_create(&graph, 0));
  OK(f.cu.add_copy_node(&node, graph, nullptr, 0, &copy, f.context));
  OK(f.cu.instantiate(&exec, graph, 0));
  copy.dstArray = rows;
  copy.dstY = 0;
  OK(f.cu.exec_set_copy(exec, node, &copy, f.context));
  OK(f.cu.array_destroy(line)); // the exec has let it go
  OK(f.cu.graph_launch(exec, f.stream));
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(f.box_of(rows, 16, 1, 1) == Bytes(f.source.begin(), f.source.begin() + 16));
}

TEST_CASE("a capture refuses to create or to destroy an array, a texture or a surface") {
  Arrays f;
  const CUDA_ARRAY3D_DESCRIPTOR wish = shape(64, 64);
  const CUarray made = f.make(wish);
  const CUDA_RESOURCE_DESC of = f.resource(made);
  const CUDA_TEXTURE_DESC plain{};
  CUtexObject texture = 0;
  OK(f.cu.texture_create(&texture, &of, &plain, nullptr));
  const std::function<CUresult()> calls[] = {
      [&] { return f.creation(wish); },
      [&] { return f.cu.array_destroy(made); },
      [&] { return f.texture(of); },
      [&] { return f.cu.texture_destroy(texture); },
      [&] {
        CUsurfObject object = 0;
        return f.cu.surface_create(&object, &of);
      },
      [&] {
        CUmipmappedArray object = nullptr;
        return f.cu.mipmapped_create(&object, &wish, 3);
      },
  };
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL})
    for (const auto& call : calls) {
      OK(f.cu.begin_capture(f.stream, mode));
      CHECK(call() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      CUgraph graph = nullptr;
      CHECK(f.cu.end_capture(f.stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(f.creation(wish));
  OK(f.texture(of));
  CUgraph graph = nullptr;
  OK(f.cu.end_capture(f.stream, &graph));
}

TEST_CASE("a mipmapped array has the levels that its size allows") {
  Arrays f;
  const CUDA_ARRAY3D_DESCRIPTOR wish = shape(64, 32);
  for (const auto& [wanted, levels] :
       {std::array<unsigned, 2>{0, 1}, {1, 1}, {2, 2}, {7, 7}, {8, 7}, {100, 7}}) {
    CUmipmappedArray made = nullptr;
    OK(f.cu.mipmapped_create(&made, &wish, wanted));
    CUarray level = nullptr, same = nullptr;
    unsigned found = 0;
    while (f.cu.mipmapped_level(&level, made, found) == CUDA_SUCCESS) {
      CUDA_ARRAY3D_DESCRIPTOR told{};
      OK(f.cu.array_descriptor_3d(&told, level));
      CHECK(told.Width == 64U >> found);
      CHECK(told.Height == (found == 6 ? 1 : 32U >> found));
      OK(f.cu.mipmapped_level(&same, made, found++));
      CHECK(level == same);
    }
    CHECK(found == levels);
    CHECK(f.cu.mipmapped_level(nullptr, made, 0) == refused);
    CHECK(sim::live_handles().allocations == 1);
    OK(f.cu.mipmapped_destroy(made));
    CHECK(sim::live_handles().allocations == 0);
  }
  CUmipmappedArray made = nullptr;
  OK(f.cu.mipmapped_create(&made, &wish, 2));
  CUarray first = nullptr, second = nullptr;
  OK(f.cu.mipmapped_level(&first, made, 0));
  OK(f.cu.mipmapped_level(&second, made, 1));
  OK(f.cu.copy_host_to_array(first, 0, f.source.data() + 64, 64));
  OK(f.cu.copy_host_to_array(second, 0, f.source.data(), 32));
  CHECK(f.cu.copy_host_to_array(second, 0, f.source.data(), 33) == refused);
  CHECK(f.box_of(second, 32, 1, 1) == Bytes(f.source.begin(), f.source.begin() + 32));
  CHECK(f.box_of(first, 64, 1, 1) == Bytes(f.source.begin() + 64, f.source.begin() + 128));
  OK(f.cu.array_destroy(second)); // the level stays
  CUarray again = nullptr;
  OK(f.cu.mipmapped_level(&again, made, 1));
  CHECK(again == second);
  CHECK(f.box_of(second, 32, 1, 1) == Bytes(f.source.begin(), f.source.begin() + 32));
  OK(f.cu.mipmapped_destroy(made));
  for (const std::size_t height : {std::size_t{0}, std::size_t{2}}) {
    const CUDA_ARRAY3D_DESCRIPTOR large = shape(32768, height), larger = shape(32769, height);
    OK(f.cu.mipmapped_create(&made, &large, 2));
    OK(f.cu.mipmapped_destroy(made));
    CHECK(f.cu.mipmapped_create(&made, &larger, 2) == refused);
  }
  CHECK(f.cu.mipmapped_destroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.mipmapped_level(&first, nullptr, 0) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("the end of an array waits for the work of its context, and needs none") {
  Arrays f;
  const CUarray made = f.make(shape(64, 64));
  OK(f.work(f.stream));
  CUcontext popped = nullptr;
  OK(f.cu.context_pop(&popped));
  CUarray none = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR told{};
  CHECK(f.cu.array_create_3d(nullptr, &told) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(f.cu.array_create_3d(&none, &told) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(f.cu.copy_host_to_array(made, 0, f.source.data(), 10) == CUDA_ERROR_INVALID_CONTEXT);
  OK(f.cu.array_descriptor_3d(&told, made));
  CHECK(f.cu.stream_query(f.stream) == CUDA_ERROR_NOT_READY);
  OK(f.cu.array_destroy(made));
  OK(f.cu.stream_query(f.stream));
  OK(f.cu.context_push(popped));
}

TEST_CASE("textures and surfaces have the lowest free number and tell what they were made from") {
  Arrays f;
  const CUarray array = f.make(shape(64, 64));
  const CUDA_RESOURCE_DESC of = f.resource(array);
  CUDA_TEXTURE_DESC texture{};
  texture.maxAnisotropy = 17;
  CUtexObject first = 0, second = 0;
  OK(f.cu.texture_create(&first, &of, &texture, nullptr));
  CUsurfObject surface = 0;
  OK(f.cu.surface_create(&surface, &of));
  CHECK((first == 1 && surface == 2));
  OK(f.cu.texture_destroy(first));
  OK(f.cu.texture_destroy(first)); // anything else is left alone
  OK(f.cu.texture_destroy(0x7777));
  OK(f.cu.texture_destroy(surface));
  OK(f.cu.texture_create(&second, &of, &texture, nullptr));
  CHECK(second == 1);

  CUDA_RESOURCE_DESC told{};
  CUDA_TEXTURE_DESC read{};
  OK(f.cu.texture_resource(&told, second));
  CHECK((told.resType == CU_RESOURCE_TYPE_ARRAY && told.res.array.hArray == array));
  OK(f.cu.texture_texture(&read, second));
  CHECK(read.maxAnisotropy == 17);
  OK(f.cu.surface_resource(&told, surface));
  CHECK(f.cu.surface_resource(&told, second) == refused);
  CHECK(f.cu.texture_resource(&told, surface) == refused);
  CHECK(f.cu.texture_resource(nullptr, second) == refused);
  CHECK(f.cu.texture_resource(&told, 0) == refused);
  OK(f.cu.array_destroy(array)); // the texture does not notice
  OK(f.cu.texture_resource(&told, second));
  OK(f.cu.texture_destroy(second));
  OK(f.cu.surface_destroy(surface));
  CHECK(f.cu.surface_resource(&told, surface) == refused);

  CUcontext popped = nullptr;
  OK(f.cu.context_pop(&popped));
  CHECK(f.cu.texture_create(nullptr, &of, &texture, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(f.cu.surface_destroy(surface) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(f.cu.surface_resource(&told, surface) == CUDA_ERROR_INVALID_CONTEXT);
  OK(f.cu.context_push(popped));
}

TEST_CASE("what a texture is made from is checked as on a device") {
  Arrays f;
  CUdeviceptr memory = 0;
  OK(f.cu.allocate(&memory, 1 << 16));
  memory = (memory + 511) / 512 * 512;
  const CUDA_RESOURCE_DESC array = f.resource(f.make(shape(64, 64)));
  CUDA_RESOURCE_DESC line = f.line(memory), wrong = array;
  OK(f.texture(array));
  OK(f.texture(line));
  wrong.flags = 1;
  CHECK(f.texture(wrong) == refused);
  wrong = f.resource(nullptr);
  CHECK(f.texture(wrong) == refused);
  CUsurfObject surface = 0;
  CHECK(f.cu.surface_create(&surface, &line) == refused);
  CHECK(f.cu.surface_create(&surface, nullptr) == refused);
  for (const unsigned offset : {1U, 16U, 256U})
    CHECK(f.texture(f.line(memory + offset)) == refused);
  OK(f.texture(f.line(memory + 512)));
  OK(f.texture(f.line(0x1230000000))); // which memory it is, is not looked at
  CHECK(f.texture(f.line(0)) == refused);
  for (const unsigned channels : {0U, 3U, 5U}) {
    line.res.linear.numChannels = channels;
    CHECK(f.texture(line) == refused);
  }
  CUDA_RESOURCE_DESC rows{};
  rows.resType = CU_RESOURCE_TYPE_PITCH2D;
  rows.res.pitch2D = {memory, CU_AD_FORMAT_UNSIGNED_INT8, 1, 64, 64, 512};
  OK(f.texture(rows));
  rows.res.pitch2D.pitchInBytes = 16;
  CHECK(f.texture(rows) == refused);
  rows.res.pitch2D = {memory, CU_AD_FORMAT_UNSIGNED_INT8, 1, 131072, 513, 32};
  OK(f.texture(rows));
  rows.res.pitch2D.height = 131072;
  CHECK(f.texture(rows) == refused);

  const auto changed = [&](auto change) {
    CUDA_TEXTURE_DESC made{};
    change(made);
    return f.texture(array, made);
  };
  for (const int mode : {-1, 4})
    CHECK(changed([mode](auto& t) { t.addressMode[0] = static_cast<CUaddress_mode>(mode); }) == refused);
  for (const int mode : {-1, 2})
    CHECK(changed([mode](auto& t) { t.filterMode = static_cast<CUfilter_mode>(mode); }) == refused);
  for (const unsigned flags : {1U, 2U, 3U, 4U, 8U, 16U, 32U})
    OK(changed([flags](auto& t) { t.flags = flags; }));
  CHECK(changed([](auto& t) { t.flags = 64; }) == refused);
  CHECK(changed([](auto& t) { t.reserved[3] = 1; }) == refused);

  CUDA_RESOURCE_VIEW_DESC view{};
  view.width = view.height = 64;
  for (int format = 0; format <= 34; ++format) {
    view.format = static_cast<CUresourceViewFormat>(format);
    CHECK(f.texture(array, {}, &view) == (format == 1 || format == 4 ? CUDA_SUCCESS : refused));
  }
}

TEST_CASE("a view has elements of the size that the array has") {
  Arrays f;
  CUDA_RESOURCE_VIEW_DESC view{};
  view.width = view.height = 64;
  const auto views = [&](const CUDA_ARRAY3D_DESCRIPTOR& wish) {
    const CUDA_RESOURCE_DESC of = f.resource(f.make(wish));
    view.lastLayer = wish.Depth != 0 ? 3 : 0;
    std::vector<int> accepted;
    for (int format = 0; format <= 35; ++format) {
      view.format = static_cast<CUresourceViewFormat>(format);
      if (f.texture(of, {}, &view) == CUDA_SUCCESS) accepted.push_back(format);
    }
    return accepted;
  };
  const std::vector<int> of_four_bytes = {3, 6, 8, 11, 13, 16, 20, 22};
  CHECK(views(shape(64, 64)) == std::vector{1, 4});
  CHECK(views(shape(64, 64, 0, 0, CU_AD_FORMAT_FLOAT)) == of_four_bytes);
  CHECK(views(shape(64, 64, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4)) == of_four_bytes);
  CHECK(views(shape(64, 64, 4, CUDA_ARRAY3D_LAYERED)).empty()); // the view has no depth

  const CUDA_RESOURCE_DESC of = f.resource(f.make(shape(64, 64)));
  const CUDA_TEXTURE_DESC plain{};
  CUtexObject made = 0;
  OK(f.cu.texture_create(&made, &of, &plain, nullptr));
  view.width = 77;
  const auto view_of =
      f.cu.find<PFN_cuTexObjectGetResourceViewDesc_v5000>("cuTexObjectGetResourceViewDesc", 5000);
  OK(view_of(&view, made)); // there is none
  CHECK(view.width == 77);
}

TEST_CASE("a texture of a line has plain formats, and that of ten bits") {
  Arrays f;
  CUdeviceptr memory = 0;
  OK(f.cu.allocate(&memory, 1 << 16));
  CUDA_RESOURCE_DESC line = f.line(memory);
  line.res.linear.numChannels = 4;
  std::vector<int> accepted;
  for (int format = 0; format <= 0xff; ++format) {
    line.res.linear.format = static_cast<CUarray_format>(format);
    if (f.texture(line) == CUDA_SUCCESS) accepted.push_back(format);
  }
  CHECK(accepted == std::vector{1, 2, 3, 8, 9, 10, 0x10, 0x20, 0x50});
}

TEST_CASE("a texture shows no array of another context, and each context has numbers of its own") {
  Arrays f;
  const CUDA_RESOURCE_DESC here = f.resource(f.make(shape(64, 64)));
  const CUDA_TEXTURE_DESC plain{};
  CUtexObject first = 0, second = 0;
  OK(f.cu.texture_create(&first, &here, &plain, nullptr));
  CUcontext other = nullptr;
  OK(f.cu.context_create(&other, 0, 0));
  CUDA_RESOURCE_DESC told{};
  CHECK(f.cu.texture_resource(&told, first) == refused);
  CHECK(f.cu.texture_create(&second, &here, &plain, nullptr) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  const CUDA_RESOURCE_DESC there = f.resource(f.make(shape(64, 64)));
  OK(f.cu.texture_create(&second, &there, &plain, nullptr));
  CHECK(first == second);
  OK(f.cu.context_destroy(other));
  OK(f.cu.texture_resource(&told, first));
  CHECK(told.res.array.hArray == here.res.array.hArray);
}

TEST_CASE("a surface without a place for it crashes") {
  const Death death = death_of([] {
    Arrays f;
    const CUDA_RESOURCE_DESC of = f.resource(f.make(shape(64, 64)));
    f.cu.surface_create(nullptr, &of);
  });
  CHECK(death.crashed);
}
