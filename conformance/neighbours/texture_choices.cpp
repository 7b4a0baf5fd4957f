// SPDX-License-Identifier: MIT
// Texture and surface objects as arguments, and their descriptions.
#include "structure.hpp"

#include <cstdint>

namespace neighbours {
namespace {

using Resource = CUDA_RESOURCE_DESC;

void of_array(Resource& resource, CUarray array) {
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
}
void of_mipmapped_array(Resource& resource, CUmipmappedArray array) {
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = array;
}
using Changes = std::vector<Change<Resource>>;

void add_arrays(Changes& all) {
  for (const char* kind : {"rows", "line", "box", "layers", "cube", "surface", "deferred", "sparse"})
    all.push_back(
        {"array_" + std::string(kind), [kind](Stage& s, Resource& r) { of_array(r, s.array(kind)); }});
  all.push_back({"array_null", [](Stage&, Resource& r) { of_array(r, nullptr); }});
  all.push_back({"array_level", [](Stage& s, Resource& r) { of_array(r, s.level()); }});
  all.push_back({"array_of_other_context", [](Stage& s, Resource& r) {
                   of_array(r, s.in_other_context([&s] { return s.new_array("surface"); }));
                 }});
  all.push_back({"array_destroyed", [](Stage& s, Resource& r) {
                   const CUarray made = s.new_array("surface");
                   s.must(s.cu.ArrayDestroy(made), "cuArrayDestroy");
                   of_array(r, made);
                 }});
  all.push_back(
      {"mipmapped_array", [](Stage& s, Resource& r) { of_mipmapped_array(r, s.mipmapped_array()); }});
  all.push_back({"mipmapped_array_null", [](Stage&, Resource& r) { of_mipmapped_array(r, nullptr); }});
  all.push_back({"mipmapped_array_of_other_context", [](Stage& s, Resource& r) {
                   of_mipmapped_array(r, s.in_other_context([&s] { return s.new_mipmapped_array(); }));
                 }});
  all.push_back({"mipmapped_array_destroyed", [](Stage& s, Resource& r) {
                   const CUmipmappedArray made = s.new_mipmapped_array();
                   s.must(s.cu.MipmappedArrayDestroy(made), "cuMipmappedArrayDestroy");
                   of_mipmapped_array(r, made);
                 }});
}

Change<Resource> changed_line(const char* label, std::function<void(Stage&, Resource&)> change) {
  return {std::string("linear") + label, [change](Stage& s, Resource& r) {
            r = s.line_of_memory();
            change(s, r);
          }};
}
Change<Resource> changed_rows(const char* label, std::function<void(Stage&, Resource&)> change) {
  return {std::string("pitch2D") + label, [change](Stage& s, Resource& r) {
            r = s.rows_of_memory();
            change(s, r);
          }};
}

// One member of a line or of rows in device memory.
#define LINE(label, member, value)                                                                           \
  changed_line(label, [](Stage& s, Resource& r) {                                                            \
    (void)s;                                                                                                 \
    r.res.linear.member = converted<std::remove_reference_t<decltype(r.res.linear.member)>>(value);          \
  })
#define ROWS(label, member, value)                                                                           \
  changed_rows(label, [](Stage& s, Resource& r) {                                                            \
    (void)s;                                                                                                 \
    r.res.pitch2D.member = converted<std::remove_reference_t<decltype(r.res.pitch2D.member)>>(value);        \
  })

// As the addresses of textures are.
CUdeviceptr aligned(void* memory) {
  constexpr std::uintptr_t alignment = 512;
  return (reinterpret_cast<std::uintptr_t>(memory) + alignment - 1) / alignment * alignment;
}

void add_device_memory(Changes& all) {
  for (const Change<Resource>& change : {changed_line("", [](Stage&, Resource&) {}),
                                         LINE("_null", devPtr, 0),
                                         LINE("_plus_1", devPtr, s.memory() + 1),
                                         LINE("_plus_32", devPtr, s.memory() + 32),
                                         LINE("_plus_256", devPtr, s.memory() + 256),
                                         LINE("_pinned", devPtr, s.pinned()),
                                         LINE("_managed", devPtr, s.managed()),
                                         LINE("_of_other_context", devPtr, s.other_memory()),
                                         LINE("_pageable", devPtr, aligned(s.room(8192))),
                                         LINE("_of_0_bytes", sizeInBytes, 0),
                                         LINE("_of_1_byte", sizeInBytes, 1),
                                         LINE("_of_3_bytes", sizeInBytes, 3),
                                         LINE("_of_8192_bytes", sizeInBytes, 8192),
                                         LINE("_of_huge_size", sizeInBytes, huge),
                                         LINE("_of_largest_size", sizeInBytes, largest),
                                         LINE("_without_channels", numChannels, 0),
                                         LINE("_of_2_channels", numChannels, 2),
                                         LINE("_of_3_channels", numChannels, 3),
                                         LINE("_of_4_channels", numChannels, 4),
                                         LINE("_of_5_channels", numChannels, 5),
                                         LINE("_freed", devPtr, s.freed()),
                                         changed_rows("", [](Stage&, Resource&) {}),
                                         ROWS("_null", devPtr, 0),
                                         ROWS("_plus_1", devPtr, s.memory() + 1),
                                         ROWS("_plus_32", devPtr, s.memory() + 32),
                                         ROWS("_plus_256", devPtr, s.memory() + 256),
                                         ROWS("_of_other_context", devPtr, s.other_memory()),
                                         ROWS("_without_channels", numChannels, 0),
                                         ROWS("_of_3_channels", numChannels, 3),
                                         ROWS("_of_4_channels", numChannels, 4),
                                         ROWS("_of_width_0", width, 0),
                                         ROWS("_of_width_65", width, 65),
                                         ROWS("_of_width_131072", width, 131072),
                                         ROWS("_of_width_131073", width, 131073),
                                         ROWS("_of_height_0", height, 0),
                                         ROWS("_of_height_17", height, 17),
                                         ROWS("_of_height_65000", height, 65000),
                                         ROWS("_of_height_65001", height, 65001),
                                         ROWS("_of_pitch_0", pitchInBytes, 0),
                                         ROWS("_of_pitch_31", pitchInBytes, 31),
                                         ROWS("_of_pitch_32", pitchInBytes, 32),
                                         ROWS("_of_pitch_257", pitchInBytes, 257),
                                         ROWS("_of_pitch_2097120", pitchInBytes, 2097120),
                                         ROWS("_of_pitch_2097152", pitchInBytes, 2097152),
                                         ROWS("_freed", devPtr, s.freed())})
    all.push_back(change);
  for (int format : {0, 1, 2, 3, 4, 8, 9, 10, 0x10, 0x50, 0x91, 0xb0, 0xc0, 0xc2}) {
    const std::string label = "_of_format_" + std::to_string(format);
    all.push_back(changed_line(label.c_str(), [format](Stage&, Resource& r) {
      r.res.linear.format = converted<CUarray_format>(format);
    }));
    all.push_back(changed_rows(label.c_str(), [format](Stage&, Resource& r) {
      r.res.pitch2D.format = converted<CUarray_format>(format);
    }));
  }
}

Choices resources(bool of_surface) {
  Changes all{CHANGE(Resource, resType, 4),         CHANGE(Resource, resType, -1),
              CHANGE(Resource, flags, 1),           CHANGE(Resource, flags, 2),
              CHANGE(Resource, flags, 0x80000000u), CHANGE(Resource, res.reserved.reserved[31], 1)};
  add_arrays(all);
  add_device_memory(all);
  return structure<Resource>(
      [of_surface](Stage& s, Resource& r) { of_array(r, s.array(of_surface ? "surface" : "rows")); }, all);
}

Choices descriptions() {
  using T = CUDA_TEXTURE_DESC;
  std::vector<Change<T>> all{CHANGE(T, addressMode[0], 1),
                             CHANGE(T, addressMode[0], 2),
                             CHANGE(T, addressMode[0], 3),
                             CHANGE(T, addressMode[0], 4),
                             CHANGE(T, addressMode[0], -1),
                             CHANGE(T, addressMode[1], 3),
                             CHANGE(T, addressMode[1], 4),
                             CHANGE(T, addressMode[2], 3),
                             CHANGE(T, addressMode[2], 4),
                             CHANGE(T, filterMode, 1),
                             CHANGE(T, filterMode, 2),
                             CHANGE(T, filterMode, -1),
                             CHANGE(T, maxAnisotropy, 1),
                             CHANGE(T, maxAnisotropy, 16),
                             CHANGE(T, maxAnisotropy, 17),
                             CHANGE(T, maxAnisotropy, -1),
                             CHANGE(T, mipmapFilterMode, 1),
                             CHANGE(T, mipmapFilterMode, 2),
                             CHANGE(T, mipmapFilterMode, -1),
                             CHANGE(T, mipmapLevelBias, -1e9),
                             CHANGE(T, mipmapLevelBias, 1e9),
                             CHANGE(T, minMipmapLevelClamp, -1),
                             CHANGE(T, minMipmapLevelClamp, 1e9),
                             CHANGE(T, maxMipmapLevelClamp, -1),
                             CHANGE(T, maxMipmapLevelClamp, 1e9),
                             CHANGE(T, borderColor[0], 1e9),
                             CHANGE(T, borderColor[3], -1),
                             CHANGE(T, reserved[0], 1),
                             CHANGE(T, reserved[11], 1),
                             Change<T>{"linear_integers",
                                       [](Stage&, T& t) {
                                         t.filterMode = CU_TR_FILTER_MODE_LINEAR;
                                         t.flags = CU_TRSF_READ_AS_INTEGER;
                                       }},
                             Change<T>{"wrapped_without_normalized_coordinates", [](Stage&, T& t) {
                                         t.addressMode[0] = t.addressMode[1] = CU_TR_ADDRESS_MODE_MIRROR;
                                         t.flags = 0;
                                       }}};
  for (int bit = 0; bit < 32; ++bit)
    if (bit < 9 || bit == 31)
      all.push_back({"flags_" + std::to_string(1u << bit), [=](Stage&, T& t) { t.flags = 1u << bit; }});
  return structure<T>([](Stage&, T&) {}, all);
}

// A null view is the usual argument.
Choices views() {
  using T = CUDA_RESOURCE_VIEW_DESC;
  std::vector<Change<T>> all{CHANGE(T, width, 0),
                             CHANGE(T, width, 1),
                             CHANGE(T, width, 63),
                             CHANGE(T, width, 65),
                             CHANGE(T, width, huge),
                             CHANGE(T, height, 0),
                             CHANGE(T, height, 31),
                             CHANGE(T, height, 33),
                             CHANGE(T, depth, 1),
                             CHANGE(T, depth, huge),
                             CHANGE(T, firstMipmapLevel, 1),
                             CHANGE(T, lastMipmapLevel, 1),
                             CHANGE(T, firstLayer, 1),
                             CHANGE(T, lastLayer, 1),
                             CHANGE(T, reserved[0], 1),
                             CHANGE(T, reserved[15], 1),
                             Change<T>{"zeros", [](Stage&, T& t) { t = T{}; }}};
  for (int format = -1; format <= 35; ++format)
    all.push_back({"format_" + std::to_string(format),
                   [=](Stage&, T& t) { t.format = converted<CUresourceViewFormat>(format); }});
  Choices choices = structure<T>([](Stage&, T& t) { t = Stage::view_of_rows(); }, all);
  std::swap(choices[0], choices[1]);
  return choices;
}

constexpr unsigned long long unused = 1000000; // a number that no object has

// The numbers of textures and surfaces are each context's own, and a low one may have another meaning there.
Choices objects(bool surface, bool fresh) {
  Choices all;
  const auto texture = [fresh](const char* kind) {
    return choice(kind, [=](Stage& s) { return fresh ? s.new_texture(kind) : s.texture(kind); });
  };
  const Choice of_surface =
      choice("surface", [fresh](Stage& s) { return fresh ? s.new_surface() : s.surface(); });
  if (surface)
    all = {of_surface, null(), texture("array")};
  else
    all = {texture("array"), null(), texture("with_view"), texture("line"), texture("rows"), of_surface};
  all.push_back(choice("unused", [](Stage&) { return unused; }));
  all.push_back(choice("2_to_the_32", [](Stage&) { return 1ULL << 32; }));
  all.push_back(choice("-1", [](Stage&) { return -1; }));
  all.push_back(choice("destroyed", [surface](Stage& s) {
    const unsigned long long made = surface ? s.new_surface() : s.new_texture("array");
    s.end_object(made, surface);
    return made;
  }));
  return all;
}

} // namespace

Choices texture_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  if (type == "const CUDA_RESOURCE_DESC*") return resources(symbol == "cuSurfObjectCreate");
  if (type == "const CUDA_TEXTURE_DESC*") return descriptions();
  if (type == "const CUDA_RESOURCE_VIEW_DESC*") return views();
  const bool ends = symbol.find("Destroy") != std::string::npos;
  if (type == "CUtexObject" && name == "texObject") return objects(false, ends);
  if (type == "CUsurfObject" && name == "surfObject") return objects(true, ends);
  return {};
}

} // namespace neighbours
