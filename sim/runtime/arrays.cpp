// SPDX-License-Identifier: MIT
// Arrays, mipmapped arrays, textures and surfaces. Their structures are as in the runtime's headers.
#include "runtime.hpp"

#include <cstddef>

namespace cuevent::sim::runtime {
namespace {

struct Channels { // cudaChannelFormatDesc
  int x, y, z, w;
  int kind; ///< cudaChannelFormatKind
};

struct Extent { // cudaExtent
  std::size_t width, height, depth;
};

struct Position { // cudaPos
  std::size_t x, y, z;
};

struct Rows { // cudaPitchedPtr
  void* start;
  std::size_t pitch, width, height;
};

struct BoxCopy { // cudaMemcpy3DParms
  CUarray from_array;
  Position from_at;
  Rows from;
  CUarray to_array;
  Position to_at;
  Rows to;
  Extent extent;
  int direction;
};

constexpr int signed_channels = 0, float_channels = 2; // of cudaChannelFormatKind. 1: unsigned

/// The format of channels of 8, 16 or 32 bits. Zero, which the driver refuses, if there is none.
CUarray_format format_of(const Channels& channels) {
  const int bits = channels.x;
  const int rank = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : -1;
  constexpr CUarray_format none{};
  if (rank < 0) return none;
  const CUarray_format formats[][3] = {
      {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32},
      {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32},
      {none, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT}};
  return channels.kind >= signed_channels && channels.kind <= float_channels ? formats[channels.kind][rank]
                                                                             : none;
}

/// The channels that there are have the same size, and come first. Zero if it is not so.
unsigned count_of(const Channels& channels) {
  const int bits[] = {channels.x, channels.y, channels.z, channels.w};
  unsigned count = 0;
  while (count < 4 && bits[count] != 0)
    ++count;
  for (unsigned i = 0; i < 4; ++i)
    if (bits[i] != (i < count ? bits[0] : 0)) return 0;
  return count;
}

CUDA_ARRAY3D_DESCRIPTOR shape_of(const Channels& channels, const Extent& extent, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = extent.width;
  shape.Height = extent.height;
  shape.Depth = extent.depth;
  shape.Format = format_of(channels);
  shape.NumChannels = count_of(channels);
  shape.Flags = flags;
  return shape;
}

Error make(CUarray* array, const Channels* channels, const Extent& extent, unsigned flags) {
  if (array == nullptr || channels == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] {
    const CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(*channels, extent, flags);
    return cuArray3DCreate(array, &shape);
  });
}

CUDA_MEMCPY2D rows_of(std::size_t width, std::size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

CUDA_MEMCPY2D to_array(CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t pitch,
                       std::size_t width, std::size_t height) {
  CUDA_MEMCPY2D copy = rows_of(width, height);
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  copy.srcPitch = pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = to;
  copy.dstXInBytes = x;
  copy.dstY = y;
  return copy;
}

CUDA_MEMCPY2D from_array(void* to, std::size_t pitch, CUarray from, std::size_t x, std::size_t y,
                         std::size_t width, std::size_t height) {
  CUDA_MEMCPY2D copy = rows_of(width, height);
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = from;
  copy.srcXInBytes = x;
  copy.srcY = y;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  copy.dstPitch = pitch;
  return copy;
}

bool is_direction(int direction) { return direction >= 0 && direction <= 4; }

template <class Copy>
Error copied(const CUDA_MEMCPY2D& rows, std::size_t pitch, int direction, Copy copy) {
  if (rows.WidthInBytes > pitch) return told(invalid_pitch);
  if (!is_direction(direction)) return told(invalid_copy_direction);
  return with_context([&] { return copy(&rows); });
}

/// The bytes of an element of the array. One if there is no array: memory without elements counts bytes.
CUresult element_of(CUarray array, std::size_t& bytes) {
  bytes = 1;
  if (array == nullptr) return CUDA_SUCCESS;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  const CUresult result = cuArray3DGetDescriptor(&shape, array);
  std::size_t channel = 4;
  if (shape.Format == CU_AD_FORMAT_UNSIGNED_INT8 || shape.Format == CU_AD_FORMAT_SIGNED_INT8) channel = 1;
  if (shape.Format == CU_AD_FORMAT_UNSIGNED_INT16 || shape.Format == CU_AD_FORMAT_SIGNED_INT16 ||
      shape.Format == CU_AD_FORMAT_HALF)
    channel = 2;
  bytes = channel * shape.NumChannels;
  return result;
}

/// Each end is an array or memory. The width counts elements of the array, if one takes part.
CUresult box_of(const BoxCopy& asked, CUDA_MEMCPY3D& box) {
  if ((asked.from_array == nullptr) == (asked.from.start == nullptr) ||
      (asked.to_array == nullptr) == (asked.to.start == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  std::size_t from_element = 1, to_element = 1;
  if (const CUresult result = element_of(asked.from_array, from_element); result != CUDA_SUCCESS)
    return result;
  if (const CUresult result = element_of(asked.to_array, to_element); result != CUDA_SUCCESS) return result;
  const bool two_arrays = asked.from_array != nullptr && asked.to_array != nullptr;
  if (two_arrays && from_element != to_element) return CUDA_ERROR_INVALID_VALUE;
  box = {};
  box.srcXInBytes = asked.from_at.x * from_element;
  box.srcY = asked.from_at.y;
  box.srcZ = asked.from_at.z;
  box.srcMemoryType = asked.from_array != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  box.srcArray = asked.from_array;
  box.srcDevice = reinterpret_cast<CUdeviceptr>(asked.from.start);
  box.srcPitch = asked.from.pitch;
  box.srcHeight = asked.from.height;
  box.dstXInBytes = asked.to_at.x * to_element;
  box.dstY = asked.to_at.y;
  box.dstZ = asked.to_at.z;
  box.dstMemoryType = asked.to_array != nullptr ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED;
  box.dstArray = asked.to_array;
  box.dstDevice = reinterpret_cast<CUdeviceptr>(asked.to.start);
  box.dstPitch = asked.to.pitch;
  box.dstHeight = asked.to.height;
  box.WidthInBytes = asked.extent.width * (asked.from_array != nullptr ? from_element : to_element);
  box.Height = asked.extent.height;
  box.Depth = asked.extent.depth;
  return CUDA_SUCCESS;
}

template <class Copy>
Error copied(const BoxCopy* asked, Copy copy) {
  if (asked == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  if (!is_direction(asked->direction)) return told(invalid_copy_direction);
  return with_context([&] {
    CUDA_MEMCPY3D box;
    const CUresult result = box_of(*asked, box);
    return result != CUDA_SUCCESS ? result : copy(&box);
  });
}

} // namespace

// Arrays

RUNTIME Channels cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }

RUNTIME Error cudaMallocArray(CUarray* array, const Channels* channels, std::size_t width, std::size_t height,
                              unsigned flags) {
  return make(array, channels, {width, height, 0}, flags);
}

RUNTIME Error cudaMalloc3DArray(CUarray* array, const Channels* channels, Extent extent, unsigned flags) {
  return make(array, channels, extent, flags);
}

RUNTIME Error cudaFreeArray(CUarray array) {
  return with_context([=] { return cuArrayDestroy(array); });
}

RUNTIME Error cudaMallocMipmappedArray(CUmipmappedArray* array, const Channels* channels, Extent extent,
                                       unsigned levels, unsigned flags) {
  if (array == nullptr || channels == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] {
    const CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(*channels, extent, flags);
    return cuMipmappedArrayCreate(array, &shape, levels);
  });
}

RUNTIME Error cudaGetMipmappedArrayLevel(CUarray* level, CUmipmappedArray array, unsigned number) {
  return with_context([=] { return cuMipmappedArrayGetLevel(level, array, number); });
}

RUNTIME Error cudaFreeMipmappedArray(CUmipmappedArray array) {
  return with_context([=] { return cuMipmappedArrayDestroy(array); });
}

// Copies

RUNTIME Error cudaMemcpy2DToArray(CUarray to, std::size_t x, std::size_t y, const void* from,
                                  std::size_t pitch, std::size_t width, std::size_t height, int direction) {
  return copied(to_array(to, x, y, from, pitch, width, height), pitch, direction,
                [](const CUDA_MEMCPY2D* copy) { return cuMemcpy2DUnaligned(copy); });
}

RUNTIME Error cudaMemcpy2DToArrayAsync(CUarray to, std::size_t x, std::size_t y, const void* from,
                                       std::size_t pitch, std::size_t width, std::size_t height,
                                       int direction, CUstream stream) {
  return copied(to_array(to, x, y, from, pitch, width, height), pitch, direction,
                [=](const CUDA_MEMCPY2D* copy) { return cuMemcpy2DAsync(copy, stream); });
}

RUNTIME Error cudaMemcpy2DFromArray(void* to, std::size_t pitch, CUarray from, std::size_t x, std::size_t y,
                                    std::size_t width, std::size_t height, int direction) {
  return copied(from_array(to, pitch, from, x, y, width, height), pitch, direction,
                [](const CUDA_MEMCPY2D* copy) { return cuMemcpy2DUnaligned(copy); });
}

RUNTIME Error cudaMemcpy2DFromArrayAsync(void* to, std::size_t pitch, CUarray from, std::size_t x,
                                         std::size_t y, std::size_t width, std::size_t height, int direction,
                                         CUstream stream) {
  return copied(from_array(to, pitch, from, x, y, width, height), pitch, direction,
                [=](const CUDA_MEMCPY2D* copy) { return cuMemcpy2DAsync(copy, stream); });
}

RUNTIME Error cudaMemcpy3D(const BoxCopy* asked) {
  return copied(asked, [](const CUDA_MEMCPY3D* copy) { return cuMemcpy3D(copy); });
}

RUNTIME Error cudaMemcpy3DAsync(const BoxCopy* asked, CUstream stream) {
  return copied(asked, [=](const CUDA_MEMCPY3D* copy) { return cuMemcpy3DAsync(copy, stream); });
}

// Textures and surfaces

namespace {

struct LineOfElements {
  void* start;
  Channels channels;
  std::size_t bytes;
};

struct RowsOfElements {
  void* start;
  Channels channels;
  std::size_t width, height, pitch;
};

struct Resource { // cudaResourceDesc
  int type;
  union {
    CUarray array;
    CUmipmappedArray mipmapped;
    LineOfElements line;
    RowsOfElements rows;
    int reserved[32];
  };
  unsigned flags;
};

struct Texture { // cudaTextureDesc
  int address_mode[3], filter, read_mode, srgb;
  float border[4];
  int normalized_coordinates;
  unsigned anisotropy;
  int mipmap_filter;
  float mipmap_bias, mipmap_min, mipmap_max;
  int no_trilinear_optimization, seamless_cubemap;
};

CUDA_RESOURCE_DESC driver_resource(const Resource& given) {
  CUDA_RESOURCE_DESC made{};
  made.resType = static_cast<CUresourcetype>(given.type);
  made.flags = given.flags;
  if (given.type == CU_RESOURCE_TYPE_ARRAY) {
    made.res.array.hArray = given.array;
  } else if (given.type == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    made.res.mipmap.hMipmappedArray = given.mipmapped;
  } else if (given.type == CU_RESOURCE_TYPE_LINEAR) {
    made.res.linear = {reinterpret_cast<CUdeviceptr>(given.line.start), format_of(given.line.channels),
                       count_of(given.line.channels), given.line.bytes};
  } else if (given.type == CU_RESOURCE_TYPE_PITCH2D) {
    made.res.pitch2D = {reinterpret_cast<CUdeviceptr>(given.rows.start),
                        format_of(given.rows.channels),
                        count_of(given.rows.channels),
                        given.rows.width,
                        given.rows.height,
                        given.rows.pitch};
  }
  return made;
}

CUDA_TEXTURE_DESC driver_texture(const Texture& given) {
  constexpr unsigned seamless_cubemap = 0x40; // CU_TRSF_SEAMLESS_CUBEMAP
  CUDA_TEXTURE_DESC made{};
  for (int i = 0; i < 3; ++i)
    made.addressMode[i] = static_cast<CUaddress_mode>(given.address_mode[i]);
  for (int i = 0; i < 4; ++i)
    made.borderColor[i] = given.border[i];
  made.filterMode = static_cast<CUfilter_mode>(given.filter);
  made.mipmapFilterMode = static_cast<CUfilter_mode>(given.mipmap_filter);
  made.maxAnisotropy = given.anisotropy;
  made.mipmapLevelBias = given.mipmap_bias;
  made.minMipmapLevelClamp = given.mipmap_min;
  made.maxMipmapLevelClamp = given.mipmap_max;
  made.flags = (given.read_mode == 0 ? CU_TRSF_READ_AS_INTEGER : 0) |
               (given.normalized_coordinates != 0 ? CU_TRSF_NORMALIZED_COORDINATES : 0) |
               (given.srgb != 0 ? CU_TRSF_SRGB : 0) |
               (given.no_trilinear_optimization != 0 ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0) |
               (given.seamless_cubemap != 0 ? seamless_cubemap : 0);
  return made;
}

} // namespace

/// A view has the structure and the numbers of the driver's.
RUNTIME Error cudaCreateTextureObject(CUtexObject* object, const Resource* resource, const Texture* texture,
                                      const CUDA_RESOURCE_VIEW_DESC* view) {
  if (object == nullptr || resource == nullptr || texture == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] {
    const CUDA_RESOURCE_DESC of = driver_resource(*resource);
    const CUDA_TEXTURE_DESC as = driver_texture(*texture);
    return cuTexObjectCreate(object, &of, &as, view);
  });
}

RUNTIME Error cudaDestroyTextureObject(CUtexObject object) {
  return with_context([=] { return cuTexObjectDestroy(object); });
}

RUNTIME Error cudaCreateSurfaceObject(CUsurfObject* object, const Resource* resource) {
  if (object == nullptr || resource == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] {
    const CUDA_RESOURCE_DESC of = driver_resource(*resource);
    return cuSurfObjectCreate(object, &of);
  });
}

RUNTIME Error cudaDestroySurfaceObject(CUsurfObject object) {
  return with_context([=] { return cuSurfObjectDestroy(object); });
}

} // namespace cuevent::sim::runtime
