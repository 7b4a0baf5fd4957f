// SPDX-License-Identifier: MIT
// Arrays, textures and virtual memory, which the arguments of questions refer to.
#include "stage.hpp"

namespace neighbours {
namespace {

CUDA_ARRAY3D_DESCRIPTOR shape_of(const std::string& kind) {
  CUDA_ARRAY3D_DESCRIPTOR shape{64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  if (kind == "line" || kind == "other_line") shape.Height = 0;
  if (kind == "box") shape.Depth = 16;
  if (kind == "layers") {
    shape.Depth = 4;
    shape.Flags = CUDA_ARRAY3D_LAYERED;
  }
  if (kind == "cube") {
    shape.Height = 64;
    shape.Depth = 6;
    shape.Flags = CUDA_ARRAY3D_CUBEMAP;
  }
  if (kind == "surface") shape.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  if (kind == "deferred") shape.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  if (kind == "sparse") shape.Flags = CUDA_ARRAY3D_SPARSE;
  return shape;
}

// The transcript calls no function of surfaces, so the table does not have them.
template <class Function>
Function surface_function(const transcript::Api& cu, const char* name) {
  void* address = nullptr;
  cu.GetProcAddress(name, &address, 5000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr);
  return reinterpret_cast<Function>(address);
}

} // namespace

CUarray Stage::new_array(const std::string& kind) {
  const CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(kind);
  CUarray made = nullptr;
  must(cu.Array3DCreate(&made, &shape), "cuArray3DCreate");
  return made;
}
CUarray Stage::array(const std::string& kind) {
  return once<CUarray>(lasting_, "array_" + kind, [&] { return new_array(kind); });
}
CUmipmappedArray Stage::new_mipmapped_array(unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR shape = shape_of("rows");
  shape.Flags = flags;
  CUmipmappedArray made = nullptr;
  must(cu.MipmappedArrayCreate(&made, &shape, 3), "cuMipmappedArrayCreate");
  return made;
}
CUmipmappedArray Stage::mipmapped_array() {
  return once<CUmipmappedArray>(lasting_, "mipmapped_array", [this] { return new_mipmapped_array(); });
}
CUarray Stage::level_of(CUmipmappedArray whole) {
  CUarray made = nullptr;
  must(cu.MipmappedArrayGetLevel(&made, whole, 1), "cuMipmappedArrayGetLevel");
  return made;
}
CUarray Stage::level() {
  return once<CUarray>(lasting_, "level", [this] { return level_of(mipmapped_array()); });
}

CUDA_RESOURCE_DESC Stage::line_of_memory() {
  CUDA_RESOURCE_DESC made{};
  made.resType = CU_RESOURCE_TYPE_LINEAR;
  made.res.linear.devPtr = memory();
  made.res.linear.format = CU_AD_FORMAT_FLOAT;
  made.res.linear.numChannels = 1;
  made.res.linear.sizeInBytes = 256;
  return made;
}
CUDA_RESOURCE_DESC Stage::rows_of_memory() {
  CUDA_RESOURCE_DESC made{};
  made.resType = CU_RESOURCE_TYPE_PITCH2D;
  made.res.pitch2D.devPtr = memory();
  made.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
  made.res.pitch2D.numChannels = 1;
  made.res.pitch2D.width = 64;
  made.res.pitch2D.height = 4;
  made.res.pitch2D.pitchInBytes = 256;
  return made;
}
CUDA_RESOURCE_VIEW_DESC Stage::view_of_rows() {
  CUDA_RESOURCE_VIEW_DESC made{};
  made.format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
  made.width = 64;
  made.height = 32;
  return made;
}
CUtexObject Stage::new_texture(const std::string& kind) {
  CUDA_RESOURCE_DESC resource{};
  if (kind == "line") {
    resource = line_of_memory();
  } else if (kind == "rows") {
    resource = rows_of_memory();
  } else {
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array("rows");
  }
  const CUDA_TEXTURE_DESC texture{};
  const CUDA_RESOURCE_VIEW_DESC view = view_of_rows();
  CUtexObject made = 0;
  must(cu.TexObjectCreate(&made, &resource, &texture, kind == "with_view" ? &view : nullptr),
       "cuTexObjectCreate");
  return made;
}
CUtexObject Stage::texture(const std::string& kind) {
  return once<CUtexObject>(lasting_, "texture_" + kind, [&] { return new_texture(kind); });
}
CUsurfObject Stage::new_surface() {
  const auto create = surface_function<PFN_cuSurfObjectCreate_v5000>(cu, "cuSurfObjectCreate");
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array("surface");
  CUsurfObject made = 0;
  must(create == nullptr ? CUDA_ERROR_NOT_FOUND : create(&made, &resource), "cuSurfObjectCreate");
  return made;
}
void Stage::end_object(unsigned long long object, bool of_surface) {
  const auto end = surface_function<PFN_cuSurfObjectDestroy_v5000>(cu, "cuSurfObjectDestroy");
  if (of_surface && end != nullptr) end(object);
  if (!of_surface) cu.TexObjectDestroy(object);
}
CUsurfObject Stage::surface() {
  return once<CUsurfObject>(lasting_, "surface", [this] { return new_surface(); });
}

CUmemGenericAllocationHandle Stage::new_physical_memory(const std::string& kind) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  if (kind == "exportable") properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (kind == "host") properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  CUmemGenericAllocationHandle made = 0;
  must(cu.MemCreate(&made, kind == "double" ? 2 * piece : piece, &properties, 0), "cuMemCreate");
  return made;
}
CUmemGenericAllocationHandle Stage::physical_memory(const std::string& kind) {
  return once<CUmemGenericAllocationHandle>(lasting_, "physical_" + kind,
                                            [&] { return new_physical_memory(kind); });
}
CUdeviceptr Stage::new_range() {
  CUdeviceptr made = 0;
  must(cu.MemAddressReserve(&made, 2 * piece, 0, 0, 0), "cuMemAddressReserve");
  return made;
}
CUdeviceptr Stage::new_mapping() {
  const CUdeviceptr made = new_range();
  must(cu.MemMap(made, piece, 0, physical_memory("plain"), 0), "cuMemMap");
  return made;
}

} // namespace neighbours
