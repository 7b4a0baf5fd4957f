// SPDX-License-Identifier: MIT
// Arrays and mipmapped arrays: what can be made, and what is told about it. Copies are in api_copies.cpp.

#include "api.hpp"
#include "array.hpp"
#include "device_attributes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <iterator>

namespace cuevent::sim {

std::byte* ArrayMemory::start() {
  if (!memory_) {
    memory_.reset(new std::byte[bytes_]);
    std::memset(memory_.get(), fresh, bytes_);
  }
  return memory_.get();
}

namespace {

constexpr bool is_between(int value, int first, int last) { return value >= first && value <= last; }

/// The numbers of formats of which each has one number of channels: 1, 2, 4 and 1 again, by turns.
constexpr int first_normalized = 0xc0, last_normalized = 0xcb;

/// The numbers of formats of blocks of 4 x 4 elements, and how many channels each has.
constexpr int first_compressed = 0x91, last_compressed = 0x9e;
constexpr unsigned channels_of_compressed[] = {4, 4, 4, 4, 4, 4, 1, 1, 2, 2, 3, 3, 4, 4};
constexpr std::size_t bytes_of_block[] = {8, 8, 16, 16, 16, 16, 8, 8, 16, 16, 16, 16, 16, 16};
constexpr std::size_t block_side = 4;

std::size_t bytes_of_channel(int format) {
  switch (format) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
  case CU_AD_FORMAT_SIGNED_INT8:
    return 1;
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_SIGNED_INT16:
  case CU_AD_FORMAT_HALF:
    return 2;
  case CU_AD_FORMAT_UNSIGNED_INT32:
  case CU_AD_FORMAT_SIGNED_INT32:
  case CU_AD_FORMAT_FLOAT:
    return 4;
  default:
    return 0;
  }
}

std::size_t extent(std::size_t size) { return std::max<std::size_t>(size, 1); }

std::size_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  const auto blocks = [](std::size_t size) { return (size + block_side - 1) / block_side; };
  if (is_compressed(shape.Format))
    return blocks(shape.Width) * blocks(shape.Height) * bytes_of_block[shape.Format - first_compressed];
  return shape.Width * extent(shape.Height) * extent(shape.Depth) *
         element_bytes(shape.Format, shape.NumChannels);
}

/// Whether the sizes are at most these attributes of the device.
bool within(const CUDA_ARRAY3D_DESCRIPTOR& shape, std::initializer_list<CUdevice_attribute> limits) {
  const std::size_t sizes[] = {shape.Width, shape.Height, shape.Depth};
  const std::size_t* size = sizes;
  return std::all_of(limits.begin(), limits.end(), [&size](CUdevice_attribute limit) {
    return *size++ <= static_cast<std::size_t>(device_attributes[static_cast<std::size_t>(limit) - 1]);
  });
}

constexpr unsigned layered = CUDA_ARRAY3D_LAYERED, surface = CUDA_ARRAY3D_SURFACE_LDST,
                   cubemap = CUDA_ARRAY3D_CUBEMAP, gather = CUDA_ARRAY3D_TEXTURE_GATHER,
                   depth_texture = CUDA_ARRAY3D_DEPTH_TEXTURE,
                   color_attachment = CUDA_ARRAY3D_COLOR_ATTACHMENT, sparse = CUDA_ARRAY3D_SPARSE,
                   deferred = CUDA_ARRAY3D_DEFERRED_MAPPING,
                   video = 0x100, // CUDA_ARRAY3D_VIDEO_ENCODE_DECODE, since CUDA 12.8
    unused = 0x8000'0000;         // no flag, and a device accepts it

/// A line or rows of it, for each layer. A cubemap has six of them, or six for each layer.
bool layers_fit(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  if (shape.Depth == 0) return false;
  if ((shape.Flags & cubemap) != 0)
    return shape.Width == shape.Height && shape.Depth % 6 == 0 &&
           within(shape, {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
                          CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
                          CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS});
  const std::size_t most_layers = device_attributes[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS - 1];
  if (shape.Depth > most_layers) return false;
  return shape.Height == 0 ? within(shape, {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH})
                           : within(shape, {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
                                            CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT});
}

/// A line, rows or a box. A box can be deeper if it is narrower. That of a surface cannot.
bool box_fits(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  const bool is_surface = (shape.Flags & surface) != 0;
  if (shape.Depth != 0)
    return shape.Height != 0 &&
           (within(shape,
                   {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
                    CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH}) ||
            (!is_surface && within(shape, {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE,
                                           CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE,
                                           CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE})));
  if (shape.Height != 0)
    return within(
        shape, {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT});
  return within(shape, {is_surface ? CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH
                                   : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH});
}

/// Whether a device makes an array of this size. The limits are attributes of the device.
bool size_fits(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  const unsigned flags = shape.Flags;
  if (shape.Width == 0 || ((flags & sparse) != 0 && shape.Height == 0)) return false;
  if ((flags & layered) != 0) return layers_fit(shape);
  if ((flags & cubemap) != 0) return shape.Depth == 6 && layers_fit(shape);
  if ((flags & gather) != 0)
    return shape.Height != 0 && shape.Depth == 0 &&
           within(shape, {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
                          CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT});
  return box_fits(shape);
}

/// Of arrays of compressed blocks, whole blocks in rows were measured.
void check_format(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  if (!is_compressed(shape.Format)) {
    refuse_if(element_bytes(shape.Format, shape.NumChannels) == 0, CUDA_ERROR_INVALID_VALUE);
    return;
  }
  refuse_if(shape.NumChannels != channels_of_compressed[shape.Format - first_compressed],
            CUDA_ERROR_INVALID_VALUE);
  if (shape.Height == 0 || shape.Depth != 0 || shape.Flags != 0 || shape.Width % block_side != 0 ||
      shape.Height % block_side != 0)
    not_modelled("this array of compressed blocks");
}

bool has_pair(unsigned flags, unsigned pair) { return (flags & pair) == pair; }

/// Flags go together if each two of them do. Measured for two and three flags of an array of rows, and for
/// two more than each other form needs.
void check_flags(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  constexpr unsigned form = layered | cubemap, attached = depth_texture | color_attachment,
                     other = surface | gather | sparse | deferred | video;
  const unsigned flags = shape.Flags;
  refuse_if((flags & ~(form | attached | other | unused)) != 0, CUDA_ERROR_INVALID_VALUE);
  const bool measured_format =
      shape.Format == CU_AD_FORMAT_UNSIGNED_INT8 || shape.Format == CU_AD_FORMAT_FLOAT;
  refuse_if((flags & attached) != 0 && measured_format, CUDA_ERROR_INVALID_VALUE);
  refuse_if(((flags & gather) != 0 && (flags & form) != 0) || has_pair(flags, sparse | surface) ||
                has_pair(flags, sparse | deferred) || has_pair(flags, sparse | cubemap),
            CUDA_ERROR_INVALID_VALUE);
  const bool measured = (flags & attached) == 0 && std::popcount(flags & other) <= 3 &&
                        ((flags & unused) == 0 || flags == unused);
  if (!measured) not_modelled("an array with flags " + std::to_string(flags));
}

/// A device looks at the lower 32 bits of each size.
CUDA_ARRAY3D_DESCRIPTOR checked_shape(CUDA_ARRAY3D_DESCRIPTOR shape) {
  for (std::size_t* size : {&shape.Width, &shape.Height, &shape.Depth})
    *size = static_cast<std::uint32_t>(*size);
  check_format(shape);
  check_flags(shape);
  refuse_if(!size_fits(shape), CUDA_ERROR_INVALID_VALUE);
  return shape;
}

CUDA_ARRAY3D_DESCRIPTOR flat(const CUDA_ARRAY_DESCRIPTOR& shape) {
  return {shape.Width, shape.Height, 0, shape.Format, shape.NumChannels, 0};
}

bool is_mapped(const CUDA_ARRAY3D_DESCRIPTOR& shape) { return (shape.Flags & (deferred | sparse)) == 0; }

std::shared_ptr<ArrayMemory> memory_for(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  if (!is_mapped(shape)) return nullptr;
  return std::make_shared<ArrayMemory>(bytes_of(shape));
}

/// That of a level. The layers do not shrink.
CUDA_ARRAY3D_DESCRIPTOR shrunk(CUDA_ARRAY3D_DESCRIPTOR shape, std::size_t level) {
  const auto shrink = [level](std::size_t& size) {
    if (size != 0) size = extent(size >> level);
  };
  shrink(shape.Width);
  shrink(shape.Height);
  if ((shape.Flags & (layered | cubemap)) == 0) shrink(shape.Depth);
  return shape;
}

std::size_t most_levels(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  std::size_t largest = std::max(shape.Width, shape.Height);
  if ((shape.Flags & (layered | cubemap)) == 0) largest = std::max(largest, shape.Depth);
  std::size_t levels = 1;
  while ((largest >>= 1) != 0)
    ++levels;
  return levels;
}

} // namespace

bool is_compressed(CUarray_format format) { return is_between(format, first_compressed, last_compressed); }

std::size_t element_bytes(CUarray_format format, unsigned channels) {
  const int number = format;
  if (is_between(number, first_normalized, last_normalized)) {
    constexpr unsigned by_turns[] = {1, 2, 4};
    const int place = number - first_normalized;
    const std::size_t bytes = place / 3 % 2 == 0 ? 1 : 2;
    return channels == by_turns[place % 3] ? channels * bytes : 0;
  }
  if (number == ten_bits) return channels == 4 ? 4 : 0;
  return channels == 1 || channels == 2 || channels == 4 ? channels * bytes_of_channel(number) : 0;
}

// Arrays

std::shared_ptr<Array> Api::array(CUarray handle) {
  auto found = find<Array>(handle, Kind::array);
  require_alive(found->home, *found);
  return found;
}

std::shared_ptr<MipmappedArray> Api::mipmapped_array(CUmipmappedArray handle) {
  auto found = find<MipmappedArray>(handle, Kind::mipmapped_array);
  require_alive(found->home, *found);
  return found;
}

/// An array whose handle is that of something else is refused by what looks at its shape first.
void Api::refuse_other_kind(const void* handle, Kind kind) const {
  const auto found = computer_.handles.peek<Object>(reinterpret_cast<std::uintptr_t>(handle));
  refuse_if(found && found->kind != kind, CUDA_ERROR_INVALID_VALUE);
}

/// The context in which an array or an object that uses one is made.
std::shared_ptr<Context> Api::context_for_arrays() {
  auto home = context_to_create_in();
  unsafe_call();
  return home;
}

CUresult Api::create_array(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& shape,
                           const std::shared_ptr<Context>& home) {
  const auto memory = memory_for(shape);
  refuse_if(memory && memory->bytes() > free_memory(home->device), CUDA_ERROR_OUT_OF_MEMORY);
  const auto made = make<Array>(Kind::array, home.get());
  made->shape = shape;
  made->home = {home, home->generation};
  made->memory = memory;
  *out = as<CUarray>(*made);
  return CUDA_SUCCESS;
}

CUresult Api::cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  const auto home = context_for_arrays();
  refuse_if(out == nullptr || shape == nullptr, CUDA_ERROR_INVALID_VALUE);
  return create_array(out, checked_shape(*shape), home);
}

CUresult Api::cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* shape) {
  const auto home = context_for_arrays();
  refuse_if(out == nullptr || shape == nullptr, CUDA_ERROR_INVALID_VALUE);
  return create_array(out, checked_shape(flat(*shape)), home);
}

/// Waits for all work of its context, as the end of other memory does. The level of a mipmapped array stays.
CUresult Api::cuArrayDestroy(CUarray handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  unsafe_call();
  const auto ended = array(handle);
  wait_for_all_work_of(*ended->home.context, "an array is destroyed");
  if (!ended->level) computer_.handles.remove(*ended, ending());
  return CUDA_SUCCESS;
}

CUresult Api::cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  const auto asked = array(handle);
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = asked->shape;
  return CUDA_SUCCESS;
}

CUresult Api::cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  const auto asked = array(handle);
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUDA_ARRAY3D_DESCRIPTOR& shape = asked->shape;
  *out = {shape.Width, shape.Height, shape.Format, shape.NumChannels};
  return CUDA_SUCCESS;
}

namespace {

constexpr std::size_t page = 65'536;

/// The bytes of an array in the blocks that a device orders them in. Their padding was measured for sides
/// that are powers of two, and for arrays that fit into one page with it.
std::size_t padded_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  constexpr std::size_t narrowest = 64, least_rows = 16;
  const bool layers = (shape.Flags & layered) != 0;
  const std::size_t row = shape.Width * element_bytes(shape.Format, shape.NumChannels);
  const std::size_t padded = std::max(std::bit_ceil(row), narrowest) *
                             std::max(std::bit_ceil(shape.Height), least_rows) *
                             (layers ? shape.Depth : std::bit_ceil(extent(shape.Depth)));
  const bool deep = !layers && shape.Depth != 0 && shape.Depth < 64;
  if (shape.Height == 0 || deep || (padded > page && padded != bytes_of(shape)))
    not_modelled("the memory of an array whose sides are no powers of two, of a line, or of a flat box");
  return padded;
}

std::size_t bytes_in_pages(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return (padded_bytes(shape) + page - 1) / page * page;
}

/// That of all levels was measured for levels that fit into one page.
std::size_t bytes_in_pages(const MipmappedArray& array) {
  std::size_t bytes = 0;
  for (const auto& level : array.levels)
    bytes += padded_bytes(level->shape);
  if (bytes > page) not_modelled("the memory of a mipmapped array of several pages");
  return page;
}

void tell_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS& out, std::size_t bytes) {
  out = {};
  out.size = bytes;
  out.alignment = page;
}

/// The tile of a sparse array. Returns whether the array is smaller, and so is all tail.
bool tell_tile(CUDA_ARRAY_SPARSE_PROPERTIES& out, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  const std::size_t bytes = element_bytes(shape.Format, shape.NumChannels);
  const bool box = shape.Depth != 0 && (shape.Flags & layered) == 0;
  if (box ? bytes != 1 : bytes != 1 && bytes != 4 && bytes != 16)
    not_modelled("the tiles of a sparse array of this format");
  out = {};
  const unsigned side = bytes == 1 ? 256 : bytes == 4 ? 128 : 64;
  out.tileExtent = {side, side, 1};
  if (box) out.tileExtent = {64, 32, 32};
  const auto& tile = out.tileExtent;
  const bool small = shape.Width < tile.width || shape.Height < tile.height;
  if (box && (small || shape.Depth < tile.depth)) not_modelled("a sparse box that is smaller than one tile");
  return small;
}

void tell_tail(CUDA_ARRAY_SPARSE_PROPERTIES& out, std::size_t bytes) {
  out.miptailSize = bytes;
  out.flags = CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL;
}

} // namespace

/// Only a deferred array has them. The device is not looked at.
CUresult Api::cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle, CUdevice) {
  refuse_if(out == nullptr || handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_other_kind(handle, Kind::array);
  const CUDA_ARRAY3D_DESCRIPTOR& shape = array(handle)->shape;
  refuse_if((shape.Flags & deferred) == 0, CUDA_ERROR_INVALID_VALUE);
  tell_requirements(*out, bytes_in_pages(shape));
  return CUDA_SUCCESS;
}

CUresult Api::cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray handle) {
  refuse_if(out == nullptr || handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUDA_ARRAY3D_DESCRIPTOR& shape = array(handle)->shape;
  refuse_if((shape.Flags & sparse) == 0, CUDA_ERROR_INVALID_VALUE);
  if (tell_tile(*out, shape)) tell_tail(*out, bytes_in_pages(shape));
  return CUDA_SUCCESS;
}

/// No modelled format has several planes.
CUresult Api::cuArrayGetPlane(CUarray*, CUarray handle, unsigned) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  refuse_other_kind(handle, Kind::array);
  array(handle);
  refuse(CUDA_ERROR_INVALID_VALUE);
}

// Mipmapped arrays

CUresult Api::cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* wanted_shape,
                                     unsigned wanted) {
  const auto home = context_for_arrays();
  refuse_if(out == nullptr || wanted_shape == nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUDA_ARRAY3D_DESCRIPTOR shape = checked_shape(*wanted_shape);
  refuse_if(!within(shape, {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT}),
            CUDA_ERROR_INVALID_VALUE); // a line can be as long
  const std::size_t levels = std::clamp<std::size_t>(wanted, 1, most_levels(shape));
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < levels; ++i)
    bytes += is_mapped(shape) ? bytes_of(shrunk(shape, i)) : 0;
  refuse_if(bytes > free_memory(home->device), CUDA_ERROR_OUT_OF_MEMORY);
  const auto made = make<MipmappedArray>(Kind::mipmapped_array, home.get());
  made->shape = shape;
  made->home = {home, home->generation};
  for (std::size_t i = 0; i < levels; ++i) {
    const auto& level = made->levels.emplace_back(make<Array>(Kind::array, home.get()));
    level->shape = shrunk(shape, i);
    level->home = made->home;
    level->level = true;
    level->memory = memory_for(level->shape);
  }
  *out = as<CUmipmappedArray>(*made);
  return CUDA_SUCCESS;
}

/// It waits, and a capture refuses it, as the end of an array.
CUresult Api::cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  unsafe_call();
  const auto ended = mipmapped_array(handle);
  wait_for_all_work_of(*ended->home.context, "a mipmapped array is destroyed");
  for (const auto& level : ended->levels)
    computer_.handles.remove(*level, ending());
  computer_.handles.remove(*ended, ending());
  return CUDA_SUCCESS;
}

CUresult Api::cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned level) {
  refuse_other_kind(handle, Kind::mipmapped_array);
  const auto asked = mipmapped_array(handle);
  refuse_if(out == nullptr || level >= asked->levels.size(), CUDA_ERROR_INVALID_VALUE);
  *out = as<CUarray>(*asked->levels[level]);
  return CUDA_SUCCESS;
}

CUresult Api::cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                                    CUmipmappedArray handle, CUdevice) {
  refuse_if(out == nullptr || handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_other_kind(handle, Kind::mipmapped_array);
  const auto asked = mipmapped_array(handle);
  refuse_if((asked->shape.Flags & deferred) == 0, CUDA_ERROR_INVALID_VALUE);
  tell_requirements(*out, bytes_in_pages(*asked));
  return CUDA_SUCCESS;
}

/// Measured for an array that is smaller than one tile: its tail begins with the first level.
CUresult Api::cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out,
                                                  CUmipmappedArray handle) {
  refuse_if(out == nullptr || handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_other_kind(handle, Kind::mipmapped_array);
  const auto asked = mipmapped_array(handle);
  refuse_if((asked->shape.Flags & sparse) == 0, CUDA_ERROR_INVALID_VALUE);
  CUDA_ARRAY_SPARSE_PROPERTIES told;
  if (!tell_tile(told, asked->shape))
    not_modelled("the levels of a sparse array that is larger than one tile");
  tell_tail(told, bytes_in_pages(*asked));
  *out = told;
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
