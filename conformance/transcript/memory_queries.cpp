// SPDX-License-Identifier: MIT
// What programs ask at their start: limits, places of devices, and what an address belongs to.

#include "everywhere.hpp"
#include "pointer_value.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace transcript {
namespace {

void limits(Lab& lab) {
  const Api& cu = lab.cu;
  const auto get = [&](int limit) {
    std::size_t value = 0;
    const CUresult result = cu.CtxGetLimit(&value, number<CUlimit>(limit));
    return result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result);
  };
  const auto set = [&](int limit, std::size_t value) {
    return cu.CtxSetLimit(number<CUlimit>(limit), value);
  };
  for (int limit = 0; limit <= 11; ++limit)
    lab.shows("get." + std::to_string(limit), get(limit));
  lab.shows("get.99", get(99));
  lab.is("get.nowhere", cu.CtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE));
  lab.is("get.nowhere.unknown", cu.CtxGetLimit(nullptr, number<CUlimit>(99)));
  struct Wish {
    int limit;
    std::size_t value;
  };
  constexpr Wish wishes[] = {{0, 3000},
                             {0, 0},
                             {0, 4096},
                             {0, std::size_t{1} << 40},
                             {0, 1024},
                             {1, 5000},
                             {1, 0},
                             {1, 2 << 20},
                             {2, 16 << 20},
                             {2, 5 << 20},
                             {2, 0},
                             {3, 2},
                             {4, 4096},
                             {4, 0},
                             {5, 64},
                             {5, 200},
                             {5, 33},
                             {6, 1 << 20},
                             {6, std::size_t{1} << 40},
                             {6, 0},
                             {7, 1024},
                             {8, 1},
                             {9, 1},
                             {10, 1},
                             {99, 1}};
  for (const Wish& wish : wishes) {
    const std::string name = "set." + std::to_string(wish.limit) + ".to_" + std::to_string(wish.value);
    lab.is(name, set(wish.limit, wish.value));
    lab.shows(name + ".then", get(wish.limit));
  }
  everywhere(lab, "get", [&](CUstream) {
    std::size_t value = 0;
    return cu.CtxGetLimit(&value, CU_LIMIT_STACK_SIZE);
  });
  everywhere(lab, "set", [&](CUstream) { return set(0, 1024); });
  CUfunc_cache cache{};
  lab.is("cache", cu.CtxGetCacheConfig(&cache));
  lab.shows("cache.value", static_cast<int>(cache));
  lab.is("cache.nowhere", cu.CtxGetCacheConfig(nullptr));
  for (const int wish : {0, 1, 2, 3, 4, -1})
    lab.is("set_cache." + std::to_string(wish), cu.CtxSetCacheConfig(number<CUfunc_cache>(wish)));
  lab.is("cache.then", cu.CtxGetCacheConfig(&cache));
  lab.shows("cache.then.value", static_cast<int>(cache));
  everywhere(lab, "cache", [&](CUstream) { return cu.CtxGetCacheConfig(&cache); });
  everywhere(lab, "set_cache", [&](CUstream) { return cu.CtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE); });
  everywhere(lab, "reset_l2", [&](CUstream) { return cu.CtxResetPersistingL2Cache(); });
}

// The wishes that `limits` does not have.
void more_limits(Lab& lab) {
  const Api& cu = lab.cu;
  for (int limit = 0; limit <= 6; ++limit)
    for (const std::size_t wish :
         {std::size_t{1}, std::size_t{16}, std::size_t{17}, std::size_t{31}, std::size_t{32},
          std::size_t{100}, std::size_t{128}, std::size_t{129}, std::size_t{4095}, std::size_t{65536},
          std::size_t{100000}, std::size_t{1} << 19, (std::size_t{1} << 19) + 1, std::size_t{3} << 20,
          std::size_t{4} << 20, (std::size_t{4} << 20) + 1, std::size_t{32} << 20,
          (std::size_t{32} << 20) + 1}) {
      if (limit == 0 && wish > 65536) continue; // stacks of all threads would take most of the memory
      const std::string name = std::to_string(limit) + ".to_" + std::to_string(wish);
      lab.is(name, cu.CtxSetLimit(number<CUlimit>(limit), wish));
      std::size_t value = 0;
      const CUresult result = cu.CtxGetLimit(&value, number<CUlimit>(limit));
      lab.shows(name + ".then", result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result));
    }
}

void devices(Lab& lab) {
  const Api& cu = lab.cu;
  char id[32] = {};
  lab.is("bus_id", cu.DeviceGetPCIBusId(id, sizeof id, lab.device));
  std::string shape = id;
  for (char& letter : shape)
    if (std::strchr("0123456789ABCDEFabcdef", letter) != nullptr) letter = 'x';
  lab.shows("bus_id.shape", shape);
  const std::string full = id;
  for (const int room : {14, 13, 12, 5, 1, 0}) {
    std::memset(id, '?', sizeof id);
    lab.is("bus_id.room_" + std::to_string(room), cu.DeviceGetPCIBusId(id, room, lab.device));
    const auto end = std::find(std::begin(id), std::end(id), '\0');
    const std::string got(std::begin(id), end);
    lab.shows("bus_id.room_" + std::to_string(room) + ".length",
              end == std::end(id) ? std::string("no end") : std::to_string(got.size()));
  }
  lab.is("bus_id.nowhere", cu.DeviceGetPCIBusId(nullptr, 32, lab.device));
  lab.is("bus_id.no_device", cu.DeviceGetPCIBusId(id, sizeof id, 99));
  CUdevice found = -1;
  const auto by = [&](const char* text) {
    found = -1;
    const CUresult result = cu.DeviceGetByPCIBusId(&found, text);
    return result == CUDA_SUCCESS ? std::to_string(found) : lab.name_of(result);
  };
  lab.shows("by_bus_id", by(full.c_str()));
  lab.shows("by_bus_id.without_function", by(full.substr(0, full.find('.')).c_str()));
  lab.shows("by_bus_id.garbage", by("garbage"));
  lab.shows("by_bus_id.empty", by(""));
  lab.shows("by_bus_id.null", by(nullptr));
  lab.shows("by_bus_id.elsewhere", by("ffff:ff:1f.7"));
  lab.is("by_bus_id.nowhere", cu.DeviceGetByPCIBusId(nullptr, full.c_str()));
  int major = 0, minor = 0, value = -1;
  lab.is("capability", cu.DeviceComputeCapability(&major, &minor, lab.device));
  lab.shows("capability.value", std::to_string(major) + "." + std::to_string(minor));
  lab.is("capability.nowhere", cu.DeviceComputeCapability(nullptr, &minor, lab.device));
  lab.is("capability.no_device", cu.DeviceComputeCapability(&major, &minor, 99));
  lab.is("peer.itself", cu.DeviceCanAccessPeer(&value, lab.device, lab.device));
  lab.shows("peer.itself.value", value);
  lab.is("peer.no_device", cu.DeviceCanAccessPeer(&value, lab.device, 99));
  lab.is("peer.nowhere", cu.DeviceCanAccessPeer(nullptr, lab.device, lab.device));
  lab.is("p2p.itself",
         cu.DeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, lab.device, lab.device));
  lab.is("p2p.no_device",
         cu.DeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, lab.device, 99));
  lab.is("affinity", cu.DeviceGetExecAffinitySupport(&value, CU_EXEC_AFFINITY_TYPE_SM_COUNT, lab.device));
  lab.shows("affinity.value", value);
  std::size_t free_bytes = 0, total = 0;
  lab.is("memory_info", cu.MemGetInfo(&free_bytes, &total));
  lab.is("memory_info.no_free", cu.MemGetInfo(nullptr, &total));
  lab.is("memory_info.no_total", cu.MemGetInfo(&free_bytes, nullptr));
  everywhere(lab, "memory_info", [&](CUstream) { return cu.MemGetInfo(&free_bytes, &total); });
  everywhere(lab, "bus_id", [&](CUstream) { return cu.DeviceGetPCIBusId(id, sizeof id, lab.device); });
}

// The kinds of memory that a pointer may belong to. They stay allocated until the end of the process.
struct Kinds {
  explicit Kinds(Lab& lab) : stream(lab) {
    const Api& cu = lab.cu;
    lab.must(cu.MemAlloc(&device, size), "cuMemAlloc");
    void* memory = nullptr;
    lab.must(cu.MemHostAlloc(&memory, size, 0), "cuMemHostAlloc");
    pinned = reinterpret_cast<CUdeviceptr>(memory);
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    lab.must(cu.MemHostRegister(memory, size, CU_MEMHOSTREGISTER_DEVICEMAP), "cuMemHostRegister");
    registered = reinterpret_cast<CUdeviceptr>(memory);
    lab.must(cu.MemAllocAsync(&pooled, size, stream), "cuMemAllocAsync");
    lab.must(cu.StreamSynchronize(stream), "synchronize");
    lab.must(cu.MemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    pageable = reinterpret_cast<CUdeviceptr>(std::malloc(size));
    const Current other(lab, lab.second_context());
    lab.must(cu.MemAlloc(&other_context, size), "cuMemAlloc");
  }
  struct Kind {
    const char* name;
    CUdeviceptr base, pointer;
  };
  std::vector<Kind> all() const {
    return {{"device", device, device},
            {"inside", device, device + 100},
            {"other_context", other_context, other_context},
            {"pinned", pinned, pinned + 8},
            {"registered", registered, registered + 8},
            {"pooled", pooled, pooled + 8},
            {"managed", managed, managed + 8},
            {"pageable", pageable, pageable},
            {"null", 0, 0}};
  }
  static constexpr std::size_t size = 65536;
  Stream stream;
  CUdeviceptr device = 0, pinned = 0, registered = 0, pooled = 0, managed = 0, pageable = 0,
              other_context = 0;
};

void pointers(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  for (const Kinds::Kind& kind : kinds.all())
    for (int attribute = 0; attribute <= 22; ++attribute) {
      if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) continue;
      std::uint64_t value[2] = {};
      const CUresult result =
          cu.PointerGetAttribute(value, number<CUpointer_attribute>(attribute), kind.pointer);
      lab.shows(std::string(kind.name) + "." + std::to_string(attribute),
                result == CUDA_SUCCESS ? pointer_value(lab, attribute, value[0], kind.base, Kinds::size)
                                       : lab.name_of(result));
    }
  for (const Kinds::Kind& kind : kinds.all()) {
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_MAPPED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    constexpr std::size_t count = std::size(asked);
    std::uint64_t values[count];
    void* room[count];
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = 77; // what the call leaves alone
      room[i] = &values[i];
    }
    const std::string name = std::string("list.") + kind.name;
    lab.is(name, cu.PointerGetAttributes(count, asked, room, kind.pointer));
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
      const bool wide = i == 0 || (i >= 2 && i <= 4);
      const std::uint64_t value = wide ? values[i] : static_cast<std::uint32_t>(values[i]);
      text += (text.empty() ? "" : ", ") + pointer_value(lab, asked[i], value, kind.base, Kinds::size);
    }
    lab.shows(name + ".values", text);
  }
  CUpointer_attribute one[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, number<CUpointer_attribute>(99)};
  int value = 0, second = 0;
  void* room[] = {&value, &second};
  lab.is("nowhere", cu.PointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kinds.device));
  lab.is("list.no_attributes", cu.PointerGetAttributes(1, nullptr, room, kinds.device));
  lab.is("list.nowhere", cu.PointerGetAttributes(1, one, nullptr, kinds.device));
  lab.is("list.nothing", cu.PointerGetAttributes(0, one, room, kinds.device));
  lab.is("list.unknown", cu.PointerGetAttributes(2, one, room, kinds.device));
  const int on = 1;
  for (const Kinds::Kind& kind : kinds.all())
    lab.is(std::string("set.") + kind.name,
           cu.PointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kind.pointer));
  lab.is("set.another", cu.PointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, kinds.device));
  lab.is("set.nowhere", cu.PointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kinds.device));
  lab.is("set.then", cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kinds.device));
  lab.shows("set.then.value", value);
  everywhere(lab, "get", [&](CUstream) {
    return cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kinds.device);
  });
  everywhere(lab, "get_unknown", [&](CUstream) {
    return cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kinds.pageable);
  });
  everywhere(lab, "list", [&](CUstream) { return cu.PointerGetAttributes(1, one, room, kinds.device); });
  everywhere(lab, "set", [&](CUstream) {
    return cu.PointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kinds.device);
  });
}

void ranges(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const auto ask = [&](const std::string& name, CUdeviceptr pointer, CUdeviceptr start) {
    base = 7;
    bytes = 7;
    const CUresult result = cu.MemGetAddressRange(&base, &bytes, pointer);
    lab.is(name, result);
    const std::string where = base == 7 ? "untouched" : place(lab, base, start, Kinds::size);
    if (result == CUDA_SUCCESS || base != 7 || bytes != 7)
      lab.shows(name + ".range", where + ", " + std::to_string(bytes));
  };
  for (const Kinds::Kind& kind : kinds.all())
    ask(kind.name, kind.pointer, kind.base);
  ask("last_byte", kinds.device + Kinds::size - 1, kinds.device);
  lab.is("no_base", cu.MemGetAddressRange(nullptr, &bytes, kinds.device));
  lab.is("no_size", cu.MemGetAddressRange(&base, nullptr, kinds.device));
  lab.is("nowhere", cu.MemGetAddressRange(nullptr, nullptr, kinds.device));
  lab.is("nowhere.pageable", cu.MemGetAddressRange(nullptr, nullptr, kinds.pageable));
  everywhere(lab, "get", [&](CUstream) { return cu.MemGetAddressRange(&base, &bytes, kinds.device); });
  everywhere(lab, "get_unknown",
             [&](CUstream) { return cu.MemGetAddressRange(&base, &bytes, kinds.pageable); });
  for (const Kinds::Kind& kind : kinds.all()) {
    unsigned flags = 77;
    const CUresult result = cu.MemHostGetFlags(&flags, reinterpret_cast<void*>(kind.pointer));
    lab.shows(std::string("host_flags.") + kind.name,
              result == CUDA_SUCCESS ? std::to_string(flags) : lab.name_of(result));
  }
}

void allocations(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr pointer = 0;
  std::size_t pitch = 0;
  const auto ask = [&](std::size_t width, std::size_t height, unsigned element) {
    const CUresult result = cu.MemAllocPitch(&pointer, &pitch, width, height, element);
    lab.shows("pitch." + std::to_string(width) + "_" + std::to_string(height) + "_" + std::to_string(element),
              result == CUDA_SUCCESS ? std::to_string(pitch) : lab.name_of(result));
  };
  ask(100, 10, 4);
  ask(512, 10, 4);
  ask(513, 10, 16);
  ask(2000, 1, 8);
  for (const unsigned element : {0U, 1U, 2U, 3U, 5U, 32U})
    ask(100, 10, element);
  ask(0, 10, 4);
  ask(100, 0, 4);
  ask(std::size_t{1} << 50, 1 << 20, 4);
  lab.is("pitch.nowhere", cu.MemAllocPitch(nullptr, &pitch, 100, 10, 4));
  lab.is("pitch.no_pitch", cu.MemAllocPitch(&pointer, nullptr, 100, 10, 4));
  lab.is("plain.nothing", cu.MemAlloc(&pointer, 0));
  lab.is("plain.nowhere", cu.MemAlloc(nullptr, 64));
  lab.is("plain.too_much", cu.MemAlloc(&pointer, std::size_t{1} << 50));
  lab.must(cu.MemAlloc(&pointer, 64), "cuMemAlloc");
  lab.is("free.inside", cu.MemFree(pointer + 8));
  lab.is("free", cu.MemFree(pointer));
  lab.is("free.again", cu.MemFree(pointer));
  lab.is("free.null", cu.MemFree(0));
  everywhere(lab, "pitch", [&](CUstream) { return cu.MemAllocPitch(&pointer, &pitch, 100, 10, 4); });
  everywhere(lab, "plain", [&](CUstream) { return cu.MemAlloc(&pointer, 64); });
  everywhere(lab, "free_null", [&](CUstream) { return cu.MemFree(0); });
  everywhere(lab, "free_unknown", [&](CUstream) { return cu.MemFree(4096); });
  std::array<CUdeviceptr, 5> pointers{}; // one for each place
  for (CUdeviceptr& one : pointers)
    lab.must(cu.MemAlloc(&one, 64), "cuMemAlloc");
  auto next = pointers.begin();
  everywhere(lab, "free", [&](CUstream) { return cu.MemFree(*next++); });
}

// Calls that allocate memory, or ask about it, with two wrong arguments.
void pairs(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  Stream stream(lab);
  CUdeviceptr address = 0;
  void* host = nullptr;
  std::size_t bytes = 0;
  unsigned flags = 0;
  std::uint64_t value = 0;
  CUmemoryPool pool = nullptr;
  lab.must(cu.DeviceGetDefaultMemPool(&pool, lab.device), "cuDeviceGetDefaultMemPool");
  using Wrong = std::vector<bool>;
  constexpr std::size_t some = 64;
  wrong_in_pairs(lab, "allocate", {"nowhere", "nothing"}, [&](const Wrong& wrong) {
    return cu.MemAlloc(wrong[0] ? nullptr : &address, wrong[1] ? 0 : some);
  });
  wrong_in_pairs(lab, "host", {"nowhere", "nothing", "flags"}, [&](const Wrong& wrong) {
    return cu.MemHostAlloc(wrong[0] ? nullptr : &host, wrong[1] ? 0 : some, wrong[2] ? 0x100 : 0);
  });
  host = &host;
  lab.is("host.of_nothing", cu.MemHostAlloc(&host, 0, 0));
  lab.shows("host.of_nothing.is_null", host == nullptr);
  wrong_in_pairs(lab, "managed", {"nowhere", "nothing", "flags"}, [&](const Wrong& wrong) {
    return cu.MemAllocManaged(wrong[0] ? nullptr : &address, wrong[1] ? 0 : some,
                              wrong[2] ? 0x100 : CU_MEM_ATTACH_GLOBAL);
  });
  wrong_in_pairs(lab, "pitch", {"nowhere", "no_pitch", "nothing", "element"}, [&](const Wrong& wrong) {
    return cu.MemAllocPitch(wrong[0] ? nullptr : &address, wrong[1] ? nullptr : &bytes, wrong[2] ? 0 : some,
                            4, wrong[3] ? 3 : 4);
  });
  wrong_in_pairs(lab, "async", {"nowhere", "nothing"}, [&](const Wrong& wrong) {
    return cu.MemAllocAsync(wrong[0] ? nullptr : &address, wrong[1] ? 0 : some, stream);
  });
  wrong_in_pairs(lab, "from_pool", {"nowhere", "nothing", "pool"}, [&](const Wrong& wrong) {
    return cu.MemAllocFromPoolAsync(wrong[0] ? nullptr : &address, wrong[1] ? 0 : some,
                                    wrong[2] ? nullptr : pool, stream);
  });
  wrong_in_pairs(lab, "host_pointer", {"nowhere", "memory", "flags"}, [&](const Wrong& wrong) {
    return cu.MemHostGetDevicePointer(wrong[0] ? nullptr : &address,
                                      wrong[1] ? nullptr : reinterpret_cast<void*>(kinds.pinned),
                                      wrong[2] ? 1 : 0);
  });
  wrong_in_pairs(lab, "host_flags", {"nowhere", "memory"}, [&](const Wrong& wrong) {
    return cu.MemHostGetFlags(wrong[0] ? nullptr : &flags,
                              wrong[1] ? nullptr : reinterpret_cast<void*>(kinds.pinned));
  });
  wrong_in_pairs(lab, "attribute", {"nowhere", "attribute", "pointer"}, [&](const Wrong& wrong) {
    return cu.PointerGetAttribute(wrong[0] ? nullptr : &value, number<CUpointer_attribute>(wrong[1] ? 99 : 2),
                                  wrong[2] ? 0 : kinds.device);
  });
  wrong_in_pairs(lab, "pool_attribute", {"nowhere", "attribute", "pool"}, [&](const Wrong& wrong) {
    return cu.MemPoolGetAttribute(wrong[2] ? nullptr : pool, number<CUmemPool_attribute>(wrong[1] ? 99 : 4),
                                  wrong[0] ? nullptr : &value);
  });
  wrong_in_pairs(lab, "free", {"pointer"}, [&](const Wrong&) { return cu.MemFree(0x1234); });
}

// The numbers of the device of the transcript.
struct Bus {
  explicit Bus(Lab& owner) : lab(owner) {
    char id[32] = {};
    lab.must(lab.cu.DeviceGetPCIBusId(id, sizeof id, lab.device), "cuDeviceGetPCIBusId");
    std::sscanf(id, "%x:%x:%x", &domain, &bus, &device);
  }
  void ask(const char* name, const std::string& id) {
    CUdevice found = -1;
    const CUresult result = lab.cu.DeviceGetByPCIBusId(&found, id.c_str());
    lab.shows(name, result == CUDA_SUCCESS ? std::to_string(found) : lab.name_of(result));
  }
  static std::string hex(unsigned number, std::size_t digits) {
    char text[16];
    std::snprintf(text, sizeof text, "%0*x", static_cast<int>(digits), number);
    return text;
  }

  Lab& lab;
  unsigned domain = 0, bus = 0, device = 0;
};

void bus_ids(Lab& lab) {
  Bus bus(lab);
  const auto id = [&](std::size_t domain, std::size_t other, const std::string& end) {
    return Bus::hex(bus.domain, domain) + ":" + Bus::hex(bus.bus, other) + ":" + Bus::hex(bus.device, other) +
           end;
  };
  const auto without_domain = [&](std::size_t other) {
    return Bus::hex(bus.bus, other) + ":" + Bus::hex(bus.device, other) + ".0";
  };
  bus.ask("full", id(4, 2, ".0"));
  bus.ask("no_function", id(4, 2, ""));
  bus.ask("short.no_function", id(1, 1, ""));
  bus.ask("short", id(1, 1, ".0"));
  bus.ask("long_domain", id(8, 2, ".0"));
  bus.ask("no_domain", without_domain(2));
  bus.ask("short.no_domain", without_domain(1));
}

void more_bus_ids(Lab& lab) {
  Bus bus(lab);
  const std::string middle = Bus::hex(bus.bus, 2) + ":" + Bus::hex(bus.device, 2), full = "0000:" + middle;
  bus.ask("no_domain_and_function", middle);
  bus.ask("bus_alone", Bus::hex(bus.bus, 2));
  bus.ask("function_1", full + ".1");
  bus.ask("no_domain.function_1", middle + ".1");
  bus.ask("function_00", full + ".00");
  bus.ask("dot_alone", full + ".");
  bus.ask("garbage_behind", full + ".0x");
  bus.ask("space_behind", full + ".0 ");
  bus.ask("space_before", " " + full + ".0");
  bus.ask("prefix", "0x0000:" + middle + ".0");
  bus.ask("longer_domain", "00000" + full + ".0");
  bus.ask("longer_bus", "0000:000" + middle + ".0");
  bus.ask("empty_domain", ":" + middle + ".0");
  bus.ask("four_numbers", "0:" + full + ".0");
  bus.ask("other_domain", "0001:" + middle + ".0");
  bus.ask("large_domain", "10000:" + middle + ".0");
  bus.ask("minus", "-0000:" + middle + ".0");
}

} // namespace

std::vector<Scenario> memory_queries_scenarios() {
  return {{"queries.limits", limits, Place::last},
          {"queries.more_limits", more_limits, Place::child},
          {"queries.devices", devices, Place::child},
          {"queries.pointers", pointers, Place::child},
          {"queries.ranges", ranges, Place::child},
          {"queries.allocations", allocations, Place::child},
          {"queries.pairs", pairs, Place::child},
          {"queries.bus_ids", bus_ids, Place::child},
          {"queries.more_bus_ids", more_bus_ids, Place::child}};
}

} // namespace transcript
