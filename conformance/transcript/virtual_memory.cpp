// SPDX-License-Identifier: MIT
// Memory without an address, ranges of addresses, and what happens to both when one is mapped to the other.

#include "everywhere.hpp"

#include <array>
#include <fcntl.h>
#include <unistd.h>

namespace transcript {
namespace {

using Bytes = std::size_t;
constexpr Bytes mega = 1 << 20, piece = 2 * mega; // what cuMemCreate can map
constexpr CUdeviceptr unknown = 0x12'3000'0000;   // an address of nothing

CUmemAllocationProp properties(int place = 1, int id = 0) { // CU_MEM_LOCATION_TYPE_DEVICE
  CUmemAllocationProp made{};
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location = {number<CUmemLocationType>(place), id};
  return made;
}

CUmemAccessDesc access(int flags = 3, int place = 1, int id = 0) {
  return {{number<CUmemLocationType>(place), id}, number<CUmemAccess_flags>(flags)};
}

CUmemGenericAllocationHandle create(Lab& lab, Bytes bytes = piece) {
  const CUmemAllocationProp wish = properties();
  CUmemGenericAllocationHandle made = 0;
  lab.must(lab.cu.MemCreate(&made, bytes, &wish, 0), "cuMemCreate");
  return made;
}

CUdeviceptr reserve(Lab& lab, Bytes bytes) {
  CUdeviceptr made = 0;
  lab.must(lab.cu.MemAddressReserve(&made, bytes, 0, 0, 0), "cuMemAddressReserve");
  return made;
}

// The properties with one of them changed, by name.
using Change = void (*)(CUmemAllocationProp&);
constexpr std::pair<const char*, Change> changes[] = {
    {"type_0", [](CUmemAllocationProp& p) { p.type = CU_MEM_ALLOCATION_TYPE_INVALID; }},
    {"type_2", [](CUmemAllocationProp& p) { p.type = number<CUmemAllocationType>(2); }},
    {"type_9", [](CUmemAllocationProp& p) { p.type = number<CUmemAllocationType>(9); }},
    {"descriptor",
     [](CUmemAllocationProp& p) { p.requestedHandleTypes = number<CUmemAllocationHandleType>(1); }},
    {"win32", [](CUmemAllocationProp& p) { p.requestedHandleTypes = number<CUmemAllocationHandleType>(2); }},
    {"win32_kmt",
     [](CUmemAllocationProp& p) { p.requestedHandleTypes = number<CUmemAllocationHandleType>(4); }},
    {"handles_16",
     [](CUmemAllocationProp& p) { p.requestedHandleTypes = number<CUmemAllocationHandleType>(16); }},
    {"compression_1", [](CUmemAllocationProp& p) { p.allocFlags.compressionType = 1; }},
    {"compression_2", [](CUmemAllocationProp& p) { p.allocFlags.compressionType = 2; }},
    {"rdma_1", [](CUmemAllocationProp& p) { p.allocFlags.gpuDirectRDMACapable = 1; }},
    {"rdma_2", [](CUmemAllocationProp& p) { p.allocFlags.gpuDirectRDMACapable = 2; }},
    {"usage_1", [](CUmemAllocationProp& p) { p.allocFlags.usage = 1; }},
    {"usage_2", [](CUmemAllocationProp& p) { p.allocFlags.usage = 2; }},
    {"reserved", [](CUmemAllocationProp& p) { p.allocFlags.reserved[0] = 1; }},
    {"win32_data", [](CUmemAllocationProp& p) { p.win32HandleMetaData = &p; }},
};

void show_granularity(Lab& lab, const std::string& name, const CUmemAllocationProp& asked, int option) {
  Bytes found = 0;
  const CUresult result =
      lab.cu.MemGetAllocationGranularity(&found, &asked, number<CUmemAllocationGranularity_flags>(option));
  lab.shows(name, result == CUDA_SUCCESS ? std::to_string(found) : lab.name_of(result));
}

void show_creation(Lab& lab, const std::string& name, const CUmemAllocationProp& asked, Bytes bytes = piece) {
  CUmemGenericAllocationHandle made = 0;
  lab.is(name, lab.cu.MemCreate(&made, bytes, &asked, 0));
  if (made != 0) lab.cu.MemRelease(made);
}

void granularity(Lab& lab) {
  const CUmemAllocationProp plain = properties();
  Bytes found = 0;
  for (int place = -1; place <= 5; ++place)
    for (const int id : {0, -1, 77})
      show_granularity(lab, "place_" + std::to_string(place) + ".id_" + std::to_string(id),
                       properties(place, id), 0);
  for (const int option : {-1, 1, 2})
    show_granularity(lab, "option_" + std::to_string(option), plain, option);
  for (const auto& [name, change] : changes) {
    CUmemAllocationProp asked = plain;
    change(asked);
    show_granularity(lab, name, asked, 0);
  }
  lab.is("nowhere", lab.cu.MemGetAllocationGranularity(nullptr, &plain, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  lab.is("no_properties",
         lab.cu.MemGetAllocationGranularity(&found, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  everywhere(lab, "plain", [&](CUstream) {
    return lab.cu.MemGetAllocationGranularity(&found, &plain, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  });
}

void creation(Lab& lab) {
  const Api& cu = lab.cu;
  const CUmemAllocationProp plain = properties();
  for (int place = -1; place <= 5; ++place)
    for (const int id : {0, -1, 77})
      show_creation(lab, "place_" + std::to_string(place) + ".id_" + std::to_string(id),
                    properties(place, id));
  for (const auto& [name, change] : changes) {
    CUmemAllocationProp asked = plain;
    change(asked);
    show_creation(lab, name, asked);
  }
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, mega, 3 * mega, 2 * piece, Bytes{1} << 50, ~Bytes{0}})
    show_creation(lab, "bytes_" + std::to_string(bytes), plain, bytes);
  CUmemGenericAllocationHandle made = 0, same = 0;
  lab.is("flags_1", cu.MemCreate(&made, piece, &plain, 1));
  lab.is("nowhere", cu.MemCreate(nullptr, piece, &plain, 0));
  lab.is("no_properties", cu.MemCreate(&made, piece, nullptr, 0));
  made = create(lab);
  CUmemAllocationProp found{};
  lab.is("properties", cu.MemGetAllocationPropertiesFromHandle(&found, made));
  lab.shows("properties.text", std::to_string(found.type) + " " + std::to_string(found.requestedHandleTypes) +
                                   " " + std::to_string(found.location.type) + " " +
                                   std::to_string(found.location.id));
  lab.is("properties.nowhere", cu.MemGetAllocationPropertiesFromHandle(nullptr, made));
  lab.is("properties.no_handle", cu.MemGetAllocationPropertiesFromHandle(&found, 0));
  lab.is("retain.no_memory", cu.MemRetainAllocationHandle(&same, nullptr));
  lab.is("release", cu.MemRelease(made));
  lab.is("release.no_handle", cu.MemRelease(0));
  std::vector<CUmemGenericAllocationHandle> doomed(8);
  for (auto& one : doomed)
    one = create(lab);
  auto next = doomed.begin();
  everywhere(lab, "create", [&](CUstream) { return cu.MemCreate(&made, piece, &plain, 0); });
  everywhere(lab, "release", [&](CUstream) { return cu.MemRelease(*next++); });
  everywhere(lab, "properties",
             [&](CUstream) { return cu.MemGetAllocationPropertiesFromHandle(&found, made); });
}

void reservation(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr made = 0, other = 0;
  for (const Bytes bytes : {Bytes{0}, Bytes{1}, Bytes{4096}, mega, piece, piece + 1, 3 * mega, Bytes{1} << 40,
                            Bytes{1} << 50, ~Bytes{0}}) {
    const std::string name = "bytes_" + std::to_string(bytes);
    made = 0;
    lab.is(name, cu.MemAddressReserve(&made, bytes, 0, 0, 0));
    if (made == 0) continue;
    lab.shows(name + ".aligned", made % piece == 0);
    lab.is(name + ".free", cu.MemAddressFree(made, bytes));
  }
  for (const Bytes alignment :
       {Bytes{1}, Bytes{3}, Bytes{4096}, mega, piece, 3 * mega, 2 * piece, 256 * piece}) {
    const std::string name = "alignment_" + std::to_string(alignment);
    made = 0;
    lab.is(name, cu.MemAddressReserve(&made, piece, alignment, 0, 0));
    if (made == 0) continue;
    lab.shows(name + ".aligned", made % alignment == 0);
    lab.is(name + ".free", cu.MemAddressFree(made, piece));
  }
  lab.is("flags_1", cu.MemAddressReserve(&made, piece, 0, 0, 1));
  lab.is("nowhere", cu.MemAddressReserve(nullptr, piece, 0, 0, 0));
  made = reserve(lab, 4 * piece);
  lab.is("at_used", cu.MemAddressReserve(&other, piece, 0, made, 0));
  lab.shows("at_used.is_there", other == made);
  lab.is("at_odd", cu.MemAddressReserve(&other, piece, 0, made + 1, 0));
  lab.is("free.null", cu.MemAddressFree(0, piece));
  lab.is("free.nothing", cu.MemAddressFree(made, 0));
  lab.is("free.half", cu.MemAddressFree(made, 2 * piece));
  lab.is("free.second_half", cu.MemAddressFree(made + 2 * piece, 2 * piece));
  lab.is("free.too_much", cu.MemAddressFree(made, 8 * piece));
  lab.is("free.unknown", cu.MemAddressFree(unknown, piece));
  lab.is("free", cu.MemAddressFree(made, 4 * piece));
  lab.is("free.again", cu.MemAddressFree(made, 4 * piece));
  lab.must(cu.MemAlloc(&made, piece), "cuMemAlloc");
  lab.is("free.plain", cu.MemAddressFree(made, piece));
  std::array<CUdeviceptr, 8> doomed{};
  for (CUdeviceptr& one : doomed)
    one = reserve(lab, piece);
  auto next = doomed.begin();
  everywhere(lab, "reserve", [&](CUstream) { return cu.MemAddressReserve(&made, piece, 0, 0, 0); });
  everywhere(lab, "free", [&](CUstream) { return cu.MemAddressFree(*next++, piece); });
}

void mapping(Lab& lab) {
  const Api& cu = lab.cu;
  const CUmemGenericAllocationHandle memory = create(lab, 2 * piece), second = create(lab);
  const CUdeviceptr range = reserve(lab, 8 * piece);
  CUdeviceptr plain = 0;
  lab.must(cu.MemAlloc(&plain, piece), "cuMemAlloc");
  const auto map = [&](const char* name, CUdeviceptr at, Bytes bytes, Bytes offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags = 0) {
    const CUresult result = cu.MemMap(at, bytes, offset, handle, flags);
    lab.is(name, result);
    if (result == CUDA_SUCCESS) lab.is(std::string(name) + ".unmap", cu.MemUnmap(at, bytes));
  };
  map("null", 0, 2 * piece, 0, memory);
  map("nothing", range, 0, 0, memory);
  map("odd_size", range, 1, 0, memory);
  map("half", range, piece, 0, memory);
  map("second_half", range, piece, piece, memory);
  map("odd_offset", range, piece, 1, memory);
  map("whole_with_offset", range, 2 * piece, piece, memory);
  map("too_much", range, 4 * piece, 0, memory);
  map("odd_address", range + 1, 2 * piece, 0, memory);
  map("unaligned_address", range + mega, 2 * piece, 0, memory);
  map("flags_1", range, 2 * piece, 0, memory, 1);
  map("no_handle", range, 2 * piece, 0, 0);
  map("unknown", unknown, 2 * piece, 0, memory);
  map("plain", plain, piece, 0, second);
  map("past_the_end", range + 7 * piece, 2 * piece, 0, memory);
  map("whole", range, 2 * piece, 0, memory);
  wrong_in_pairs(lab, "map", {"address", "bytes", "offset", "handle", "flags"},
                 [&](const std::vector<bool>& wrong) {
                   const CUdeviceptr at = range + (wrong[0] ? 1 : 0);
                   const CUresult result = cu.MemMap(at, wrong[1] ? piece : 2 * piece, wrong[2] ? piece : 0,
                                                     wrong[3] ? 0 : memory, wrong[4] ? 1 : 0);
                   if (result == CUDA_SUCCESS) cu.MemUnmap(at, 2 * piece);
                   return result;
                 });
  lab.must(cu.MemMap(range, 2 * piece, 0, memory, 0), "cuMemMap");
  map("over_it", range, 2 * piece, 0, memory);
  map("over_its_end", range + piece, piece, 0, second);
  lab.is("next", cu.MemMap(range + 2 * piece, piece, 0, second, 0));
  lab.is("twice", cu.MemMap(range + 4 * piece, 2 * piece, 0, memory, 0));
  lab.is("free_while_mapped", cu.MemAddressFree(range, 8 * piece));
  CUmemGenericAllocationHandle found = 0;
  lab.is("retain", cu.MemRetainAllocationHandle(&found, reinterpret_cast<void*>(range)));
  lab.shows("retain.is_it", found == memory);
  lab.is("retain.inside", cu.MemRetainAllocationHandle(&found, reinterpret_cast<void*>(range + 5)));
  lab.is("retain.reserved", cu.MemRetainAllocationHandle(&found, reinterpret_cast<void*>(range + 7 * piece)));
  lab.is("retain.plain", cu.MemRetainAllocationHandle(&found, reinterpret_cast<void*>(plain)));
  for (const char* time : {"first", "second", "third"})
    lab.is(std::string("release.") + time, cu.MemRelease(memory));
  lab.is("retain.released", cu.MemRetainAllocationHandle(&found, reinterpret_cast<void*>(range)));
  lab.is("unmap.null", cu.MemUnmap(0, piece));
  lab.is("unmap.nothing", cu.MemUnmap(range, 0));
  lab.is("unmap.half", cu.MemUnmap(range, piece));
  lab.is("unmap.second_half", cu.MemUnmap(range + piece, piece));
  lab.is("unmap.odd_size", cu.MemUnmap(range, 2 * piece - 1));
  lab.is("unmap.reserved", cu.MemUnmap(range + 7 * piece, piece));
  lab.is("unmap.with_a_hole", cu.MemUnmap(range, 4 * piece));
  lab.is("unmap.plain", cu.MemUnmap(plain, piece));
  lab.is("unmap.two", cu.MemUnmap(range, 3 * piece));
  lab.is("unmap.again", cu.MemUnmap(range, 3 * piece));
}

void accessing(Lab& lab) {
  const Api& cu = lab.cu;
  const CUmemGenericAllocationHandle memory = create(lab, 2 * piece);
  const CUdeviceptr range = reserve(lab, 8 * piece);
  CUdeviceptr plain = 0;
  lab.must(cu.MemAlloc(&plain, piece), "cuMemAlloc");
  lab.must(cu.MemMap(range, 2 * piece, 0, memory, 0), "cuMemMap");
  const auto get = [&](const std::string& name, CUdeviceptr at) {
    const CUmemLocation here = access().location;
    unsigned long long flags = 99;
    const CUresult result = cu.MemGetAccess(&flags, &here, at);
    lab.shows(name, result == CUDA_SUCCESS ? std::to_string(flags) : lab.name_of(result));
  };
  const auto set = [&](const std::string& name, CUdeviceptr at, Bytes bytes,
                       CUmemAccessDesc wish = access()) {
    lab.is(name, cu.MemSetAccess(at, bytes, &wish, 1));
    get(name + ".get", at);
  };
  get("get.before", range);
  get("get.reserved", range + 7 * piece);
  get("get.plain", plain);
  get("get.null", 0);
  get("get.unknown", unknown);
  lab.is("fill.before", cu.MemsetD8(range, 1, 64));
  set("set.null", 0, piece);
  set("set.nothing", range, 0);
  set("set.odd_size", range, 1);
  set("set.half", range, piece);
  set("set.second_half", range + piece, piece);
  set("set.with_a_hole", range, 4 * piece);
  set("set.odd_address", range + 1, 2 * piece);
  set("set.reserved", range + 4 * piece, piece);
  set("set.plain", plain, piece);
  for (const int flags : {0, 1, 2, 3, 7})
    set("set.flags_" + std::to_string(flags), range, 2 * piece, access(flags));
  for (const int place : {-1, 0, 1, 2, 3, 4, 5})
    for (const int id : {0, 77})
      set("set.place_" + std::to_string(place) + ".id_" + std::to_string(id), range, 2 * piece,
          access(3, place, id));
  lab.is("set.no_list", cu.MemSetAccess(range, 2 * piece, nullptr, 1));
  const CUmemAccessDesc wish = access();
  lab.is("set.empty_list", cu.MemSetAccess(range, 2 * piece, &wish, 0));
  set("set.whole", range, 2 * piece);
  unsigned long long flags = 0;
  lab.is("get.nowhere", cu.MemGetAccess(nullptr, &wish.location, range));
  lab.is("get.no_place", cu.MemGetAccess(&flags, nullptr, range));

  const CUmemGenericAllocationHandle second = create(lab);
  lab.must(cu.MemMap(range + 2 * piece, piece, 0, second, 0), "cuMemMap");
  lab.is("fill.past_the_end", cu.MemsetD8(range + piece, 1, piece + 1));
  lab.is("fill.without_access", cu.MemsetD8(range + 2 * piece, 1, 64));
  lab.is("fill.reserved", cu.MemsetD8(range + 4 * piece, 1, 64));
  set("set.two", range, 3 * piece);
  lab.is("fill.across", cu.MemsetD8(range + 2 * piece - 8, 1, 16));
  std::array<unsigned char, 16> read{};
  lab.is("copy.across", cu.MemcpyDtoH(read.data(), range + 2 * piece - 8, read.size()));
  lab.shows("copy.across.last", read.back());
  CUdeviceptr base = 0;
  Bytes size = 0;
  lab.is("range", cu.MemGetAddressRange(&base, &size, range + 64));
  lab.shows("range.base", base == range);
  lab.shows("range.size", size);
  lab.is("range.second", cu.MemGetAddressRange(&base, &size, range + 2 * piece));
  lab.shows("range.second.size", size);
  lab.is("range.reserved", cu.MemGetAddressRange(&base, &size, range + 4 * piece));
  for (int which = 1; which <= 20; ++which) {
    std::array<unsigned char, 32> value{};
    for (const auto& [name, at] : {std::pair{"mapped", range + 64}, {"reserved", range + 4 * piece}})
      lab.is(std::string("attribute.") + std::to_string(which) + "." + name,
             cu.PointerGetAttribute(value.data(), number<CUpointer_attribute>(which), at));
  }
  lab.is("mem_free", cu.MemFree(range));
  {
    const Current other(lab, lab.second_context());
    lab.is("other_context.fill", cu.MemsetD8(range, 1, 64));
    lab.is("other_context.read", cu.MemcpyDtoH(read.data(), range, read.size()));
  }
  everywhere(lab, "set", [&](CUstream) { return cu.MemSetAccess(range, 2 * piece, &wish, 1); });
  everywhere(lab, "get", [&](CUstream) { return cu.MemGetAccess(&flags, &wish.location, range); });
  CUmemGenericAllocationHandle found = 0;
  everywhere(lab, "retain",
             [&](CUstream) { return cu.MemRetainAllocationHandle(&found, reinterpret_cast<void*>(range)); });
  const CUdeviceptr many = reserve(lab, 16 * piece);
  const CUmemGenericAllocationHandle shared = create(lab);
  CUdeviceptr next = many;
  everywhere(lab, "map", [&](CUstream) {
    next += piece;
    return cu.MemMap(next, piece, 0, shared, 0);
  });
  next = many;
  everywhere(lab, "unmap", [&](CUstream) {
    next += piece;
    return cu.MemUnmap(next, piece);
  });
}

void shared(Lab& lab) {
  const Api& cu = lab.cu;
  CUmemAllocationProp wish = properties();
  wish.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  constexpr auto descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle memory = 0, imported = 0;
  lab.must(cu.MemCreate(&memory, piece, &wish, 0), "cuMemCreate");
  int file = -1;
  lab.is("export", cu.MemExportToShareableHandle(&file, memory, descriptor, 0));
  const auto handle_of = [](int number) {
    return reinterpret_cast<void*>(static_cast<std::intptr_t>(number));
  };
  lab.is("import", cu.MemImportFromShareableHandle(&imported, handle_of(file), descriptor));
  lab.shows("import.is_the_same", imported == memory);
  lab.is("import.wrong_file", [&] {
    const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    CUmemGenericAllocationHandle made = 0;
    const CUresult result = cu.MemImportFromShareableHandle(&made, handle_of(other), descriptor);
    close(other);
    return result;
  }());
  lab.is("import.no_file", cu.MemImportFromShareableHandle(&imported, handle_of(-1), descriptor));
  close(file);
  const CUdeviceptr range = reserve(lab, 2 * piece);
  lab.is("map", cu.MemMap(range, piece, 0, memory, 0));
  lab.is("map.imported", cu.MemMap(range + piece, piece, 0, imported, 0));
  const CUmemAccessDesc both = access();
  lab.is("access", cu.MemSetAccess(range, 2 * piece, &both, 1));
  unsigned char read = 0;
  lab.is("fill", cu.MemsetD8(range, 33, 1));
  lab.is("read", cu.MemcpyDtoH(&read, range + piece, 1));
  lab.shows("read.value", read);
  for (const int type : {0, 2, 4})
    lab.is("export.type_" + std::to_string(type),
           cu.MemExportToShareableHandle(&file, memory, number<CUmemAllocationHandleType>(type), 0));
  lab.is("export.flags_1", cu.MemExportToShareableHandle(&file, memory, descriptor, 1));
  lab.is("export.of_unshared", cu.MemExportToShareableHandle(&file, create(lab), descriptor, 0));
}

// Memory of device 0 in a context of device 1, and what a copy ends with whose memory was unmapped.
void two_devices(Lab& lab) {
  const Api& cu = lab.cu;
  const CUdeviceptr range = reserve(lab, 2 * piece);
  lab.must(cu.MemMap(range, piece, 0, create(lab), 0), "cuMemMap");
  const CUmemAccessDesc first = access(), second = access(3, 1, 1);
  lab.must(cu.MemSetAccess(range, piece, &first, 1), "cuMemSetAccess");
  CUcontext other = nullptr, popped = nullptr;
  lab.must(cu.CtxCreate(&other, 0, 1), "cuCtxCreate");
  lab.must(cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
  unsigned char read = 0;
  for (const char* time : {"before", "after"}) {
    const Current there(lab, other);
    lab.is(std::string("fill.") + time, cu.MemsetD8(range, 1, 64));
    lab.is(std::string("read.") + time, cu.MemcpyDtoH(&read, range, 1));
    lab.is(std::string("access.") + time, cu.MemSetAccess(range, piece, &second, 1));
  }
}

// Work whose memory is unmapped before it runs.
template <class Call>
void unmapped(Lab& lab, const char* name, const Call& call) {
  const Api& cu = lab.cu;
  const CUdeviceptr range = reserve(lab, piece);
  CUdeviceptr plain = 0;
  lab.must(cu.MemAlloc(&plain, piece), "cuMemAlloc");
  lab.must(cu.MemMap(range, piece, 0, create(lab), 0), "cuMemMap");
  const CUmemAccessDesc wish = access();
  lab.must(cu.MemSetAccess(range, piece, &wish, 1), "cuMemSetAccess");
  Stream stream(lab);
  {
    Gate gate(lab, stream);
    lab.is(name, call(range, plain, stream));
    lab.is("unmap", cu.MemUnmap(range, piece));
  }
  lab.is("synchronize", cu.StreamSynchronize(stream));
}

void unmapped_copy(Lab& lab) {
  unmapped(lab, "copy", [&](CUdeviceptr range, CUdeviceptr plain, CUstream stream) {
    return lab.cu.MemcpyDtoDAsync(plain, range, 64, stream);
  });
}

void unmapped_fill(Lab& lab) {
  unmapped(lab, "fill", [&](CUdeviceptr range, CUdeviceptr, CUstream stream) {
    return lab.cu.MemsetD8Async(range, 1, 64, stream);
  });
}

void unmapped_store(Lab& lab) {
  unmapped(lab, "store", [&](CUdeviceptr range, CUdeviceptr, CUstream stream) {
    return lab.cu.StreamWriteValue32(stream, range, 1, 0);
  });
}

} // namespace

std::vector<Scenario> virtual_memory_scenarios() {
  return {{"virtual.granularity", granularity, Place::alone},
          {"virtual.creation", creation, Place::alone},
          {"virtual.reservation", reservation, Place::alone},
          {"virtual.mapping", mapping, Place::alone},
          {"virtual.accessing", accessing, Place::alone},
          {"virtual.shared", shared, Place::alone},
          {"virtual.two_devices", two_devices, Place::alone, 2},
          {"virtual.unmapped_copy", unmapped_copy, Place::alone},
          {"virtual.unmapped_fill", unmapped_fill, Place::last},
          {"virtual.unmapped_store", unmapped_store, Place::last}};
}

} // namespace transcript
