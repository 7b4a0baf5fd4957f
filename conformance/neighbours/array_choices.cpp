// SPDX-License-Identifier: MIT
// Arrays and mipmapped arrays as arguments, and their descriptions.
#include "structure.hpp"

#include <cstdio>
#include <iterator>

namespace neighbours {
namespace {

std::string hexadecimal(unsigned number) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%x", number);
  return text;
}

// Each format of CUDA 13.0, with numbers between them that no format has.
std::vector<int> formats() {
  std::vector<int> all{0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 0x10, 0x20, 0x50, 0x90, 0x7fffffff};
  for (int format = 0x91; format <= 0xcc; ++format)
    all.push_back(format);
  return all;
}

template <class T>
std::vector<Change<T>> flat_changes() {
  std::vector<Change<T>> all{
      CHANGE(T, Width, 0),       CHANGE(T, Width, 1),        CHANGE(T, Width, 3),
      CHANGE(T, Width, 131072),  CHANGE(T, Width, 131073),   CHANGE(T, Width, huge),
      CHANGE(T, Width, largest), CHANGE(T, Height, 0),       CHANGE(T, Height, 1),
      CHANGE(T, Height, 3),      CHANGE(T, Height, 65536),   CHANGE(T, Height, 65537),
      CHANGE(T, Height, huge),   CHANGE(T, Height, largest), CHANGE(T, NumChannels, 0),
      CHANGE(T, NumChannels, 2), CHANGE(T, NumChannels, 3),  CHANGE(T, NumChannels, 4),
      CHANGE(T, NumChannels, 5), CHANGE(T, NumChannels, 8),  CHANGE(T, NumChannels, -1)};
  for (int format : formats())
    if (format != CU_AD_FORMAT_FLOAT)
      all.push_back({"Format:" + hexadecimal(static_cast<unsigned>(format)),
                     [=](Stage&, T& t) { t.Format = (CUarray_format)format; }});
  return all;
}

using Deep = CUDA_ARRAY3D_DESCRIPTOR;

struct Shape {
  const char* name;
  std::size_t width, height, depth;
  unsigned flags;
};
constexpr unsigned layered = CUDA_ARRAY3D_LAYERED, cubemap = CUDA_ARRAY3D_CUBEMAP,
                   surface = CUDA_ARRAY3D_SURFACE_LDST;
constexpr Shape with_each_flag[] = {{"line", 64, 0, 0, 0},        {"box", 64, 32, 16, 0},
                                    {"lines", 64, 0, 4, layered}, {"layers", 64, 32, 4, layered},
                                    {"cube", 64, 64, 6, cubemap}, {"cubes", 64, 64, 12, cubemap | layered}};
constexpr Shape at_limits[] = {{"line_of_131072", 131072, 0, 0, 0},
                               {"line_of_131073", 131073, 0, 0, 0},
                               {"line_of_32768_for_surfaces", 32768, 0, 0, surface},
                               {"line_of_32769_for_surfaces", 32769, 0, 0, surface},
                               {"box_of_width_16384", 16384, 4, 4, 0},
                               {"box_of_width_16385", 16385, 4, 4, 0},
                               {"box_of_height_16384", 4, 16384, 4, 0},
                               {"box_of_height_16385", 4, 16385, 4, 0},
                               {"box_of_depth_16384", 4, 4, 16384, 0},
                               {"box_of_depth_16385", 4, 4, 16385, 0},
                               {"box_without_height", 64, 0, 16, 0},
                               {"lines_of_32768", 32768, 0, 4, layered},
                               {"lines_of_32769", 32769, 0, 4, layered},
                               {"layers_of_width_32768", 32768, 4, 4, layered},
                               {"layers_of_width_32769", 32769, 4, 4, layered},
                               {"layers_2048", 4, 4, 2048, layered},
                               {"layers_2049", 4, 4, 2049, layered},
                               {"no_layers", 64, 32, 0, layered},
                               {"cube_oblong", 64, 32, 6, cubemap},
                               {"cube_of_5", 64, 64, 5, cubemap},
                               {"cube_of_7", 64, 64, 7, cubemap},
                               {"cube_of_12", 64, 64, 12, cubemap},
                               {"cube_without_depth", 64, 64, 0, cubemap},
                               {"cubes_of_13", 64, 64, 13, cubemap | layered},
                               {"cubes_of_2046", 4, 4, 2046, cubemap | layered},
                               {"cubes_of_2052", 4, 4, 2052, cubemap | layered}};

Change<Deep> to_shape(const std::string& label, const Shape& shape, unsigned flags) {
  return {label, [=](Stage&, Deep& t) {
            t.Width = shape.width;
            t.Height = shape.height;
            t.Depth = shape.depth;
            t.Flags = shape.flags | flags;
          }};
}

// Three flags of an array of rows, and two more than its form needs for any other.
void add_combinations(std::vector<Change<Deep>>& all) {
  constexpr unsigned others[] = {surface, CUDA_ARRAY3D_TEXTURE_GATHER, CUDA_ARRAY3D_SPARSE,
                                 CUDA_ARRAY3D_DEFERRED_MAPPING, 0x100};
  constexpr Shape rows = {"rows", 64, 32, 0, 0};
  for (std::size_t one = 0; one < std::size(others); ++one)
    for (std::size_t other = one + 1; other < std::size(others); ++other) {
      const unsigned two = others[one] | others[other];
      for (const Shape& shape : with_each_flag)
        all.push_back(to_shape(std::string(shape.name) + "_" + hexadecimal(two), shape, two));
      for (std::size_t third = other + 1; third < std::size(others); ++third)
        all.push_back(to_shape("rows_" + hexadecimal(two | others[third]), rows, two | others[third]));
    }
}

std::vector<Change<Deep>> deep_changes() {
  auto all = flat_changes<Deep>();
  for (const Change<Deep>& change :
       {CHANGE(Deep, Depth, 1), CHANGE(Deep, Depth, 2), CHANGE(Deep, Depth, 6), CHANGE(Deep, Depth, 16384),
        CHANGE(Deep, Depth, 16385), CHANGE(Deep, Depth, huge), CHANGE(Deep, Depth, largest)})
    all.push_back(change);
  for (int bit = 0; bit < 32; ++bit)
    if (bit < 12 || bit == 16 || bit == 31)
      all.push_back({"Flags:" + hexadecimal(1u << bit), [=](Stage&, Deep& t) { t.Flags = 1u << bit; }});
  constexpr int known = 9; // flags
  for (int one = 0; one < known; ++one)
    for (int other = one + 1; other < known; ++other) {
      const unsigned flags = 1u << one | 1u << other;
      all.push_back({"Flags:" + hexadecimal(flags), [=](Stage&, Deep& t) { t.Flags = flags; }});
    }
  for (const Shape& shape : with_each_flag) {
    all.push_back(to_shape(shape.name, shape, 0));
    for (int bit = 0; bit < known; ++bit)
      if ((shape.flags & 1u << bit) == 0)
        all.push_back(to_shape(std::string(shape.name) + "_" + hexadecimal(1u << bit), shape, 1u << bit));
  }
  for (const Shape& shape : at_limits)
    all.push_back(to_shape(shape.name, shape, 0));
  add_combinations(all);
  return all;
}

// Formats that need another number of channels than one, and even sides or blocks.
std::vector<Change<Deep>> format_changes() {
  std::vector<Change<Deep>> all;
  const auto with_channels = [&all](int format, unsigned channels) {
    all.push_back({"Format:" + hexadecimal(static_cast<unsigned>(format)) + "_with_" +
                       std::to_string(channels) + "_channels",
                   [=](Stage&, Deep& t) {
                     t.Format = (CUarray_format)format;
                     t.NumChannels = channels;
                   }});
  };
  for (int format : {0x50, 0xc1, 0xc2, 0xc4, 0xc5, 0xc7, 0xc8, 0xca, 0xcb})
    for (unsigned channels : {2u, 4u})
      with_channels(format, channels);
  for (int format = 0x91; format <= 0x9e; ++format)
    for (unsigned channels : {2u, 3u, 4u})
      with_channels(format, channels);
  for (int format = 0x9f; format <= 0xb5; ++format)
    for (unsigned channels : {2u, 3u, 4u})
      with_channels(format, channels);
  return all;
}

template <class T>
void fill_shape(Stage&, T& shape) {
  shape.Width = 64;
  shape.Height = 32;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
}

Choices arrays(const std::string& first) {
  Choices all;
  const auto add = [&all](const std::string& kind) {
    all.push_back(choice(kind, [kind](Stage& s) { return s.array(kind); }));
  };
  add(first);
  all.push_back(null());
  for (const char* kind : {"rows", "line", "box", "layers", "cube", "surface", "deferred", "sparse"})
    if (kind != first) add(kind);
  all.push_back(choice("level", [](Stage& s) { return s.level(); }));
  all.push_back(choice("of_other_context",
                       [first](Stage& s) { return s.in_other_context([&] { return s.new_array(first); }); }));
  all.push_back(choice("wrong_mipmapped_array", [](Stage& s) { return s.mipmapped_array(); }));
  all.push_back(choice("wrong_event", [](Stage& s) { return s.event(); }));
  all.push_back(choice("destroyed", [first](Stage& s) {
    const CUarray made = s.new_array(first);
    s.must(s.cu.ArrayDestroy(made), "cuArrayDestroy");
    return made;
  }));
  return all;
}

// What the call may end is made for it.
Choices fresh_arrays() {
  Choices all = arrays("rows");
  for (Choice& each : all) {
    const std::string kind = each.label;
    if (kind == "level")
      each = choice(kind, [](Stage& s) { return s.level_of(s.new_mipmapped_array()); });
    else if (kind == "wrong_mipmapped_array")
      each = choice(kind, [](Stage& s) { return s.new_mipmapped_array(); });
    else if (kind != "null" && kind != "wrong_event" && kind != "of_other_context" && kind != "destroyed")
      each = choice(kind, [kind](Stage& s) { return s.new_array(kind); });
  }
  return all;
}

Choices mipmapped_arrays(bool fresh) {
  return {choice("mipmapped_array",
                 [fresh](Stage& s) { return fresh ? s.new_mipmapped_array() : s.mipmapped_array(); }),
          null(),
          choice("of_other_context",
                 [](Stage& s) { return s.in_other_context([&s] { return s.new_mipmapped_array(); }); }),
          choice("deferred", [](Stage& s) { return s.new_mipmapped_array(CUDA_ARRAY3D_DEFERRED_MAPPING); }),
          choice("sparse", [](Stage& s) { return s.new_mipmapped_array(CUDA_ARRAY3D_SPARSE); }),
          choice("wrong_array", [fresh](Stage& s) { return fresh ? s.new_array("rows") : s.array("rows"); }),
          choice("wrong_event", [](Stage& s) { return s.event(); }),
          choice("destroyed", [](Stage& s) {
            const CUmipmappedArray made = s.new_mipmapped_array();
            s.must(s.cu.MipmappedArrayDestroy(made), "cuMipmappedArrayDestroy");
            return made;
          })};
}

// A line has 256 bytes.
Choices copy_choices(const std::string& type, const std::string& name) {
  if (type == "CUarray") {
    Choices all = arrays("line");
    if (name == "dstArray") all[0] = choice("line", [](Stage& s) { return s.array("other_line"); });
    return all;
  }
  if (name == "ByteCount") return numbers({64, 0, 1, 3, 256, 257, 8192, 8193, 1LL << 40, -1});
  if (type == "size_t") return numbers({0, 1, 3, 4, 192, 193, 256, 1LL << 40, -1}); // an offset
  if (type == "CUdeviceptr" && name == "dstDevice") {
    Choices all = handle_choices(type);
    all[0] = choice("target", [](Stage& s) { return s.target(); });
    return all;
  }
  return {};
}

} // namespace

Choices array_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  if (symbol.compare(0, 10, "cuMemcpyAt") == 0 || symbol.compare(0, 12, "cuMemcpyHtoA") == 0 ||
      symbol.compare(0, 12, "cuMemcpyDtoA") == 0)
    return copy_choices(type, name);
  if (type == "const CUDA_ARRAY_DESCRIPTOR*")
    return structure<CUDA_ARRAY_DESCRIPTOR>(fill_shape<CUDA_ARRAY_DESCRIPTOR>,
                                            flat_changes<CUDA_ARRAY_DESCRIPTOR>());
  if (type == "const CUDA_ARRAY3D_DESCRIPTOR*") {
    auto changes = deep_changes();
    if (symbol == "cuArray3DCreate_v2")
      for (const Change<Deep>& each : format_changes())
        changes.push_back(each);
    return structure<Deep>(fill_shape<Deep>, changes);
  }
  if (symbol == "cuArrayDestroy" && type == "CUarray") return fresh_arrays();
  if (symbol == "cuMipmappedArrayDestroy" && type == "CUmipmappedArray") return mipmapped_arrays(true);
  if (type == "CUarray")
    return arrays(symbol == "cuArrayGetMemoryRequirements" ? "deferred"
                  : symbol == "cuArrayGetSparseProperties" ? "sparse"
                                                           : "rows");
  if (type == "CUmipmappedArray") return mipmapped_arrays(false);
  if (name == "numMipmapLevels") return numbers({3, 0, 1, 7, 8, 100, -1});
  if (symbol == "cuMipmappedArrayGetLevel" && name == "level") return numbers({1, 0, 2, 3, 100, -1});
  if (name == "planeIdx") return numbers({0, 1, 2, 3, -1});
  return {};
}

} // namespace neighbours
