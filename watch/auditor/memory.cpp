// SPDX-License-Identifier: MIT
#include "auditor/memory.hpp"

#include "auditor/asked_memory.hpp"
#include "auditor/kernel_parameters.hpp"
#include "auditor/pinned_memory.hpp"
#include "auditor/recorder.hpp"
#include "auditor/state.hpp"

#include <cstring>
#include <iterator>

namespace watch {

namespace {

constexpr Size copies_told = 64;  // of a batch
constexpr Size most_pointers = 8; // of one parameter that are taken for nothing else
constexpr Size slices_told = 16;  // of a copy in three dimensions

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

CallData part_of(const Told& told, MemoryPart part) {
  CallData record{};
  record.entry = memory_entry;
  record.count = 4;
  record.thread = told.call.thread;
  record.words[0] = static_cast<std::uint64_t>(part);
  return record;
}

void tell(const Told& told, MemoryPart part, std::uint64_t one, std::uint64_t two = 0,
          std::uint64_t three = 0) {
  CallData record = part_of(told, part);
  record.words[1] = one;
  record.words[2] = two;
  record.words[3] = three;
  watch::record(record);
}

/// Memory that perhaps no watched call has allocated. What the host's memory is, the name says.
void tell_what_it_is(const Told& told, std::uint64_t address, Named named) {
  if (named == Named::of_host || !is_unasked(address)) return;
  if (const FoundMemory found = found_memory(told.library, address); found.size != 0)
    tell(told, MemoryPart::found, found.begin, found.size);
}

/// Of rows of a pitch, or of one row.
void tell_rows(const Told& told, MemoryPart part, Named named, std::uint64_t begin, Size width,
               Size pitch = 0, Size rows = 1) {
  if (width == 0 || rows == 0) return;
  if (pitch == width) width *= rows, rows = 1;
  if (pitch >> 32U != 0 || rows >> 30U != 0) return;
  tell_what_it_is(told, begin, named);
  const std::uint64_t shape = rows == 1 ? 1 : pitch << 32U | rows;
  tell(told, part, begin, width, shape | static_cast<std::uint64_t>(named) << 30U);
}

void tell_rows(const Told& told, MemoryPart part, CUdeviceptr begin, Size width, Size pitch = 0,
               Size rows = 1) {
  tell_rows(told, part, Named::of_device, begin, width, pitch, rows);
}
void tell_rows(const Told& told, MemoryPart part, const void* begin, Size width) {
  tell_rows(told, part, Named::of_host, address_of(begin), width);
}

void tell_allocated(const Told& told, MemoryPart kind, std::uint64_t begin, Size size,
                    std::uint64_t handle = 0) {
  auto& [lowest, highest] = cleared_by_fork->memory;
  for (std::uint64_t known = lowest.load(std::memory_order_relaxed);
       (begin < known || known == 0) &&
       !lowest.compare_exchange_weak(known, begin, std::memory_order_relaxed);) {
  }
  for (std::uint64_t known = highest.load(std::memory_order_relaxed);
       begin + size > known &&
       !highest.compare_exchange_weak(known, begin + size, std::memory_order_relaxed);) {
  }
  tell(told, kind, begin, size, handle);
}

struct Side {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  Size x, y, z, pitch, height;
};

void tell_side(const Told& told, MemoryPart part, const Side& side, Size width, Size rows, Size slices) {
  if (side.type == CU_MEMORYTYPE_ARRAY) return tell(told, MemoryPart::array, 0);
  const Size pitch = side.pitch == 0 ? width : side.pitch;
  const Size height = side.height == 0 ? rows : side.height;
  const std::uint64_t base = side.type == CU_MEMORYTYPE_HOST ? address_of(side.host) : side.device;
  const Named named = side.type == CU_MEMORYTYPE_HOST     ? Named::of_host
                      : side.type == CU_MEMORYTYPE_DEVICE ? Named::of_device
                                                          : Named::by_address;
  const std::uint64_t begin = base + (side.z * height + side.y) * pitch + side.x;
  if (slices <= 1 || height == rows) return tell_rows(told, part, named, begin, width, pitch, rows * slices);
  for (Size i = 0; i < slices && i < slices_told; ++i)
    tell_rows(told, part, named, begin + i * height * pitch, width, pitch, rows);
}

template <class Copy>
void tell_copy3d(const Told& told, const Copy* copy) {
  if (copy == nullptr) return;
  tell_side(told, MemoryPart::read,
            {copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY, copy->srcZ,
             copy->srcPitch, copy->srcHeight},
            copy->WidthInBytes, copy->Height, copy->Depth);
  tell_side(told, MemoryPart::written,
            {copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY, copy->dstZ,
             copy->dstPitch, copy->dstHeight},
            copy->WidthInBytes, copy->Height, copy->Depth);
}

void tell_batch(const Told& told, const CUdeviceptr* to, const CUdeviceptr* from, const Size* sizes,
                Size count, const void* attributes, Size attribute_count) {
  // Each attribute begins with the order in which sources are read: 1 for the order of the stream.
  const bool in_order =
      attribute_count == 1 && attributes != nullptr && *static_cast<const int*>(attributes) == 1;
  for (Size i = 0; to != nullptr && from != nullptr && sizes != nullptr && i < count && i < copies_told;
       ++i) {
    if (in_order) tell_rows(told, MemoryPart::read, Named::by_address, from[i], sizes[i]);
    tell_rows(told, MemoryPart::written, Named::by_address, to[i], sizes[i]);
  }
}

/// MemoryBounds at one time.
class Bounds {
public:
  bool hold(std::uint64_t word) const { return word - lowest_ < size_; }

private:
  const std::uint64_t lowest_ = cleared_by_fork->memory.lowest.load(std::memory_order_relaxed);
  const std::uint64_t size_ = cleared_by_fork->memory.highest.load(std::memory_order_relaxed) - lowest_;
};

/// Collects what may be pointers, and tells three at a time.
class Words {
public:
  Words(const Told& told, MemoryPart part, const Bounds& bounds)
      : bounds_(bounds), record_(part_of(told, part)) {}
  void add(const void* at) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    if (!bounds_.hold(word)) return; // the end of an allocation is no pointer into it
    record_.words[++count_] = word;
    if (count_ == 3) finish();
  }
  void finish() {
    if (count_ == 0) return;
    watch::record(record_);
    for (; count_ != 0; --count_)
      record_.words[count_] = 0;
  }

private:
  const Bounds& bounds_;
  CallData record_;
  unsigned count_ = 0;
};

/// Whether a parameter is an array of pointers, as far as that shows: then each of them is meant, and none is
/// a number or the rest of something older.
bool is_all_pointers(const unsigned char* value, Size size, const Bounds& bounds) {
  if (size % 8 != 0 || size > most_pointers * 8) return false;
  for (Size at = 0; at < size; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, value + at, sizeof word);
    if (!bounds.hold(word)) return false;
  }
  return true;
}

[[gnu::hot]] void tell_launch(const Told& told, CUfunction function, void** values, void** extra) {
  const Parameters parameters = parameters_of(told.library, function);
  const auto* buffer = static_cast<const unsigned char*>(nullptr);
  Size size = 0;
  for (void** at = extra; at != nullptr && *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = static_cast<const unsigned char*>(at[1]);
    else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = *static_cast<const Size*>(at[1]);
    else
      break;
  }
  if (!parameters.known || (parameters.count > 0 && values == nullptr && buffer == nullptr)) {
    watch::record(part_of(told, MemoryPart::unknown));
    return;
  }
  const Bounds bounds;
  Words pointers(told, MemoryPart::pointers, bounds), inside(told, MemoryPart::words_inside, bounds);
  for (std::uint32_t i = 0; i < parameters.count; ++i) {
    const Parameter parameter = parameters.first[i];
    const auto* const value =
        values != nullptr ? static_cast<const unsigned char*>(values[i]) : buffer + parameter.offset;
    if (values == nullptr && parameter.offset + Size{parameter.size} > size) break;
    if (value == nullptr) continue;
    if (parameter.size <= 8) {
      if (parameter.size == 8) pointers.add(value);
      continue;
    }
    if (is_all_pointers(value, parameter.size, bounds)) {
      for (Size at = 0; at < parameter.size; at += 8)
        pointers.add(value + at);
      continue;
    }
    for (Size at = 0; at + 8 <= parameter.size; at += 8)
      inside.add(value + at);
  }
  pointers.finish();
  inside.finish();
}

} // namespace

void tell_freed(const Told& told, CUdeviceptr memory, CUstream) {
  forget_asked_addresses();
  CallData record = part_of(told, MemoryPart::freed);
  record.words[1] = memory;
  record.words[2] = told.call.words[0]; // the stream, or 0
  record.context = told.call.context;
  watch::record(record);
}
void tell_host_will_know(const Told& told) {
  CallData record = part_of(told, MemoryPart::told_host);
  record.words[1] = told.call.words[0]; // the stream
  record.context = told.call.context;
  watch::record(record);
}

void tell_freed(const Told& told, void* memory) {
  forget_pinned(address_of(memory));
  tell_freed(told, CUdeviceptr{address_of(memory)}, CUstream{nullptr});
}
void tell_freed(const Told& told, CUdeviceptr mapped, Size size) {
  forget_asked_addresses();
  tell(told, MemoryPart::unmapped, mapped, size);
}

void tell_memory(const Told& told, CUdeviceptr* made, Size size, CUstream) {
  tell_allocated(told, MemoryPart::allocated, *made, size);
}
void tell_memory(const Told& told, CUdeviceptr* made, Size size, CUmemoryPool, CUstream) {
  tell_allocated(told, MemoryPart::allocated, *made, size);
}
void tell_memory(const Told& told, CUdeviceptr* made, Size size, unsigned) {
  tell_allocated(told, MemoryPart::allocated_managed, *made, size);
}
void tell_memory(const Told& told, CUdeviceptr* made, Size* pitch, Size, Size rows, unsigned) {
  tell_allocated(told, MemoryPart::allocated, *made, *pitch * rows);
}
void tell_memory(const Told& told, void** made, Size size, unsigned) {
  add_pinned(address_of(*made), size, told.call.context, false);
  tell_allocated(told, MemoryPart::allocated_host, address_of(*made), size);
}
void tell_memory(const Told& told, void* registered, Size size, unsigned) {
  add_pinned(address_of(registered), size, told.call.context, true);
  tell_allocated(told, MemoryPart::allocated_host, address_of(registered), size, 1);
}

void tell_memory(const Told& told, CUmemGenericAllocationHandle* made, Size,
                 const CUmemAllocationProp* properties, unsigned long long) {
  const bool is_seen = properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  tell(told, MemoryPart::handle, *made, is_seen ? 1 : 0);
}
void tell_memory(const Told& told, CUmemGenericAllocationHandle* imported, void*, CUmemAllocationHandleType) {
  tell(told, MemoryPart::handle, *imported, 1);
}
void tell_memory(const Told& told, CUdeviceptr at, Size size, Size, CUmemGenericAllocationHandle handle,
                 unsigned long long) {
  tell_allocated(told, MemoryPart::mapped, at, size, handle);
}

namespace {

/// The host sees a managed one too.
void tell_variable(const Told& told, const CUdeviceptr* variable, const Size* size) {
  if (variable == nullptr || size == nullptr) return;
  const bool is_managed = found_memory(told.library, *variable).is_managed;
  tell_allocated(told, is_managed ? MemoryPart::allocated_managed : MemoryPart::variable, *variable, *size);
}

/// Memory that another library or process has allocated.
void tell_opened(const Told& told, const CUdeviceptr* opened) {
  if (opened == nullptr) return;
  if (const FoundMemory found = found_memory(told.library, *opened); found.size != 0)
    tell_allocated(told, MemoryPart::found, found.begin, found.size);
}

} // namespace

void tell_memory(const Told& told, CUdeviceptr* variable, Size* size, CUmodule, const char*) {
  tell_variable(told, variable, size);
}
void tell_memory(const Told& told, CUdeviceptr* variable, Size* size, CUlibrary, const char*) {
  tell_variable(told, variable, size);
}
void tell_memory(const Told& told, CUdeviceptr* opened, CUipcMemHandle, unsigned) {
  tell_opened(told, opened);
}
void tell_memory(const Told& told, CUdeviceptr* opened, CUmemoryPool, CUmemPoolPtrExportData*) {
  tell_opened(told, opened);
}
void tell_memory(const Told& told, CUdeviceptr* opened, CUexternalMemory,
                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*) {
  tell_opened(told, opened);
}
void tell_memory(const Told& told, CUdeviceptr* opened, Size*, CUgraphicsResource) {
  tell_opened(told, opened);
}

void tell_memory(const Told& told, CUdeviceptr to, CUdeviceptr from, Size size, CUstream) {
  // cuMemcpyDtoD says that both are of the device, and cuMemcpy says nothing.
  const bool by_address = (entry_data[told.call.entry].effects & stays_on_device) == 0;
  const Named named = by_address ? Named::by_address : Named::of_device;
  tell_rows(told, MemoryPart::read, named, from, size);
  tell_rows(told, MemoryPart::written, named, to, size);
}
void tell_memory(const Told& told, CUdeviceptr to, const void* from, Size size, CUstream) {
  tell_rows(told, MemoryPart::read, from, size);
  tell_rows(told, MemoryPart::written, to, size);
}
void tell_memory(const Told& told, void* to, CUdeviceptr from, Size size, CUstream) {
  tell_rows(told, MemoryPart::read, from, size);
  tell_rows(told, MemoryPart::written, to, size);
}
void tell_memory(const Told& told, CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, Size size,
                 CUstream) {
  tell_rows(told, MemoryPart::read, Named::by_address, from, size);
  tell_rows(told, MemoryPart::written, Named::by_address, to, size);
}
void tell_memory(const Told& told, const CUDA_MEMCPY2D* copy, CUstream) {
  if (copy == nullptr) return;
  tell_side(told, MemoryPart::read,
            {copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes, copy->srcY, 0,
             copy->srcPitch, 0},
            copy->WidthInBytes, copy->Height, 1);
  tell_side(told, MemoryPart::written,
            {copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes, copy->dstY, 0,
             copy->dstPitch, 0},
            copy->WidthInBytes, copy->Height, 1);
}
void tell_memory(const Told& told, const CUDA_MEMCPY3D* copy, CUstream) { tell_copy3d(told, copy); }
void tell_memory(const Told& told, const CUDA_MEMCPY3D_PEER* copy, CUstream) { tell_copy3d(told, copy); }
void tell_memory(const Told& told, void* to, CUarray, Size, Size size, CUstream) {
  tell(told, MemoryPart::array, 0);
  tell_rows(told, MemoryPart::written, to, size);
}
void tell_memory(const Told& told, CUarray, Size, const void* from, Size size, CUstream) {
  tell_rows(told, MemoryPart::read, from, size);
  tell(told, MemoryPart::array, 0);
}
void tell_memory(const Told& told, CUdeviceptr to, CUarray, Size, Size size) {
  tell(told, MemoryPart::array, 0);
  tell_rows(told, MemoryPart::written, to, size);
}
void tell_memory(const Told& told, CUarray, Size, CUdeviceptr from, Size size) {
  tell_rows(told, MemoryPart::read, from, size);
  tell(told, MemoryPart::array, 0);
}
void tell_memory(const Told& told, CUarray, Size, CUarray, Size, Size) { tell(told, MemoryPart::array, 0); }
void tell_memory(const Told& told, CUdeviceptr* to, CUdeviceptr* from, Size* sizes, Size count,
                 Opaque attributes, Size*, Size attribute_count, Size*, CUstream) {
  tell_batch(told, to, from, sizes, count, attributes, attribute_count);
}
void tell_memory(const Told& told, CUdeviceptr* to, CUdeviceptr* from, Size* sizes, Size count,
                 Opaque attributes, Size*, Size attribute_count, CUstream) {
  tell_batch(told, to, from, sizes, count, attributes, attribute_count);
}

void tell_memory(const Told& told, CUdeviceptr to, unsigned char, Size count, CUstream) {
  tell_rows(told, MemoryPart::written, to, count);
}
void tell_memory(const Told& told, CUdeviceptr to, unsigned short, Size count, CUstream) {
  tell_rows(told, MemoryPart::written, to, 2 * count);
}
void tell_memory(const Told& told, CUdeviceptr to, unsigned, Size count, CUstream) {
  tell_rows(told, MemoryPart::written, to, 4 * count);
}
void tell_memory(const Told& told, CUdeviceptr to, Size pitch, unsigned char, Size width, Size rows,
                 CUstream) {
  tell_rows(told, MemoryPart::written, to, width, pitch, rows);
}
void tell_memory(const Told& told, CUdeviceptr to, Size pitch, unsigned short, Size width, Size rows,
                 CUstream) {
  tell_rows(told, MemoryPart::written, to, 2 * width, pitch, rows);
}
void tell_memory(const Told& told, CUdeviceptr to, Size pitch, unsigned, Size width, Size rows, CUstream) {
  tell_rows(told, MemoryPart::written, to, 4 * width, pitch, rows);
}

void tell_memory(const Told& told, CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                 unsigned, unsigned, CUstream, void** values, void** extra) {
  tell_launch(told, function, values, extra);
}
void tell_memory(const Told& told, CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                 unsigned, unsigned, CUstream, void** values) {
  tell_launch(told, function, values, nullptr);
}
void tell_memory(const Told& told, const CUlaunchConfig*, CUfunction function, void** values, void** extra) {
  tell_launch(told, function, values, extra);
}

void tell_after(const Told& told, const CUgraphNode* nodes, Size count) {
  for (Size i = 0; nodes != nullptr && i < count; i += 3) {
    CallData record = part_of(told, MemoryPart::after);
    for (Size j = 0; j < 3 && i + j < count; ++j)
      record.words[1 + j] = address_of(nodes[i + j]);
    watch::record(record);
  }
}

void tell_node(const Told& told, const CUDA_KERNEL_NODE_PARAMS_v1* node) {
  if (node != nullptr) tell_launch(told, node->func, node->kernelParams, node->extra);
}
void tell_node(const Told& told, const CUDA_KERNEL_NODE_PARAMS* node) {
  if (node == nullptr) return;
  const CUfunction function = node->func != nullptr ? node->func : reinterpret_cast<CUfunction>(node->kern);
  tell_launch(told, function, node->kernelParams, node->extra);
}
void tell_node(const Told& told, const CUDA_MEMCPY3D* copy, CUcontext) { tell_copy3d(told, copy); }
void tell_node(const Told& told, const CUDA_MEMSET_NODE_PARAMS* node, CUcontext) {
  if (node == nullptr) return;
  tell_rows(told, MemoryPart::written, node->dst, node->width * node->elementSize, node->pitch, node->height);
}

void tell_node(const Told& told, CUDA_MEM_ALLOC_NODE_PARAMS* node) {
  if (node != nullptr) tell(told, MemoryPart::allocated, node->dptr, node->bytesize);
}

void tell_memory(const Told& told, CUgraph, const CUgraphNode* from, const CUgraphNode* to, Size count) {
  for (Size i = 0; from != nullptr && to != nullptr && i < count; ++i) {
    CallData record = part_of(told, MemoryPart::dependency);
    record.words[1] = address_of(from[i]);
    record.words[2] = address_of(to[i]);
    watch::record(record);
  }
}
void tell_memory(const Told& told, CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                 const Opaque*, Size count) {
  tell_memory(told, graph, from, to, count);
}

void tell_number(const CallData& call, MemoryPart part, std::uint64_t number) {
  CallData record{};
  record.entry = memory_entry;
  record.count = 2;
  record.thread = call.thread;
  record.words[0] = static_cast<std::uint64_t>(part);
  record.words[1] = number;
  watch::record(record);
}

} // namespace watch
