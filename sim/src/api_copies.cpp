// SPDX-License-Identifier: MIT
// Copies of lines, rows, boxes and lists.

#include "api.hpp"
#include "array.hpp"
#include "box.hpp"
#include "timing.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace cuevent::sim {

namespace {

/// Behind work that is held, a copy of so many bytes of pageable memory returns, and a larger one does not.
constexpr std::size_t most_staged = std::size_t{2} << 20;

/// How many bytes a copy has that was seen to return before it was done: a line, and rows.
struct EarlyReturns {
  std::size_t least, most;
  bool have(std::size_t bytes) const { return bytes >= least && bytes <= most; }
};
constexpr EarlyReturns of_a_line = {512 << 10, 16 << 20}, of_rows = {480 << 10, 8224 << 10};

/// The most bytes that a device was asked to copy to or from an array without memory.
constexpr std::size_t most_of_unmapped = 4096;

/// A copy through a buffer: the first function reads the source, and the second writes.
std::pair<std::function<void()>, std::function<void()>> staged(const Box& box) {
  auto buffer = std::make_shared<std::vector<std::byte>>();
  return {[box, buffer] {
            buffer->reserve(box.bytes());
            box.for_each_row([&](std::byte*, const std::byte* source) {
              buffer->insert(buffer->end(), source, source + box.width);
            });
          },
          [box, buffer] {
            const std::byte* next = buffer->data();
            box.for_each_row([&](std::byte* target, const std::byte*) {
              std::memcpy(target, next, box.width);
              next += box.width;
            });
          }};
}

} // namespace

/// What a device tells about the node of a captured copy of a line, between allocations of the device, and
/// from or to pinned memory that is named as memory of the host. It tells addresses, and not places, if a
/// copy by address uses memory of a pool of the host.
std::shared_ptr<const NodeParameters> Api::captured_parameters(const Box& box) const {
  const auto source = reinterpret_cast<std::uintptr_t>(box.from),
             target = reinterpret_cast<std::uintptr_t>(box.to);
  const auto on_device = [this](std::uintptr_t address) {
    const Allocation* const of = allocation_of(address);
    return of != nullptr && !of->host;
  };
  const bool from_device = on_device(source), to_device = on_device(target);
  const auto known = [&](bool in_device, Memory kind) {
    return in_device || (kind == Memory::pinned && !box.by_address);
  };
  const bool tells_addresses =
      box.by_address && (kind_in_host_pool(source).has_value() || kind_in_host_pool(target).has_value());
  if (box.height != 1 || box.depth != 1) return nullptr;
  if (!tells_addresses &&
      ((!from_device && !to_device) || !known(from_device, box.source) || !known(to_device, box.target)))
    return nullptr;
  auto kept = std::make_shared<NodeParameters>();
  kept->by_address = box.by_address;
  kept->captured = !from_device || !to_device;
  CUDA_MEMCPY3D& copy = kept->copy;
  const auto type = [tells_addresses](bool in_device) {
    return tells_addresses ? CU_MEMORYTYPE_UNIFIED : in_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  };
  copy.srcMemoryType = type(from_device);
  copy.dstMemoryType = type(to_device);
  if (from_device || tells_addresses) copy.srcDevice = source;
  if (to_device || tells_addresses) copy.dstDevice = target;
  if (copy.srcDevice == 0) copy.srcHost = box.from;
  if (copy.dstDevice == 0) copy.dstHost = box.to;
  copy.WidthInBytes = box.width;
  copy.Height = copy.Depth = 1;
  kept->source_pooled = pooled(box.from);
  kept->target_pooled = pooled(box.to);
  return kept;
}

Work Api::box_work(const Box& box) {
  if (box.from_backing != Backing::memory || box.to_backing != Backing::memory)
    not_modelled("a node that copies a deferred or sparse array");
  const auto extent = [&box](std::size_t pitch, std::size_t layer) {
    return (box.depth - 1) * layer + (box.height - 1) * pitch + box.width;
  };
  const auto from = reinterpret_cast<std::uintptr_t>(box.from), to = reinterpret_cast<std::uintptr_t>(box.to);
  const std::size_t to_bytes = extent(box.to_pitch, box.to_layer);
  if (box.target == Memory::device && !box.to_array)
    reachable(to, to_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  Work work;
  const auto from_gone = unmapped_later(from, extent(box.from_pitch, box.from_layer));
  const auto to_gone = unmapped_later(to, to_bytes);
  if (from_gone || to_gone)
    work.gone = [from_gone, to_gone] { return (from_gone && from_gone()) || (to_gone && to_gone()); };
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  work.text = "copy " + std::to_string(box.bytes()) + " bytes";
  work.launch_waits = box.target == Memory::pageable || within_host(box);
  work.duration = timing::copy(box.bytes());
  work.effect = [box] { box.copy(); };
  if (!box.from_array) remember_memory(work, from, extent(box.from_pitch, box.from_layer));
  if (!box.to_array) remember_memory(work, to, to_bytes);
  return work;
}

/// A device looks at the captures of the stream before it looks at the memory.
Api::CopyStream Api::copy_stream() {
  auto where = stream(nullptr);
  refuse_in_capture(*where);
  implicit_check(*where);
  return {std::move(where), false};
}

Api::CopyStream Api::copy_stream(CUstream handle) {
  auto where = stream(handle);
  builds_node_ = capturing(*where);
  implicit_check(*where);
  return {std::move(where), true};
}

/// Whether the call returns only when the copy is done.
bool Api::waits(const Box& box, const CopyStream& where) {
  if (!where.named) return box.source != Memory::device || box.target != Memory::device;
  const bool by_wrong_name = box.source == Memory::managed_as_host || box.target == Memory::managed_as_host;
  return box.target == Memory::pageable || within_host(box) || by_wrong_name ||
         (box.source == Memory::pageable && box.bytes() > most_staged);
}

/// The other contexts whose device or managed memory the copy uses.
std::vector<const Context*> Api::other_owners(const Box& box, const Context& home) const {
  std::vector<const Context*> others;
  const auto add = [&](const Context* owner) {
    if (owner != nullptr && owner != home.family() &&
        std::find(others.begin(), others.end(), owner) == others.end())
      others.push_back(owner);
  };
  if (box.source <= Memory::managed) add(home_of(box.from));
  if (box.target <= Memory::managed) add(home_of(box.to));
  return others;
}

/// Those for a copy on the legacy stream. The copy is as if it were on their legacy streams, too. Memory of a
/// pool is in the context that cuMemcpyPeer names. In a green context, this is only so without a stream, and
/// for copies within the device.
std::vector<const Context*> Api::contexts_between(const Box& box, const CopyStream& where) const {
  if (where.named && where.stream->type != Stream::Type::legacy) return {};
  const bool within_device = box.source == Memory::device && box.target == Memory::device;
  const Context& home = *where.stream->home.context;
  if (home.type == Context::Type::green && !within_device) return {};
  auto others = other_owners(box, home);
  for (const Context* named : where.between)
    if (named != home.family()) others.push_back(named);
  return others;
}

/// What other contexts wait for holds copies with their memory on created streams, too. Measured for waits of
/// a primary context and of a green one of it.
std::vector<std::shared_ptr<Operation>> Api::waits_of_owners(const Box& box, const CopyStream& where) const {
  std::vector<std::shared_ptr<Operation>> waits;
  if (!where.named || where.stream->type != Stream::Type::created) return waits;
  for (const Context* owner : other_owners(box, *where.stream->home.context))
    for (const auto& context : process_.contexts)
      if (context->family() == owner->family())
        waits.insert(waits.end(), context->barriers.begin(), context->barriers.end());
  return waits;
}

/// The work of the other contexts that was submitted before comes before the copy, and later work after it.
std::shared_ptr<Operation> Api::enqueue_between(const std::vector<const Context*>& others,
                                                const CopyStream& where, Work work,
                                                std::vector<std::shared_ptr<Operation>> before) {
  for (const Context* other : others) {
    const auto there = predecessors(*other->legacy);
    before.insert(before.end(), there.begin(), there.end());
  }
  auto operation = enqueue(where.stream, std::move(work), std::move(before));
  operation->between_contexts = !others.empty();
  for (const Context* other : others) {
    if (!other->active || operation->done()) continue;
    Work end;
    end.text = "end of a copy in another context";
    enqueue(other->legacy, std::move(end), {operation});
  }
  return operation;
}

/// Seen from pageable memory to memory of cuMemAlloc of the current context, to memory of a pool of its
/// device, and to mapped memory. A copy with a stream that is small enough returns anyway. Boxes, and larger
/// copies on other streams than the legacy one, wait for their end. Not measured: copying.early_returns
bool Api::returns_early(const Box& box, const CopyStream& where) const {
  if (!where.may_return_early || (where.named && box.bytes() <= most_staged)) return false;
  const Allocation* const to = allocation_of(reinterpret_cast<std::uintptr_t>(box.to));
  if (box.source != Memory::pageable || box.target != Memory::device || to == nullptr) return false;
  const Context& home = *where.stream->home.context;
  const bool is_measured = to->is_plain() ? to->home.context->family() == home.family()
                                          : (to->pool || to->mapping) && to->device() == home.device;
  const bool is_line = box.height == 1 && box.depth == 1;
  return is_measured && (is_line ? of_a_line : of_rows).have(box.bytes());
}

/// The call waits until the source is read, and the rest follows.
CUresult Api::copy_early(const Box& box, Work write, const CopyStream& where) {
  Work read = write;
  std::tie(read.effect, write.effect) = staged(box);
  write.duration = timing::late_write(box.bytes());
  const auto others = contexts_between(box, where);
  const auto reading = enqueue_between(others, where, std::move(read), {});
  enqueue_between(others, where, std::move(write), {});
  wait_for(reading, "its own copy");
  return CUDA_SUCCESS;
}

/// Of a sparse array, or of a deferred one. What a sparse array holds where it has no memory was not
/// measured.
CUresult Api::copy_without_memory(const Box& box, const CopyStream& where) {
  const bool host = box.source >= Memory::managed_as_host || box.target >= Memory::managed_as_host,
             pinned = box.source == Memory::pinned || box.target == Memory::pinned,
             fails = box.from_backing == Backing::deferred || box.to_backing == Backing::deferred;
  if (box.bytes() > most_of_unmapped || where.stream->capture || (fails && pinned))
    not_modelled("this copy of a deferred or sparse array");
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  work.text = "copy " + std::to_string(box.bytes()) + " bytes of an array without memory";
  work.duration = timing::copy(box.bytes());
  if (fails) {
    work.fault = host ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS;
  } else if (box.to_backing == Backing::memory) {
    work.effect = [box] {
      box.for_each_row([&box](std::byte* row, const std::byte*) { std::memset(row, fresh, box.width); });
    };
  }
  const auto operation = enqueue(where.stream, std::move(work), {});
  if (box.target < Memory::managed_as_host) return CUDA_SUCCESS;
  wait_for(operation, "its own copy");
  if (process_.fault != CUDA_SUCCESS) deliver_fault();
  return CUDA_SUCCESS;
}

/// A device copies pageable memory to a staging buffer during the call.
CUresult Api::copy(const Box& box, const CopyStream& where) {
  if (box.bytes() == 0) return CUDA_SUCCESS; // no work
  if (box.from_backing != Backing::memory || box.to_backing != Backing::memory)
    return copy_without_memory(box, where);
  Work work = box_work(box);
  if (where.stream->capture) {
    work.parameters = captured_parameters(box);
    submit(where.stream, std::move(work));
    return CUDA_SUCCESS;
  }
  if (returns_early(box, where)) return copy_early(box, std::move(work), where);
  if (where.named && box.source == Memory::pageable) {
    auto [read, write] = staged(box);
    read();
    work.effect = std::move(write);
  }
  const auto operation =
      enqueue_between(contexts_between(box, where), where, std::move(work), waits_of_owners(box, where));
  if (where.named && where.stream->type != Stream::Type::legacy)
    operation->used = other_owners(box, *where.stream->home.context);
  if (const auto& stack = thread().contexts; !stack.empty() && (pooled(box.from) || pooled(box.to)))
    operation->caller = stack.back();
  if (waits(box, where)) wait_for(operation, "its own copy");
  return CUDA_SUCCESS;
}

CUresult Api::copy(const End& to, const End& from, std::size_t bytes, const CopyStream& where) {
  Box box;
  box.to = to.start;
  box.from = from.start;
  box.width = bytes;
  box.source = from.kind;
  box.target = to.kind;
  box.by_address = from.by_address && to.by_address;
  return copy(box, where);
}

Memory Api::kind_of(const void* pointer) const {
  if (!pinned(pointer, 0)) return Memory::pageable;
  const Allocation& of = *allocation_before(reinterpret_cast<std::uintptr_t>(pointer));
  return of.managed ? Memory::managed : of.host ? Memory::pinned : Memory::device;
}

/// For copies, memory of a pool of the host is as managed memory if the device may access it, and as pageable
/// memory if not. Null for other memory.
std::optional<Memory> Api::kind_in_host_pool(std::uintptr_t address) const {
  const Allocation* const of = allocation_of(address);
  if (of == nullptr || !of->of_host_pool()) return std::nullopt;
  return may_access(*of) ? Memory::managed : Memory::pageable;
}

/// A device refuses memory of a pool of the host here.
End Api::device_memory(CUdeviceptr address, std::size_t bytes) {
  if (bytes == 0) return {}; // not looked at
  refuse_if(kind_in_host_pool(address).has_value(), CUDA_ERROR_INVALID_VALUE);
  std::byte* const start = reachable(static_cast<std::uintptr_t>(address), bytes);
  return {start, kind_of(start)};
}

End Api::host_memory(const void* pointer, std::size_t bytes) const {
  refuse_if(pointer == nullptr && bytes != 0, CUDA_ERROR_INVALID_VALUE);
  auto* const start = static_cast<std::byte*>(const_cast<void*>(pointer));
  if (const auto pooled = kind_in_host_pool(reinterpret_cast<std::uintptr_t>(pointer))) {
    refuse_if(*pooled != Memory::pageable && !pinned(pointer, bytes), CUDA_ERROR_INVALID_VALUE);
    return {start, *pooled};
  }
  Memory kind = kind_of(pointer);
  if (kind == Memory::managed) kind = Memory::managed_as_host;
  return {start, kind};
}

/// cuMemcpy tells by the address which memory is allocated. The rest is pageable. Managed memory that prefers
/// the host counts as if it were named as memory of the host.
End Api::any_memory(CUdeviceptr address, std::size_t bytes) {
  auto* const pointer = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
  const bool allocated = pinned(pointer, 0);
  if (!allocated && range_of(static_cast<std::uintptr_t>(address)) != nullptr)
    crash("the address is reserved, and no memory is mapped there");
  const bool as_host = !allocated || kind_in_host_pool(address).has_value();
  End found = as_host ? host_memory(pointer, bytes) : device_memory(address, bytes);
  found.by_address = true;
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(address));
  if (of != nullptr && of->ranges.at(address - of->address).preferred.type == place::host)
    found.kind = Memory::managed_as_host;
  return found;
}

CUresult Api::cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  CopyStream where = copy_stream();
  where.may_return_early = true;
  const End source = host_memory(from, bytes);
  return copy(device_memory(to, bytes), source, bytes, where);
}

CUresult Api::cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  const CopyStream where = copy_stream();
  const End target = host_memory(to, bytes);
  return copy(target, device_memory(from, bytes), bytes, where);
}

CUresult Api::cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  const CopyStream where = copy_stream();
  return copy(device_memory(to, bytes), device_memory(from, bytes), bytes, where);
}

CUresult Api::cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CopyStream where = copy_stream();
  where.may_return_early = true;
  return copy(any_memory(to, bytes), any_memory(from, bytes), bytes, where);
}

CUresult Api::cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream handle) {
  CopyStream where = copy_stream(handle);
  where.may_return_early = where.stream->type == Stream::Type::legacy;
  const End source = host_memory(from, bytes);
  return copy(device_memory(to, bytes), source, bytes, where);
}

CUresult Api::cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream handle) {
  const CopyStream where = copy_stream(handle);
  const End target = host_memory(to, bytes);
  return copy(target, device_memory(from, bytes), bytes, where);
}

CUresult Api::cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  const CopyStream where = copy_stream(handle);
  return copy(device_memory(to, bytes), device_memory(from, bytes), bytes, where);
}

CUresult Api::cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  const CopyStream where = copy_stream(handle);
  return copy(any_memory(to, bytes), any_memory(from, bytes), bytes, where);
}

// Rows and boxes

namespace {

CUDA_MEMCPY3D as_box(const CUDA_MEMCPY2D& rows) {
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = rows.srcXInBytes, box.srcY = rows.srcY;
  box.srcMemoryType = rows.srcMemoryType;
  box.srcHost = rows.srcHost, box.srcDevice = rows.srcDevice, box.srcArray = rows.srcArray;
  box.srcPitch = rows.srcPitch;
  box.dstXInBytes = rows.dstXInBytes, box.dstY = rows.dstY;
  box.dstMemoryType = rows.dstMemoryType;
  box.dstHost = rows.dstHost, box.dstDevice = rows.dstDevice, box.dstArray = rows.dstArray;
  box.dstPitch = rows.dstPitch;
  box.WidthInBytes = rows.WidthInBytes, box.Height = rows.Height, box.Depth = 1;
  return box;
}

CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& peer) {
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = peer.srcXInBytes, box.srcY = peer.srcY, box.srcZ = peer.srcZ, box.srcLOD = peer.srcLOD;
  box.srcMemoryType = peer.srcMemoryType;
  box.srcHost = peer.srcHost, box.srcDevice = peer.srcDevice, box.srcArray = peer.srcArray;
  box.srcPitch = peer.srcPitch, box.srcHeight = peer.srcHeight;
  box.dstXInBytes = peer.dstXInBytes, box.dstY = peer.dstY, box.dstZ = peer.dstZ, box.dstLOD = peer.dstLOD;
  box.dstMemoryType = peer.dstMemoryType;
  box.dstHost = peer.dstHost, box.dstDevice = peer.dstDevice, box.dstArray = peer.dstArray;
  box.dstPitch = peer.dstPitch, box.dstHeight = peer.dstHeight;
  box.WidthInBytes = peer.WidthInBytes, box.Height = peer.Height, box.Depth = peer.Depth;
  return box;
}

/// One end of a box: where its first row begins, from one row to the next and from one layer to the next.
struct EndOfBox {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t x, y, z, pitch, height;
};

} // namespace

/// The same for an array, whose rows the copy does not choose. Nothing has to be aligned.
End Api::array_end(CUarray handle, std::size_t x, std::size_t y, std::size_t z, const CUDA_MEMCPY3D& box,
                   std::size_t& pitch, std::size_t& layer) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_other_kind(handle, Kind::array);
  const auto found = array(handle);
  const CUDA_ARRAY3D_DESCRIPTOR& shape = found->shape;
  const auto inside = [](std::size_t start, std::size_t size, std::size_t all) {
    return start <= all && size <= all - start;
  };
  const std::size_t rows = std::max<std::size_t>(shape.Height, 1);
  if (is_compressed(shape.Format)) not_modelled("a copy of compressed blocks");
  pitch = shape.Width * element_bytes(shape.Format, shape.NumChannels);
  layer = pitch * rows;
  refuse_if(!inside(x, box.WidthInBytes, pitch) || !inside(y, box.Height, rows) ||
                !inside(z, box.Depth, std::max<std::size_t>(shape.Depth, 1)),
            CUDA_ERROR_INVALID_VALUE);
  if (!found->memory) {
    End end;
    end.backing = (shape.Flags & CUDA_ARRAY3D_SPARSE) != 0 ? Backing::sparse : Backing::deferred;
    return end;
  }
  return {found->memory->start() + x + y * pitch + z * layer, Memory::device, found->memory};
}

/// The checks of one end. Returns its first byte.
End Api::end_of_box(const CUDA_MEMCPY3D& box, bool source, std::size_t& pitch, std::size_t& layer) {
  const EndOfBox end = source ? EndOfBox{box.srcMemoryType, box.srcHost, box.srcDevice, box.srcXInBytes,
                                         box.srcY,          box.srcZ,    box.srcPitch,  box.srcHeight}
                              : EndOfBox{box.dstMemoryType, box.dstHost, box.dstDevice, box.dstXInBytes,
                                         box.dstY,          box.dstZ,    box.dstPitch,  box.dstHeight};
  if (end.type == CU_MEMORYTYPE_ARRAY) {
    refuse_if((source ? box.srcLOD : box.dstLOD) != 0, CUDA_ERROR_INVALID_VALUE);
    return array_end(source ? box.srcArray : box.dstArray, end.x, end.y, end.z, box, pitch, layer);
  }
  refuse_if(end.type < CU_MEMORYTYPE_HOST || end.type > CU_MEMORYTYPE_UNIFIED, CUDA_ERROR_INVALID_VALUE);
  refuse_if(end.x + box.WidthInBytes < end.x, CUDA_ERROR_INVALID_VALUE);
  pitch = end.pitch != 0 ? end.pitch : end.x + box.WidthInBytes;
  refuse_if(pitch < end.x + box.WidthInBytes || (end.height != 0 && end.height < end.y + box.Height),
            CUDA_ERROR_INVALID_VALUE);
  layer = pitch * (end.height != 0 ? end.height : end.y + box.Height);
  const std::size_t offset = end.x + end.y * pitch + end.z * layer;
  const std::size_t bytes = offset + (box.Depth - 1) * layer + (box.Height - 1) * pitch + box.WidthInBytes;
  End found;
  if (end.type == CU_MEMORYTYPE_HOST) {
    found = host_memory(end.host, bytes);
  } else if (end.type == CU_MEMORYTYPE_DEVICE) {
    found = device_memory(end.device, bytes);
  } else {
    found = any_memory(end.device, bytes);
  }
  found.start += offset;
  return found;
}

Box Api::checked(const CUDA_MEMCPY3D& box) {
  Box checked;
  checked.width = box.WidthInBytes, checked.height = box.Height, checked.depth = box.Depth;
  if (checked.bytes() == 0) return checked;
  const End from = end_of_box(box, true, checked.from_pitch, checked.from_layer);
  const End to = end_of_box(box, false, checked.to_pitch, checked.to_layer);
  checked.from = from.start, checked.source = from.kind, checked.from_array = from.array;
  checked.to = to.start, checked.target = to.kind, checked.to_array = to.array;
  checked.from_backing = from.backing, checked.to_backing = to.backing;
  return checked;
}

CUresult Api::copy(const CUDA_MEMCPY3D* box, const CopyStream& where) {
  refuse_if(box == nullptr, CUDA_ERROR_INVALID_VALUE);
  return copy(checked(*box), where);
}

CUresult Api::copy(const CUDA_MEMCPY2D* rows, const CopyStream& where) {
  refuse_if(rows == nullptr, CUDA_ERROR_INVALID_VALUE);
  return copy(checked(as_box(*rows)), where);
}

CUresult Api::cuMemcpy2D_v2(const CUDA_MEMCPY2D* rows) {
  CopyStream where = copy_stream();
  where.may_return_early = true;
  return copy(rows, where);
}
CUresult Api::cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* rows) { return copy(rows, copy_stream()); }
CUresult Api::cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* rows, CUstream where) {
  const CopyStream on = copy_stream(where);
  if (rows != nullptr) { // unlike a box, the rows do not go from one context to another
    const auto home = [&](CUdeviceptr at) {
      return home_of(reinterpret_cast<const void*>(static_cast<std::uintptr_t>(at)));
    };
    const Context *const from = home(rows->srcDevice), *const to = home(rows->dstDevice);
    const bool both =
        rows->srcMemoryType == CU_MEMORYTYPE_DEVICE && rows->dstMemoryType == CU_MEMORYTYPE_DEVICE;
    refuse_if(both && from != nullptr && to != nullptr && from != to, CUDA_ERROR_INVALID_VALUE);
  }
  return copy(rows, on);
}
CUresult Api::cuMemcpy3D_v2(const CUDA_MEMCPY3D* box) { return copy(box, copy_stream()); }
CUresult Api::cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* box, CUstream where) {
  return copy(box, copy_stream(where));
}

// Lines of arrays

namespace {

CUDA_MEMCPY3D from_array(CUarray array, std::size_t offset) {
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_ARRAY, box.srcArray = array, box.srcXInBytes = offset;
  return box;
}

CUDA_MEMCPY3D to_array(CUarray array, std::size_t offset, CUDA_MEMCPY3D box = {}) {
  box.dstMemoryType = CU_MEMORYTYPE_ARRAY, box.dstArray = array, box.dstXInBytes = offset;
  return box;
}

CUDA_MEMCPY3D host_to_array(CUarray array, std::size_t offset, const void* memory) {
  CUDA_MEMCPY3D box = to_array(array, offset);
  box.srcMemoryType = CU_MEMORYTYPE_HOST, box.srcHost = memory;
  return box;
}

CUDA_MEMCPY3D array_to_host(void* memory, CUarray array, std::size_t offset) {
  CUDA_MEMCPY3D box = from_array(array, offset);
  box.dstMemoryType = CU_MEMORYTYPE_HOST, box.dstHost = memory;
  return box;
}

} // namespace

/// Of an array with several rows, only the first row can be used.
CUresult Api::copy_line(CUDA_MEMCPY3D box, std::size_t bytes, const CopyStream& where) {
  box.WidthInBytes = bytes, box.Height = box.Depth = 1;
  return copy(checked(box), where);
}

CUresult Api::cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t bytes) {
  return copy_line(host_to_array(to, offset, from), bytes, copy_stream());
}

CUresult Api::cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t bytes) {
  return copy_line(array_to_host(to, from, offset), bytes, copy_stream());
}

CUresult Api::cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void* from, size_t bytes,
                                   CUstream where) {
  return copy_line(host_to_array(to, offset, from), bytes, copy_stream(where));
}

CUresult Api::cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t offset, size_t bytes, CUstream where) {
  return copy_line(array_to_host(to, from, offset), bytes, copy_stream(where));
}

CUresult Api::cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D box = to_array(to, offset);
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE, box.srcDevice = from;
  return copy_line(box, bytes, copy_stream());
}

CUresult Api::cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  CUDA_MEMCPY3D box = from_array(from, offset);
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE, box.dstDevice = to;
  return copy_line(box, bytes, copy_stream());
}

CUresult Api::cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes) {
  return copy_line(to_array(to, to_offset, from_array(from, from_offset)), bytes, copy_stream());
}

// Between contexts

CUresult Api::copy(const CUDA_MEMCPY3D_PEER* peer, const CopyStream& where) {
  return copy(checked(without_contexts(*peer)), where);
}

namespace {

void must_be_described(const CUDA_MEMCPY3D_PEER* peer) {
  if (peer == nullptr) crash("there is no description of the copy");
}

} // namespace

CUresult Api::cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* peer) {
  must_be_described(peer);
  return copy(peer, copy_stream());
}
CUresult Api::cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* peer, CUstream where) {
  must_be_described(peer);
  refuse_in_capture(*stream(where));
  return copy(peer, copy_stream(where));
}

/// A device reads the freed memory of a context that has ended.
void Api::crash_on_ended_context(CUcontext handle) {
  if (handle == nullptr) return;
  const auto named = context_even_dead(handle);
  if (!named->active && named->type != Context::Type::primary)
    crash("the copy names a context that has ended: " + computer_.handles.describe(handle));
}

CUresult Api::cuMemcpyPeer(CUdeviceptr to, CUcontext target, CUdeviceptr from, CUcontext source,
                           size_t bytes) {
  CopyStream where = copy_stream();
  crash_on_ended_context(target);
  crash_on_ended_context(source);
  for (const auto& [address, named] : {std::pair{to, target}, std::pair{from, source}}) {
    const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(address));
    if (named != nullptr && of != nullptr && of->pool)
      where.between.push_back(context_even_dead(named)->family());
  }
  return copy(device_memory(to, bytes), device_memory(from, bytes), bytes, where);
}

CUresult Api::cuMemcpyPeerAsync(CUdeviceptr to, CUcontext target, CUdeviceptr from, CUcontext source,
                                size_t bytes, CUstream handle) {
  refuse_in_capture(*stream(handle));
  crash_on_ended_context(target);
  crash_on_ended_context(source);
  const CopyStream where = copy_stream(handle);
  return copy(device_memory(to, bytes), device_memory(from, bytes), bytes, where);
}

// Lists of copies

#if CUDA_VERSION >= 12080
namespace {

/// A hint is checked, and has no effect. Other places than a device need no number.
bool is_hint(const CUmemLocation& place, int devices) {
  const int type = place.type;
  constexpr int last = 4; // CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
  if (type == CU_MEM_LOCATION_TYPE_DEVICE) return place.id >= 0 && place.id < devices;
  return type >= 0 && type <= last;
}

bool known_order(CUmemcpySrcAccessOrder order) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

} // namespace

/// Nothing is copied if one of the copies is refused. `failed` gets its place, or a place that no list has.
CUresult Api::batch(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                    CUmemcpyAttributes* attributes, size_t* first, size_t attribute_count, size_t* failed,
                    CUstream where) {
  refuse_if(where == nullptr, CUDA_ERROR_INVALID_VALUE);
  size_t unused = 0;
  size_t& place = failed != nullptr ? *failed : unused;
  place = ~size_t{0};
  refuse_if(where == CU_STREAM_LEGACY || thread().contexts.empty(), CUDA_ERROR_INVALID_VALUE);
  auto on = stream(where);
  refuse_if(to == nullptr || from == nullptr || sizes == nullptr || count == 0 || attributes == nullptr ||
                first == nullptr || attribute_count == 0 || attribute_count > count || first[0] != 0,
            CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < attribute_count; ++i)
    refuse_if(!known_order(attributes[i].srcAccessOrder) || attributes[i].flags > 1 || first[i] >= count ||
                  !is_hint(attributes[i].srcLocHint, computer_.devices()) ||
                  !is_hint(attributes[i].dstLocHint, computer_.devices()) ||
                  (i > 0 && first[i] <= first[i - 1]),
              CUDA_ERROR_INVALID_VALUE);
  refuse_if(on->capture != nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); // the capture is unharmed
  for (size_t i = 0; i < count; ++i) {
    place = i;
    refuse_if(sizes[i] == 0, CUDA_ERROR_INVALID_VALUE);
    any_memory(to[i], sizes[i]);
    any_memory(from[i], sizes[i]);
  }
  place = ~size_t{0};
  for (size_t i = 0; i < count; ++i)
    copy(any_memory(to[i], sizes[i]), any_memory(from[i], sizes[i]), sizes[i], {on, true});
  return CUDA_SUCCESS;
}

CUresult Api::cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                                 CUmemcpyAttributes* attributes, size_t* first, size_t attribute_count,
                                 size_t* failed, CUstream where) {
  return batch(to, from, sizes, count, attributes, first, attribute_count, failed, where);
}

namespace {

CUDA_MEMCPY3D as_box(const CUDA_MEMCPY3D_BATCH_OP& one) {
  const auto& source = one.src.op.ptr;
  const auto& target = one.dst.op.ptr;
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  box.srcDevice = source.ptr, box.srcPitch = source.rowLength, box.srcHeight = source.layerHeight;
  box.dstDevice = target.ptr, box.dstPitch = target.rowLength, box.dstHeight = target.layerHeight;
  box.WidthInBytes = one.extent.width, box.Height = one.extent.height, box.Depth = one.extent.depth;
  return box;
}

/// Whether the box has bytes, and the lengths of its rows and layers are long enough for it, or not given.
bool has_shape(const CUDA_MEMCPY3D_BATCH_OP& one) {
  const CUextent3D& box = one.extent;
  for (const auto& end : {one.src.op.ptr, one.dst.op.ptr})
    if ((end.rowLength != 0 && end.rowLength < box.width) ||
        (end.layerHeight != 0 && end.layerHeight < box.height))
      return false;
  return box.width != 0 && box.height != 0 && box.depth != 0;
}

} // namespace

CUresult Api::cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed,
                                   unsigned long long flags, CUstream where) {
  refuse_if(where == nullptr, CUDA_ERROR_INVALID_VALUE);
  size_t unused = 0;
  size_t& place = failed != nullptr ? *failed : unused;
  const bool can_be_taken = where != CU_STREAM_LEGACY && !thread().contexts.empty() && count != 0 &&
                            operations != nullptr && flags == 0;
  const auto on = where != CU_STREAM_LEGACY && !thread().contexts.empty() ? stream(where) : nullptr;
  refuse_if(can_be_taken && on->capture != nullptr, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  place = ~size_t{0};
  refuse_if(!can_be_taken, CUDA_ERROR_INVALID_VALUE);
  std::vector<Box> boxes;
  for (size_t i = 0; i < count; ++i) {
    const CUDA_MEMCPY3D_BATCH_OP& one = operations[i];
    for (const auto type : {one.src.type, one.dst.type}) {
      if (type == CU_MEMCPY_OPERAND_TYPE_ARRAY) not_modelled("an array in a copy");
      if (type == CU_MEMCPY_OPERAND_TYPE_POINTER) continue;
      place = i;
      refuse(CUDA_ERROR_INVALID_VALUE);
    }
    refuse_if(one.src.op.ptr.ptr == 0 || one.dst.op.ptr.ptr == 0, CUDA_ERROR_INVALID_VALUE);
    place = i;
    refuse_if(!known_order(one.srcAccessOrder) || one.flags > CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE ||
                  !has_shape(one),
              CUDA_ERROR_INVALID_VALUE);
    place = ~size_t{0}; // also if there is less memory than that
    boxes.push_back(checked(as_box(one)));
  }
  for (const Box& box : boxes)
    copy(box, {on, true});
  return CUDA_SUCCESS;
}
#endif

#if CUDA_VERSION >= 13000
CUresult Api::cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                                    CUmemcpyAttributes* attributes, size_t* first, size_t attribute_count,
                                    CUstream where) {
  return batch(to, from, sizes, count, attributes, first, attribute_count, nullptr, where);
}
#endif

} // namespace cuevent::sim
