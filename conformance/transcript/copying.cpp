// SPDX-License-Identifier: MIT
// Where a device and the simulated driver answered random programs with memory differently: copies that
// block behind a gate, copies next to captures, wrong arguments in invalidated captures, and queries of
// streams.

#include "everywhere.hpp"

#include <array>
#include <cstdlib>
#include <sys/mman.h>
#include <tuple>

namespace transcript {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t size = 2 << 20;

// Memory of each kind: two halves of one allocation.
struct Kinds {
  explicit Kinds(Lab& lab) {
    const Api& cu = lab.cu;
    lab.must(cu.MemAlloc(&device, size), "cuMemAlloc");
    void* memory = nullptr;
    lab.must(cu.MemHostAlloc(&memory, size, 0), "cuMemHostAlloc");
    pinned = reinterpret_cast<CUdeviceptr>(memory);
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    lab.must(cu.MemHostRegister(memory, size, 0), "cuMemHostRegister");
    registered = reinterpret_cast<CUdeviceptr>(memory);
    lab.must(cu.MemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    pageable = reinterpret_cast<CUdeviceptr>(std::calloc(size, 1));
  }
  struct Kind {
    const char* name;
    CUdeviceptr memory;
  };
  std::array<Kind, 5> all() const {
    return {{{"device", device},
             {"pinned", pinned},
             {"registered", registered},
             {"managed", managed},
             {"pageable", pageable}}};
  }
  CUdeviceptr device = 0, pinned = 0, registered = 0, managed = 0, pageable = 0;
};

// Whether the call returns while the stream is held, and its result.
std::string held(Lab& lab, CUstream stream, const std::function<CUresult()>& call,
                 std::chrono::milliseconds patience = 250ms) {
  Gate gate(lab, stream);
  Background background(lab, call);
  const bool returns = background.returns_within(patience);
  gate.open();
  const std::string text = (returns ? "returns " : "waits ") + lab.name_of(background.join());
  lab.must(lab.cu.CtxSynchronize(), "synchronize");
  return text;
}

// The same for a stream that waits for no other, one that the legacy stream waits for, and the legacy one.
std::string held_streams(Lab& lab, const CallOn& call) {
  Stream alone(lab), blocking(lab, CU_STREAM_DEFAULT);
  std::vector<std::string> parts;
  for (CUstream const on : {CUstream(alone), CUstream(blocking), CU_STREAM_LEGACY})
    parts.push_back(held(lab, on, [&] { return call(on); }));
  return joined(parts);
}

void behind_gate(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  constexpr std::size_t half = size / 2;
  for (const auto& from : kinds.all())
    for (const auto& to : kinds.all())
      for (const std::size_t bytes : {std::size_t{4}, std::size_t{65540}, half}) {
        const bool pageable = from.memory == kinds.pageable || to.memory == kinds.pageable;
        if (bytes != 4 && !pageable) continue;
        lab.shows(std::string(from.name) + ".to_" + to.name + "." + std::to_string(bytes),
                  held_streams(lab, [&](CUstream on) {
                    return cu.MemcpyAsync(to.memory + half, from.memory, bytes, on);
                  }));
      }
  const auto host = [](CUdeviceptr memory) { return reinterpret_cast<void*>(memory); };
  for (const auto& kind : kinds.all()) {
    const std::string name = kind.name;
    lab.shows("by_name.from_" + name, held_streams(lab, [&](CUstream on) {
                return cu.MemcpyHtoDAsync(kinds.device, host(kind.memory), 4, on);
              }));
    lab.shows("by_name.to_" + name, held_streams(lab, [&](CUstream on) {
                return cu.MemcpyDtoHAsync(host(kind.memory), kinds.device, 4, on);
              }));
    lab.shows("fill." + name,
              held_streams(lab, [&](CUstream on) { return cu.MemsetD8Async(kind.memory, 1, 4, on); }));
  }
  // Calls without a stream, while a stream is held that the legacy stream does or does not wait for.
  Stream alone(lab), blocking(lab, CU_STREAM_DEFAULT);
  const auto without_stream = [&](const std::string& name, const std::function<CUresult()>& call) {
    lab.shows("without_stream." + name, joined({held(lab, alone, call), held(lab, blocking, call)}));
  };
  for (const auto& from : kinds.all())
    for (const auto& to : kinds.all())
      without_stream(std::string(from.name) + ".to_" + to.name,
                     [&] { return cu.Memcpy(to.memory + half, from.memory, 4); });
  for (const auto& kind : kinds.all())
    without_stream(std::string("fill.") + kind.name, [&] { return cu.MemsetD8(kind.memory, 1, 4); });
}

// Above which size a copy of pageable memory waits.
void staging(Lab& lab) {
  constexpr std::size_t largest = std::size_t{32} << 20;
  CUdeviceptr device = 0;
  lab.must(lab.cu.MemAlloc(&device, largest), "cuMemAlloc");
  void* const pageable = std::calloc(largest, 1);
  for (std::size_t bytes = std::size_t{1} << 20; bytes <= largest; bytes *= 2)
    for (const std::size_t more : {std::size_t{0}, std::size_t{4}})
      if (bytes + more <= largest)
        lab.shows(std::to_string(bytes + more), held_streams(lab, [&](CUstream on) {
                    return lab.cu.MemcpyHtoDAsync(device, pageable, bytes + more, on);
                  }));
}

// Fills without a stream, next to a held stream: one that the legacy stream does not wait for, one that it
// waits for, and the legacy stream. The area is 8 KiB, then 1 MiB. Fills with a pitch set the first half of
// each 4 KiB.
void fills_behind_gate(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  constexpr std::size_t pitch = 4096, row = pitch / 2;
  using Fill = std::function<CUresult(CUdeviceptr, std::size_t)>; // this many rows
  const std::pair<const char*, Fill> fills[] = {
      {"d8", [&](auto to, auto rows) { return cu.MemsetD8(to, 1, rows * pitch); }},
      {"d16", [&](auto to, auto rows) { return cu.MemsetD16(to, 1, rows * pitch / 2); }},
      {"d32", [&](auto to, auto rows) { return cu.MemsetD32(to, 1, rows * pitch / 4); }},
      {"d2d8", [&](auto to, auto rows) { return cu.MemsetD2D8(to, pitch, 1, row, rows); }},
      {"d2d16", [&](auto to, auto rows) { return cu.MemsetD2D16(to, pitch, 1, row / 2, rows); }},
      {"d2d32", [&](auto to, auto rows) { return cu.MemsetD2D32(to, pitch, 1, row / 4, rows); }}};
  Stream alone(lab), blocking(lab, CU_STREAM_DEFAULT);
  for (const auto& [name, fill] : fills)
    for (const auto& kind : kinds.all()) {
      if (kind.memory == kinds.pageable) continue;
      for (const std::size_t rows : {std::size_t{2}, std::size_t{256}}) {
        std::vector<std::string> parts;
        const auto call = [&, &with = fill] { return with(kind.memory, rows); };
        for (CUstream const on : {CUstream(alone), CUstream(blocking), CU_STREAM_LEGACY})
          parts.push_back(held(lab, on, call, 100ms));
        lab.shows(std::string(name) + "." + kind.name + "." + std::to_string(rows * pitch), joined(parts));
      }
    }
}

struct Named {
  std::string name;
  CallOn call;
};

// Copies and fills without a stream.
std::vector<Named> calls_without_stream(Lab& lab, const Kinds& kinds) {
  const Api& cu = lab.cu;
  constexpr std::size_t half = size / 2;
  std::vector<Named> all;
  std::vector<Kinds::Kind> ends{{"null", 0}};
  for (const auto& kind : kinds.all())
    ends.push_back(kind);
  for (const auto& from : ends)
    for (const auto& to : ends)
      all.push_back({std::string(from.name) + ".to_" + to.name, [&cu, from, to](CUstream) {
                       return cu.Memcpy(to.memory == 0 ? 0 : to.memory + half, from.memory, 4);
                     }});
  for (const auto& to : ends)
    all.push_back(
        {std::string("fill.") + to.name, [&cu, to](CUstream) { return cu.MemsetD8(to.memory, 1, 4); }});
  all.push_back(
      {"too_far", [&cu, kinds](CUstream) { return cu.Memcpy(kinds.device, kinds.pinned, size + 1); }});
  all.push_back(
      {"to_device.null", [&cu, kinds](CUstream) { return cu.MemcpyHtoD(kinds.device, nullptr, 4); }});
  all.push_back({"to_host.null", [&cu, kinds](CUstream) { return cu.MemcpyDtoH(nullptr, kinds.device, 4); }});
  all.push_back({"device.null", [&cu, kinds](CUstream) { return cu.MemcpyDtoD(0, kinds.device, 4); }});
  all.push_back({"peer.null", [&cu, &lab, kinds](CUstream) {
                   return cu.MemcpyPeer(0, lab.home, kinds.device, lab.home, 4);
                 }});
  return all;
}

// Next to captures of each mode, of a stream that the legacy stream does not wait for and of one for which it
// does; first while they are active, then invalidated.
void next_to_capture(Lab& lab) {
  const Kinds kinds(lab);
  for (const bool elsewhere : {false, true})
    for (const Named& one : calls_without_stream(lab, kinds)) {
      std::vector<std::string> parts;
      for (const bool invalidated : {false, true})
        for (const unsigned flags : {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT})
          for (const Mode& mode : capture_modes) {
            Stream origin(lab, flags);
            lab.must(lab.cu.StreamBeginCapture(origin, mode.value), "begin");
            if (invalidated) lab.cu.StreamQuery(origin);
            const CUresult result =
                elsewhere ? on_other_thread(lab, [&] { return one.call(nullptr); }) : one.call(nullptr);
            parts.push_back(lab.name_of(result) + ", " + capture_state(lab, origin));
            end_capture(lab, origin);
          }
      lab.shows((elsewhere ? "other_thread." : "") + one.name, joined(parts));
    }
}

// The default stream of the thread captures.
void next_to_per_thread_capture(Lab& lab) {
  const Kinds kinds(lab);
  for (const auto& [name, call] : calls_without_stream(lab, kinds)) {
    std::vector<std::string> parts;
    for (const bool invalidated : {false, true}) {
      lab.must(lab.cu.StreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
      if (invalidated) lab.cu.StreamQuery(CU_STREAM_PER_THREAD);
      const std::string result = lab.name_of(call(nullptr));
      parts.push_back(result + ", " + capture_state(lab, CU_STREAM_PER_THREAD));
      end_capture(lab, CU_STREAM_PER_THREAD);
    }
    lab.shows(name, joined(parts));
  }
}

#if CUDA_VERSION >= 12050
// The default stream of a green context can capture.
void next_to_green_capture(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  const Current guard(lab, Green(lab).context);
  for (const auto& [name, call] : calls_without_stream(lab, kinds)) {
    std::vector<std::string> parts;
    for (const bool invalidated : {false, true}) {
      lab.must(cu.StreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
      if (invalidated) cu.StreamQuery(nullptr);
      const std::string result = lab.name_of(call(nullptr));
      parts.push_back(result + ", " + capture_state(lab, nullptr));
      end_capture(lab, nullptr);
    }
    lab.shows(name, joined(parts));
  }
}
#endif

// Each call with wrong arguments: plainly; in an active capture; in an invalidated one; on the legacy stream
// next to an active one, and to an invalidated one; without a context on a created stream, and on the legacy
// one.
void wrong(Lab& lab, const std::string& name, const CallOn& call) {
  std::vector<std::string> parts;
  {
    Stream plain(lab);
    parts.push_back(lab.name_of(call(plain)));
  }
  for (const bool legacy : {false, true})
    for (const bool invalidated : {false, true}) {
      Stream origin(lab, legacy ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
      lab.must(lab.cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
      if (invalidated) lab.cu.StreamQuery(origin);
      const CUresult result = call(legacy ? CU_STREAM_LEGACY : CUstream(origin));
      parts.push_back(lab.name_of(result) + ", " + capture_state(lab, origin));
      end_capture(lab, origin);
    }
  {
    Stream plain(lab);
    const Current none(lab, nullptr);
    parts.push_back(lab.name_of(call(plain)));
    parts.push_back(lab.name_of(call(CU_STREAM_LEGACY)));
  }
  lab.shows(name, joined(parts));
  lab.cu.CtxSynchronize();
}

void wrong_arguments(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  const CUdeviceptr device = kinds.device, pinned = kinds.pinned, pageable = kinds.pageable;
  const auto host = [](CUdeviceptr memory) { return reinterpret_cast<void*>(memory); };
  wrong(lab, "copy.no_target", [&](CUstream on) { return cu.MemcpyAsync(0, device, 4, on); });
  wrong(lab, "copy.no_source", [&](CUstream on) { return cu.MemcpyAsync(device, 0, 4, on); });
  wrong(lab, "copy.nowhere", [&](CUstream on) { return cu.MemcpyAsync(0, 0, 4, on); });
  wrong(lab, "copy.nothing_nowhere", [&](CUstream on) { return cu.MemcpyAsync(0, 0, 0, on); });
  wrong(lab, "copy.too_far", [&](CUstream on) { return cu.MemcpyAsync(device, pinned, size + 1, on); });
  wrong(lab, "copy.null_to_pageable", [&](CUstream on) { return cu.MemcpyAsync(pageable, 0, 4, on); });
  wrong(lab, "to_device.no_target", [&](CUstream on) { return cu.MemcpyHtoDAsync(0, host(pinned), 4, on); });
  wrong(lab, "to_device.no_source", [&](CUstream on) { return cu.MemcpyHtoDAsync(device, nullptr, 4, on); });
  wrong(lab, "to_host.no_target", [&](CUstream on) { return cu.MemcpyDtoHAsync(nullptr, device, 4, on); });
  wrong(lab, "to_host.no_source", [&](CUstream on) { return cu.MemcpyDtoHAsync(host(pinned), 0, 4, on); });
  wrong(lab, "device.no_target", [&](CUstream on) { return cu.MemcpyDtoDAsync(0, device, 4, on); });
  wrong(lab, "device.pageable", [&](CUstream on) { return cu.MemcpyDtoDAsync(device, pageable, 4, on); });
  wrong(lab, "rows.null", [&](CUstream on) { return cu.Memcpy2DAsync(nullptr, on); });
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  rows.WidthInBytes = 4, rows.Height = 1;
  wrong(lab, "rows.nowhere", [&](CUstream on) { return cu.Memcpy2DAsync(&rows, on); });
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  box.WidthInBytes = 4, box.Height = box.Depth = 1;
  wrong(lab, "box.null", [&](CUstream on) { return cu.Memcpy3DAsync(nullptr, on); });
  wrong(lab, "box.nowhere", [&](CUstream on) { return cu.Memcpy3DAsync(&box, on); });
  wrong(lab, "peer.no_target",
        [&](CUstream on) { return cu.MemcpyPeerAsync(0, lab.home, device, lab.home, 4, on); });
  wrong(lab, "peer.nothing",
        [&](CUstream on) { return cu.MemcpyPeerAsync(device, lab.home, device, lab.home, 0, on); });
  wrong(lab, "fill.null", [&](CUstream on) { return cu.MemsetD8Async(0, 1, 4, on); });
  wrong(lab, "fill.pageable", [&](CUstream on) { return cu.MemsetD8Async(pageable, 1, 4, on); });
  wrong(lab, "fill.rows.null", [&](CUstream on) { return cu.MemsetD2D8Async(0, 16, 1, 4, 2, on); });
  wrong(lab, "fill.rows.pitch", [&](CUstream on) { return cu.MemsetD2D8Async(device, 2, 1, 4, 2, on); });
  wrong(lab, "prefetch.null", [&](CUstream on) { return cu.MemPrefetchAsync(0, 4, lab.device, on); });
  wrong(lab, "prefetch.device", [&](CUstream on) { return cu.MemPrefetchAsync(device, 4, lab.device, on); });
  wrong(lab, "prefetch.no_device",
        [&](CUstream on) { return cu.MemPrefetchAsync(kinds.managed, 4, 99, on); });
  wrong(lab, "free.null", [&](CUstream on) { return cu.MemFreeAsync(0, on); });
  wrong(lab, "free.pageable", [&](CUstream on) { return cu.MemFreeAsync(pageable, on); });
  wrong(lab, "free.managed", [&](CUstream on) { return cu.MemFreeAsync(kinds.managed, on); });
  wrong(lab, "allocate.nowhere", [&](CUstream on) { return cu.MemAllocAsync(nullptr, 64, on); });
  CUdeviceptr pointer = 0;
  wrong(lab, "allocate.no_pool",
        [&](CUstream on) { return cu.MemAllocFromPoolAsync(&pointer, 64, nullptr, on); });
  wrong(lab, "launch.no_kernel",
        [&](CUstream on) { return cu.LaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, on, nullptr, nullptr); });
  wrong(lab, "host_function.null", [&](CUstream on) { return cu.LaunchHostFunc(on, nullptr, nullptr); });
}

void attach(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  const auto call = [&](CUdeviceptr memory, unsigned flags) {
    return [&cu, memory, flags](CUstream on) { return cu.StreamAttachMemAsync(on, memory, 0, flags); };
  };
  for (const unsigned flags : {1U, 2U, 4U})
    wrong(lab, "managed." + std::to_string(flags), call(kinds.managed, flags));
}

// Without flags, the first of these calls crashed the process.
void attach_without_flags(Lab& lab) {
  const Kinds kinds(lab);
  wrong(lab, "managed", [&](CUstream on) { return lab.cu.StreamAttachMemAsync(on, kinds.managed, 0, 0); });
}

void more_attach(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  const auto call = [&](CUdeviceptr memory, unsigned flags) {
    return [&cu, memory, flags](CUstream on) { return cu.StreamAttachMemAsync(on, memory, 0, flags); };
  };
  for (const unsigned flags : {3U, 8U})
    wrong(lab, "managed." + std::to_string(flags), call(kinds.managed, flags));
  for (const auto& kind : kinds.all())
    wrong(lab, kind.name, call(kind.memory, CU_MEM_ATTACH_GLOBAL));
  wrong(lab, "null", call(0, CU_MEM_ATTACH_GLOBAL));
  wrong(lab, "inside", call(kinds.managed + 64, CU_MEM_ATTACH_GLOBAL));
}

// Copies by rows of 8 bytes: a line, rows and a box. They tell by the addresses which memory it is.
struct Form {
  const char* name;
  std::function<CUresult(CUdeviceptr to, CUdeviceptr from, CUstream)> async;
  std::function<CUresult(CUdeviceptr to, CUdeviceptr from)> plain;
};

// Two rows of 8 bytes.
template <class Copy>
Copy two_rows(CUdeviceptr to, CUdeviceptr from) {
  Copy copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from, copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = 16;
  copy.WidthInBytes = 8, copy.Height = 2;
  return copy;
}

std::vector<Form> forms(const Api& cu) {
  const auto rows = two_rows<CUDA_MEMCPY2D>;
  const auto box = [](CUdeviceptr to, CUdeviceptr from) {
    auto copy = two_rows<CUDA_MEMCPY3D>(to, from);
    copy.Depth = 1;
    return copy;
  };
  return {{"line", [&cu](auto to, auto from, auto on) { return cu.MemcpyAsync(to, from, 8, on); },
           [&cu](auto to, auto from) { return cu.Memcpy(to, from, 8); }},
          {"rows",
           [&cu, rows](auto to, auto from, auto on) {
             const CUDA_MEMCPY2D copy = rows(to, from);
             return cu.Memcpy2DAsync(&copy, on);
           },
           [&cu, rows](auto to, auto from) {
             const CUDA_MEMCPY2D copy = rows(to, from);
             return cu.Memcpy2D(&copy);
           }},
          {"box",
           [&cu, box](auto to, auto from, auto on) {
             const CUDA_MEMCPY3D copy = box(to, from);
             return cu.Memcpy3DAsync(&copy, on);
           },
           [&cu, box](auto to, auto from) {
             const CUDA_MEMCPY3D copy = box(to, from);
             return cu.Memcpy3D(&copy);
           }}};
}

// Copies of managed memory behind a gate: whether its flags and its preferred place count.
void preferred_places(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  Stream stream(lab);
  for (const unsigned flags : {CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST})
    for (const char* const place : {"none", "host", "device"}) {
      CUdeviceptr managed = 0;
      lab.must(cu.MemAllocManaged(&managed, size, flags), "cuMemAllocManaged");
      if (place != std::string_view("none"))
        lab.must(cu.MemAdvise(managed, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                              place == std::string_view("host") ? CU_DEVICE_CPU : lab.device),
                 "cuMemAdvise");
      const std::string name = "attach_" + std::to_string(flags) + "." + place;
      for (const Form& form : forms(cu))
        for (const auto& [other, to, from] :
             {std::tuple{"itself", managed, managed}, std::tuple{"half", managed + size / 2, managed},
              std::tuple{"from_device", managed, kinds.device},
              std::tuple{"to_device", kinds.device, managed},
              std::tuple{"from_pinned", managed, kinds.pinned},
              std::tuple{"to_pinned", kinds.pinned, managed}})
          lab.shows(
              name + "." + form.name + "." + other,
              held(
                  lab, stream, [&, to = to, from = from] { return form.async(to, from, stream); }, 100ms));
      lab.must(cu.MemFree(managed), "cuMemFree");
    }
}

// Another context with two streams: one that its legacy stream does not wait for, and one for which it waits.
class Neighbour {
public:
  explicit Neighbour(Lab& lab) : lab_(lab) {
    const Current guard(lab, lab.second_context());
    lab.must(lab.cu.StreamCreate(&alone_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    lab.must(lab.cu.StreamCreate(&blocking_, CU_STREAM_DEFAULT), "cuStreamCreate");
    lab.must(lab.cu.MemAllocAsync(&pooled, size, alone_), "cuMemAllocAsync");
    lab.must(lab.cu.StreamSynchronize(alone_), "synchronize");
  }
  // What a call without a stream does while each of the streams is held.
  void ask(const std::string& name, const std::function<CUresult()>& call) const {
    std::vector<std::string> parts;
    for (CUstream const on : {alone_, blocking_}) {
      Gate gate(lab_, on);
      Background background(lab_, call);
      std::string text = "waits ";
      if (background.returns_within(100ms)) {
        std::this_thread::sleep_for(20ms); // for work that nothing holds
        text = "returns, legacy " + lab_.name_of(lab_.cu.StreamQuery(CU_STREAM_LEGACY)) + " ";
      }
      gate.open();
      parts.push_back(text + lab_.name_of(background.join()));
      lab_.must(lab_.cu.CtxSynchronize(), "synchronize");
      const Current guard(lab_, lab_.second_context());
      lab_.must(lab_.cu.CtxSynchronize(), "synchronize");
    }
    lab_.shows(name, joined(parts));
  }
  CUdeviceptr pooled = 0;

private:
  Lab& lab_;
  CUstream alone_ = nullptr, blocking_ = nullptr;
};

// Calls without a stream that use memory of another context, or name the context.
void other_contexts(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds here(lab);
  const auto there = made_in<Kinds>(lab, lab.second_context());
  const Neighbour neighbour(lab);
  const std::pair<const char*, CUdeviceptr> foreign[] = {{"device", there.device},
                                                         {"managed", there.managed},
                                                         {"pinned", there.pinned},
                                                         {"pooled", neighbour.pooled}};
  for (const auto& [kind, memory] : foreign) {
    for (const Form& form : forms(cu)) {
      const std::string name = std::string(kind) + "." + form.name;
      neighbour.ask(name + ".inside", [&, at = memory] { return form.plain(at + size / 2, at); });
      neighbour.ask(name + ".from", [&, at = memory] { return form.plain(here.device, at); });
      neighbour.ask(name + ".to", [&, at = memory] { return form.plain(at, here.device); });
      neighbour.ask(name + ".to_pinned", [&, at = memory] { return form.plain(here.pinned, at); });
    }
    neighbour.ask(std::string(kind) + ".fill", [&, at = memory] { return cu.MemsetD8(at, 1, 4); });
  }
  const auto peer = [&](CUcontext to, CUcontext from) {
    return cu.MemcpyPeer(here.device + size / 2, to, here.device, from, 8);
  };
  neighbour.ask("peer.names_target", [&] { return peer(lab.second_context(), lab.home); });
  neighbour.ask("peer.names_source", [&] { return peer(lab.home, lab.second_context()); });
}

// Copies without a stream that name another context for memory of a pool. A box that names it.
void named_contexts(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds here(lab);
  const Neighbour neighbour(lab);
  CUdeviceptr pooled = 0;
  lab.must(cu.MemAllocAsync(&pooled, size, nullptr), "cuMemAllocAsync");
  lab.must(cu.CtxSynchronize(), "synchronize");
  CUcontext const home = lab.home, other = lab.second_context();
  for (const auto& [name, memory] :
       {std::pair{"pooled_here", pooled}, std::pair{"pooled_there", neighbour.pooled}})
    for (const auto& [names, of_memory, of_device] :
         {std::tuple{"memory", other, home}, {"device", home, other}, {"none", home, home}}) {
      const std::string question = std::string(name) + ".names_" + names;
      neighbour.ask(question + ".to", [&, memory = memory, to = of_memory, from = of_device] {
        return cu.MemcpyPeer(memory, to, here.device, from, 8);
      });
      neighbour.ask(question + ".from", [&, memory = memory, from = of_memory, to = of_device] {
        return cu.MemcpyPeer(here.device, to, memory, from, 8);
      });
    }
  CUDA_MEMCPY3D_PEER box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = here.device, box.dstDevice = here.device + size / 2;
  box.srcContext = other, box.dstContext = home;
  box.WidthInBytes = 8, box.Height = box.Depth = 1;
  neighbour.ask("box", [&] { return cu.Memcpy3DPeer(&box); });
}

// Whether a graph with a captured fill can be instantiated if its memory is not that of a context.
void captured_nowhere(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  CUdeviceptr freed = 0;
  lab.must(cu.MemAlloc(&freed, size), "cuMemAlloc");
  lab.must(cu.MemFree(freed), "cuMemFree");
  const std::tuple<const char*, CUdeviceptr, std::size_t> fills[] = {{"null", 0, 4},
                                                                     {"pageable", kinds.pageable, 4},
                                                                     {"freed", freed, 4},
                                                                     {"too_far", kinds.device, size + 1}};
  for (const auto& [name, memory, bytes] : fills) {
    Stream stream(lab);
    CUgraph graph = nullptr;
    lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.is(name, cu.MemsetD8Async(memory, 1, bytes, stream));
    lab.must(cu.StreamEndCapture(stream, &graph), "end");
    CUgraphExec exec = nullptr;
    lab.is(std::string(name) + ".instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    if (exec != nullptr) cu.GraphExecDestroy(exec);
    cu.GraphDestroy(graph);
  }
}

// Nodes that copy, added and captured: whether a launch behind a gate returns, and which other memory of the
// host an exec takes.
void launched_nodes(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds here(lab), second(lab);
  const auto there = made_in<Kinds>(lab, lab.second_context());
  Stream stream(lab);
  const auto copy_of = [](CUdeviceptr to, CUdeviceptr from) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = from, copy.dstDevice = to;
    copy.WidthInBytes = 8, copy.Height = copy.Depth = 1;
    return copy;
  };
  for (const auto& from : here.all())
    for (const auto& to : here.all()) {
      for (const bool captured : {false, true}) {
        Graph added(lab);
        CUgraph graph = added;
        CUgraphNode node = nullptr;
        const CUDA_MEMCPY3D copy = copy_of(to.memory + size / 2, from.memory);
        if (captured) {
          lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
          lab.must(cu.MemcpyAsync(copy.dstDevice, copy.srcDevice, 8, stream), "copy");
          lab.must(cu.StreamEndCapture(stream, &graph), "end");
        } else if (cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, lab.home) != CUDA_SUCCESS) {
          continue;
        }
        CUgraphExec const exec = make_exec(lab, graph);
        lab.shows(std::string(captured ? "captured." : "added.") + from.name + ".to_" + to.name,
                  held(lab, stream, [&] { return cu.GraphLaunch(exec, stream); }));
        cu.GraphExecDestroy(exec);
        if (captured) cu.GraphDestroy(graph);
      }
    }
  Graph graph(lab);
  CUgraphNode node = nullptr;
  const CUDA_MEMCPY3D within = copy_of(here.pinned, here.pinned);
  lab.must(cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &within, lab.home), "copy node");
  CUgraphExec const exec = make_exec(lab, graph);
  const std::pair<const char*, CUdeviceptr> others[] = {
      {"itself", here.pinned}, {"second", second.pinned}, {"other_context", there.pinned}};
  for (const auto& [to_name, to] : others)
    for (const auto& [from_name, from] : others) {
      const CUDA_MEMCPY3D copy = copy_of(to, from);
      lab.is(std::string("exec_set.from_") + from_name + ".to_" + to_name,
             cu.GraphExecMemcpyNodeSetParams(exec, node, &copy, lab.home));
    }
  cu.GraphExecDestroy(exec);
}

#if CUDA_VERSION >= 12050
// The same in a green context of the home context's device, whose memory is made here.
void green_contexts(Lab& lab) {
  const Api& cu = lab.cu;
  const auto there = made_in<Kinds>(lab, lab.second_context());
  const Green green(lab);
  const Neighbour neighbour(lab);
  const std::pair<const char*, CUcontext> contexts[] = {{"primary", green.primary}, {"green", green.context}};
  for (const auto& [name, context] : contexts) {
    const auto here = made_in<Kinds>(lab, context);
    for (const auto& [inside, current] : contexts)
      for (const auto& mine : here.all())
        for (const auto& other : {there.all()[0], there.all()[1]}) {
          const std::string of = std::string(name) + "_" + mine.name + "." + inside + ".";
          const auto ask = [&, current = current](const char* way, CUdeviceptr to, CUdeviceptr from) {
            neighbour.ask(of + way + "_" + other.name, [&, current, to, from] {
              const Current guard(lab, current);
              return cu.Memcpy(to, from, 8);
            });
          };
          ask("to", other.memory, mine.memory);
          ask("from", mine.memory, other.memory);
        }
  }
}

using Contexts = std::array<std::pair<const char*, CUcontext>, 4>;

Contexts all_contexts(Lab& lab, const Green& green) {
  return {{{"home", lab.home},
           {"second", lab.second_context()},
           {"primary", green.primary},
           {"green", green.context}}};
}

void synchronize(Lab& lab, const Contexts& contexts) {
  for (const auto& [name, context] : contexts) {
    const Current there(lab, context);
    lab.must(lab.cu.CtxSynchronize(), "synchronize");
  }
}

// What calls in the home context that use memory of another one come after, and what comes after them: on a
// default stream, without a stream, and from one context to another. Each while one stream is held.
void foreign_memory(Lab& lab) {
  const Api& cu = lab.cu;
  const Green green(lab);
  Stream own(lab, CU_STREAM_DEFAULT);
  const Contexts contexts = all_contexts(lab, green);
  for (const auto& [owner_name, owner] : contexts) {
    if (owner == lab.home) continue;
    const auto memory = made_in<Kinds>(lab, owner);
    const CUdeviceptr half = memory.device + size / 2;
    const std::pair<const char*, std::function<CUresult()>> calls[] = {
        {"fill", [&] { return cu.MemsetD8(memory.device, 1, 4); }},
        {"fill_on_legacy", [&] { return cu.MemsetD8Async(memory.device, 1, 4, CU_STREAM_LEGACY); }},
        {"fill_of_pinned", [&] { return cu.MemsetD8(memory.pinned, 1, 4); }},
        {"copy", [&] { return cu.Memcpy(half, memory.device, 4); }},
        {"copy_to_itself", [&] { return cu.MemcpyAsync(half, half, 4, CU_STREAM_LEGACY); }},
        {"copy_on_legacy", [&] { return cu.MemcpyDtoDAsync(half, memory.device, 4, CU_STREAM_LEGACY); }},
        {"copy_to_pinned", [&] { return cu.MemcpyAsync(memory.pinned, half, 4, CU_STREAM_LEGACY); }},
        {"copy_on_stream", [&] { return cu.MemcpyDtoDAsync(half, memory.device, 4, own); }},
        {"peer_on_stream",
         [&, owner = owner] { return cu.MemcpyPeerAsync(half, owner, memory.device, owner, 4, own); }},
        {"peer_on_legacy", [&, owner = owner] {
           return cu.MemcpyPeerAsync(half, owner, memory.device, owner, 4, CU_STREAM_LEGACY);
         }}};
    for (const auto& [held_name, holder] : contexts) {
      if (holder != lab.home && holder != owner && owner == lab.second_context()) continue;
      const Current guard(lab, holder);
      Stream stream(lab, CU_STREAM_DEFAULT);
      for (const auto& [on_name, on] :
           {std::pair{"default_stream", CU_STREAM_LEGACY}, {"stream", CUstream(stream)}})
        for (const auto& [name, submit] : calls) {
          Gate gate(lab, on);
          Background call(lab, submit);
          const bool returns = call.returns_within(100ms);
          std::string text = returns ? "returns" : "waits";
          std::this_thread::sleep_for(20ms); // for work that nothing holds
          for (const auto& [later_name, later] : contexts) {
            if (!returns) break; // a call that waits holds up others
            const Current there(lab, later);
            Stream blocking(lab, CU_STREAM_DEFAULT);
            Event event(lab), of_context(lab);
            text += std::string(", ") + later_name +
                    (cu.StreamQuery(CU_STREAM_LEGACY) == CUDA_SUCCESS ? " +" : " -");
            lab.must(cu.CtxRecordEvent(later, of_context), "record of the context");
            lab.must(cu.EventRecord(event, blocking), "record");
            std::this_thread::sleep_for(5ms);
            text += cu.EventQuery(of_context) == CUDA_SUCCESS ? "+" : "-";
            text += cu.EventQuery(event) == CUDA_SUCCESS ? "+" : "-";
          }
          gate.open();
          lab.shows(std::string(owner_name) + "." + name + ".held_" + held_name + "." + on_name,
                    text + ", " + lab.name_of(call.join()));
          synchronize(lab, contexts);
        }
    }
  }
}

// Copies on streams, with this memory: their name, and where they go to and come from.
std::array<std::tuple<const char*, CUdeviceptr, CUdeviceptr>, 5> copies_with(const Kinds& memory) {
  const CUdeviceptr half = memory.device + size / 2;
  return {{{"within_device", half, memory.device},
           {"to_itself", half, half},
           {"from_pinned", half, memory.pinned},
           {"from_pageable", half, memory.pageable},
           {"to_pinned", memory.pinned, half}}};
}

// What a copy on a created stream of the home context comes after, called in each context, with memory of
// one: on a stream that waits for no other, and on one that waits for the legacy stream. Each while a stream
// of one context is held: its legacy stream, and created ones of both kinds.
template <std::size_t of>
void foreign_callers(Lab& lab) {
  const Api& cu = lab.cu;
  const Green green(lab);
  Stream alone(lab), blocking(lab, CU_STREAM_DEFAULT);
  const Contexts contexts = all_contexts(lab, green);
  const auto memory = made_in<Kinds>(lab, contexts.at(of).second);
  const auto copies = copies_with(memory);
  for (const auto& [caller_name, caller] : contexts)
    for (const auto& [copy_name, to, from] : copies)
      for (const auto& [on_name, on] :
           {std::pair{"alone", CUstream(alone)}, {"blocking", CUstream(blocking)}}) {
        std::vector<std::string> parts;
        for (const auto& [held_name, holder] : contexts) {
          std::string text = std::string(held_name) + " ";
          const Current guard(lab, holder);
          Stream held_alone(lab), held_blocking(lab, CU_STREAM_DEFAULT);
          for (CUstream const held : {CU_STREAM_LEGACY, CUstream(held_blocking), CUstream(held_alone)}) {
            Gate gate(lab, held);
            Background call(lab, [&, to = to, from = from, on = on, caller = caller] {
              const Current there(lab, caller);
              return cu.MemcpyAsync(to, from, 4, on);
            });
            const bool returns = call.returns_within(100ms);
            if (returns) std::this_thread::sleep_for(20ms); // for work that nothing holds
            text += !returns ? "w" : cu.StreamQuery(on) == CUDA_SUCCESS ? "+" : "-";
            gate.open();
            lab.must(call.join(), "copy");
            synchronize(lab, contexts);
          }
          parts.push_back(text);
        }
        lab.shows(std::string(copy_name) + "." + caller_name + "." + on_name, joined(parts));
      }
}

// What copies in a primary context come after, next to a green context of it that has held work or waits for
// some. Copies within the host are no work of a device.
void behind_green_waits(Lab& lab) {
  const Api& cu = lab.cu;
  const Green green(lab);
  const Current primary(lab, green.primary);
  Stream other(lab), own(lab, CU_STREAM_DEFAULT);
  for (const auto& [owner_name, owner] : {std::pair{"primary", green.primary}, {"green", green.context}}) {
    const auto memory = made_in<Kinds>(lab, owner);
    const CUdeviceptr half = memory.device + size / 2, pinned_half = memory.pinned + size / 2;
    const std::tuple<const char*, CUdeviceptr, CUdeviceptr> copies[] = {
        {"within_device", half, memory.device},
        {"to_pinned", memory.pinned, half},
        {"from_pinned", half, memory.pinned},
        {"from_pageable", half, memory.pageable},
        {"pinned_to_itself", memory.pinned, memory.pinned},
        {"within_pinned", pinned_half, memory.pinned},
        {"pinned_to_pageable", memory.pageable, memory.pinned}};
    for (const char* const hold :
         {"nothing", "stream", "record", "wait_for_stream", "wait_for_record", "wait_for_other"})
      for (const auto& [copy_name, to, from] : copies)
        for (const auto& [on_name, on] :
             {std::pair{"legacy", CU_STREAM_LEGACY}, {"blocking", CUstream(own)}}) {
          const std::string name = hold;
          CUstream held = nullptr;
          {
            const Current there(lab, green.context);
            lab.must(cu.StreamCreate(&held, CU_STREAM_DEFAULT), "stream");
          }
          const bool by_other = name == "wait_for_other" || name == "nothing";
          Event pending(lab);
          Gate gate(lab, by_other ? CUstream(other) : held);
          if (name.ends_with("record")) lab.must(cu.CtxRecordEvent(green.context, pending), "record");
          if (name == "wait_for_stream" || name == "wait_for_other")
            lab.must(cu.EventRecord(pending, by_other ? CUstream(other) : held), "record of a stream");
          if (name.starts_with("wait")) lab.must(cu.CtxWaitEvent(green.context, pending), "wait");
          Background call(lab, [&, to = to, from = from, on = on] {
            const Current here(lab, green.primary);
            return cu.MemcpyAsync(to, from, 4, on);
          });
          const bool returns = call.returns_within(100ms);
          for (int i = 0; i < 20 && returns && cu.StreamQuery(on) != CUDA_SUCCESS; ++i)
            std::this_thread::sleep_for(10ms); // for work that nothing holds
          const char* const done = !returns                             ? "waits"
                                   : cu.StreamQuery(on) == CUDA_SUCCESS ? "done"
                                                                        : "pending";
          gate.open();
          lab.must(call.join(), "copy");
          lab.must(cu.StreamSynchronize(held), "synchronize");
          lab.must(cu.CtxSynchronize(), "synchronize");
          lab.must(cu.StreamDestroy(held), "destroy");
          lab.shows(std::string(owner_name) + "." + hold + "." + copy_name + "." + on_name, done);
        }
  }
}

// What a copy on a stream of the home context comes after, with memory of a green context, once
// cuCtxWaitEvent was called for it or for its primary context. Random programs showed that it then waits.
// Where one copy waits, everything is opened, and the answers that follow are those without a wait.
void after_context_waits(Lab& lab) {
  const Api& cu = lab.cu;
  const Green green(lab);
  Stream alone(lab), blocking(lab, CU_STREAM_DEFAULT);
  const auto memory = made_in<Kinds>(lab, green.context);
  const auto copies = copies_with(memory);
  const std::pair<const char*, CUcontext> contexts[] = {{"primary", green.primary}, {"green", green.context}};
  for (const auto& [waiter_name, waiter] : contexts)
    for (const char* const awaited : {"nothing", "never_recorded", "complete", "pending"})
      for (const auto& [holder_name, holder] : contexts)
        for (const char* const hold : {"legacy", "blocking", "alone", "afterwards"}) {
          const Current there(lab, holder);
          Stream held_blocking(lab, CU_STREAM_DEFAULT), held_alone(lab);
          const std::string name = hold, event_name = awaited;
          const CUstream held = name == "legacy"     ? CU_STREAM_LEGACY
                                : name == "blocking" ? CUstream(held_blocking)
                                                     : CUstream(held_alone);
          const Current in_primary(lab, green.primary);
          Event event(lab);
          Stream other(lab);
          std::optional<Gate> gate, gate_of_event;
          if (name != "afterwards") gate.emplace(lab, held);
          if (event_name == "pending") gate_of_event.emplace(lab, other);
          if (event_name == "pending" || event_name == "complete")
            lab.must(cu.EventRecord(event, other), "record");
          if (event_name != "nothing") lab.must(cu.CtxWaitEvent(waiter, event), "wait");
          if (name == "afterwards") gate.emplace(lab, held);
          std::vector<std::string> parts;
          for (const auto& [copy_name, to, from] : copies)
            for (const auto& [on_name, on] :
                 {std::pair{" alone ", CUstream(alone)}, {" blocking ", CUstream(blocking)}}) {
              Background call(lab, [&, to = to, from = from, on = on] {
                const Current here(lab, lab.home);
                return cu.MemcpyAsync(to, from, 4, on);
              });
              bool returns = call.returns_within(60ms);
              for (int i = 0; i < 3 && returns && cu.StreamQuery(on) != CUDA_SUCCESS; ++i)
                std::this_thread::sleep_for(5ms);
              parts.push_back(std::string(copy_name) + on_name +
                              (!returns                             ? "w"
                               : cu.StreamQuery(on) == CUDA_SUCCESS ? "+"
                                                                    : "-"));
              if (parts.back().back() == '+') continue;
              // Later answers would be about this copy.
              gate->open();
              if (gate_of_event) gate_of_event->open();
              lab.must(call.join(), "copy");
              break;
            }
          gate->open();
          if (gate_of_event) gate_of_event->open();
          lab.must(cu.StreamSynchronize(alone), "synchronize");
          lab.must(cu.StreamSynchronize(blocking), "synchronize");
          lab.must(cu.CtxSynchronize(), "synchronize");
          lab.shows(std::string(waiter_name) + ".for_" + awaited + "." + holder_name + "." + hold,
                    joined(parts));
        }
}
#endif

// Work of each kind, so small that it is done at once if nothing holds it.
std::vector<Named> kinds_of_work(Lab& lab, const Kinds& kinds) {
  const Api& cu = lab.cu;
  constexpr CUdeviceptr half = size / 2;
  const CUdeviceptr device = kinds.device;
  const CUfunction kernel = lab.kernel("step");
  const CUdeviceptr word = Lab::address(lab.word());
  std::vector<Named> all{
      {"nothing", [](CUstream) { return CUDA_SUCCESS; }},
      {"copy", [&cu, device](CUstream on) { return cu.MemcpyAsync(device + half, device, 4, on); }},
      {"copy_of_nothing", [&cu, device](CUstream on) { return cu.MemcpyAsync(device, device, 0, on); }},
      {"fill", [&cu, device](CUstream on) { return cu.MemsetD8Async(device, 1, 4, on); }},
      {"fill_of_nothing", [&cu, device](CUstream on) { return cu.MemsetD8Async(device, 1, 0, on); }},
      {"prefetch",
       [&cu, &lab, kinds](CUstream on) { return cu.MemPrefetchAsync(kinds.managed, 4, lab.device, on); }},
      {"attach", [&cu, kinds](CUstream on) { return cu.StreamAttachMemAsync(on, kinds.managed, 0, 1); }},
      {"write", [&cu, word](CUstream on) { return cu.StreamWriteValue32(on, word, 1, 0); }},
      {"kernel",
       [&cu, kernel](CUstream on) {
         return cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, on, nullptr, nullptr);
       }},
      {"host_function",
       [&cu](CUstream on) {
         return cu.LaunchHostFunc(
             on, [](void*) {}, nullptr);
       }},
      {"allocate_and_free", [&cu](CUstream on) {
         CUdeviceptr pointer = 0;
         const CUresult result = cu.MemAllocAsync(&pointer, 64, on);
         return result != CUDA_SUCCESS ? result : cu.MemFreeAsync(pointer, on);
       }}};
  for (const auto& from : kinds.all())
    if (from.memory != device)
      all.push_back({std::string("copy_from_") + from.name, [&cu, device, from](CUstream on) {
                       return cu.MemcpyAsync(device, from.memory, 4, on);
                     }});
  return all;
}

#if CUDA_VERSION >= 13000
// Copies of memory of a pool of the host, behind a gate and without a stream. Access is the device's.
template <bool permitted>
void host_pools(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  Stream stream(lab), blocking(lab, CU_STREAM_DEFAULT);
  const auto new_pool = [&] {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUmemoryPool pool = nullptr;
    lab.must(cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
    const CUmemAccessDesc wish = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (permitted) lab.must(cu.MemPoolSetAccess(pool, &wish, 1), "cuMemPoolSetAccess");
    return pool;
  };
  CUmemoryPool const first = new_pool(), second = new_pool();
  CUdeviceptr memory = 0, same_pool = 0, other_pool = 0, pool_of_device = 0;
  lab.must(cu.MemAllocFromPoolAsync(&memory, size, first, stream), "cuMemAllocFromPoolAsync");
  lab.must(cu.MemAllocFromPoolAsync(&same_pool, size, first, stream), "cuMemAllocFromPoolAsync");
  lab.must(cu.MemAllocFromPoolAsync(&other_pool, size, second, stream), "cuMemAllocFromPoolAsync");
  lab.must(cu.MemAllocAsync(&pool_of_device, size, stream), "cuMemAllocAsync");
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const auto by_host = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };

  std::vector<Kinds::Kind> others = {{"itself", memory + size / 2},
                                     {"same_pool", same_pool},
                                     {"other_pool", other_pool},
                                     {"pool_of_device", pool_of_device}};
  for (const auto& kind : kinds.all())
    others.push_back(kind);
  for (const auto& [name, other] : others)
    for (const bool to : {true, false}) {
      const CUdeviceptr target = to ? other : memory, source = to ? memory : other;
      const std::string question = (to ? "to_" : "from_") + std::string(name);
      const auto async = [&](const std::string& call, const CallOn& copy) {
        lab.shows(question + "." + call, held(
                                             lab, stream, [&] { return copy(stream); }, 100ms));
      };
      for (const Form& form : forms(cu)) {
        async(form.name, [&](CUstream on) { return form.async(target, source, on); });
        lab.shows(question + "." + form.name + ".plain",
                  held(
                      lab, blocking, [&] { return form.plain(target, source); }, 100ms));
      }
      async("htod", [&](CUstream on) { return cu.MemcpyHtoDAsync(target, by_host(source), 8, on); });
      async("dtoh", [&](CUstream on) { return cu.MemcpyDtoHAsync(by_host(target), source, 8, on); });
      async("dtod", [&](CUstream on) { return cu.MemcpyDtoDAsync(target, source, 8, on); });
      lab.shows(question + ".htod.plain",
                held(
                    lab, blocking, [&] { return cu.MemcpyHtoD(target, by_host(source), 8); }, 100ms));
      lab.shows(question + ".dtoh.plain",
                held(
                    lab, blocking, [&] { return cu.MemcpyDtoH(by_host(target), source, 8); }, 100ms));
      if (permitted)
        async("too_far", [&](CUstream on) { return cu.MemcpyAsync(target, source, 2 * size, on); });
      Graph graph(lab);
      CUgraphNode node = nullptr;
      CUDA_MEMCPY3D copy = two_rows<CUDA_MEMCPY3D>(target, source);
      copy.Depth = 1;
      lab.is(question + ".node", cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, lab.home));
      Stream capturing(lab);
      lab.must(cu.StreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
      lab.is(question + ".captured", cu.MemcpyAsync(target, source, 8, capturing));
      CUgraph captured = nullptr;
      lab.is(question + ".captured.end", cu.StreamEndCapture(capturing, &captured));
      if (captured == nullptr) continue;
      std::size_t count = 1;
      if (cu.GraphGetNodes(captured, &node, &count) == CUDA_SUCCESS && count == 1) {
        copy = {};
        lab.is(question + ".captured.parameters", cu.GraphMemcpyNodeGetParams(node, &copy));
        lab.shows(question + ".captured.types",
                  std::to_string(copy.srcMemoryType) + " to " + std::to_string(copy.dstMemoryType));
        lab.shows(question + ".captured.addresses", copy.srcDevice == source && copy.dstDevice == target);
      }
      CUgraphExec exec = nullptr;
      lab.is(question + ".captured.instantiate", cu.GraphInstantiateWithFlags(&exec, captured, 0));
      if (exec == nullptr) continue;
      async("launch", [&](CUstream on) { return cu.GraphLaunch(exec, on); });
      cu.GraphExecDestroy(exec);
      cu.GraphDestroy(captured);
    }
}
#endif

// How a stream with this work answers a query, and an event that is recorded after it, while something else
// holds it back.
void queries(Lab& lab) {
  const Api& cu = lab.cu;
  const Kinds kinds(lab);
  const auto ask = [&](CUstream on, const CallOn& work, std::atomic<bool>& asked) {
    Event event(lab);
    Background background(lab, [&] { return work(on); }); // some copies wait
    std::string text = background.returns_within(250ms) ? "" : "waits, ";
    std::this_thread::sleep_for(20ms); // for work that nothing holds
    const CUresult query = cu.StreamQuery(on);
    cu.EventRecord(event, on);
    std::this_thread::sleep_for(20ms);
    text += lab.name_of(query) + ", event " + lab.name_of(cu.EventQuery(event)) + ", then " +
            lab.name_of(cu.StreamQuery(on)) + ", legacy " + lab.name_of(cu.StreamQuery(CU_STREAM_LEGACY));
    asked = true;
    return "call " + lab.name_of(background.join()) + ", " + text;
  };
  for (const Named& one : kinds_of_work(lab, kinds)) {
    const auto in = [&](const char* how, unsigned flags,
                        const std::function<void(CUstream, CUstream)>& hold) {
      Stream holder(lab, CU_STREAM_NON_BLOCKING), stream(lab, flags);
      unsigned* const word = lab.word();
      const bool legacy_holds = std::string_view(how).starts_with("legacy");
      lab.must(cu.StreamWaitValue32(legacy_holds ? CU_STREAM_LEGACY : CUstream(holder), Lab::address(word), 1,
                                    CU_STREAM_WAIT_VALUE_GEQ),
               "gate");
      hold(holder, stream);
      std::atomic<bool> asked = false;
      std::thread opener([word, &asked] { // a call that waits must not hold up the questions forever
        for (int i = 0; i < 60 && !asked; ++i)
          std::this_thread::sleep_for(10ms);
        std::atomic_ref<unsigned>(*word).store(1);
      });
      const std::string answer = ask(stream, one.call, asked);
      opener.join();
      lab.shows(std::string(how) + "." + one.name, answer);
      lab.must(cu.CtxSynchronize(), "synchronize");
    };
    Event pending(lab);
    in("legacy_is_held", CU_STREAM_DEFAULT, [](CUstream, CUstream) {});
    in("legacy_is_held_for_others", CU_STREAM_NON_BLOCKING, [](CUstream, CUstream) {});
    in("waits_for_event", CU_STREAM_NON_BLOCKING, [&](CUstream holder, CUstream stream) {
      lab.must(cu.EventRecord(pending, holder), "record");
      lab.must(cu.StreamWaitEvent(stream, pending, 0), "wait");
    });
#if CUDA_VERSION >= 12050
    in("context_waits_for_event", CU_STREAM_NON_BLOCKING, [&](CUstream holder, CUstream) {
      lab.must(cu.EventRecord(pending, holder), "record");
      lab.must(cu.CtxWaitEvent(lab.home, pending), "wait");
    });
#endif
  }
}

} // namespace

std::vector<Scenario> copying_scenarios() {
  return {
    {"copying.behind_gate", behind_gate, Place::child, 1, 28},
        {"copying.staging", staging, Place::child, 1, 6},
        {"copying.fills_behind_gate", fills_behind_gate, Place::child, 1, 7},
        {"copying.next_to_capture", next_to_capture, Place::child},
        {"copying.next_to_per_thread_capture", next_to_per_thread_capture, Place::child},
#if CUDA_VERSION >= 12050
        {"copying.next_to_green_capture", next_to_green_capture, Place::child},
#endif
        {"copying.wrong_arguments", wrong_arguments, Place::child}, {"copying.attach", attach},
        {"copying.attach_without_flags", attach_without_flags, Place::alone},
        {"copying.more_attach", more_attach, Place::child},
        {"copying.preferred_places", preferred_places, Place::child, 1, 4},
        {"copying.other_contexts", other_contexts, Place::child, 1, 4},
        {"copying.named_contexts", named_contexts, Place::child},
        {"copying.captured_nowhere", captured_nowhere, Place::child},
        {"copying.launched_nodes", launched_nodes, Place::child},
#if CUDA_VERSION >= 12050
        {"copying.green_contexts", green_contexts, Place::child, 1, 5},
        {"copying.foreign_memory", foreign_memory, Place::child},
        {"copying.after_context_waits", after_context_waits, Place::child, 1, 10},
        {"copying.behind_green_waits", behind_green_waits, Place::child, 1, 10},
        {"copying.foreign_callers.of_home", foreign_callers<0>, Place::child, 1, 10},
        {"copying.foreign_callers.of_second", foreign_callers<1>, Place::child, 1, 10},
        {"copying.foreign_callers.of_primary", foreign_callers<2>, Place::child, 1, 10},
        {"copying.foreign_callers.of_green", foreign_callers<3>, Place::child, 1, 10},
#endif
#if CUDA_VERSION >= 13000
        {"copying.host_pools.permitted", host_pools<true>, Place::alone, 1, 10},
        {"copying.host_pools.not_permitted", host_pools<false>, Place::alone, 1, 10},
#endif
        {"copying.queries", queries, Place::child, 1, 3},
  };
}

} // namespace transcript
