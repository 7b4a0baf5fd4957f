// SPDX-License-Identifier: MIT
// Memory between processes. Each scenario was played in a process of its own.

#include "child.hpp"
#include "everywhere.hpp"
#include "ipc_handle.hpp"
#include "pointer_value.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <sys/mman.h>

using namespace std::chrono_literals;

namespace transcript {
namespace {

constexpr unsigned lazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
constexpr std::size_t small = 65536;    // many fit into what the driver takes from the system at once
constexpr std::size_t large = 6u << 20; // more than that
constexpr std::size_t step = 16384;     // fills of one value

// The kinds of memory that a process may export. `plain` is memory of cuMemAlloc.
enum class Kind {
  plain,
  pitched,
  pooled,
  shareable_pool,
  of_graph,
  managed,
  pinned,
  registered,
  pageable,
  mapped,
  shareable,
  freed,
  null,
  unknown
};

constexpr std::pair<Kind, const char*> other_kinds[] = {
    {Kind::pitched, "pitched"},       {Kind::pooled, "pooled"},     {Kind::shareable_pool, "shareable_pool"},
    {Kind::of_graph, "of_graph"},     {Kind::managed, "managed"},   {Kind::pinned, "pinned"},
    {Kind::registered, "registered"}, {Kind::pageable, "pageable"}, {Kind::mapped, "mapped"},
    {Kind::shareable, "shareable"},   {Kind::freed, "freed"},       {Kind::null, "null"},
    {Kind::unknown, "unknown"}};

CUdeviceptr plain_memory(Lab& lab, std::size_t bytes = small) {
  CUdeviceptr memory = 0;
  lab.must(lab.cu.MemAlloc(&memory, bytes), "cuMemAlloc");
  return memory;
}

CUdeviceptr pooled_memory(Lab& lab, bool shareable) {
  const Api& cu = lab.cu;
  CUmemoryPool pool = nullptr;
  lab.must(cu.DeviceGetDefaultMemPool(&pool, lab.device), "cuDeviceGetDefaultMemPool");
  if (shareable) {
    CUmemPoolProps wish{};
    wish.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wish.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    wish.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wish.location.id = lab.device;
    lab.must(cu.MemPoolCreate(&pool, &wish), "cuMemPoolCreate");
  }
  Stream stream(lab);
  CUdeviceptr memory = 0;
  lab.must(cu.MemAllocFromPoolAsync(&memory, small, pool, stream), "cuMemAllocFromPoolAsync");
  lab.must(cu.StreamSynchronize(stream), "cuStreamSynchronize");
  return memory;
}

CUdeviceptr graph_memory(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.must(cu.MemAllocAsync(&memory, small, stream), "cuMemAllocAsync");
  lab.must(cu.StreamEndCapture(stream, &graph), "end");
  lab.must(cu.GraphLaunch(make_exec(lab, graph), stream), "cuGraphLaunch");
  lab.must(cu.StreamSynchronize(stream), "cuStreamSynchronize");
  return memory;
}

CUdeviceptr mapped(Lab& lab, bool shareable) {
  return mapped_memory(lab, 2u << 20, nullptr,
                       shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE);
}

// It lives until the end of the process.
CUdeviceptr memory_of(Lab& lab, Kind kind) {
  const Api& cu = lab.cu;
  CUdeviceptr memory = 0;
  void* host = nullptr;
  std::size_t pitch = 0;
  switch (kind) {
  case Kind::plain:
    return plain_memory(lab);
  case Kind::pitched:
    lab.must(cu.MemAllocPitch(&memory, &pitch, 100, 10, 4), "cuMemAllocPitch");
    return memory;
  case Kind::pooled:
    return pooled_memory(lab, false);
  case Kind::shareable_pool:
    return pooled_memory(lab, true);
  case Kind::of_graph:
    return graph_memory(lab);
  case Kind::managed:
    lab.must(cu.MemAllocManaged(&memory, small, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    return memory;
  case Kind::pinned:
    lab.must(cu.MemHostAlloc(&host, small, CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc");
    return reinterpret_cast<CUdeviceptr>(host);
  case Kind::registered:
    host = mmap(nullptr, small, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    lab.must(cu.MemHostRegister(host, small, CU_MEMHOSTREGISTER_DEVICEMAP), "cuMemHostRegister");
    return reinterpret_cast<CUdeviceptr>(host);
  case Kind::pageable:
    return reinterpret_cast<CUdeviceptr>(std::malloc(small));
  case Kind::mapped:
    return mapped(lab, false);
  case Kind::shareable:
    return mapped(lab, true);
  case Kind::freed:
    memory = plain_memory(lab);
    lab.must(cu.MemFree(memory), "cuMemFree");
    return memory;
  case Kind::null:
    return 0;
  case Kind::unknown:
    return 4096;
  }
  return 0;
}

// Each `step` of the memory gets the next value.
void fill(Lab& lab, CUdeviceptr memory, unsigned char first, std::size_t bytes = small) {
  for (std::size_t at = 0; at < bytes; at += step)
    lab.must(lab.cu.MemsetD8(memory + at, static_cast<unsigned char>(first + at / step), step), "cuMemsetD8");
  lab.must(lab.cu.CtxSynchronize(), "cuCtxSynchronize");
}

std::string value_at(Lab& lab, CUdeviceptr pointer) {
  unsigned char value = 0;
  const CUresult result = lab.cu.MemcpyDtoH(&value, pointer, 1);
  return result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result);
}

bool is_same(const CUipcMemHandle& one, const CUipcMemHandle& other) {
  return std::memcmp(&one, &other, sizeof one) == 0;
}

std::uint64_t attribute_of(Lab& lab, CUdeviceptr pointer, CUpointer_attribute attribute) {
  std::uint64_t value[2] = {};
  lab.cu.PointerGetAttribute(value, attribute, pointer);
  return value[0];
}

void show_type(Lab& lab, const std::string& name, CUdeviceptr pointer) {
  int type = -1;
  const CUresult result = lab.cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
  lab.shows(name, result == CUDA_SUCCESS ? std::to_string(type) : lab.name_of(result));
}

void show_range(Lab& lab, const std::string& name, CUdeviceptr pointer, CUdeviceptr opened) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUresult result = lab.cu.MemGetAddressRange(&base, &bytes, pointer);
  if (result != CUDA_SUCCESS) return lab.is(name, result);
  const auto offset = static_cast<long long>(base - opened);
  lab.shows(name, "opened + " + std::to_string(offset) + ", " + std::to_string(bytes) + " bytes");
}

void show_attributes(Lab& lab, const std::string& name, CUdeviceptr pointer, CUdeviceptr opened,
                     std::size_t bytes = small) {
  for (int attribute = 1; attribute <= 21; ++attribute) {
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) continue;
    std::uint64_t value[2] = {};
    const CUresult result =
        lab.cu.PointerGetAttribute(value, number<CUpointer_attribute>(attribute), pointer);
    lab.shows(name + "." + std::to_string(attribute),
              result == CUDA_SUCCESS ? pointer_value(lab, attribute, value[0], opened, bytes)
                                     : lab.name_of(result));
  }
}

// --- Exports, in one process

void exports(Lab& lab) {
  const Api& cu = lab.cu;
  const CUdeviceptr memory = plain_memory(lab), other = plain_memory(lab), big = plain_memory(lab, large);
  CUipcMemHandle handle{}, again{};
  lab.is("plain", cu.IpcGetMemHandle(&handle, memory));
  lab.is("again", cu.IpcGetMemHandle(&again, memory));
  lab.shows("again.same_bytes", is_same(handle, again));
  const auto ask = [&](const char* name, CUdeviceptr pointer, const CUipcMemHandle& start) {
    CUipcMemHandle found{};
    lab.is(name, cu.IpcGetMemHandle(&found, pointer));
    lab.shows(std::string(name) + ".same_bytes", is_same(found, start));
  };
  ask("inside", memory + step, handle);
  ask("inside.unaligned", memory + 1, handle);
  ask("last_byte", memory + small - 1, handle);
  ask("other", other, handle);
  lab.is("large", cu.IpcGetMemHandle(&again, big));
  ask("large.inside", big + (4u << 20), again);
  const Current guard(lab, nullptr);
  ask("no_context", memory, handle);
}

void export_after_free(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr const memory = plain_memory(lab);
  const CUipcMemHandle handle = handle_of(lab, memory);
  lab.is("free", cu.MemFree(memory));
  CUdeviceptr const next = plain_memory(lab);
  lab.shows("next.same_address", next == memory);
  CUipcMemHandle again{};
  lab.is("next", cu.IpcGetMemHandle(&again, next));
  lab.shows("next.same_bytes", is_same(handle, again));
}

void export_nowhere(Lab& lab) { lab.is("export", lab.cu.IpcGetMemHandle(nullptr, plain_memory(lab))); }

void export_in_another_context(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  CUipcMemHandle handle{}, at_home{};
  const CUresult result = lab.cu.IpcGetMemHandle(&at_home, memory);
  const Current guard(lab, lab.second_context());
  lab.is("export", lab.cu.IpcGetMemHandle(&handle, memory));
  lab.is("export.at_home", result);
  lab.shows("export.same_bytes", is_same(handle, at_home));
}

void export_on_another_device(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  CUcontext far = nullptr;
  lab.must(lab.cu.CtxCreate(&far, 0, 1), "cuCtxCreate"); // and makes it current
  CUipcMemHandle handle{};
  lab.is("export", lab.cu.IpcGetMemHandle(&handle, memory));
}

void export_everywhere(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  CUipcMemHandle handle{};
  everywhere(lab, "export", [&](CUstream) { return lab.cu.IpcGetMemHandle(&handle, memory); });
}

void export_pairs(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  wrong_in_pairs(lab, "export", {"memory", "nowhere"}, [&](const std::vector<bool>& wrong) {
    CUipcMemHandle handle{};
    return lab.cu.IpcGetMemHandle(wrong[1] ? nullptr : &handle, wrong[0] ? 4096 : memory);
  });
}

void export_waits(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  CUipcMemHandle handle{};
  Stream stream(lab);
  Gate gate(lab, stream);
  Background call(lab, [&] { return lab.cu.IpcGetMemHandle(&handle, memory); });
  lab.shows("export.returns_while_a_stream_is_held", call.returns_within(1s));
  gate.open();
  lab.is("export", call.join());
}

// --- Opens and closes, in one process

void open_here(Lab& lab) {
  const Api& cu = lab.cu;
  const CUipcMemHandle handle = handle_of(lab, plain_memory(lab));
  CUdeviceptr opened = 7;
  lab.is("open", cu.IpcOpenMemHandle(&opened, handle, lazy));
  lab.shows("open.result_is_untouched", opened == 7);
  lab.is("open.unknown_flags", cu.IpcOpenMemHandle(&opened, handle, 2));
  {
    const Current guard(lab, lab.second_context());
    lab.is("open.another_context", cu.IpcOpenMemHandle(&opened, handle, lazy));
  }
  const Current guard(lab, nullptr);
  lab.is("open.no_context", cu.IpcOpenMemHandle(&opened, handle, lazy));
}

template <int byte>
void open_garbage(Lab& lab) {
  CUipcMemHandle handle{};
  std::memset(&handle, byte, sizeof handle);
  CUdeviceptr opened = 7;
  lab.is("open", lab.cu.IpcOpenMemHandle(&opened, handle, lazy));
  lab.shows("open.result_is_untouched", opened == 7);
  lab.is("open.unknown_flags", lab.cu.IpcOpenMemHandle(&opened, handle, 2));
  lab.is("open.no_flags", lab.cu.IpcOpenMemHandle(&opened, handle, 0));
}

void open_event(Lab& lab) {
  Event event(lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  const CUipcEventHandle exported = handle_of(lab, event);
  CUipcMemHandle handle{};
  std::memcpy(&handle, &exported, sizeof handle);
  CUdeviceptr opened = 0;
  lab.is("open", lab.cu.IpcOpenMemHandle(&opened, handle, lazy));
}

void close_exported(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  handle_of(lab, memory);
  lab.is("close", lab.cu.IpcCloseMemHandle(memory));
  show_type(lab, "then.type", memory);
  lab.is("then.free", lab.cu.MemFree(memory));
}

void close_pairs(Lab& lab) {
  wrong_in_pairs(lab, "close", {"memory"},
                 [&](const std::vector<bool>&) { return lab.cu.IpcCloseMemHandle(4096); });
}

// --- Two processes. The importer asks when it wants the exporter to go on.

void serve(Lab& lab, Child& child, std::initializer_list<std::function<void()>> steps = {}) {
  for (const auto& next : steps) {
    if (!relay(lab, child)) break;
    next();
    child.say("go on");
  }
  relay(lab, child);
  lab.shows("importer.process", child.finish());
}

constexpr const char* importer_name = "ipc_memory.importer";
constexpr const char* exporter_name = "ipc_memory.exporter";

// Exports plain memory with the values 17, 18, ... to the part of the importer that has the scenario's name.
void exporting(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  fill(lab, memory, 17);
  const std::string part = lab.scenario.substr(lab.scenario.find('.') + 1);
  Child child(lab, importer_name, {part, to_hex(handle_of(lab, memory))});
  serve(lab, child);
}

// A part of the importer: it gets handles, and plays in a process that has made nothing.
CUipcMemHandle given(Lab& lab, std::size_t index = 0) { return memory_from_hex(lab.arguments.at(index + 1)); }

CUdeviceptr opened_from(Lab& lab, std::size_t index = 0) {
  CUdeviceptr opened = 0;
  lab.must(lab.cu.IpcOpenMemHandle(&opened, given(lab, index), lazy), "cuIpcOpenMemHandle");
  return opened;
}

void import_contents(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr opened = 7;
  {
    const Current none(lab, nullptr);
    lab.is("open.no_context", cu.IpcOpenMemHandle(&opened, given(lab), lazy));
    lab.shows("open.no_context.result_is_untouched", opened == 7);
  }
  lab.is("open", cu.IpcOpenMemHandle(&opened, given(lab), lazy));
  lab.shows("read.first", value_at(lab, opened));
  lab.shows("read.second_step", value_at(lab, opened + step));
  lab.shows("read.last_byte", value_at(lab, opened + small - 1));
  fill(lab, opened, 33);
  ask(); // the exporter reads, and writes
  lab.shows("read.written_by_exporter", value_at(lab, opened));
  lab.is("close", cu.IpcCloseMemHandle(opened));
  ask(); // the exporter reads
}

void contents(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  fill(lab, memory, 17);
  Child child(lab, importer_name, {"contents", to_hex(handle_of(lab, memory))});
  serve(lab, child,
        {[&] {
           lab.shows("exporter.read.written_by_importer", value_at(lab, memory));
           lab.shows("exporter.read.second_step", value_at(lab, memory + step));
           fill(lab, memory, 49);
         },
         [&] {
           lab.shows("exporter.read.after_close", value_at(lab, memory));
           lab.is("exporter.free", lab.cu.MemFree(memory));
         }});
}

void import_attributes(Lab& lab) {
  CUdeviceptr const opened = opened_from(lab);
  show_attributes(lab, "start", opened, opened);
  show_attributes(lab, "inside", opened + 100, opened);
  show_range(lab, "range.start", opened, opened);
  show_range(lab, "range.inside", opened + 100, opened);
  show_range(lab, "range.last_byte", opened + small - 1, opened);
  show_range(lab, "range.behind", opened + small, opened);
  CUdeviceptr const own = plain_memory(lab);
  show_range(lab, "range.own", own, own);
  const int on = 1;
  lab.is("set", lab.cu.PointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, opened));
}

void import_any(Lab& lab) {
  CUdeviceptr opened = 0;
  const CUresult result = lab.cu.IpcOpenMemHandle(&opened, given(lab), lazy);
  lab.is("open", result);
  if (result != CUDA_SUCCESS) return;
  show_attributes(lab, "opened", opened, opened);
  show_range(lab, "range", opened, opened);
  lab.shows("read", value_at(lab, opened));
  lab.is("close", lab.cu.IpcCloseMemHandle(opened));
}

template <Kind kind>
void export_of(Lab& lab) {
  CUdeviceptr const memory = memory_of(lab, kind);
  CUipcMemHandle handle{};
  const CUresult result = lab.cu.IpcGetMemHandle(&handle, memory);
  lab.is("export", result);
  if (result != CUDA_SUCCESS) return;
  lab.must(lab.cu.MemsetD8(memory, 17, 64), "cuMemsetD8");
  lab.must(lab.cu.CtxSynchronize(), "cuCtxSynchronize");
  Child child(lab, importer_name, {"any", to_hex(handle)});
  serve(lab, child);
}

template <Kind kind>
void close_of(Lab& lab) {
  CUdeviceptr const memory = memory_of(lab, kind);
  lab.is("close", lab.cu.IpcCloseMemHandle(memory));
  show_type(lab, "then.type", memory);
}

void import_flags(Lab& lab) {
  const Api& cu = lab.cu;
  for (const unsigned flags : {0u, 1u, 2u, 3u, 0x100u}) {
    CUdeviceptr opened = 7;
    const std::string name = "flags_" + std::to_string(flags);
    const CUresult result = cu.IpcOpenMemHandle(&opened, given(lab), flags);
    lab.is(name, result);
    if (result == CUDA_SUCCESS) lab.is(name + ".close", cu.IpcCloseMemHandle(opened));
  }
}

void import_nowhere(Lab& lab) { lab.is("open", lab.cu.IpcOpenMemHandle(nullptr, given(lab), lazy)); }

void import_pairs(Lab& lab) {
  wrong_in_pairs(lab, "open", {"handle", "flags", "nowhere"}, [&](const std::vector<bool>& wrong) {
    CUdeviceptr opened = 0;
    return lab.cu.IpcOpenMemHandle(wrong[2] ? nullptr : &opened, wrong[0] ? CUipcMemHandle{} : given(lab),
                                   wrong[1] ? 2 : lazy);
  });
}

void import_twice(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr const opened = opened_from(lab);
  CUdeviceptr again = 0;
  const auto id = [&] { return attribute_of(lab, opened, CU_POINTER_ATTRIBUTE_BUFFER_ID); };
  const std::uint64_t first_id = id();
  lab.is("open_again", cu.IpcOpenMemHandle(&again, given(lab), lazy));
  lab.shows("open_again.same_address", again == opened);
  lab.shows("open_again.same_buffer", id() == first_id);
  lab.is("close", cu.IpcCloseMemHandle(opened));
  show_type(lab, "close.then", opened);
  lab.shows("close.then.read", value_at(lab, opened));
  lab.is("close.second", cu.IpcCloseMemHandle(opened));
  show_type(lab, "close.second.then", opened);
  show_range(lab, "close.second.then.range", opened, opened);
  lab.is("reopen", cu.IpcOpenMemHandle(&again, given(lab), lazy));
  lab.shows("reopen.same_address", again == opened);
  lab.shows("reopen.read", value_at(lab, again));
  lab.is("reopen.close", cu.IpcCloseMemHandle(again));
}

void import_close_again(Lab& lab) {
  CUdeviceptr const opened = opened_from(lab);
  lab.is("close", lab.cu.IpcCloseMemHandle(opened));
  lab.is("close_again", lab.cu.IpcCloseMemHandle(opened));
}

void import_close_inside(Lab& lab) {
  CUdeviceptr const opened = opened_from(lab);
  lab.is("close_inside", lab.cu.IpcCloseMemHandle(opened + step));
  show_type(lab, "then.type", opened);
  lab.is("close", lab.cu.IpcCloseMemHandle(opened));
}

template <bool in_order>
void import_free(Lab& lab) {
  Stream stream(lab);
  CUdeviceptr const opened = opened_from(lab);
  lab.is("free", in_order ? lab.cu.MemFreeAsync(opened, stream) : lab.cu.MemFree(opened));
  lab.is("synchronize", lab.cu.StreamSynchronize(stream));
  show_type(lab, "then.type", opened);
  lab.is("then.close", lab.cu.IpcCloseMemHandle(opened));
  show_type(lab, "then.close.type", opened);
}

void import_and_export(Lab& lab) {
  CUdeviceptr const opened = opened_from(lab);
  CUipcMemHandle handle{};
  lab.is("export", lab.cu.IpcGetMemHandle(&handle, opened));
  lab.shows("export.same_bytes", is_same(handle, given(lab)));
}

// Opened in two contexts of the device, and closed in a context that did not open it.
void import_two_contexts(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr const opened = opened_from(lab);
  CUdeviceptr other = 0;
  const auto context = [&](CUdeviceptr pointer) {
    return place(lab, attribute_of(lab, pointer, CU_POINTER_ATTRIBUTE_CONTEXT), opened, 1);
  };
  lab.shows("context", context(opened));
  {
    const Current guard(lab, lab.second_context());
    lab.is("open", cu.IpcOpenMemHandle(&other, given(lab), lazy));
    lab.shows("open.same_address", other == opened);
    lab.shows("open.context", context(other));
    lab.shows("read", value_at(lab, opened));
    lab.is("close", cu.IpcCloseMemHandle(other));
    show_type(lab, "close.then", opened);
  }
  lab.is("close.first", cu.IpcCloseMemHandle(opened));
  show_type(lab, "close.first.then", opened);
}

void import_close_in_another_context(Lab& lab) {
  CUdeviceptr const opened = opened_from(lab);
  {
    const Current guard(lab, lab.second_context());
    lab.shows("read", value_at(lab, opened));
    lab.is("close", lab.cu.IpcCloseMemHandle(opened));
    show_type(lab, "then.type", opened);
  }
  lab.is("close.at_home", lab.cu.IpcCloseMemHandle(opened));
}

void import_into_ended_context(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "cuCtxCreate"); // and makes it current
  CUdeviceptr const opened = opened_from(lab);
  lab.is("destroy", cu.CtxDestroy(context));
  lab.restore();
  show_type(lab, "type", opened);
  CUdeviceptr again = 0;
  lab.is("open", cu.IpcOpenMemHandle(&again, given(lab), lazy));
  lab.shows("open.read", value_at(lab, again));
  lab.is("open.close", cu.IpcCloseMemHandle(again));
}

void import_close_of_ended_context(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "cuCtxCreate");
  CUdeviceptr const opened = opened_from(lab);
  lab.is("destroy", cu.CtxDestroy(context));
  lab.restore();
  lab.is("close", cu.IpcCloseMemHandle(opened));
}

// As the function was before CUDA 11.0.
void import_old(Lab& lab) {
  void* address = nullptr;
  lab.is("look_up", lab.cu.GetProcAddress("cuIpcOpenMemHandle", &address, 4010,
                                          CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr));
  const auto open = reinterpret_cast<PFN_cuIpcOpenMemHandle_v11000>(address); // with the same parameters
  if (open == nullptr) return;
  CUdeviceptr opened = 0, again = 0;
  lab.shows("is_the_new_one", open == lab.cu.IpcOpenMemHandle);
  lab.is("open.no_flags", open(&again, given(lab), 0));
  lab.is("open", open(&opened, given(lab), lazy));
  lab.is("open_again", open(&again, given(lab), lazy));
  lab.shows("open_again.same_address", again == opened);
  lab.is("open_again.new", lab.cu.IpcOpenMemHandle(&again, given(lab), lazy));
  lab.shows("open_again.new.same_address", again == opened);
  lab.is("close", lab.cu.IpcCloseMemHandle(opened));
  lab.is("close.again", lab.cu.IpcCloseMemHandle(opened));
}

void import_open_everywhere(Lab& lab) {
  everywhere(lab, "open", [&](CUstream) {
    CUdeviceptr opened = 0;
    return lab.cu.IpcOpenMemHandle(&opened, given(lab), lazy);
  });
  // The memory is open by now.
  everywhere(lab, "open_again", [&](CUstream) {
    CUdeviceptr opened = 0;
    return lab.cu.IpcOpenMemHandle(&opened, given(lab), lazy);
  });
  everywhere(lab, "open_garbage", [&](CUstream) {
    CUdeviceptr opened = 0;
    return lab.cu.IpcOpenMemHandle(&opened, CUipcMemHandle{}, lazy);
  });
}

// Each close is of an allocation of its own, and ends its use.
void import_close_everywhere(Lab& lab) {
  std::vector<CUdeviceptr> opened;
  for (std::size_t i = 0; i + 1 < lab.arguments.size(); ++i)
    opened.push_back(opened_from(lab, i));
  auto next = opened.begin();
  everywhere(lab, "close", [&](CUstream) { return lab.cu.IpcCloseMemHandle(*next++); });
  for (std::size_t i = 0; i < opened.size(); ++i)
    show_type(lab, "close.then." + std::to_string(i), opened[i]);
  // Closes that leave the memory open.
  CUdeviceptr const last = opened_from(lab);
  for (int i = 0; i < 8; ++i)
    opened_from(lab);
  everywhere(lab, "close_one_of_many", [&](CUstream) { return lab.cu.IpcCloseMemHandle(last); });
}

void close_everywhere(Lab& lab) {
  std::vector<std::string> words = {"close_everywhere"};
  for (int i = 0; i < 5; ++i)
    words.push_back(to_hex(handle_of(lab, plain_memory(lab, large))));
  Child child(lab, importer_name, words);
  serve(lab, child);
}

void import_waits(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr opened = 0;
  const auto ask_held = [&](const std::string& name, CUcontext context,
                            const std::function<CUresult()>& call) {
    const Current guard(lab, context);
    Stream stream(lab);
    Gate gate(lab, stream);
    Background background(lab, call);
    lab.shows(name + ".returns_while_a_stream_is_held", background.returns_within(1s));
    gate.open();
    lab.is(name, background.join());
  };
  const auto open = [&] { return cu.IpcOpenMemHandle(&opened, given(lab), lazy); };
  const auto close = [&] { return cu.IpcCloseMemHandle(opened); };
  lab.second_context();
  ask_held("open", lab.home, open);
  ask_held("open_again", lab.home, open);
  ask_held("close_one_of_two", lab.home, close);
  ask_held("close", lab.home, close);
  ask_held("open.other_context_is_held", lab.second_context(), open);
  ask_held("close.other_context_is_held", lab.second_context(), close);
}

// A close while a copy from the memory has not started.
void import_close_before_copy(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr const opened = opened_from(lab), own = plain_memory(lab);
  fill(lab, own, 99);
  Stream stream(lab);
  Gate gate(lab, stream);
  lab.is("copy", cu.MemcpyDtoDAsync(own, opened, 64, stream));
  Background close(lab, [&] { return cu.IpcCloseMemHandle(opened); });
  lab.shows("close.returns", close.returns_within(1s));
  gate.open();
  lab.is("close", close.join());
  lab.is("synchronize", cu.StreamSynchronize(stream));
  lab.shows("read", value_at(lab, own));
}

// The exporter's stream is held meanwhile.
void held_exporter(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  fill(lab, memory, 17);
  const std::string handle = to_hex(handle_of(lab, memory));
  Stream stream(lab);
  Gate gate(lab, stream);
  Child child(lab, importer_name, {"flags", handle});
  serve(lab, child);
}

template <unsigned flags>
void import_on_second_device(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext far = nullptr;
  lab.must(cu.CtxCreate(&far, 0, 1), "cuCtxCreate"); // and makes it current
  CUdeviceptr opened = 0;
  const CUresult result = cu.IpcOpenMemHandle(&opened, given(lab), flags);
  lab.is("open", result);
  if (result == CUDA_SUCCESS) {
    show_attributes(lab, "opened", opened, opened);
    lab.shows("context_is_of_second_device", attribute_of(lab, opened, CU_POINTER_ATTRIBUTE_CONTEXT) ==
                                                 reinterpret_cast<std::uintptr_t>(far));
    lab.shows("read", value_at(lab, opened));
    lab.is("fill", cu.MemsetD8(opened, 1, 64));
    lab.is("synchronize", cu.CtxSynchronize());
    lab.is("disable_peer", cu.CtxDisablePeerAccess(lab.home));
    lab.is("close", cu.IpcCloseMemHandle(opened));
  }
  lab.restore();
}

void import_inside(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr start = 0, inside = 0;
  lab.is("open_inside", cu.IpcOpenMemHandle(&inside, given(lab, 1), lazy));
  lab.shows("open_inside.read", value_at(lab, inside));
  show_range(lab, "open_inside.range", inside, inside);
  lab.is("open_start", cu.IpcOpenMemHandle(&start, given(lab, 0), lazy));
  lab.shows("open_start.read", value_at(lab, start));
  lab.shows("distance", static_cast<long long>(inside - start));
  lab.is("close", cu.IpcCloseMemHandle(inside));
  show_type(lab, "close.then.start", start);
  show_type(lab, "close.then.inside", inside);
  lab.is("close.second", cu.IpcCloseMemHandle(start));
  show_type(lab, "close.second.then.start", start);
}

// A handle of an address inside of an allocation.
template <std::size_t bytes>
void inside(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab, bytes);
  fill(lab, memory, 17);
  CUipcMemHandle handle{};
  const CUresult result = lab.cu.IpcGetMemHandle(&handle, memory + step);
  lab.is("export", result);
  if (result != CUDA_SUCCESS) return;
  Child child(lab, importer_name, {"inside", to_hex(handle_of(lab, memory)), to_hex(handle)});
  serve(lab, child);
}

void import_neighbours(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr const first = opened_from(lab, 0), second = opened_from(lab, 1);
  lab.shows("distance_is_the_exporters",
            static_cast<long long>(second - first) == std::atoll(lab.arguments.at(3).c_str()));
  lab.shows("first.read", value_at(lab, first));
  lab.shows("second.read", value_at(lab, second));
  show_range(lab, "first.range", first, first);
  show_range(lab, "second.range", second, second);
  lab.shows("same_buffer", attribute_of(lab, first, CU_POINTER_ATTRIBUTE_BUFFER_ID) ==
                               attribute_of(lab, second, CU_POINTER_ATTRIBUTE_BUFFER_ID));
  lab.is("first.close", cu.IpcCloseMemHandle(first));
  show_type(lab, "first.close.then.first", first);
  show_type(lab, "first.close.then.second", second);
  lab.shows("first.close.then.second.read", value_at(lab, second));
  lab.is("second.close", cu.IpcCloseMemHandle(second));
}

// Two allocations of what the driver has probably taken from the system at once.
void neighbours(Lab& lab) {
  CUdeviceptr const first = plain_memory(lab), second = plain_memory(lab);
  fill(lab, first, 17);
  fill(lab, second, 65);
  Child child(lab, importer_name,
              {"neighbours", to_hex(handle_of(lab, first)), to_hex(handle_of(lab, second)),
               std::to_string(static_cast<long long>(second - first))});
  serve(lab, child);
}

void import_and_exit(Lab& lab) {
  CUdeviceptr const opened = opened_from(lab);
  fill(lab, opened, 33);
}

void importer_exits(Lab& lab) {
  CUdeviceptr const memory = plain_memory(lab);
  fill(lab, memory, 17);
  Child child(lab, importer_name, {"and_exit", to_hex(handle_of(lab, memory))});
  serve(lab, child);
  lab.shows("read", value_at(lab, memory));
  lab.is("free", lab.cu.MemFree(memory));
}

// The parts of the importer. A scenario that only exports plain memory has the name of its part.
struct Part {
  const char* name;
  void (*run)(Lab&);
  Place place = Place::alone;
  int devices = 1;
};

constexpr Part plain_parts[] = {{"attributes", import_attributes},
                                {"flags", import_flags},
                                {"nowhere", import_nowhere},
                                {"pairs", import_pairs},
                                {"twice", import_twice},
                                {"close_again", import_close_again},
                                {"close_inside", import_close_inside},
                                {"free_opened", import_free<false>},
                                {"free_opened_in_order", import_free<true>},
                                {"export_opened", import_and_export},
                                {"two_contexts", import_two_contexts},
                                {"close_in_another_context", import_close_in_another_context},
                                {"ended_context", import_into_ended_context},
                                {"close_of_ended_context", import_close_of_ended_context},
                                {"old", import_old},
                                {"open_everywhere", import_open_everywhere},
                                {"waits", import_waits},
                                {"close_before_copy", import_close_before_copy},
                                // On two H200s, nothing answered after the open.
                                {"second_device", import_on_second_device<lazy>, Place::probe, 2},
                                {"second_device_without_flags", import_on_second_device<0>, Place::alone, 2}};

constexpr Part other_parts[] = {{"contents", import_contents},
                                {"any", import_any},
                                {"close_everywhere", import_close_everywhere},
                                {"inside", import_inside},
                                {"neighbours", import_neighbours},
                                {"and_exit", import_and_exit}};

void importer(Lab& lab) {
  lab.scenario = "importer";
  for (const auto& parts : {std::vector<Part>(std::begin(plain_parts), std::end(plain_parts)),
                            std::vector<Part>(std::begin(other_parts), std::end(other_parts))}) {
    for (const Part& part : parts)
      if (lab.arguments.at(0) == part.name) return part.run(lab);
  }
}

// --- What becomes of the memory

enum class End { free, reuse, context, exit, kill };
constexpr const char* end_names[] = {"free", "reuse", "context", "exit", "kill"};

// Exports memory, and ends it as its argument says.
void exporter(Lab& lab) {
  const Api& cu = lab.cu;
  lab.scenario = "exporter";
  const std::string end = lab.arguments.at(0);
  CUcontext context = nullptr;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "cuCtxCreate"); // and makes it current
  CUdeviceptr const memory = plain_memory(lab, large);
  fill(lab, memory, 17);
  std::puts(to_hex(handle_of(lab, memory)).c_str());
  std::fflush(stdout);
  heard();
  CUdeviceptr next = 0;
  if (end == "kill") std::raise(SIGKILL);
  if (end == "exit") return;
  if (end == "context") lab.is("destroy", cu.CtxDestroy(context));
  if (end == "context") lab.restore();
  if (end == "free" || end == "reuse") lab.is("free", cu.MemFree(memory));
  if (end == "reuse") {
    next = plain_memory(lab, large);
    lab.shows("reuse.same_address", next == memory);
    fill(lab, next, 33);
    CUipcMemHandle handle{};
    lab.is("reuse.export", cu.IpcGetMemHandle(&handle, next));
  }
  ask(); // the importer uses what it has opened
  if (end == "reuse") lab.shows("reuse.read", value_at(lab, next));
  CUdeviceptr const later = plain_memory(lab, large);
  lab.shows("later.same_address", later == memory);
}

// This process imports.
template <End end, bool opened_before>
void ended(Lab& lab) {
  const Api& cu = lab.cu;
  Child child(lab, exporter_name, {end_names[static_cast<int>(end)]});
  const std::string text = child.read_line().value_or("no handle");
  if (text.find(' ') != std::string::npos) throw SetUpFailure(text); // what the exporter failed with
  const CUipcMemHandle handle = memory_from_hex(text);
  CUdeviceptr opened = 0, late = 0;
  if (opened_before) lab.is("open", cu.IpcOpenMemHandle(&opened, handle, lazy));
  child.say("go on");
  const bool alive = relay(lab, child);
  if (!alive) lab.shows("exporter.process", child.finish());
  if (opened_before) {
    show_type(lab, "then.type", opened);
    lab.shows("then.read", value_at(lab, opened));
    lab.is("then.fill", cu.MemsetD8(opened, 49, 64));
    lab.is("then.synchronize", cu.CtxSynchronize());
    lab.shows("then.read_again", value_at(lab, opened));
  }
  const CUresult result = cu.IpcOpenMemHandle(&late, handle, lazy);
  lab.is("open_late", result);
  if (result == CUDA_SUCCESS) {
    lab.shows("open_late.same_address", late == opened);
    lab.shows("open_late.read", value_at(lab, late));
    lab.is("open_late.close", cu.IpcCloseMemHandle(late));
  }
  if (opened_before) {
    lab.is("close", cu.IpcCloseMemHandle(opened));
    lab.is("close.then.open", cu.IpcOpenMemHandle(&late, handle, lazy));
  }
  if (!alive) return;
  child.say("go on");
  relay(lab, child);
  lab.shows("exporter.process", child.finish());
}

template <End end>
void add_ended(std::vector<Scenario>& all) {
  const std::string name = std::string("ipc_memory.ended_by_") + end_names[static_cast<int>(end)];
  all.push_back({name, ended<end, true>, Place::alone});
  all.push_back({name + ".opened_late", ended<end, false>, Place::alone});
}

template <std::size_t... indices>
void add_kinds(std::vector<Scenario>& all, std::index_sequence<indices...>) {
  const auto add = [&](const std::string& name, void (*run)(Lab&)) {
    all.push_back({"ipc_memory." + name, run, Place::alone});
  };
  (add(std::string("export.") + other_kinds[indices].second, export_of<other_kinds[indices].first>), ...);
  (add(std::string("close.") + other_kinds[indices].second, close_of<other_kinds[indices].first>), ...);
}

} // namespace

std::vector<Scenario> ipc_memory_scenarios() {
  std::vector<Scenario> all = {
      {"ipc_memory.exports", exports, Place::alone},
      {"ipc_memory.export_after_free", export_after_free, Place::alone},
      {"ipc_memory.export_nowhere", export_nowhere, Place::alone},
      {"ipc_memory.export_in_another_context", export_in_another_context, Place::alone},
      {"ipc_memory.export_on_another_device", export_on_another_device, Place::alone, 2},
      {"ipc_memory.export_everywhere", export_everywhere, Place::alone},
      {"ipc_memory.export_pairs", export_pairs, Place::alone},
      {"ipc_memory.export_waits", export_waits, Place::alone},
      {"ipc_memory.open_here", open_here, Place::alone},
      {"ipc_memory.open_zeros", open_garbage<0>, Place::alone},
      {"ipc_memory.open_garbage", open_garbage<0x5a>, Place::alone},
      {"ipc_memory.open_event", open_event, Place::alone},
      {"ipc_memory.close.plain", close_of<Kind::plain>, Place::alone},
      {"ipc_memory.close.exported", close_exported, Place::alone},
      {"ipc_memory.close_pairs", close_pairs, Place::alone},
      {"ipc_memory.contents", contents, Place::alone},
      {"ipc_memory.close_everywhere", close_everywhere, Place::alone},
      {"ipc_memory.held_exporter", held_exporter, Place::alone},
      {"ipc_memory.inside_small", inside<small>, Place::alone},
      {"ipc_memory.inside_large", inside<large>, Place::alone},
      {"ipc_memory.neighbours", neighbours, Place::alone},
      {"ipc_memory.importer_exits", importer_exits, Place::alone},
      {importer_name, importer, Place::helper},
      {exporter_name, exporter, Place::helper}};
  for (const Part& part : plain_parts)
    all.push_back({std::string("ipc_memory.") + part.name, exporting, part.place, part.devices});
  add_kinds(all, std::make_index_sequence<std::size(other_kinds)>());
  add_ended<End::free>(all);
  add_ended<End::reuse>(all);
  add_ended<End::context>(all);
  add_ended<End::exit>(all);
  add_ended<End::kill>(all);
  return all;
}

} // namespace transcript
