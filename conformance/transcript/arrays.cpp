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

// What arrays without memory need, and whether copies use them.
void unmapped(Lab& lab) {
  const Api& cu = lab.cu;
  char byte = 0;
  for (const unsigned flags : {deferred, sparse})
    for (const auto& wish : {shape(64, 64, 0, flags), shape(1024, 1024, 0, flags), shape(1000, 10, 0, flags),
                             shape(64, 64, 64, flags), shape(1024, 1024, 0, flags, CU_AD_FORMAT_FLOAT),
                             shape(1024, 1024, 0, flags, CU_AD_FORMAT_FLOAT, 4)}) {
      CUarray made = nullptr;
      if (cu.Array3DCreate(&made, &wish) != CUDA_SUCCESS) continue;
      CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
      lab.is(named(wish) + ".needs", cu.ArrayGetMemoryRequirements(&needs, made, lab.device));
      lab.shows(named(wish) + ".needs.values",
                std::to_string(needs.size) + " " + std::to_string(needs.alignment));
      CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
      lab.is(named(wish) + ".tiles", cu.ArrayGetSparseProperties(&tiles, made));
      lab.shows(named(wish) + ".tiles.values",
                std::to_string(tiles.tileExtent.width) + " " + std::to_string(tiles.tileExtent.height) + " " +
                    std::to_string(tiles.tileExtent.depth) + " " + std::to_string(tiles.miptailFirstLevel) +
                    " " + std::to_string(tiles.miptailSize) + " " + std::to_string(tiles.flags));
      lab.is(named(wish) + ".copy", cu.MemcpyHtoA(made, 0, &byte, 1));
      lab.is(named(wish) + ".destroy", cu.ArrayDestroy(made));
    }
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
      CUDA_RESOURCE_VIEW_DESC view{};
      view.format = number<CUresourceViewFormat>(format);
      view.width = view.height = 64;
      view.lastLayer = wish.Depth != 0 ? 3 : 0;
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

} // namespace

std::vector<Scenario> arrays_scenarios() {
  return {{"arrays.limits", limits, Place::probe},
          {"arrays.unmapped", unmapped, Place::probe},
          {"arrays.mipmapped", mipmapped, Place::probe},
          {"arrays.exec", exec, Place::probe},
          {"textures.contexts", texture_contexts, Place::probe},
          {"textures.views", views, Place::probe}};
}

} // namespace transcript
