// SPDX-License-Identifier: MIT
// Texture and surface objects. They are checked and told about. No simulated kernel reads through one.

#include "api.hpp"
#include "array.hpp"
#include "device_attributes.hpp"

#include <algorithm>
#include <memory>

namespace cuevent::sim {

namespace {

std::uint64_t attribute(CUdevice_attribute which) {
  return static_cast<std::uint64_t>(device_attributes[static_cast<std::size_t>(which) - 1]);
}

bool is_plain(CUarray_format format) { return format <= CU_AD_FORMAT_FLOAT && element_bytes(format, 1) != 0; }

/// A texture of a line or of rows has the plain formats, and that of ten bits, unlike an array with any
/// number of channels.
void check_elements(CUarray_format format, unsigned channels) {
  refuse_if(!(is_plain(format) || format == ten_bits) || (channels != 1 && channels != 2 && channels != 4),
            CUDA_ERROR_INVALID_VALUE);
}

/// Whether the memory is of another context. That of another device was not measured.
bool is_foreign(const Birthplace& memory, const Context& user) {
  if (memory.context->family() == user.family()) return false;
  if (memory.context->device != user.device) not_modelled("a texture or surface of another context's memory");
  return true;
}

/// The bytes of an element of a view. Zero for no view, for compressed blocks, and for what is no format.
std::size_t bytes_of_view(CUresourceViewFormat format) {
  const int place = static_cast<int>(format) - 1; // three numbers of channels for each type
  constexpr std::size_t types[] = {1, 1, 2, 2, 4, 4, 2, 4}, channels[] = {1, 2, 4};
  return place >= 0 && place < 24 ? types[place / 3] * channels[place % 3] : 0;
}

void check_length(std::size_t bytes, CUarray_format format, unsigned channels) {
  const std::size_t element = format == ten_bits ? 4 : element_bytes(format, channels);
  refuse_if(bytes / element > attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH),
            CUDA_ERROR_INVALID_VALUE);
}

void check_address(CUdeviceptr address) {
  refuse_if(address == 0 || address % attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0,
            CUDA_ERROR_INVALID_VALUE);
}

/// Of a texture of rows, the third address mode is not looked at.
void check_texture(const CUDA_TEXTURE_DESC& texture, bool rows) {
  constexpr unsigned known = 0x3f;
  const auto is_known = [](int value, int last) { return value >= 0 && value <= last; };
  for (std::size_t i = 0; i < (rows ? 2 : 3); ++i)
    refuse_if(!is_known(texture.addressMode[i], CU_TR_ADDRESS_MODE_BORDER), CUDA_ERROR_INVALID_VALUE);
  refuse_if(!is_known(texture.filterMode, CU_TR_FILTER_MODE_LINEAR) ||
                !is_known(texture.mipmapFilterMode, CU_TR_FILTER_MODE_LINEAR) ||
                (texture.flags & ~known) != 0 ||
                std::any_of(std::begin(texture.reserved), std::end(texture.reserved),
                            [](int value) { return value != 0; }),
            CUDA_ERROR_INVALID_VALUE);
}

} // namespace

/// An array of another context is refused, and a mipmapped array of one is accepted.
void Api::refuse_foreign(const CUDA_RESOURCE_DESC& resource, const Context& user) {
  if (const auto whole = viewed(resource))
    refuse_if(is_foreign(whole->home, user) && resource.resType == CU_RESOURCE_TYPE_ARRAY,
              CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

/// Which memory is behind an address is not looked at.
void Api::check_resource(const CUDA_RESOURCE_DESC& resource) {
  refuse_if(resource.flags != 0, CUDA_ERROR_INVALID_VALUE);
  switch (resource.resType) {
  case CU_RESOURCE_TYPE_ARRAY:
    refuse_if(resource.res.array.hArray == nullptr, CUDA_ERROR_INVALID_VALUE);
    array(resource.res.array.hArray);
    return;
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
    refuse_if(resource.res.mipmap.hMipmappedArray == nullptr, CUDA_ERROR_INVALID_VALUE);
    mipmapped_array(resource.res.mipmap.hMipmappedArray);
    return;
  case CU_RESOURCE_TYPE_LINEAR:
    check_address(resource.res.linear.devPtr);
    check_elements(resource.res.linear.format, resource.res.linear.numChannels);
    check_length(resource.res.linear.sizeInBytes, resource.res.linear.format,
                 resource.res.linear.numChannels);
    return;
  case CU_RESOURCE_TYPE_PITCH2D: {
    const auto& rows = resource.res.pitch2D;
    check_address(rows.devPtr);
    check_elements(rows.format, rows.numChannels);
    refuse_if(rows.pitchInBytes % attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) != 0 ||
                  rows.pitchInBytes > attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH) ||
                  rows.width > attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) ||
                  rows.height > attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
              CUDA_ERROR_INVALID_VALUE);
    return;
  }
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

/// The array, or the first level. Null for memory without a shape, of which a view is not looked at.
std::shared_ptr<const Array> Api::viewed(const CUDA_RESOURCE_DESC& resource) {
  if (resource.resType == CU_RESOURCE_TYPE_ARRAY) return array(resource.res.array.hArray);
  if (resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) return nullptr;
  return mipmapped_array(resource.res.mipmap.hMipmappedArray)->levels.front();
}

/// A view shows the whole array, with elements of the size that the array has. No other view of layers or of
/// a box was measured, and none of levels behind the first. A device looks at the lower 32 bits of each size.
void Api::check_view(const CUDA_RESOURCE_VIEW_DESC& view, const CUDA_RESOURCE_DESC& resource) {
  const auto whole = viewed(resource);
  if (!whole) return;
  const CUDA_ARRAY3D_DESCRIPTOR& shape = whole->shape;
  const bool levels = resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
             layers = shape.Flags == CUDA_ARRAY3D_LAYERED;
  const auto depth = static_cast<std::uint32_t>(view.depth);
  const auto last_level =
      levels ? mipmapped_array(resource.res.mipmap.hMipmappedArray)->levels.size() - 1 : std::size_t{0};
  const auto last_layer = layers ? shape.Depth - 1 : std::size_t{0};
  refuse_if(std::any_of(std::begin(view.reserved), std::end(view.reserved),
                        [](unsigned value) { return value != 0; }) ||
                view.firstMipmapLevel > view.lastMipmapLevel || view.lastMipmapLevel > last_level ||
                depth != shape.Depth,
            CUDA_ERROR_INVALID_VALUE);
  if (!is_plain(shape.Format) || (shape.Depth != 0 && !layers) || view.firstMipmapLevel != 0)
    not_modelled("this view of an array");
  const bool same = static_cast<std::uint32_t>(view.width) == shape.Width &&
                    static_cast<std::uint32_t>(view.height) == shape.Height && view.firstLayer == 0 &&
                    view.lastLayer == last_layer;
  if (!same && layers) not_modelled("a view of an array that does not show all of its layers");
  refuse_if(!same, CUDA_ERROR_INVALID_VALUE);
  const std::size_t bytes = element_bytes(shape.Format, shape.NumChannels);
  const bool blocks =
      view.format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1 && view.format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7;
  if (blocks && bytes >= 8 && shape.Format != CU_AD_FORMAT_FLOAT) not_modelled("a view of compressed blocks");
  refuse_if(view.format != CU_RES_VIEW_FORMAT_NONE && bytes_of_view(view.format) != bytes,
            CUDA_ERROR_INVALID_VALUE);
}

/// Textures and surfaces share the numbers, and a new object gets the lowest one that is free. Each context
/// has its own numbers.
unsigned long long Api::bind(std::shared_ptr<const BoundMemory> bound, Context& home) {
  unsigned long long number = 1;
  while (home.textures.contains(number))
    ++number;
  home.textures.emplace(number, std::move(bound));
  return number;
}

const BoundMemory& Api::bound(unsigned long long number, bool surface) {
  const auto& all = current_context()->textures;
  const auto found = all.find(number);
  refuse_if(found == all.end() || found->second->surface != surface, CUDA_ERROR_INVALID_VALUE);
  return *found->second;
}

/// Anything but such an object is left alone.
CUresult Api::unbind(unsigned long long number, bool surface) {
  auto& all = context_for_arrays()->textures;
  const auto found = all.find(number);
  if (found != all.end() && found->second->surface == surface) all.erase(found);
  return CUDA_SUCCESS;
}

CUresult Api::cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                                const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  const auto home = context_for_arrays();
  refuse_if(out == nullptr || resource == nullptr || texture == nullptr, CUDA_ERROR_INVALID_VALUE);
  check_resource(*resource);
  const auto whole = resource->resType == CU_RESOURCE_TYPE_ARRAY ? viewed(*resource) : nullptr;
  check_texture(*texture, whole && whole->shape.Height != 0 && whole->shape.Depth == 0);
  if (view != nullptr) check_view(*view, *resource);
  refuse_foreign(*resource, *home);
  if (view != nullptr && view->format == CU_RES_VIEW_FORMAT_NONE && viewed(*resource)) {
    *out = 0;
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  auto made = std::make_shared<BoundMemory>();
  made->resource = *resource;
  made->texture = *texture;
  if (view != nullptr) made->view = *view;
  *out = bind(std::move(made), *home);
  return CUDA_SUCCESS;
}

/// A device stores the object without a look at the address.
CUresult Api::cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  const auto home = context_for_arrays();
  refuse_if(resource == nullptr || resource->resType != CU_RESOURCE_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE);
  check_resource(*resource);
  refuse_foreign(*resource, *home);
  if (out == nullptr) crash("there is no place for the surface object");
  auto made = std::make_shared<BoundMemory>();
  made->surface = true;
  made->resource = *resource;
  *out = bind(std::move(made), *home);
  return CUDA_SUCCESS;
}

CUresult Api::cuTexObjectDestroy(CUtexObject object) { return unbind(object, false); }
CUresult Api::cuSurfObjectDestroy(CUsurfObject object) { return unbind(object, true); }

namespace {

/// Only the members of this type of resource are written.
void tell(CUDA_RESOURCE_DESC* out, const CUDA_RESOURCE_DESC& resource) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  out->resType = resource.resType;
  out->flags = resource.flags;
  switch (resource.resType) {
  case CU_RESOURCE_TYPE_ARRAY:
    out->res.array = resource.res.array;
    break;
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
    out->res.mipmap = resource.res.mipmap;
    break;
  case CU_RESOURCE_TYPE_LINEAR:
    out->res.linear = resource.res.linear;
    break;
  default:
    out->res.pitch2D = resource.res.pitch2D;
  }
}

} // namespace

CUresult Api::cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject object) {
  tell(out, bound(object, false).resource);
  return CUDA_SUCCESS;
}

CUresult Api::cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject object) {
  tell(out, bound(object, true).resource);
  return CUDA_SUCCESS;
}

/// The reserved members are left alone.
CUresult Api::cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject object) {
  const CUDA_TEXTURE_DESC& texture = bound(object, false).texture;
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  CUDA_TEXTURE_DESC told = texture;
  std::copy(std::begin(out->reserved), std::end(out->reserved), std::begin(told.reserved));
  *out = told;
  return CUDA_SUCCESS;
}

/// Of an object without a view, nothing is written.
CUresult Api::cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject object) {
  const auto& view = bound(object, false).view;
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (view) *out = *view;
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
