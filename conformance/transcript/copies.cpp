// SPDX-License-Identifier: MIT
// Copies of rows, boxes and lists, copies between contexts, fills of rows, and copies of no bytes.

#include "everywhere.hpp"

#include <array>
#include <cstring>

namespace transcript {
namespace {

constexpr std::size_t size = 4096;

// Two allocations of the device, a pinned and two pageable buffers, filled with different bytes.
struct Places {
  explicit Places(Lab& laboratory) : lab(laboratory), stream(lab) {
    lab.must(lab.cu.MemAlloc(&device, size), "cuMemAlloc");
    lab.must(lab.cu.MemAlloc(&second, size), "cuMemAlloc");
    void* memory = nullptr;
    lab.must(lab.cu.MemHostAlloc(&memory, size, 0), "cuMemHostAlloc");
    pinned = static_cast<unsigned char*>(memory);
    refill();
  }
  void refill() {
    for (std::size_t i = 0; i < size; ++i)
      source[i] = static_cast<unsigned char>(i % 251);
    target.fill(0xee);
    std::memset(pinned, 0xdd, size);
    lab.cu.MemsetD8(device, 0xcc, size);
    lab.cu.MemsetD8(second, 0xbb, size);
    lab.cu.CtxSynchronize();
  }
  CUdeviceptr unified(const void* memory) const { return reinterpret_cast<CUdeviceptr>(memory); }
  // A number that tells what the memory holds.
  std::string content(CUdeviceptr memory) const {
    std::array<unsigned char, size> bytes{};
    lab.must(lab.cu.Memcpy(unified(bytes.data()), memory, size), "cuMemcpy");
    unsigned sum = 1;
    for (const unsigned char byte : bytes)
      sum = sum * 31 + byte;
    return std::to_string(sum);
  }
  Lab& lab;
  Stream stream;
  CUdeviceptr device = 0, second = 0;
  unsigned char* pinned = nullptr;
  std::array<unsigned char, size> source{}, target{};
};

// 8 bytes of each of 3 rows, from pageable memory to the device.
template <class Copy>
Copy rows(const Places& places) {
  Copy copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = places.source.data();
  copy.srcPitch = 32;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = places.device;
  copy.dstPitch = 64;
  copy.WidthInBytes = 8;
  copy.Height = 3;
  if constexpr (requires { copy.Depth; }) copy.Depth = 1;
  return copy;
}

template <class Copy>
void to_host(Copy& copy, void* memory) {
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = memory;
}
template <class Copy>
void from_device(Copy& copy, CUdeviceptr memory) {
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory;
}

// The changes that rows and boxes share.
template <class Copy>
struct Change {
  const char* name;
  void (*apply)(Copy&, Places&);
};

template <class Copy>
std::vector<Change<Copy>> changes() {
  return {{"plain", [](Copy&, Places&) {}},
          {"from_pinned", [](Copy& c, Places& p) { c.srcHost = p.pinned; }},
          {"device_to_device", [](Copy& c, Places& p) { from_device(c, p.second); }},
          {"to_host", [](Copy& c, Places& p) { from_device(c, p.second), to_host(c, p.target.data()); }},
          {"host_to_host", [](Copy& c, Places& p) { to_host(c, p.target.data()); }},
          {"unified",
           [](Copy& c, Places& p) {
             c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
             c.srcDevice = p.unified(p.source.data());
           }},
          {"pinned_as_device", [](Copy& c, Places& p) { from_device(c, p.unified(p.pinned)); }},
          {"pageable_as_device", [](Copy& c, Places& p) { from_device(c, p.unified(p.source.data())); }},
          {"device_as_host", [](Copy& c, Places& p) { to_host(c, reinterpret_cast<void*>(p.device)); }},
          {"offsets", [](Copy& c, Places&) { c.srcXInBytes = 4, c.srcY = 2, c.dstXInBytes = 8, c.dstY = 1; }},
          {"odd", [](Copy& c, Places&) { c.srcXInBytes = 3, c.dstXInBytes = 5, c.dstPitch = 51; }},
          {"no_width", [](Copy& c, Places&) { c.WidthInBytes = 0; }},
          {"no_height", [](Copy& c, Places&) { c.Height = 0; }},
          {"nothing_from_nowhere", [](Copy& c, Places&) { c.Height = 0, c.srcHost = nullptr; }},
          {"no_source_pitch", [](Copy& c, Places&) { c.srcPitch = 0; }},
          {"no_target_pitch", [](Copy& c, Places&) { c.dstPitch = 0; }},
          {"no_pitch_one_row", [](Copy& c, Places&) { c.srcPitch = c.dstPitch = 0, c.Height = 1; }},
          {"small_source_pitch", [](Copy& c, Places&) { c.srcPitch = 7; }},
          {"small_target_pitch", [](Copy& c, Places&) { c.dstPitch = 7; }},
          {"small_pitch_one_row", [](Copy& c, Places&) { c.dstPitch = 7, c.Height = 1; }},
          {"pitch_below_offset", [](Copy& c, Places&) { c.dstPitch = 8, c.dstXInBytes = 4; }},
          {"huge_pitch", [](Copy& c, Places&) { c.dstPitch = std::size_t{1} << 32, c.Height = 1; }},
          {"no_source", [](Copy& c, Places&) { c.srcHost = nullptr; }},
          {"no_target", [](Copy& c, Places&) { c.dstDevice = 0; }},
          {"too_far", [](Copy& c, Places&) { c.Height = size / 64 + 1; }},
          {"too_far_from", [](Copy& c, Places& p) { from_device(c, p.second), c.srcY = size / 32 - 2; }},
          {"no_type", [](Copy& c, Places&) { c.srcMemoryType = number<CUmemorytype>(0); }},
          {"unknown_type", [](Copy& c, Places&) { c.dstMemoryType = number<CUmemorytype>(9); }},
          {"null_array", [](Copy& c, Places&) { c.srcMemoryType = CU_MEMORYTYPE_ARRAY; }},
          {"null_array_target", [](Copy& c, Places&) { c.dstMemoryType = CU_MEMORYTYPE_ARRAY; }}};
}

std::vector<Change<CUDA_MEMCPY3D>> box_changes() {
  using Copy = CUDA_MEMCPY3D;
  return {{"deep", [](Copy& c, Places&) { c.Depth = 2, c.srcHeight = 4, c.dstHeight = 5; }},
          {"deep_offsets",
           [](Copy& c, Places&) { c.Depth = 2, c.srcHeight = 4, c.dstHeight = 5, c.srcZ = 1, c.dstZ = 2; }},
          {"deep_no_heights", [](Copy& c, Places&) { c.Depth = 2; }},
          {"deep_small_height", [](Copy& c, Places&) { c.Depth = 2, c.srcHeight = 2, c.dstHeight = 5; }},
          {"small_height", [](Copy& c, Places&) { c.srcHeight = 2; }},
          {"no_depth", [](Copy& c, Places&) { c.Depth = 0; }},
          {"level", [](Copy& c, Places&) { c.srcLOD = 1; }},
          {"reserved", [](Copy& c, Places& p) { c.reserved0 = p.pinned; }}};
}

using Both = std::vector<CUresult>;

// Each change is asked of every form of the call. The content is shown if one of them succeeded.
template <class Copy>
void ask(Lab& lab, Places& places, const std::vector<Change<Copy>>& all,
         const std::function<Both(const Copy*)>& call) {
  for (const Change<Copy>& change : all) {
    places.refill();
    Copy copy = rows<Copy>(places);
    change.apply(copy, places);
    const Both results = call(&copy);
    lab.shows(change.name, joined(lab, results));
    lab.must(lab.cu.CtxSynchronize(), "synchronize");
    if (results.front() != CUDA_SUCCESS) continue;
    const bool host = copy.dstMemoryType == CU_MEMORYTYPE_HOST && copy.dstHost == places.target.data();
    lab.shows(std::string(change.name) + ".content",
              places.content(host ? places.unified(places.target.data()) : places.device));
  }
  lab.shows("null", joined(lab, call(nullptr)));
}

void two_dimensions(Lab& lab) {
  const Api& cu = lab.cu;
  Places places(lab);
  using Copy = CUDA_MEMCPY2D;
  ask<Copy>(lab, places, changes<Copy>(), [&](const Copy* copy) -> Both {
    return {cu.Memcpy2D(copy), cu.Memcpy2DUnaligned(copy), cu.Memcpy2DAsync(copy, places.stream)};
  });
  Copy pinned = rows<Copy>(places), pageable = pinned;
  pinned.srcHost = places.pinned;
  everywhere(lab, "call", [&](CUstream) { return cu.Memcpy2D(&pinned); });
  everywhere(lab, "unaligned", [&](CUstream) { return cu.Memcpy2DUnaligned(&pinned); });
  everywhere(lab, "null", [&](CUstream) { return cu.Memcpy2D(nullptr); });
  everywhere_and_captured(lab, "async", [&](CUstream on) { return cu.Memcpy2DAsync(&pinned, on); });
  everywhere_and_captured(lab, "async.pageable",
                          [&](CUstream on) { return cu.Memcpy2DAsync(&pageable, on); });
  everywhere_and_captured(lab, "async.null", [&](CUstream on) { return cu.Memcpy2DAsync(nullptr, on); });
  pinned.WidthInBytes = 0;
  everywhere_and_captured(lab, "async.nothing", [&](CUstream on) { return cu.Memcpy2DAsync(&pinned, on); });
  pinned.WidthInBytes = 100; // more than a pitch
  everywhere_and_captured(lab, "async.bad", [&](CUstream on) { return cu.Memcpy2DAsync(&pinned, on); });
  lab.is("null_stream", cu.Memcpy2DAsync(&pageable, nullptr));
  lab.is("per_thread", cu.Memcpy2DAsync(&pageable, CU_STREAM_PER_THREAD));
}

void three_dimensions(Lab& lab) {
  const Api& cu = lab.cu;
  Places places(lab);
  using Copy = CUDA_MEMCPY3D;
  std::vector<Change<Copy>> all = changes<Copy>();
  for (const Change<Copy>& one : box_changes())
    all.push_back(one);
  ask<Copy>(lab, places, all, [&](const Copy* copy) -> Both {
    return {cu.Memcpy3D(copy), cu.Memcpy3DAsync(copy, places.stream)};
  });
  Copy pinned = rows<Copy>(places);
  pinned.srcHost = places.pinned;
  everywhere(lab, "call", [&](CUstream) { return cu.Memcpy3D(&pinned); });
  everywhere_and_captured(lab, "async", [&](CUstream on) { return cu.Memcpy3DAsync(&pinned, on); });

  CUDA_MEMCPY3D_PEER peer = rows<CUDA_MEMCPY3D_PEER>(places);
  peer.srcHost = places.pinned;
  const auto both = [&](const char* name) {
    lab.shows(name, joined(lab, {cu.Memcpy3DPeer(&peer), cu.Memcpy3DPeerAsync(&peer, places.stream)}));
  };
  both("peer.no_contexts");
  peer.dstContext = lab.home;
  both("peer.target_context");
  peer.srcContext = lab.home;
  both("peer.contexts");
  peer.srcContext = lab.second_context();
  both("peer.other_context");
  peer.WidthInBytes = 0;
  both("peer.nothing");
}

// Between contexts of one device.
void peers(Lab& lab) {
  const Api& cu = lab.cu;
  Places places(lab);
  CUcontext const other = lab.second_context();
  CUdeviceptr foreign = 0;
  {
    const Current guard(lab, other);
    lab.must(cu.MemAlloc(&foreign, size), "cuMemAlloc");
  }
  const auto both = [&](const char* name, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                        CUcontext from_context, std::size_t bytes) {
    lab.shows(name,
              joined(lab, {cu.MemcpyPeer(to, to_context, from, from_context, bytes),
                           cu.MemcpyPeerAsync(to, to_context, from, from_context, bytes, places.stream)}));
  };
  const CUdeviceptr pageable = places.unified(places.source.data());
  both("same_context", places.device, lab.home, places.second, lab.home, 64);
  both("other_context", places.device, lab.home, foreign, other, 64);
  both("swapped", places.device, other, foreign, lab.home, 64);
  both("no_target_context", places.device, nullptr, foreign, other, 64);
  both("no_source_context", places.device, lab.home, foreign, nullptr, 64);
  both("no_contexts", places.device, nullptr, foreign, nullptr, 64);
  both("nothing", places.device, lab.home, foreign, other, 0);
  both("nothing_nowhere", 0, lab.home, 0, other, 0);
  both("no_target", 0, lab.home, foreign, other, 64);
  both("too_far", places.device, lab.home, foreign, other, size + 1);
  both("pageable", places.device, lab.home, pageable, other, 64);
  both("pinned", places.device, lab.home, places.unified(places.pinned), other, 64);
  lab.must(cu.CtxSynchronize(), "synchronize");
  everywhere(lab, "call",
             [&](CUstream) { return cu.MemcpyPeer(places.device, lab.home, foreign, other, 64); });
  everywhere_and_captured(lab, "async", [&](CUstream on) {
    return cu.MemcpyPeerAsync(places.device, lab.home, foreign, other, 64, on);
  });
  everywhere_and_captured(lab, "async.same_context", [&](CUstream on) {
    return cu.MemcpyPeerAsync(places.device, lab.home, places.second, lab.home, 64, on);
  });
}

// The copies of a line, of no bytes, to nowhere, and in each place.
void lines(Lab& lab) {
  const Api& cu = lab.cu;
  Places p(lab);
  const CUdeviceptr host = p.unified(p.source.data()), pinned = p.unified(p.pinned);
  struct Form {
    const char* name;
    std::function<CUresult(CUdeviceptr, CUdeviceptr, std::size_t, CUstream)> call;
    CUdeviceptr to, from;
    bool async;
  };
  const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
  const Form forms[] = {
      {"any", [&](auto to, auto from, auto n, auto) { return cu.Memcpy(to, from, n); }, p.device, pinned,
       false},
      {"to_device", [&](auto to, auto from, auto n, auto) { return cu.MemcpyHtoD(to, pointer(from), n); },
       p.device, pinned, false},
      {"to_host", [&](auto to, auto from, auto n, auto) { return cu.MemcpyDtoH(pointer(to), from, n); },
       pinned, p.device, false},
      {"device", [&](auto to, auto from, auto n, auto) { return cu.MemcpyDtoD(to, from, n); }, p.device,
       p.second, false},
      {"any_async", [&](auto to, auto from, auto n, auto on) { return cu.MemcpyAsync(to, from, n, on); },
       p.device, pinned, true},
      {"to_device_async",
       [&](auto to, auto from, auto n, auto on) { return cu.MemcpyHtoDAsync(to, pointer(from), n, on); },
       p.device, pinned, true},
      {"to_host_async",
       [&](auto to, auto from, auto n, auto on) { return cu.MemcpyDtoHAsync(pointer(to), from, n, on); },
       pinned, p.device, true},
      {"device_async",
       [&](auto to, auto from, auto n, auto on) { return cu.MemcpyDtoDAsync(to, from, n, on); }, p.device,
       p.second, true}};
  for (const Form& form : forms) {
    const std::string name = form.name;
    lab.is(name, form.call(form.to, form.from, 64, p.stream));
    lab.is(name + ".nothing", form.call(form.to, form.from, 0, p.stream));
    lab.is(name + ".nothing_nowhere", form.call(0, 0, 0, p.stream));
    lab.is(name + ".no_source", form.call(form.to, 0, 64, p.stream));
    lab.is(name + ".no_target", form.call(0, form.from, 64, p.stream));
    lab.is(name + ".too_far", form.call(form.to, form.from, size + 1, p.stream));
    lab.is(name + ".pageable_source", form.call(form.to, host, 64, p.stream));
    lab.is(name + ".pinned_target", form.call(pinned + 128, form.from, 64, p.stream));
    const auto call = [&](CUstream on) { return form.call(form.to, form.from, 64, on); };
    const auto nothing = [&](CUstream on) { return form.call(form.to, form.from, 0, on); };
    form.async ? everywhere_and_captured(lab, name, call) : everywhere(lab, name, call);
    form.async ? everywhere_and_captured(lab, name + ".nothing", nothing)
               : everywhere(lab, name + ".nothing", nothing);
  }
  everywhere_and_captured(lab, "from_pageable",
                          [&](CUstream on) { return cu.MemcpyAsync(p.device, host, 64, on); });
  everywhere_and_captured(lab, "to_pageable", [&](CUstream on) {
    return cu.MemcpyAsync(p.unified(p.target.data()), p.device, 64, on);
  });
}

void fills(Lab& lab) {
  const Api& cu = lab.cu;
  Places places(lab);
  const auto ask = [&](const char* name, CUdeviceptr to, std::size_t pitch, std::size_t width,
                       std::size_t height) {
    places.refill();
    Both results = {cu.MemsetD2D8(to, pitch, 1, width, height),
                    cu.MemsetD2D16(to, pitch, 0x102, width, height),
                    cu.MemsetD2D32(to, pitch, 0x1020304, width, height)};
    lab.must(cu.CtxSynchronize(), "synchronize"); // the stream does not wait for these
    results.insert(results.end(), {cu.MemsetD2D8Async(to, pitch, 5, width, height, places.stream),
                                   cu.MemsetD2D16Async(to, pitch, 0x506, width, height, places.stream),
                                   cu.MemsetD2D32Async(to, pitch, 0x5060708, width, height, places.stream)});
    lab.shows(name, joined(lab, results));
    lab.must(cu.CtxSynchronize(), "synchronize");
  };
  ask("plain", places.device, 64, 4, 3);
  lab.shows("plain.content", places.content(places.device));
  ask("pinned", places.unified(places.pinned), 64, 4, 3);
  ask("pageable", places.unified(places.source.data()), 64, 4, 3);
  ask("no_width", places.device, 64, 0, 3);
  ask("no_height", places.device, 64, 4, 0);
  ask("no_pitch", places.device, 0, 4, 3);
  ask("no_pitch_one_row", places.device, 0, 4, 1);
  ask("small_pitch", places.device, 3, 4, 3);
  ask("small_pitch_one_row", places.device, 3, 4, 1);
  ask("odd_pitch", places.device, 65, 4, 3);
  ask("odd", places.device + 1, 64, 4, 3);
  ask("too_far", places.device, 64, 4, size / 64 + 1);
  ask("null", 0, 64, 4, 3);
  everywhere(lab, "call", [&](CUstream) { return cu.MemsetD2D8(places.device, 64, 1, 4, 3); });
  everywhere_and_captured(lab, "async",
                          [&](CUstream on) { return cu.MemsetD2D8Async(places.device, 64, 1, 4, 3, on); });
  everywhere_and_captured(lab, "async.nothing",
                          [&](CUstream on) { return cu.MemsetD2D8Async(places.device, 64, 1, 0, 3, on); });
  lab.is("line.nothing", cu.MemsetD8Async(places.device, 1, 0, places.stream));
  lab.is("line.null", cu.MemsetD8Async(0, 1, 4, places.stream));
  lab.is("line.nothing_nowhere", cu.MemsetD8Async(0, 1, 0, places.stream));
  lab.is("line.pageable", cu.MemsetD8Async(places.unified(places.source.data()), 1, 4, places.stream));
  everywhere_and_captured(lab, "line.nothing",
                          [&](CUstream on) { return cu.MemsetD8Async(places.device, 1, 0, on); });
}

#if CUDA_VERSION >= 12080
void batches(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.MemcpyBatchAsync == nullptr) return;
  Places places(lab);
  struct Batch {
    std::vector<CUdeviceptr> to, from;
    std::vector<std::size_t> bytes;
    std::vector<CUmemcpyAttributes> attributes;
    std::vector<std::size_t> first;
    std::size_t count;
    CUstream stream;
  };
  const auto plain = [&] {
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return Batch{{places.device, places.device + 128},
                 {places.unified(places.pinned), places.second},
                 {64, 32},
                 {attributes},
                 {0},
                 2,
                 places.stream};
  };
  const auto call = [&](Batch& batch) {
    std::size_t failed = 77;
    Both results = {cu.MemcpyBatchAsync(batch.to.data(), batch.from.data(), batch.bytes.data(), batch.count,
                                        batch.attributes.data(), batch.first.data(), batch.attributes.size(),
                                        &failed, batch.stream)};
    std::string text = lab.name_of(results[0]);
    if (failed != 77) text += failed == ~std::size_t{0} ? ", all" : ", " + std::to_string(failed);
#if CUDA_VERSION >= 13000
    if (cu.MemcpyBatchAsyncV2 != nullptr) {
      const CUresult second = cu.MemcpyBatchAsyncV2(batch.to.data(), batch.from.data(), batch.bytes.data(),
                                                    batch.count, batch.attributes.data(), batch.first.data(),
                                                    batch.attributes.size(), batch.stream);
      if (second != results[0]) text += " / " + lab.name_of(second);
    }
#endif
    return text;
  };
  const auto ask = [&](const char* name, const std::function<void(Batch&)>& change) {
    places.refill();
    Batch batch = plain();
    change(batch);
    lab.shows(name, call(batch));
    lab.must(cu.CtxSynchronize(), "synchronize");
  };
  ask("plain", [](Batch&) {});
  lab.shows("plain.content", places.content(places.device));
  ask("nothing", [](Batch& b) { b.count = 0; });
  ask("no_targets", [](Batch& b) { b.to.clear(), b.to.shrink_to_fit(); });
  ask("no_sources", [](Batch& b) { b.from.clear(), b.from.shrink_to_fit(); });
  ask("no_sizes", [](Batch& b) { b.bytes.clear(), b.bytes.shrink_to_fit(); });
  ask("no_attributes", [](Batch& b) { b.attributes.clear(), b.first.clear(); });
  ask("null_target", [](Batch& b) { b.to[1] = 0; });
  ask("null_source", [](Batch& b) { b.from[1] = 0; });
  ask("no_bytes", [](Batch& b) { b.bytes[1] = 0; });
  ask("too_far", [](Batch& b) { b.bytes[1] = 2 * size; });
  ask("late_first", [](Batch& b) { b.first[0] = 1; });
  ask("first_beyond", [](Batch& b) { b.attributes.push_back(b.attributes[0]), b.first = {0, 2}; });
  ask("two_attributes", [](Batch& b) { b.attributes.push_back(b.attributes[0]), b.first = {0, 1}; });
  ask("falling_first", [](Batch& b) { b.attributes.push_back(b.attributes[0]), b.first = {0, 0}; });
  ask("more_attributes", [](Batch& b) { b.attributes.resize(3, b.attributes[0]), b.first = {0, 1, 1}; });
  for (const int order : {0, 1, 2, 3, 9})
    ask(("order_" + std::to_string(order)).c_str(),
        [&](Batch& b) { b.attributes[0].srcAccessOrder = number<CUmemcpySrcAccessOrder>(order); });
  ask("flags", [](Batch& b) { b.attributes[0].flags = 1; });
  ask("unknown_flags", [](Batch& b) { b.attributes[0].flags = 64; });
  ask("pageable", [&](Batch& b) { b.from[1] = places.unified(places.source.data()); });
  ask("pageable_during_call", [&](Batch& b) {
    b.from[1] = places.unified(places.source.data());
    b.attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  });
  ask("to_pageable", [&](Batch& b) { b.to[1] = places.unified(places.target.data()); });
  ask("null_stream", [](Batch& b) { b.stream = nullptr; });
  ask("legacy", [](Batch& b) { b.stream = CU_STREAM_LEGACY; });
  ask("per_thread", [](Batch& b) { b.stream = CU_STREAM_PER_THREAD; });
  Batch batch = plain();
  const auto async = [&](CUstream on) {
    return cu.MemcpyBatchAsync(batch.to.data(), batch.from.data(), batch.bytes.data(), batch.count,
                               batch.attributes.data(), batch.first.data(), 1, nullptr, on);
  };
  everywhere_and_captured(lab, "call", async);
  batch.count = 0;
  everywhere_and_captured(lab, "nothing", async);

  const auto operand = [&](CUdeviceptr memory) {
    CUmemcpy3DOperand one{};
    one.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    one.op.ptr.ptr = memory;
    one.op.ptr.rowLength = 16;
    one.op.ptr.layerHeight = 4;
    return one;
  };
  CUDA_MEMCPY3D_BATCH_OP good{};
  good.src = operand(places.second);
  good.dst = operand(places.device);
  good.extent = {8, 2, 2};
  good.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  const auto boxes = [&](const char* name, std::size_t count, unsigned long long flags, CUstream on,
                         const std::function<void(CUDA_MEMCPY3D_BATCH_OP&)>& change) {
    CUDA_MEMCPY3D_BATCH_OP operation = good;
    change(operation);
    std::size_t failed = 77;
    std::string text = lab.name_of(cu.Memcpy3DBatchAsync(count, &operation, &failed, flags, on));
    if (failed != 77) text += failed == ~std::size_t{0} ? ", all" : ", " + std::to_string(failed);
    lab.shows(std::string("boxes.") + name, text);
    lab.must(cu.CtxSynchronize(), "synchronize");
  };
  using Box = CUDA_MEMCPY3D_BATCH_OP;
  boxes("plain", 1, 0, places.stream, [](Box&) {});
  boxes("nothing", 0, 0, places.stream, [](Box&) {});
  boxes("flags", 1, 1, places.stream, [](Box&) {});
  boxes("null_stream", 1, 0, nullptr, [](Box&) {});
  boxes("no_width", 1, 0, places.stream, [](Box& b) { b.extent.width = 0; });
  boxes("no_depth", 1, 0, places.stream, [](Box& b) { b.extent.depth = 0; });
  boxes("short_rows", 1, 0, places.stream, [](Box& b) { b.src.op.ptr.rowLength = 4; });
  boxes("dense", 1, 0, places.stream, [](Box& b) { b.src.op.ptr.rowLength = b.src.op.ptr.layerHeight = 0; });
  boxes("no_order", 1, 0, places.stream,
        [](Box& b) { b.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID; });
  boxes("null_source", 1, 0, places.stream, [](Box& b) { b.src.op.ptr.ptr = 0; });
  everywhere_and_captured(lab, "boxes",
                          [&](CUstream on) { return cu.Memcpy3DBatchAsync(1, &good, nullptr, 0, on); });
}
#endif

} // namespace

std::vector<Scenario> copies_scenarios() {
  return {
    {"copies.lines", lines, Place::child}, {"copies.two_dimensions", two_dimensions, Place::child},
        {"copies.three_dimensions", three_dimensions, Place::child}, {"copies.peers", peers, Place::child},
        {"copies.fills", fills, Place::child},
#if CUDA_VERSION >= 12080
        {"copies.batches", batches, Place::child},
#endif
  };
}

} // namespace transcript
