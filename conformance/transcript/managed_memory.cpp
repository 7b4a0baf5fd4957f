// SPDX-License-Identifier: MIT
// Managed memory, and what programs advise about memory.

#include "everywhere.hpp"

#include <array>
#include <cstdlib>

namespace transcript {
namespace {

constexpr std::size_t size = 65536;

CUdeviceptr managed(Lab& lab) {
  CUdeviceptr pointer = 0;
  lab.must(lab.cu.MemAllocManaged(&pointer, size, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  return pointer;
}

void allocations(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr pointer = 0;
  for (const unsigned flags : {0u, 1u, 2u, 3u, 4u, 5u, 8u})
    lab.is("flags_" + std::to_string(flags), cu.MemAllocManaged(&pointer, size, flags));
  lab.is("nothing", cu.MemAllocManaged(&pointer, 0, 1));
  lab.is("nowhere", cu.MemAllocManaged(nullptr, size, 1));
  lab.is("too_much", cu.MemAllocManaged(&pointer, std::size_t{1} << 50, 1));
  std::array<CUdeviceptr, 5> pointers{}; // one for each place
  for (CUdeviceptr& one : pointers)
    one = managed(lab);
  auto next = pointers.begin();
  everywhere(lab, "allocate", [&](CUstream) { return cu.MemAllocManaged(&pointer, size, 1); });
  everywhere(lab, "free", [&](CUstream) { return cu.MemFree(*next++); });
  pointer = managed(lab);
  Stream stream(lab);
  lab.is("free.inside", cu.MemFree(pointer + 8));
  lab.is("free.async", cu.MemFreeAsync(pointer, stream));
  lab.is("free.host", cu.MemFreeHost(reinterpret_cast<void*>(managed(lab))));
}

struct Target {
  const char* name;
  CUdeviceptr pointer;
};

std::vector<Target> targets(Lab& lab) {
  CUdeviceptr device = 0;
  lab.must(lab.cu.MemAlloc(&device, size), "cuMemAlloc");
  void* const pageable = std::aligned_alloc(4096, size);
  return {{"managed", managed(lab)},
          {"device", device},
          {"pinned", Lab::address(lab.word())},
          {"pageable", reinterpret_cast<CUdeviceptr>(pageable)},
          {"null", 0}};
}

// The old and the new form of each call are asked together. Type 2 is the host.
std::string advised(Lab& lab, CUdeviceptr pointer, std::size_t bytes, int advice, int type, int id) {
  const Api& cu = lab.cu;
  std::vector<CUresult> results = {
      cu.MemAdvise(pointer, bytes, number<CUmem_advise>(advice), type == 2 ? CU_DEVICE_CPU : id)};
#if CUDA_VERSION >= 12020
  if (cu.MemAdviseV2 != nullptr)
    results.push_back(
        cu.MemAdviseV2(pointer, bytes, number<CUmem_advise>(advice), {number<CUmemLocationType>(type), id}));
#endif
  return joined(lab, results);
}

std::string prefetched(Lab& lab, CUdeviceptr pointer, std::size_t bytes, int type, int id, CUstream on) {
  const Api& cu = lab.cu;
  std::vector<CUresult> results = {cu.MemPrefetchAsync(pointer, bytes, type == 2 ? CU_DEVICE_CPU : id, on)};
#if CUDA_VERSION >= 12020
  if (cu.MemPrefetchAsyncV2 != nullptr)
    results.push_back(cu.MemPrefetchAsyncV2(pointer, bytes, {number<CUmemLocationType>(type), id}, 0, on));
#endif
  return joined(lab, results);
}

void advice(Lab& lab) {
  const Api& cu = lab.cu;
  const std::vector<Target> all = targets(lab);
  const CUdeviceptr memory = all.front().pointer;
  const auto advise = [&](const std::string& name, CUdeviceptr pointer, std::size_t bytes, int advice,
                          int type,
                          int id) { lab.shows(name, advised(lab, pointer, bytes, advice, type, id)); };
  for (const Target& target : all)
    advise(std::string("advise.") + target.name, target.pointer, 4, 1, 1, 0);
  for (const int kind : {0, 1, 2, 3, 4, 5, 6, 7})
    advise("advise.kind_" + std::to_string(kind), memory, size, kind, 1, 0);
  advise("advise.host", memory, size, 3, 2, 0);
  advise("advise.accessed_by_host", memory, size, 5, 2, 0);
  advise("advise.no_device", memory, size, 3, 1, 99);
  advise("advise.no_device.read_mostly", memory, size, 1, 1, 99);
  advise("advise.no_place", memory, size, 3, 0, 0);
  advise("advise.unknown_place", memory, size, 3, 9, 0);
  advise("advise.nothing", memory, 0, 1, 1, 0);
  advise("advise.too_far", memory, 2 * size, 1, 1, 0);
  advise("advise.inside", memory + 100, 8, 1, 1, 0);
  everywhere(lab, "advise",
             [&](CUstream) { return cu.MemAdvise(memory, size, CU_MEM_ADVISE_SET_READ_MOSTLY, 0); });
}

void prefetch(Lab& lab) {
  const Api& cu = lab.cu;
  const std::vector<Target> all = targets(lab);
  const CUdeviceptr memory = all.front().pointer;
  Stream stream(lab);
  const auto ask = [&](const std::string& name, CUdeviceptr pointer, std::size_t bytes, int type, int id,
                       CUstream on) { lab.shows(name, prefetched(lab, pointer, bytes, type, id, on)); };
  for (const Target& target : all)
    ask(target.name, target.pointer, 4, 1, 0, stream);
  ask("host", memory, size, 2, 0, stream);
  ask("no_device", memory, size, 1, 99, stream);
  ask("no_place", memory, size, 0, 0, stream);
  ask("nothing", memory, 0, 1, 0, stream);
  ask("too_far", memory, 2 * size, 1, 0, stream);
  ask("null_stream", memory, size, 1, 0, nullptr);
#if CUDA_VERSION >= 12020
  if (cu.MemPrefetchAsyncV2 != nullptr)
    lab.is("flags", cu.MemPrefetchAsyncV2(memory, size, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 1, stream));
#endif
  lab.is("synchronize", cu.StreamSynchronize(stream));
  everywhere_and_captured(lab, "prefetch",
                          [&](CUstream on) { return cu.MemPrefetchAsync(memory, size, 0, on); });
  lab.is("attach.global", cu.StreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_GLOBAL));
  lab.is("attach.host", cu.StreamAttachMemAsync(stream, memory, size, CU_MEM_ATTACH_HOST));
  lab.is("attach.single", cu.StreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_SINGLE));
  lab.is("attach.part", cu.StreamAttachMemAsync(stream, memory, 8, CU_MEM_ATTACH_GLOBAL));
}

// A device that does not exist.
void no_device(Lab& lab) {
  const std::vector<Target> all = targets(lab);
  Stream stream(lab);
  const auto ask = [&](const std::string& name, CUdeviceptr pointer, std::size_t bytes) {
    for (const int kind : {3, 4, 5, 6})
      lab.shows(name + ".advise_" + std::to_string(kind), advised(lab, pointer, bytes, kind, 1, 99));
    lab.shows(name + ".prefetch", prefetched(lab, pointer, bytes, 1, 99, stream));
  };
  for (const Target& target : all)
    ask(target.name, target.pointer, 4);
  ask("nothing", all.front().pointer, 0);
  ask("too_far", all.front().pointer, 2 * size);
}

// The driver writes and reads managed memory; the program does not touch it.
void copies(Lab& lab) {
  const Api& cu = lab.cu;
  const CUdeviceptr memory = managed(lab);
  std::uint32_t value = 7;
  lab.is("fill", cu.MemsetD8(memory, 3, 4));
  lab.is("to_host", cu.Memcpy(reinterpret_cast<CUdeviceptr>(&value), memory, 4));
  lab.shows("to_host.value", value);
  value = 9;
  lab.is("from_host", cu.Memcpy(memory + 4, reinterpret_cast<CUdeviceptr>(&value), 4));
  lab.is("free", cu.MemFree(memory));
}

// The program itself stores to managed memory.
void host_access(Lab& lab) {
  const Api& cu = lab.cu;
  const CUdeviceptr memory = managed(lab);
  auto* const word = reinterpret_cast<volatile std::uint32_t*>(memory);
  *word = 5;
  lab.shows("stored", static_cast<std::uint32_t>(*word));
  std::uint32_t value = 0;
  lab.is("copy", cu.Memcpy(reinterpret_cast<CUdeviceptr>(&value), memory, 4));
  lab.shows("copy.value", value);
  lab.is("fill", cu.MemsetD8(memory, 3, 4));
  lab.is("synchronize", cu.CtxSynchronize());
  lab.shows("fill.value", static_cast<std::uint32_t>(*word));
  lab.is("free", cu.MemFree(memory));
}

// What range attributes say: the common value of the pages, if they have one.
std::string attributes_of(Lab& lab, CUdeviceptr pointer, std::size_t bytes) {
  std::string shown;
  for (int attribute = 1; attribute <= 8; ++attribute) {
    int values[3] = {77, 77, 77};
    const bool list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
    const CUresult result =
        lab.cu.MemRangeGetAttribute(values, list ? sizeof values : sizeof *values,
                                    number<CUmem_range_attribute>(attribute), pointer, bytes);
    shown += (shown.empty() ? "" : " ");
    if (result != CUDA_SUCCESS) {
      shown += lab.name_of(result);
    } else {
      shown += std::to_string(values[0]);
      if (list) shown += "," + std::to_string(values[1]) + "," + std::to_string(values[2]);
    }
  }
  return shown;
}

#if CUDA_VERSION >= 13000
constexpr CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, cpu = {CU_MEM_LOCATION_TYPE_HOST, 0};

void ranges(Lab& lab) {
  const Api& cu = lab.cu;
  const std::vector<Target> all = targets(lab);
  const CUdeviceptr memory = all.front().pointer;
  Stream stream(lab);
  for (const Target& target : all)
    lab.shows(target.name, attributes_of(lab, target.pointer, size));
  const auto look = [&](const std::string& name) {
    lab.shows(name + ".whole", attributes_of(lab, memory, size));
    lab.shows(name + ".first_half", attributes_of(lab, memory, size / 2));
  };
  for (int advice = 1; advice <= 6; ++advice)
    for (const CUmemLocation& place : {gpu, cpu})
      for (const std::size_t bytes : {std::size_t{1}, size / 2, size}) {
        const std::string name = "advice_" + std::to_string(advice) + ".place_" + std::to_string(place.type) +
                                 ".bytes_" + std::to_string(bytes);
        lab.is(name, cu.MemAdviseV2(memory, bytes, number<CUmem_advise>(advice), place));
        look(name);
      }
  for (int type = 0; type <= 5; ++type)
    for (const int id : {-1, 0, 99}) {
      const CUmemLocation place = {number<CUmemLocationType>(type), id};
      const std::string name = "place_" + std::to_string(type) + ".id_" + std::to_string(id);
      for (int advice = 1; advice <= 6; ++advice)
        lab.is(name + ".advice_" + std::to_string(advice),
               cu.MemAdviseV2(memory, size, number<CUmem_advise>(advice), place));
      look(name + ".advised");
      lab.is(name + ".prefetch", cu.MemPrefetchAsyncV2(memory, size, place, 0, stream));
      look(name + ".prefetched");
    }
  int value = 0;
  const auto ask = [&](std::size_t room, std::size_t from, std::size_t bytes) {
    return cu.MemRangeGetAttribute(&value, room, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory + from, bytes);
  };
  lab.is("room_3", ask(3, 0, size));
  lab.is("room_8", ask(8, 0, size));
  lab.is("nothing", ask(4, 0, 0));
  lab.is("one_byte", ask(4, size - 1, 1));
  lab.is("too_far", ask(4, 0, size + 1));
  lab.is("nowhere", cu.MemRangeGetAttribute(nullptr, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory, size));
  void* data[] = {&value};
  std::size_t sizes[] = {4};
  CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
  lab.is("list", cu.MemRangeGetAttributes(data, sizes, which, 1, memory, size));
  lab.is("list.of_none", cu.MemRangeGetAttributes(data, sizes, which, 0, memory, size));
  lab.is("list.no_data", cu.MemRangeGetAttributes(nullptr, sizes, which, 1, memory, size));
  lab.is("list.no_sizes", cu.MemRangeGetAttributes(data, nullptr, which, 1, memory, size));
  lab.is("list.no_attributes", cu.MemRangeGetAttributes(data, sizes, nullptr, 1, memory, size));
  everywhere_and_captured(lab, "attribute", [&](CUstream) { return ask(4, 0, size); });
}

struct Batch {
  std::vector<CUdeviceptr> pointers;
  std::vector<std::size_t> sizes;
  std::vector<CUmemLocation> places;
  std::vector<std::size_t> first;
};

std::string batched(Lab& lab, Batch batch, unsigned long long flags, CUstream on) {
  const Api& cu = lab.cu;
  const std::size_t count = batch.pointers.size(), places = batch.places.size();
  auto* const pointers = batch.pointers.data();
  return joined(
      lab, std::vector<CUresult>{
               cu.MemPrefetchBatchAsync(pointers, batch.sizes.data(), count, batch.places.data(),
                                        batch.first.data(), places, flags, on),
               cu.MemDiscardBatchAsync(pointers, batch.sizes.data(), count, flags, on),
               cu.MemDiscardAndPrefetchBatchAsync(pointers, batch.sizes.data(), count, batch.places.data(),
                                                  batch.first.data(), places, flags, on)});
}

void batches(Lab& lab) {
  const std::vector<Target> all = targets(lab);
  const CUdeviceptr memory = all.front().pointer;
  constexpr std::size_t half = size / 2;
  Stream stream(lab);
  const Batch good = {{memory, memory + half}, {half, half}, {gpu, cpu}, {0, 1}};
  const auto ask = [&](const std::string& name, const Batch& batch) {
    lab.shows(name, batched(lab, batch, 0, stream));
  };
  ask("good", good);
  ask("one_place", {good.pointers, good.sizes, {gpu}, {0}});
  ask("equal_indices", {good.pointers, good.sizes, good.places, {0, 0}});
  ask("first_index_1", {good.pointers, good.sizes, good.places, {1, 1}});
  ask("three_places", {good.pointers, good.sizes, {gpu, cpu, gpu}, {0, 1, 1}});
  ask("nothing", {good.pointers, {half, 0}, good.places, good.first});
  for (const Target& target : all)
    ask(target.name, {{memory, target.pointer}, {4, 4}, good.places, good.first});
  lab.shows("flags_1", batched(lab, good, 1, stream));
  lab.shows("null_stream", batched(lab, good, 0, nullptr));
  lab.shows("per_thread", batched(lab, good, 0, CU_STREAM_PER_THREAD));
  Batch one = good;
  everywhere_and_captured(lab, "prefetch", [&](CUstream on) {
    return lab.cu.MemPrefetchBatchAsync(one.pointers.data(), one.sizes.data(), 2, one.places.data(),
                                        one.first.data(), 2, 0, on);
  });
  everywhere_and_captured(lab, "discard", [&](CUstream on) {
    return lab.cu.MemDiscardBatchAsync(one.pointers.data(), one.sizes.data(), 2, 0, on);
  });
}

void more_batches(Lab& lab) {
  const CUdeviceptr memory = managed(lab);
  constexpr std::size_t half = size / 2;
  Stream stream(lab);
  const Batch good = {{memory, memory + half}, {half, half}, {gpu, cpu}, {0, 1}};
  lab.shows("legacy", batched(lab, good, 0, CU_STREAM_LEGACY));
  lab.shows("index_too_large", batched(lab, {good.pointers, good.sizes, good.places, {0, 2}}, 0, stream));
  lab.shows("falling_indices",
            batched(lab, {{memory, memory, memory}, {4, 4, 4}, {gpu, cpu, gpu}, {0, 2, 1}}, 0, stream));
  lab.shows("same_range_twice",
            batched(lab, {{memory, memory}, {half, half}, good.places, {0, 1}}, 0, stream));
  for (int type = 0; type <= 5; ++type)
    for (const int id : {0, 99}) {
      const CUmemLocation place = {number<CUmemLocationType>(type), id};
      const std::string name = "place_" + std::to_string(type) + ".id_" + std::to_string(id);
      lab.shows(name, batched(lab, {good.pointers, good.sizes, {gpu, place}, {0, 1}}, 0, stream));
    }
  lab.is("synchronize", lab.cu.StreamSynchronize(stream));
  lab.shows("good", batched(lab, good, 0, stream));
  lab.shows("good.first_half", attributes_of(lab, memory, half));
  lab.shows("good.second_half", attributes_of(lab, memory + half, half));
}

// Which place counts if the indices fall.
void unasked(Lab& lab) {
  constexpr std::size_t half = size / 2;
  const CUdeviceptr memory = managed(lab), other = managed(lab);
  Stream stream(lab);
  lab.shows("falling_indices", batched(lab,
                                       {{memory, memory + half, other},
                                        {half, half, half},
                                        {gpu, cpu, {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}},
                                        {0, 2, 1}},
                                       0, stream));
  lab.shows("falling_indices.first", attributes_of(lab, memory, half));
  lab.shows("falling_indices.second", attributes_of(lab, memory + half, half));
  lab.shows("falling_indices.third", attributes_of(lab, other, half));
}
#else
void unasked(Lab&) {}
void ranges(Lab&) {}
void batches(Lab&) {}
void more_batches(Lab&) {}
#endif

} // namespace

std::vector<Scenario> managed_memory_scenarios() {
  return {{"managed.allocations", allocations, Place::last},
          {"managed.advice", advice, Place::last},
          {"managed.prefetch", prefetch, Place::last},
          {"managed.no_device", no_device, Place::last},
          {"managed.copies", copies, Place::last},
          {"managed.host_access", host_access, Place::last},
          {"managed.ranges", ranges, Place::last},
          {"managed.batches", batches, Place::last},
          {"managed.more_batches", more_batches, Place::last},
          {"managed.unasked", unasked, Place::alone}};
}

} // namespace transcript
