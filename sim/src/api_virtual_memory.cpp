// SPDX-License-Identifier: MIT
// Memory without an address, ranges of addresses, and one shown at the other. No call needs a context, and no
// capture refuses one.

#include "api.hpp"
#include "device_attributes.hpp"
#include "memory_places.hpp"
#include "os_process.hpp"
#include "virtual_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace cuevent::sim {

namespace {

constexpr std::size_t piece = 2 << 20;                          ///< sizes and addresses are multiples of it
constexpr std::uint64_t end_of_ranges = std::uint64_t{1} << 47; ///< that a range can have

bool is_whole(std::uint64_t bytes) { return bytes != 0 && bytes % piece == 0; }

} // namespace

// Ranges of addresses

CUresult Api::cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr wish,
                                  unsigned long long flags) {
  refuse_if(out == nullptr || !is_whole(bytes) || flags != 0 || (alignment & (alignment - 1)) != 0 ||
                wish % piece != 0,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(bytes >= end_of_ranges, CUDA_ERROR_OUT_OF_MEMORY);
  AddressRange range(bytes, std::max(alignment, piece), static_cast<std::uintptr_t>(wish));
  refuse_if(range.bytes() == 0, CUDA_ERROR_OUT_OF_MEMORY);
  *out = range.address();
  process_.ranges.emplace(range.address(), std::move(range));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const auto found = process_.ranges.find(static_cast<std::uintptr_t>(address));
  refuse_if(found == process_.ranges.end() || found->second.bytes() != bytes, CUDA_ERROR_INVALID_VALUE);
  const auto next = process_.allocations.lower_bound(found->first); // nothing but mappings is in a range
  refuse_if(next != process_.allocations.end() && next->first - found->first < bytes,
            CUDA_ERROR_INVALID_VALUE);
  process_.ranges.erase(found);
  return CUDA_SUCCESS;
}

/// A handle of something else is refused. A number that is no handle ends the process.
void Api::refuse_other_kind(CUmemGenericAllocationHandle handle) const {
  refuse_other_kind(reinterpret_cast<const void*>(static_cast<std::uintptr_t>(handle)),
                    Kind::physical_memory);
}

const AddressRange* Api::range_of(std::uintptr_t address) const {
  const auto next = process_.ranges.upper_bound(address);
  if (next == process_.ranges.begin()) return nullptr;
  const AddressRange& range = std::prev(next)->second;
  return address - range.address() < range.bytes() ? &range : nullptr;
}

// Memory

CUresult Api::cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* properties,
                                            CUmemAllocationGranularity_flags option) {
  refuse_if(out == nullptr || properties == nullptr || option < CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
                option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            CUDA_ERROR_INVALID_VALUE);
  *out = piece; // whatever the properties are
  return CUDA_SUCCESS;
}

/// The checks of the properties. Returns those that the memory has.
CUmemAllocationProp Api::accepted(const CUmemAllocationProp& wish) {
  const auto handles = static_cast<unsigned>(wish.requestedHandleTypes);
  const auto& flags = wish.allocFlags;
  CUmemAllocationProp taken = wish;
  refuse_if(wish.type != CU_MEM_ALLOCATION_TYPE_PINNED || wish.win32HandleMetaData != nullptr ||
                flags.compressionType > 1 || flags.reserved[0] != 0 || flags.reserved[1] != 0 ||
                flags.reserved[2] != 0 ||
                (handles & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT)) != 0,
            CUDA_ERROR_INVALID_VALUE);
  if (wish.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    device(wish.location.id);
  } else {
    refuse_if(!place::is_of_host(wish.location), CUDA_ERROR_INVALID_VALUE);
    taken.location.type = place::host_numa;
    taken.location.id = 0; // the simulated computer has one node
  }
  refuse_if((handles & place::fabric) != 0, CUDA_ERROR_NOT_PERMITTED);
  taken.allocFlags.gpuDirectRDMACapable = flags.gpuDirectRDMACapable != 0;
  return taken;
}

CUresult Api::cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* wish,
                          unsigned long long flags) {
  refuse_if(out == nullptr || wish == nullptr || !is_whole(bytes) || flags != 0, CUDA_ERROR_INVALID_VALUE);
  const CUmemAllocationProp properties = accepted(*wish);
  const bool on_device = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  refuse_if(bytes > (on_device ? free_memory(properties.location.id) : all_memory), CUDA_ERROR_OUT_OF_MEMORY);
  const auto made = make<PhysicalMemory>(Kind::physical_memory, nullptr);
  made->bytes = bytes;
  made->properties = properties;
  const int place = properties.location.id;
  if (!make_file(*made, on_device ? computer_.number_of(place) : place)) {
    computer_.handles.remove(*made, ending());
    refuse(CUDA_ERROR_OUT_OF_MEMORY);
  }
  process_.physical_memory.push_back(made);
  *out = made->handle;
  return CUDA_SUCCESS;
}

/// A handle is good until it has been released as often as it was given, and the memory is mapped nowhere.
std::shared_ptr<PhysicalMemory> Api::physical(CUmemGenericAllocationHandle handle) {
  refuse_if(handle == 0, CUDA_ERROR_INVALID_VALUE);
  return computer_.handles.find<PhysicalMemory>(reinterpret_cast<const void*>(handle), Kind::physical_memory,
                                                process_);
}

void Api::end_if_unused(PhysicalMemory& memory) {
  if (memory.references != 0 || memory.mappings != 0) return;
  std::erase_if(process_.physical_memory, [&](const auto& each) { return each.get() == &memory; });
  computer_.handles.remove(memory, ending());
}

CUresult Api::cuMemRelease(CUmemGenericAllocationHandle handle) {
  refuse_other_kind(handle);
  const auto released = physical(handle);
  refuse_if(released->references == 0, CUDA_ERROR_INVALID_VALUE);
  --released->references;
  end_if_unused(*released);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                     CUmemGenericAllocationHandle handle) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = physical(handle)->properties;
  return CUDA_SUCCESS;
}

/// Reserved addresses without memory are refused.
CUresult Api::cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* pointer) {
  refuse_if(out == nullptr || pointer == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Allocation* const of = allocation_of(reinterpret_cast<std::uintptr_t>(pointer));
  refuse_if(of == nullptr || !of->mapping, CUDA_ERROR_INVALID_VALUE);
  ++of->mapping->memory->references;
  *out = of->mapping->memory->handle;
  return CUDA_SUCCESS;
}

// Memory at an address

/// Memory is mapped as a whole.
CUresult Api::cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags) {
  refuse_if(at == 0 || bytes == 0 || flags != 0, CUDA_ERROR_INVALID_VALUE);
  refuse_other_kind(handle);
  const auto memory = physical(handle);
  refuse_if(memory->references == 0, CUDA_ERROR_INVALID_VALUE);
  refuse_if(bytes != memory->bytes || offset != 0, CUDA_ERROR_NOT_SUPPORTED);
  const auto address = static_cast<std::uintptr_t>(at);
  const AddressRange* const range = range_of(address);
  refuse_if(range == nullptr || address % piece != 0 || !range->contains(address, bytes),
            CUDA_ERROR_INVALID_VALUE);
  const auto next = process_.allocations.lower_bound(address);
  refuse_if(allocation_of(address) != nullptr ||
                (next != process_.allocations.end() && next->first - address < bytes),
            CUDA_ERROR_INVALID_VALUE);
  if (memory->properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    not_modelled("memory of the host that is mapped");
  show(*memory, address);
  ++memory->mappings;
  Allocation mapped;
  mapped.address = address;
  mapped.bytes = bytes;
  mapped.mapping = Mapping{memory, {}};
  add(std::move(mapped));
  return CUDA_SUCCESS;
}

/// The mappings that begin at these addresses. Refuses addresses that cut one.
std::vector<Allocation*> Api::whole_mappings(std::uintptr_t address, std::size_t bytes) {
  std::vector<Allocation*> found;
  const Allocation* const first = allocation_of(address);
  refuse_if(first != nullptr && first->address != address, CUDA_ERROR_INVALID_VALUE);
  for (auto next = process_.allocations.lower_bound(address);
       next != process_.allocations.end() && next->first - address < bytes; ++next) {
    Allocation& each = next->second;
    refuse_if(!each.mapping || each.bytes > bytes - (next->first - address), CUDA_ERROR_INVALID_VALUE);
    found.push_back(&each);
  }
  return found;
}

/// Waits for no work. Addresses without memory are accepted between and instead of mappings, and so are sizes
/// that go on behind the last mapping. What lies in the next range of addresses stays.
CUresult Api::cuMemUnmap(CUdeviceptr at, size_t bytes) {
  const auto address = static_cast<std::uintptr_t>(at);
  const AddressRange* const range = range_of(address);
  refuse_if(range == nullptr || bytes == 0, CUDA_ERROR_INVALID_VALUE);
  const std::size_t inside = range->address() + range->bytes() - address;
  for (const Allocation* const each : whole_mappings(address, std::min(bytes, inside))) {
    const auto memory = each->mapping->memory;
    hide(each->address, each->bytes);
    process_.allocations.erase(each->address);
    --memory->mappings;
    end_if_unused(*memory);
  }
  return CUDA_SUCCESS;
}

/// Of mappings without a gap. Nothing changes if one wish is refused; the last one for a device counts.
CUresult Api::cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* wishes, size_t count) {
  const auto address = static_cast<std::uintptr_t>(at);
  refuse_if(bytes == 0 || wishes == nullptr || count == 0 || range_of(address) == nullptr,
            CUDA_ERROR_INVALID_VALUE);
  const std::vector<Allocation*> mapped = whole_mappings(address, bytes);
  std::size_t covered = 0;
  for (const Allocation* const each : mapped)
    covered += each->bytes;
  refuse_if(covered != bytes, CUDA_ERROR_INVALID_VALUE);
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemLocation& where = wishes[i].location;
    const unsigned flags = wishes[i].flags;
    refuse_if(flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
                  flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
              CUDA_ERROR_INVALID_VALUE);
    refuse_if(where.type == place::host || where.type == place::host_numa, CUDA_ERROR_NOT_SUPPORTED);
    refuse_if(where.type != CU_MEM_LOCATION_TYPE_DEVICE || where.id < 0 || where.id >= computer_.devices(),
              CUDA_ERROR_INVALID_VALUE);
  }
  for (Allocation* const each : mapped)
    for (std::size_t i = 0; i < count; ++i)
      each->mapping->access[wishes[i].location.id] = wishes[i].flags;
  return CUDA_SUCCESS;
}

/// Memory that is not mapped has no access, whatever the device. The host never has.
CUresult Api::cuMemGetAccess(unsigned long long* flags, const CUmemLocation* where, CUdeviceptr at) {
  refuse_if(flags == nullptr || where == nullptr || at == 0, CUDA_ERROR_INVALID_VALUE);
  const bool by_host = where->type == place::host || where->type == place::host_numa; // whatever the node
  refuse_if(!by_host && where->type != CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_DEVICE);
  const int of_device = by_host ? -1 : device(where->id);
  const auto address = static_cast<std::uintptr_t>(at);
  const Allocation* const of = allocation_of(address);
  *flags = 0;
  refuse_if(of == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (of->mapping && !by_host) *flags = of->mapping->access_of(of_device);
  return CUDA_SUCCESS;
}

// Memory of several processes

CUresult Api::cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                           CUmemAllocationHandleType type, unsigned long long flags) {
  refuse_if(out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0,
            CUDA_ERROR_INVALID_VALUE);
  refuse_other_kind(handle);
  const auto memory = physical(handle);
  refuse_if((memory->properties.requestedHandleTypes & type) == 0, CUDA_ERROR_INVALID_VALUE);
  const int file = fcntl(memory->file, F_DUPFD_CLOEXEC, 0);
  refuse_if(file < 0, CUDA_ERROR_OUT_OF_MEMORY);
  std::memcpy(out, &file, sizeof file);
  return CUDA_SUCCESS;
}

/// Each import has a handle of its own, and cannot be exported again.
CUresult Api::cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* handle,
                                             CUmemAllocationHandleType type) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(type == CU_MEM_HANDLE_TYPE_WIN32 || type == CU_MEM_HANDLE_TYPE_WIN32_KMT,
            CUDA_ERROR_NOT_SUPPORTED);
  if (type == place::fabric) not_modelled("memory by a handle of a fabric");
  refuse_if(type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
  const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
  char name[128] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(given);
  CUmemAllocationProp properties{};
  int type_of_place = 0;
  refuse_if(given < 0 || readlink(link.c_str(), name, sizeof name - 1) < 0 ||
                std::sscanf(name, (name_of_link(physical_file) + "%d:%d").c_str(), &type_of_place,
                            &properties.location.id) != 2,
            CUDA_ERROR_UNKNOWN);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = static_cast<CUmemLocationType>(type_of_place);
  if (type_of_place == CU_MEM_LOCATION_TYPE_DEVICE) {
    const auto seen = computer_.seen_as(properties.location.id);
    if (!seen) not_modelled("memory of a device that this process does not see");
    properties.location.id = device(*seen);
  }
  struct stat found {};
  int file = fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (file >= 0 && (!has_fixed_size(file) || fstat(file, &found) != 0 || found.st_size == 0)) {
    close(file);
    file = -1;
  }
  refuse_if(file < 0, CUDA_ERROR_UNKNOWN);
  const auto made = make<PhysicalMemory>(Kind::physical_memory, nullptr);
  made->file = file;
  made->bytes = static_cast<std::size_t>(found.st_size);
  made->properties = properties;
  *out = made->handle;
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
