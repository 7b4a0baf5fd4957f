// SPDX-License-Identifier: MIT
// Managed memory, which is plain memory here, and advice about memory, which moves nothing.

#include "api.hpp"
#include "memory_places.hpp"

#include <algorithm>
#include <cstring>

namespace cuevent::sim {

CUresult Api::cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned flags) {
  if (out != nullptr) *out = 0;
  refuse_if(out == nullptr || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST),
            CUDA_ERROR_INVALID_VALUE);
  std::uintptr_t address = 0;
  allocate(&address, bytes, false, flags);
  process_.allocations.at(address).managed = true;
  *out = address;
  return CUDA_SUCCESS;
}

namespace {

CUmemLocation place_of(CUdevice device) {
  return device == CU_DEVICE_CPU ? CUmemLocation{place::host, 0}
                                 : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device};
}

bool is_advice(CUmem_advise advice) {
  return advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

/// For other advice, a device does not look at the place.
bool has_place(CUmem_advise advice) {
  return advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
         advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

} // namespace

/// The checks of advice and of prefetching. A device refuses null first, then the place, then memory that is
/// not managed. `place` is null if the device does not look at one.
void Api::check_managed(CUdeviceptr pointer, std::size_t bytes, const CUmemLocation* place, Nodes nodes) {
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(pointer));
  refuse_if(pointer == 0 || bytes == 0, CUDA_ERROR_INVALID_VALUE);
  if (place != nullptr) check_place(*place, nodes);
  refuse_if(of == nullptr || !of->managed || pointer - of->address + bytes > of->bytes,
            CUDA_ERROR_INVALID_VALUE);
}

/// The place of the host, and the node of the thread, need no number. The computer has one node.
void Api::check_place(const CUmemLocation& where, Nodes nodes) {
  if (where.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    device(where.id);
    return;
  }
  if (where.type == place::host) return;
  const bool node =
      where.type == place::host_numa_current || (where.type == place::host_numa && where.id == 0);
  refuse_if(!node || nodes == Nodes::refused, CUDA_ERROR_INVALID_VALUE);
}

Allocation& Api::managed_memory(CUdeviceptr pointer) {
  return std::prev(process_.allocations.upper_bound(static_cast<std::uintptr_t>(pointer)))->second;
}

#if CUDA_VERSION >= 12020
namespace {

/// A device takes such advice for a NUMA node, and does nothing.
bool is_ignored(CUmem_advise advice, const CUmemLocation& where) {
  const bool of_node = where.type == place::host_numa || where.type == place::host_numa_current;
  return of_node && (advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY);
}

} // namespace

CUresult Api::cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation place) {
  refuse_if(!is_advice(advice) || place.type < CU_MEM_LOCATION_TYPE_DEVICE ||
                place.type > place::host_numa_current,
            CUDA_ERROR_INVALID_VALUE);
  if (!thread().contexts.empty()) {
    // For other advice a device does not look at the number. The older call says INVALID_DEVICE.
    if (has_place(advice) && place.type == CU_MEM_LOCATION_TYPE_DEVICE)
      refuse_if(place.id < 0 || place.id >= computer_.devices(), CUDA_ERROR_INVALID_VALUE);
    if (is_ignored(advice, place)) return CUDA_SUCCESS; // whatever the memory is, and in any capture
  }
  return advise(pointer, bytes, advice, place);
}

CUresult Api::cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation place, unsigned flags,
                                    CUstream where) {
  refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE);
  return prefetch(pointer, bytes, place, where);
}
#endif

namespace {

void follow(RangeState& state, CUmem_advise advice, const CUmemLocation& where) {
  const bool on_device = where.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const bool sets = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
  switch (advice) {
  case CU_MEM_ADVISE_SET_READ_MOSTLY:
  case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
    state.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
    return;
  case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: // a node counts as the host
    state.preferred = on_device ? ShownPlace{where.type, where.id} : ShownPlace{place::host, -1};
    return;
  case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
    state.preferred = {};
    return;
  default:
    if (!on_device) {
      state.accessed_by_host = sets;
    } else if (sets) {
      state.accessed_by_devices |= 1u << where.id;
    } else {
      state.accessed_by_devices &= ~(1u << where.id);
    }
  }
}

} // namespace

CUresult Api::advise(CUdeviceptr pointer, std::size_t bytes, CUmem_advise advice,
                     const CUmemLocation& where) {
  current_context();
  unsafe_call();
  refuse_if(!is_advice(advice), CUDA_ERROR_INVALID_VALUE);
  const Nodes nodes = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? Nodes::taken : Nodes::refused;
  check_managed(pointer, bytes, has_place(advice) ? &where : nullptr, nodes);
  Allocation& memory = managed_memory(pointer);
  if (memory.pool) {
    const bool sets = advice == CU_MEM_ADVISE_SET_READ_MOSTLY ||
                      advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                      advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
    refuse_if(sets, CUDA_ERROR_NOT_SUPPORTED);
    not_modelled("advice about memory of a pool that takes other advice back");
  }
  memory.ranges.change(pointer - memory.address, bytes,
                       [&](RangeState& state) { follow(state, advice, where); });
  return CUDA_SUCCESS;
}

CUresult Api::cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice where) {
  return advise(pointer, bytes, advice, place_of(where));
}

CUresult Api::prefetch(CUdeviceptr pointer, std::size_t bytes, const CUmemLocation& place, CUstream handle) {
  auto where = stream(handle);
  refuse_in_capture(*where);
  implicit_check(*where);
  const bool wraps = pointer + bytes < pointer; // around the end of the addresses: prefetches nothing
  check_managed(pointer, wraps ? 1 : bytes, &place, Nodes::taken);
  if (!wraps) remember_prefetch(pointer, bytes, {place.type, place.type == place::host ? -1 : place.id});
  Work work;
  work.text = "prefetch " + std::to_string(bytes) + " bytes";
  submit(where, std::move(work));
  return CUDA_SUCCESS;
}

/// The request counts, whether or not the stream has got there.
void Api::remember_prefetch(CUdeviceptr pointer, std::size_t bytes, const ShownPlace& shown) {
  Allocation& memory = managed_memory(pointer);
  memory.ranges.change(pointer - memory.address, bytes, [&](RangeState& state) { state.prefetched = shown; });
}

namespace {

/// What all states have in common, or the value of nothing.
template <class Value>
Value common(const std::vector<RangeState>& states, Value RangeState::*member) {
  const Value& first = states.front().*member;
  const bool same = std::ranges::all_of(states, [&](const RangeState& one) { return one.*member == first; });
  return same ? first : Value{};
}

void put_accessed_by(int* places, std::size_t room, const std::vector<RangeState>& states) {
  unsigned devices = ~0u;
  bool host = true;
  for (const RangeState& state : states) {
    devices &= state.accessed_by_devices;
    host &= state.accessed_by_host;
  }
  std::vector<int> found;
  for (int device = 0; devices >> device != 0; ++device)
    if ((devices >> device & 1) != 0) found.push_back(device);
  if (host) found.push_back(-1);
  found.resize(room, -2);
  std::ranges::copy(found, places);
}

constexpr int first_attribute = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
constexpr int preferred_id = 6;   // CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, since CUDA 12.2
constexpr int last_attribute = 8; // CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, since CUDA 12.2

void check_range_attribute(const void* data, std::size_t size, CUmem_range_attribute attribute) {
  refuse_if(data == nullptr || attribute < first_attribute || attribute > last_attribute,
            CUDA_ERROR_INVALID_VALUE);
  const bool list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
  refuse_if(list ? size == 0 || size % sizeof(int) != 0 : size != sizeof(int), CUDA_ERROR_INVALID_VALUE);
}

} // namespace

/// The end of a size like -1 wraps around and lies in the allocation.
void Api::check_range(CUdeviceptr pointer, std::size_t bytes) {
  current_context();
  check_managed(pointer, pointer + bytes < pointer ? 1 : bytes, nullptr);
}

void Api::put_range_attribute(void* data, std::size_t size, CUmem_range_attribute attribute,
                              const std::vector<RangeState>& states) {
  auto* const number = static_cast<int*>(data);
  const ShownPlace preferred = common(states, &RangeState::preferred);
  const ShownPlace prefetched = common(states, &RangeState::prefetched);
  switch (static_cast<int>(attribute)) {
  case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
    *number = common(states, &RangeState::read_mostly) ? 1 : 0;
    return;
  case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
    put_accessed_by(number, size / sizeof(int), states);
    return;
  case 5: // CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE
    *number = preferred.type;
    return;
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
  case preferred_id:
    *number = preferred.id;
    return;
  case 7: // CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE
    *number = prefetched.type;
    return;
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: { // which knows devices and the host
    const bool in_host = prefetched.type != place::none && prefetched.type != CU_MEM_LOCATION_TYPE_DEVICE;
    *number = in_host ? CU_DEVICE_CPU : prefetched.id;
    return;
  }
  default:
    *number = prefetched.id;
  }
}

CUresult Api::cuMemRangeGetAttribute(void* data, size_t size, CUmem_range_attribute attribute,
                                     CUdeviceptr pointer, size_t bytes) {
  check_range(pointer, bytes);
  check_range_attribute(data, size, attribute);
  const Allocation& memory = managed_memory(pointer);
  put_range_attribute(data, size, attribute, memory.ranges.over(pointer - memory.address, bytes));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemRangeGetAttributes(void** data, size_t* sizes, CUmem_range_attribute* attributes,
                                      size_t count, CUdeviceptr pointer, size_t bytes) {
  check_range(pointer, bytes);
  refuse_if(data == nullptr || sizes == nullptr || attributes == nullptr || count == 0,
            CUDA_ERROR_INVALID_VALUE);
  for (std::size_t i = 0; i < count; ++i) // a refused list has changed nothing
    check_range_attribute(data[i], sizes[i], attributes[i]);
  const Allocation& memory = managed_memory(pointer);
  const std::vector<RangeState> states = memory.ranges.over(pointer - memory.address, bytes);
  for (std::size_t i = 0; i < count; ++i)
    put_range_attribute(data[i], sizes[i], attributes[i], states);
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
/// Ranges that one call discards, prefetches, or both. Each place counts from its index on, until the index
/// of the next place is reached.
struct Api::ManagedBatch {
  const char* verb;
  bool discards;
  const CUdeviceptr* pointers;
  const std::size_t* sizes;
  std::size_t count;
  unsigned long long flags;
  bool prefetches;
  const CUmemLocation* places = nullptr;
  const std::size_t* first = nullptr;
  std::size_t place_count = 0;

  const CUmemLocation& place_for(std::size_t range) const {
    std::size_t place = 0; // counts from 0 on
    for (std::size_t one = 0; one <= range; ++one) {
      if (place + 1 == place_count || first[place + 1] > one) continue;
      if (first[place + 1] < one) not_modelled("the place of a range beyond two indices that fall");
      ++place;
    }
    return places[place];
  }
};

/// Unlike a single prefetch, a batch keeps the number of the host's place as it was given.
CUresult Api::submit(const ManagedBatch& batch, CUstream handle) {
  refuse_if(handle == nullptr || handle == CU_STREAM_LEGACY, CUDA_ERROR_INVALID_VALUE);
  auto where = stream(handle);
  refuse_if(batch.pointers == nullptr || batch.sizes == nullptr || batch.count == 0 || batch.flags != 0,
            CUDA_ERROR_INVALID_VALUE);
  refuse_in_capture(*where);
  if (batch.prefetches) {
    refuse_if(batch.places == nullptr || batch.first == nullptr || batch.place_count == 0 ||
                  batch.place_count > batch.count || batch.first[0] != 0,
              CUDA_ERROR_INVALID_VALUE);
    for (std::size_t i = 0; i < batch.place_count; ++i) {
      const CUmemLocation& to = batch.places[i];
      const bool no_device =
          to.type == CU_MEM_LOCATION_TYPE_DEVICE && (to.id < 0 || to.id >= computer_.devices());
      refuse_if(batch.first[i] >= batch.count || no_device, CUDA_ERROR_INVALID_VALUE);
      check_place(to, Nodes::taken);
    }
  }
  std::vector<std::pair<void*, std::size_t>> ranges;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < batch.count; ++i) {
    check_managed(batch.pointers[i], batch.sizes[i], nullptr);
    ranges.emplace_back(reinterpret_cast<void*>(batch.pointers[i]), batch.sizes[i]);
    bytes += batch.sizes[i];
  }
  if (batch.prefetches)
    for (std::size_t i = 0; i < batch.count; ++i)
      remember_prefetch(batch.pointers[i], batch.sizes[i], {batch.place_for(i).type, batch.place_for(i).id});
  Work work;
  work.text = batch.verb + (" " + std::to_string(bytes)) + " bytes";
  if (batch.discards)
    work.effect = [ranges] { // until the program writes there again, nobody knows what it contains
      for (const auto& [memory, size] : ranges)
        std::memset(memory, fresh, size);
    };
  submit(where, std::move(work));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPrefetchBatchAsync(CUdeviceptr* pointers, size_t* sizes, size_t count,
                                      CUmemLocation* places, size_t* first, size_t place_count,
                                      unsigned long long flags, CUstream where) {
  return submit({"prefetch", false, pointers, sizes, count, flags, true, places, first, place_count}, where);
}

CUresult Api::cuMemDiscardBatchAsync(CUdeviceptr* pointers, size_t* sizes, size_t count,
                                     unsigned long long flags, CUstream where) {
  return submit({"discard", true, pointers, sizes, count, flags, false}, where);
}

CUresult Api::cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* pointers, size_t* sizes, size_t count,
                                                CUmemLocation* places, size_t* first, size_t place_count,
                                                unsigned long long flags, CUstream where) {
  return submit(
      {"discard and prefetch", true, pointers, sizes, count, flags, true, places, first, place_count}, where);
}
#endif

/// Puts no work on the stream. Memory cannot be attached to the null stream alone, and can be to the same
/// stream by the name CU_STREAM_LEGACY.
CUresult Api::cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t bytes, unsigned flags) {
  auto where = stream(handle);
  refuse_in_capture(*where);
  unsafe_call();
  implicit_check(*where);
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(pointer));
  refuse_if(flags != 0 && flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
                flags != CU_MEM_ATTACH_SINGLE,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(of == nullptr || !of->managed || of->pool || of->address != pointer, CUDA_ERROR_INVALID_VALUE);
  refuse_if(flags == CU_MEM_ATTACH_SINGLE && handle == nullptr && where == where->home.context->legacy,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(bytes != 0 && bytes != of->bytes, CUDA_ERROR_INVALID_VALUE);
  if (flags == 0) crash("cuStreamAttachMemAsync without flags");
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice to, CUstream where) {
  return prefetch(pointer, bytes, place_of(to), where);
}

} // namespace cuevent::sim
