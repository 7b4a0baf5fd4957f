// SPDX-License-Identifier: MIT
// Memory without an address, and addresses that it is mapped to, as arguments. Sizes are multiples of 2 MiB,
// the granularity of every device so far.
#include "structure.hpp"

#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace neighbours {
namespace {

constexpr long long piece = Stage::piece;

void fill_properties(Stage&, CUmemAllocationProp& properties) {
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
}

std::vector<Change<CUmemAllocationProp>> property_changes() {
  using T = CUmemAllocationProp;
  std::vector<Change<T>> all{CHANGE(T, type, 0),
                             CHANGE(T, type, 2),
                             CHANGE(T, type, 3),
                             CHANGE(T, type, 0x7fffffff),
                             CHANGE(T, requestedHandleTypes, 1),
                             CHANGE(T, requestedHandleTypes, 2),
                             CHANGE(T, requestedHandleTypes, 3),
                             CHANGE(T, requestedHandleTypes, 4),
                             CHANGE(T, requestedHandleTypes, 8),
                             CHANGE(T, requestedHandleTypes, 9),
                             CHANGE(T, requestedHandleTypes, 16),
                             CHANGE(T, requestedHandleTypes, -1),
                             CHANGE(T, win32HandleMetaData, s.room(64)),
                             CHANGE(T, allocFlags.compressionType, 1),
                             CHANGE(T, allocFlags.compressionType, 2),
                             CHANGE(T, allocFlags.compressionType, 255),
                             CHANGE(T, allocFlags.gpuDirectRDMACapable, 1),
                             CHANGE(T, allocFlags.gpuDirectRDMACapable, 2),
                             CHANGE(T, allocFlags.gpuDirectRDMACapable, 255),
                             CHANGE(T, allocFlags.usage, 1),
                             CHANGE(T, allocFlags.usage, 2),
                             CHANGE(T, allocFlags.usage, 0xffff),
                             CHANGE(T, allocFlags.reserved[0], 1),
                             CHANGE(T, allocFlags.reserved[1], 1),
                             CHANGE(T, allocFlags.reserved[2], 1),
                             CHANGE(T, allocFlags.reserved[3], 1)};
  add_locations(all, [](T& t) -> CUmemLocation& { return t.location; });
  return all;
}

CUmemGenericAllocationHandle released(Stage& s) {
  const CUmemGenericAllocationHandle made = s.new_physical_memory("plain");
  s.must(s.cu.MemRelease(made), "cuMemRelease");
  return made;
}

Choices physical_memory(const char* first) {
  Choices all;
  for (const char* kind : {"plain", "exportable", "double", "host"})
    all.push_back(choice(kind, [kind](Stage& s) { return s.physical_memory(kind); }));
  all = chosen_first(all, first);
  all.insert(all.begin() + 1, null());
  all.push_back(choice("wrong_number", [](Stage&) { return 0x1001; }));
  all.push_back(choice("wrong_event", [](Stage& s) { return s.event(); }));
  all.push_back(choice("wrong_memory", [](Stage& s) { return s.memory(); }));
  all.push_back(choice("released", released));
  return all;
}

// What the call ends is made for it.
Choices fresh_physical_memory() {
  return {choice("fresh", [](Stage& s) { return s.new_physical_memory("plain"); }),
          null(),
          choice("mapped",
                 [](Stage& s) {
                   const CUmemGenericAllocationHandle made = s.new_physical_memory("plain");
                   s.must(s.cu.MemMap(s.new_range(), s.piece, 0, made, 0), "cuMemMap");
                   return made;
                 }),
          choice("retained",
                 [](Stage& s) {
                   CUmemGenericAllocationHandle made = 0;
                   s.must(s.cu.MemRetainAllocationHandle(&made, reinterpret_cast<void*>(s.new_mapping())),
                          "cuMemRetainAllocationHandle");
                   return made;
                 }),
          choice("wrong_number", [](Stage&) { return 0x1001; }),
          choice("wrong_event", [](Stage& s) { return s.event(); }),
          choice("wrong_memory", [](Stage& s) { return s.memory(); }),
          choice("mapped_and_released",
                 [](Stage& s) {
                   const CUmemGenericAllocationHandle made = s.new_physical_memory("plain");
                   s.must(s.cu.MemMap(s.new_range(), s.piece, 0, made, 0), "cuMemMap");
                   s.must(s.cu.MemRelease(made), "cuMemRelease");
                   return made;
                 }),
          choice("released", released)};
}

CUdeviceptr with_access(Stage& s) {
  const CUdeviceptr made = s.new_mapping();
  CUmemAccessDesc wish{};
  wish.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wish.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  s.must(s.cu.MemSetAccess(made, s.piece, &wish, 1), "cuMemSetAccess");
  return made;
}

CUdeviceptr returned_range(Stage& s) {
  const CUdeviceptr made = s.new_range();
  s.must(s.cu.MemAddressFree(made, 2 * s.piece), "cuMemAddressFree");
  return made;
}

Choices ranges() {
  return {choice("range", [](Stage& s) { return s.new_range(); }),
          choice("range_plus_1", [](Stage& s) { return s.new_range() + 1; }),
          choice("range_plus_4096", [](Stage& s) { return s.new_range() + 4096; }),
          choice("range_plus_2097152", [](Stage& s) { return s.new_range() + s.piece; }),
          choice("range_plus_4194304", [](Stage& s) { return s.new_range() + 2 * s.piece; }),
          choice("mapped", [](Stage& s) { return s.new_mapping(); }),
          choice("mapped_plus_1", [](Stage& s) { return s.new_mapping() + 1; }),
          choice("mapped_plus_4096", [](Stage& s) { return s.new_mapping() + 4096; }),
          choice("mapped_with_access", with_access),
          choice("unmapped",
                 [](Stage& s) {
                   const CUdeviceptr made = s.new_mapping();
                   s.must(s.cu.MemUnmap(made, s.piece), "cuMemUnmap");
                   return made;
                 }),
          choice("returned_range", returned_range)};
}

Choices descriptors() {
  const auto of_file = [](int file) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(file)); };
  return {choice("exported",
                 [of_file](Stage& s) {
                   int file = -1;
                   s.must(s.cu.MemExportToShareableHandle(&file, s.physical_memory("exportable"),
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                          "cuMemExportToShareableHandle");
                   s.later([file] { close(file); });
                   return of_file(file);
                 }),
          choice("other_file",
                 [of_file](Stage& s) {
                   const int file = memfd_create("other", 0);
                   s.later([file] { close(file); });
                   return of_file(file);
                 }),
          choice("not_open", [of_file](Stage&) { return of_file(12345); }),
          choice("-1", [of_file](Stage&) { return of_file(-1); }), choice("2_to_the_32", [](Stage&) {
            return reinterpret_cast<void*>(std::intptr_t{1} << 32 | 12345);
          })};
}

} // namespace

Choices virtual_memory_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  const auto is = [&symbol](const char* one) { return symbol == one; };
  if (type == "const CUmemAllocationProp*")
    return structure<CUmemAllocationProp>(fill_properties, property_changes());
  if (type == "CUmemAllocationGranularity_flags") return enumerators(0, 3);
  if (is("cuMemCreate") && name == "size")
    return numbers({piece, 0, 1, 4096, piece - 1, piece + 1, 2 * piece, 1LL << 50, -1});
  if (is("cuMemRelease")) return fresh_physical_memory();
  if (type == "CUmemGenericAllocationHandle")
    return physical_memory(is("cuMemExportToShareableHandle") ? "exportable" : "plain");
  if (type == "CUmemAllocationHandleType" && symbol.compare(0, 9, "cuMemPool") != 0)
    return numbers({1, 0, 2, 4, 8, 16, 3, -1});
  if (name == "shareableHandle") return {choice("room", [](Stage& s) { return s.room(64); }), null()};
  if (name == "osHandle") return descriptors();
  if (is("cuMemMap")) {
    if (name == "ptr") {
      Choices all = ranges();
      all.insert(all.begin() + 1, null());
      all.push_back(choice("memory", [](Stage& s) { return s.memory(); }));
      return all;
    }
    if (name == "size")
      return numbers({piece, 0, 1, 4096, piece / 2, piece + 1, 2 * piece, 3 * piece, 1LL << 40, -1});
    if (name == "offset") return numbers({0, 1, 4096, piece, 2 * piece, 1LL << 40, -1});
  }
  return {};
}

Choices added_to_virtual_memory(const std::string& symbol, const std::string& name) {
  if (symbol == "cuMemAddressReserve") {
    if (name == "size") return numbers({piece, piece + 1, 2 * piece, 1LL << 47});
    if (name == "alignment") return numbers({piece, 2 * piece});
    if (name == "addr")
      return {choice("reserved", [](Stage& s) { return s.new_range(); }),
              choice("just_freed", returned_range)};
  }
  if (symbol == "cuMemAddressFree" || symbol == "cuMemUnmap" || symbol == "cuMemSetAccess") {
    if (name == "ptr") return ranges();
    if (name == "size") return numbers({piece, piece + 1, 2 * piece, 4 * piece});
  }
  if ((symbol == "cuMemGetAccess" && name == "ptr") ||
      (symbol == "cuMemRetainAllocationHandle" && name == "addr"))
    return ranges();
  return {};
}

} // namespace neighbours
