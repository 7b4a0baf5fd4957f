// SPDX-License-Identifier: MIT
// Arrays, mipmapped arrays, textures and surfaces: what a stand-alone program did not ask an H100.

#include "everywhere.hpp"

namespace transcript {
namespace {

constexpr unsigned layered = CUDA_ARRAY3D_LAYERED, surface = CUDA_ARRAY3D_SURFACE_LDST,
                   cubemap = CUDA_ARRAY3D_CUBEMAP, gather = CUDA_ARRAY3D_TEXTURE_GATHER,
                   sparse = CUDA_ARRAY3D_SPARSE, deferred = CUDA_ARRAY3D_DEFERRED_MAPPING;

CUDA_ARRAY3D_DESCRIPTOR shape(std::size_t width, std::size_t height = 0, std::size_t depth = 0,
                              unsigned flags = 0, int format = CU_AD_FORMAT_UNSIGNED_INT8,
                              unsigned channels = 1) {
  return {width, height, depth, number<CUarray_format>(format), channels, flags};
}

std::string named(const CUDA_ARRAY3D_DESCRIPTOR& of) {
  return std::to_string(of.Width) + "x" + std::to_string(of.Height) + "x" + std::to_string(of.Depth) +
         ".flags_" + std::to_string(of.Flags) + ".format_" + std::to_string(of.Format) + "x" +
         std::to_string(of.NumChannels);
}

CUarray make(Lab& lab, const CUDA_ARRAY3D_DESCRIPTOR& wish) {
  CUarray made = nullptr;
  lab.must(lab.cu.Array3DCreate(&made, &wish), "cuArray3DCreate");
  return made;
}

CUmipmappedArray make(Lab& lab, const CUDA_ARRAY3D_DESCRIPTOR& wish, unsigned levels) {
  CUmipmappedArray made = nullptr;
  lab.must(lab.cu.MipmappedArrayCreate(&made, &wish, levels), "cuMipmappedArrayCreate");
  return made;
}

CUDA_RESOURCE_DESC resource(CUarray of) {
  CUDA_RESOURCE_DESC made{};
  made.resType = CU_RESOURCE_TYPE_ARRAY;
  made.res.array.hArray = of;
  return made;
}

void show_creation(Lab& lab, const CUDA_ARRAY3D_DESCRIPTOR& wish) {
  CUarray made = nullptr;
  lab.is(named(wish), lab.cu.Array3DCreate(&made, &wish));
  if (made != nullptr) lab.cu.ArrayDestroy(made);
}

// Sizes next to the attributes of the device, and flags together.
void limits(Lab& lab) {
  for (const unsigned width : {32768U, 32769U})
    for (const unsigned flags : {layered, surface, gather, layered | surface}) {
      show_creation(lab, shape(width, 0, (flags & layered) != 0 ? 2 : 0, flags));
      show_creation(lab, shape(width, 2, (flags & layered) != 0 ? 2 : 0, flags));
      show_creation(lab, shape(2, width, (flags & layered) != 0 ? 2 : 0, flags));
    }
  for (const unsigned layers : {2048U, 2049U}) {
    show_creation(lab, shape(2, 0, layers, layered));
    show_creation(lab, shape(2, 2, layers, layered));
  }
  for (const unsigned layers : {2046U, 2052U})
    show_creation(lab, shape(2, 2, layers, layered | cubemap));
  for (const unsigned depth : {32768U, 32769U})
    show_creation(lab, shape(2, 2, depth));
  for (const unsigned side : {8192U, 8193U}) {
    show_creation(lab, shape(side, 2, 16385));
    show_creation(lab, shape(2, side, 16385));
  }
  for (const unsigned flags :
       {surface | cubemap, surface | cubemap | layered, surface | sparse, layered | sparse,
        surface | deferred, layered | deferred, layered | gather, sparse | deferred})
    show_creation(lab, shape(64, 64, (flags & cubemap) != 0 ? 6 : (flags & layered) != 0 ? 2 : 0, flags));
  for (const int format : {0x21, 0x50, 0x51, 0x8f, 0x100})
    for (const unsigned channels : {1U, 2U, 4U})
      show_creation(lab, shape(64, 64, 0, 0, format, channels));
  for (const unsigned side : {32768U, 32769U}) {
    const CUDA_ARRAY3D_DESCRIPTOR wide = shape(side, 2), line = shape(side);
    for (const auto& wish : {wide, line}) {
      CUmipmappedArray made = nullptr;
      lab.is("mipmapped." + named(wish), lab.cu.MipmappedArrayCreate(&made, &wish, 2));
      if (made != nullptr) lab.cu.MipmappedArrayDestroy(made);
    }
  }
}

void show_needs(Lab& lab, const std::string& name, CUarray of) {
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  lab.is(name + ".needs", lab.cu.ArrayGetMemoryRequirements(&needs, of, lab.device));
  lab.shows(name + ".needs.values", std::to_string(needs.size) + " " + std::to_string(needs.alignment));
  CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
  lab.is(name + ".tiles", lab.cu.ArrayGetSparseProperties(&tiles, of));
  lab.shows(name + ".tiles.values",
            std::to_string(tiles.tileExtent.width) + " " + std::to_string(tiles.tileExtent.height) + " " +
                std::to_string(tiles.tileExtent.depth) + " " + std::to_string(tiles.miptailFirstLevel) + " " +
                std::to_string(tiles.miptailSize) + " " + std::to_string(tiles.flags));
}

// What an array without memory needs, and a copy to it: a fault, after which nothing else is answered.
void unmapped(Lab& lab) {
  const CUDA_ARRAY3D_DESCRIPTOR wish = shape(64, 64, 0, deferred);
  const CUarray made = make(lab, wish);
  show_needs(lab, named(wish), made);
  char byte = 0;
  lab.is(named(wish) + ".copy", lab.cu.MemcpyHtoA(made, 0, &byte, 1));
  lab.is(named(wish) + ".destroy", lab.cu.ArrayDestroy(made));
}

// The same for other shapes, without a copy.
void requirements(Lab& lab) {
  for (const unsigned flags : {deferred, sparse, deferred | surface, deferred | layered, sparse | layered}) {
    const unsigned layers = (flags & layered) != 0 ? 2 : 0;
    for (const auto& wish :
         {shape(64, 64, layers, flags), shape(1024, 1024, layers, flags), shape(1000, 10, layers, flags),
          shape(64, 64, 64, flags), shape(1024, 1024, layers, flags, CU_AD_FORMAT_FLOAT),
          shape(1024, 1024, layers, flags, CU_AD_FORMAT_FLOAT, 4)}) {
      CUarray made = nullptr;
      if (lab.cu.Array3DCreate(&made, &wish) != CUDA_SUCCESS) continue;
      show_needs(lab, named(wish), made);
      lab.is(named(wish) + ".destroy", lab.cu.ArrayDestroy(made));
    }
  }
}

// A copy of so many bytes to an array without memory.
template <std::size_t bytes>
void unmapped_copy(Lab& lab) {
  const CUarray made = make(lab, shape(1024, 1024, 0, deferred, CU_AD_FORMAT_FLOAT, 4));
  const std::vector<char> source(bytes);
  lab.is("copy", lab.cu.MemcpyHtoA(made, 0, source.data(), bytes));
  lab.is("synchronize", lab.cu.CtxSynchronize());
}

// The end of a mipmapped array and of one level.
void mipmapped(Lab& lab) {
  const Api& cu = lab.cu;
  std::vector<CUmipmappedArray> ready; // one for each time that the call is made
  for (int i = 0; i < 16; ++i)
    ready.push_back(make(lab, shape(64, 64), 3));
  everywhere(lab, "destroy", [&](CUstream) {
    const CUmipmappedArray ended = ready.back();
    ready.pop_back();
    return cu.MipmappedArrayDestroy(ended);
  });
  const CUmipmappedArray made = make(lab, shape(64, 64, 4, layered), 3);
  CUarray level = nullptr, again = nullptr;
  lab.is("level", cu.MipmappedArrayGetLevel(&level, made, 1));
  CUDA_ARRAY3D_DESCRIPTOR told{};
  lab.is("descriptor", cu.Array3DGetDescriptor(&told, level));
  lab.shows("descriptor.values", named(told));
  lab.is("destroy_level", cu.ArrayDestroy(level));
  lab.is("level_again", cu.MipmappedArrayGetLevel(&again, made, 1));
  lab.shows("same_level", again == level);
  {
    Stream stream(lab);
    Gate gate(lab, stream);
    Background call(lab, [&] { return cu.MipmappedArrayDestroy(made); });
    lab.shows("returns", call.returns_within(std::chrono::seconds(1)));
    gate.open();
    lab.is("destroy", call.join());
  }
}

// Changes of a copy in an exec.
void exec(Lab& lab) {
  const Api& cu = lab.cu;
  const CUarray line = make(lab, shape(256)), other = make(lab, shape(256)), rows = make(lab, shape(64, 64));
  std::vector<char> memory(8192);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = memory.data();
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = line;
  copy.WidthInBytes = 64;
  copy.Height = copy.Depth = 1;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec made = nullptr;
  lab.must(cu.GraphCreate(&graph, 0), "cuGraphCreate");
  lab.must(cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, lab.home), "cuGraphAddMemcpyNode");
  lab.must(cu.GraphInstantiateWithFlags(&made, graph, 0), "cuGraphInstantiateWithFlags");
  const auto set = [&](const std::string& name, auto change) {
    CUDA_MEMCPY3D changed = copy;
    change(changed);
    lab.is(name, cu.GraphExecMemcpyNodeSetParams(made, node, &changed, lab.home));
  };
  set("same", [](CUDA_MEMCPY3D&) {});
  set("other_offset", [](CUDA_MEMCPY3D& c) { c.dstXInBytes = 8; });
  set("other_width", [](CUDA_MEMCPY3D& c) { c.WidthInBytes = 32; });
  set("other_source", [&](CUDA_MEMCPY3D& c) { c.srcHost = memory.data() + 64; });
  set("other_array", [&](CUDA_MEMCPY3D& c) { c.dstArray = other; });
  set("array_of_rows", [&](CUDA_MEMCPY3D& c) { c.dstArray = rows; });
  lab.must(cu.ArrayDestroy(line), "cuArrayDestroy");
  Stream stream(lab);
  lab.is("launch_after_destroy", cu.GraphLaunch(made, stream));
  lab.is("synchronize", cu.StreamSynchronize(stream));
}

// The end of a level, copies from arrays in an exec, and an update with another array.
void more(Lab& lab) {
  const Api& cu = lab.cu;
  const CUmipmappedArray levels = make(lab, shape(64, 64), 3);
  CUarray level = nullptr;
  lab.must(cu.MipmappedArrayGetLevel(&level, levels, 1), "cuMipmappedArrayGetLevel");
  {
    Stream stream(lab);
    Gate gate(lab, stream);
    Background call(lab, [&] { return cu.ArrayDestroy(level); });
    lab.shows("destroy_level.returns", call.returns_within(std::chrono::seconds(1)));
    gate.open();
    lab.is("destroy_level", call.join());
  }
  everywhere(lab, "destroy_level", [&](CUstream) { return cu.ArrayDestroy(level); });
  std::vector<char> memory(4096);
  lab.is("use_level", cu.MemcpyHtoA(level, 0, memory.data(), 32));

  const CUarray lines[] = {make(lab, shape(256)), make(lab, shape(256)), make(lab, shape(256))};
  CUdeviceptr on_device = 0;
  lab.must(cu.MemAlloc(&on_device, 4096), "cuMemAlloc");
  for (const int other : {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY}) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = lines[0];
    copy.dstMemoryType = number<CUmemorytype>(other);
    copy.dstHost = memory.data();
    copy.dstDevice = on_device;
    copy.dstArray = lines[1];
    copy.WidthInBytes = 64;
    copy.Height = copy.Depth = 1;
    Graph graph(lab), changed(lab);
    CUgraphNode node = nullptr, unused = nullptr;
    lab.must(cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, lab.home), "cuGraphAddMemcpyNode");
    const CUgraphExec exec = make_exec(lab, graph);
    copy.srcArray = lines[2];
    const std::string name = "from_array_to_" + std::to_string(other);
    lab.is(name + ".set", cu.GraphExecMemcpyNodeSetParams(exec, node, &copy, lab.home));
    copy.srcArray = lines[1];
    lab.must(cu.GraphAddMemcpyNode(&unused, changed, nullptr, 0, &copy, lab.home), "cuGraphAddMemcpyNode");
    CUgraphExecUpdateResultInfo info{};
    lab.is(name + ".update", cu.GraphExecUpdate(exec, changed, &info));
    lab.shows(name + ".update.result", static_cast<int>(info.result));
    cu.GraphExecDestroy(exec);
  }
}

// Whether two contexts share the numbers of textures.
void texture_contexts(Lab& lab) {
  const Api& cu = lab.cu;
  const CUDA_RESOURCE_DESC here = resource(make(lab, shape(64, 64)));
  const CUDA_TEXTURE_DESC plain{};
  CUtexObject first = 0, second = 0;
  lab.must(cu.TexObjectCreate(&first, &here, &plain, nullptr), "cuTexObjectCreate");
  CUcontext other = nullptr;
  lab.must(cu.CtxCreate(&other, 0, lab.device), "cuCtxCreate");
  CUDA_RESOURCE_DESC told{};
  lab.is("get", cu.TexObjectGetResourceDesc(&told, first));
  lab.is("create_of_foreign_array", cu.TexObjectCreate(&second, &here, &plain, nullptr));
  lab.shows("same_number", first == second);
  const CUDA_RESOURCE_DESC there = resource(make(lab, shape(64, 64)));
  lab.is("create", cu.TexObjectCreate(&second, &there, &plain, nullptr));
  lab.is("destroy", cu.TexObjectDestroy(first));
  lab.must(cu.CtxSetCurrent(lab.home), "cuCtxSetCurrent");
  lab.is("get_at_home", cu.TexObjectGetResourceDesc(&told, first));
  lab.is("foreign_array", cu.Array3DGetDescriptor(nullptr, there.res.array.hArray));
  lab.must(cu.CtxDestroy(other), "cuCtxDestroy");
  lab.is("get_after_the_context", cu.TexObjectGetResourceDesc(&told, second));
}

// Views and formats that were not asked for.
CUDA_RESOURCE_VIEW_DESC view_of(const CUDA_ARRAY3D_DESCRIPTOR& array, int format) {
  CUDA_RESOURCE_VIEW_DESC view{};
  view.format = number<CUresourceViewFormat>(format);
  view.width = view.height = 64;
  view.lastLayer = array.Depth != 0 ? 3 : 0;
  return view;
}

void views(Lab& lab) {
  const Api& cu = lab.cu;
  const CUDA_TEXTURE_DESC plain{};
  const std::pair<const char*, CUDA_ARRAY3D_DESCRIPTOR> arrays[] = {
      {"bytes", shape(64, 64)},
      {"bytes_x4", shape(64, 64, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4)},
      {"floats", shape(64, 64, 0, 0, CU_AD_FORMAT_FLOAT)},
      {"layers", shape(64, 64, 4, layered)}};
  for (const auto& [name, wish] : arrays) {
    const CUDA_RESOURCE_DESC of = resource(make(lab, wish));
    for (int format = 0; format <= 35; ++format) {
      const CUDA_RESOURCE_VIEW_DESC view = view_of(wish, format);
      CUtexObject made = 0;
      lab.is(std::string(name) + ".format_" + std::to_string(format),
             cu.TexObjectCreate(&made, &of, &plain, &view));
      if (made != 0) cu.TexObjectDestroy(made);
    }
  }
  CUDA_RESOURCE_VIEW_DESC told{};
  told.width = 77;
  CUtexObject made = 0;
  const CUDA_RESOURCE_DESC of = resource(make(lab, shape(64, 64)));
  lab.must(cu.TexObjectCreate(&made, &of, &plain, nullptr), "cuTexObjectCreate");
  lab.is("without", cu.TexObjectGetResourceViewDesc(&told, made));
  lab.shows("without.values", std::to_string(told.format) + " " + std::to_string(told.width));
  CUdeviceptr memory = 0;
  lab.must(cu.MemAlloc(&memory, 1 << 16), "cuMemAlloc");
  for (int format = 0; format <= 0xff; ++format) {
    CUDA_RESOURCE_DESC line{};
    line.resType = CU_RESOURCE_TYPE_LINEAR;
    line.res.linear = {memory, number<CUarray_format>(format), 4, 4096};
    CUtexObject texture = 0;
    lab.is("line.format_" + std::to_string(format), cu.TexObjectCreate(&texture, &line, &plain, nullptr));
    if (texture != 0) cu.TexObjectDestroy(texture);
  }
}

// Other numbers of channels, rows, views of other elements and of layers, and memory of another context.
void more_textures(Lab& lab) {
  const Api& cu = lab.cu;
  const CUDA_TEXTURE_DESC plain{};
  const auto try_one = [&](const std::string& name, const CUDA_RESOURCE_DESC& of,
                           const CUDA_RESOURCE_VIEW_DESC* view = nullptr) {
    CUtexObject made = 0;
    lab.is(name, cu.TexObjectCreate(&made, &of, &plain, view));
    if (made != 0) cu.TexObjectDestroy(made);
  };
  CUdeviceptr memory = 0;
  lab.must(cu.MemAlloc(&memory, 1 << 16), "cuMemAlloc");
  for (const int format : {1, 2, 3, 8, 9, 10, 0x10, 0x20, 0x50, 0x91, 0x97, 0xc0, 0xc1, 0xc2, 0xc3, 0xcb})
    for (const unsigned channels : {1U, 2U, 4U}) {
      const std::string name = "format_" + std::to_string(format) + "x" + std::to_string(channels);
      CUDA_RESOURCE_DESC of{};
      of.resType = CU_RESOURCE_TYPE_LINEAR;
      of.res.linear = {memory, number<CUarray_format>(format), channels, 4096};
      try_one(name + ".line", of);
      of = {};
      of.resType = CU_RESOURCE_TYPE_PITCH2D;
      of.res.pitch2D = {memory, number<CUarray_format>(format), channels, 16, 16, 512};
      try_one(name + ".rows", of);
    }
  const std::pair<const char*, CUDA_ARRAY3D_DESCRIPTOR> arrays[] = {
      {"halves", shape(64, 64, 0, 0, CU_AD_FORMAT_HALF)},
      {"floats_x2", shape(64, 64, 0, 0, CU_AD_FORMAT_FLOAT, 2)},
      {"floats_x4", shape(64, 64, 0, 0, CU_AD_FORMAT_FLOAT, 4)},
      {"layers", shape(64, 64, 4, layered)}};
  for (const auto& [name, wish] : arrays) {
    const CUDA_RESOURCE_DESC of = resource(make(lab, wish));
    for (int format = 0; format <= 35; ++format) {
      CUDA_RESOURCE_VIEW_DESC view = view_of(wish, format);
      view.depth = wish.Depth;
      try_one(std::string(name) + ".view_" + std::to_string(format), of, &view);
    }
  }
  const CUDA_RESOURCE_DESC here = resource(make(lab, shape(64, 64)));
  CUDA_RESOURCE_DESC levels{};
  levels.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  levels.res.mipmap.hMipmappedArray = make(lab, shape(64, 64), 3);
  CUtexObject made = 0;
  lab.must(cu.TexObjectCreate(&made, &here, &plain, nullptr), "cuTexObjectCreate");
  CUDA_RESOURCE_VIEW_DESC told{};
  told.format = CU_RES_VIEW_FORMAT_SINT_4X32;
  lab.is("without", cu.TexObjectGetResourceViewDesc(&told, made));
  lab.shows("without.format", static_cast<int>(told.format));
  const Current other(lab, lab.second_context());
  try_one("foreign.levels", levels);
}

} // namespace

std::vector<Scenario> arrays_scenarios() {
  return {{"arrays.limits", limits},
          {"arrays.unmapped", unmapped, Place::last},
          {"arrays.requirements", requirements, Place::alone},
          {"arrays.unmapped_copy.4096", unmapped_copy<4096>, Place::last},
          {"arrays.unmapped_copy.65536", unmapped_copy<65536>, Place::last},
          {"arrays.mipmapped", mipmapped},
          {"arrays.exec", exec},
          {"arrays.more", more, Place::alone},
          {"textures.contexts", texture_contexts, Place::alone},
          {"textures.views", views},
          {"textures.more", more_textures, Place::alone}};
}

} // namespace transcript
