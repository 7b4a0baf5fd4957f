// SPDX-License-Identifier: MIT
// Copies without a stream that return before they are done. Each scenario takes some seconds, because a try
// copies at most 64 MiB four times.

#include "scene.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace transcript {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t largest = std::size_t{64} << 20, row = std::size_t{64} << 10, step = 4096;
constexpr unsigned tries = 10;

// A copy or a fill that sets bytes to 2.
struct Form {
  const char* name;
  CUdeviceptr to;     // of the device
  unsigned char* out; // or of the host
  std::size_t width;  // of a row, which is copied
  std::function<CUresult(std::size_t)> call;
};

// Memory of each kind, and a stream that the legacy stream does not wait for.
class EarlyCopies {
public:
  explicit EarlyCopies(Lab& lab) : lab_(lab), reader_(lab) {
    for (CUdeviceptr* const each : {&device, &second, &snapshot_})
      lab.must(lab.cu.MemAlloc(each, largest), "cuMemAlloc");
    lab.must(lab.cu.MemAllocManaged(&managed, largest, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    pinned = in_host();
    seen_ = in_host();
    std::memset(pageable.get(), 2, largest);
    std::memset(pinned, 2, largest);
    lab.must(lab.cu.MemsetD8(second, 2, largest), "cuMemsetD8");
  }

  // Shows the number of tries in which the stream has read old bytes, and how much of the memory was old in
  // the worst one.
  void show(const Form& form, std::size_t kib) {
    const std::size_t bytes = kib << 10;
    unsigned stale = 0;
    std::size_t most = 0;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < tries; ++i) {
      set_old(form, bytes);
      result = form.call(bytes);
      const std::size_t old = old_percent(form, bytes);
      stale += old != 0;
      most = std::max(most, old);
      lab_.must(lab_.cu.CtxSynchronize(), "synchronize");
      if (form.out != nullptr) std::memset(form.out, 2, bytes);
    }
    lab_.shows(std::string(form.name) + "." + std::to_string(kib) + "_KiB",
               lab_.name_of(result) + ", old in " + std::to_string(stale) + " of " + std::to_string(tries) +
                   " tries, at most " + std::to_string(most) + " %");
  }

  CUdeviceptr device = 0, managed = 0, second = 0;
  unsigned char* pinned = nullptr;
  const std::unique_ptr<unsigned char[]> pageable{new unsigned char[largest]};

private:
  unsigned char* in_host() const {
    void* memory = nullptr;
    lab_.must(lab_.cu.MemHostAlloc(&memory, largest, 0), "cuMemHostAlloc");
    return static_cast<unsigned char*>(memory);
  }
  void set_old(const Form& form, std::size_t bytes) const {
    if (form.out != nullptr)
      std::memset(form.out, 1, bytes);
    else
      lab_.must(lab_.cu.MemsetD8(form.to, 1, bytes), "cuMemsetD8");
    lab_.must(lab_.cu.CtxSynchronize(), "synchronize");
  }
  // Less than 1 % counts as 1 %.
  std::size_t old_percent(const Form& form, std::size_t bytes) const {
    const unsigned char* read = form.out;
    if (form.out == nullptr) {
      lab_.must(lab_.cu.MemcpyDtoDAsync(snapshot_, form.to, bytes, reader_), "cuMemcpyDtoDAsync");
      lab_.must(lab_.cu.MemcpyDtoHAsync(seen_, snapshot_, bytes, reader_), "cuMemcpyDtoHAsync");
      lab_.must(lab_.cu.StreamSynchronize(reader_), "synchronize");
      read = seen_;
    }
    std::size_t old = 0, all = 0;
    for (std::size_t at = 0; at < bytes; at += step)
      if (at % row < form.width) ++all, old += read[at] == 1;
    return (old * 100 + all - 1) / all;
  }

  Lab& lab_;
  Stream reader_;
  CUdeviceptr snapshot_ = 0;
  unsigned char* seen_ = nullptr;
};

// Which calls do so, and with how many bytes. The answers differ in each run. Two H200s were asked on
// 2026-11-28, but not about the last four forms.
void early_returns(Lab& lab) {
  const Api& cu = lab.cu;
  EarlyCopies of(lab);
  auto* const pageable = of.pageable.get();
  auto* const pinned = of.pinned;
  const CUdeviceptr device = of.device, managed = of.managed, second = of.second;
  const auto address = [](const void* host) { return reinterpret_cast<CUdeviceptr>(host); };
  const auto shape = [&](CUdeviceptr to, std::size_t width, std::size_t pitch, std::size_t height) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = pageable, copy.srcPitch = pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = to, copy.dstPitch = pitch;
    copy.WidthInBytes = width, copy.Height = height;
    return copy;
  };
  const auto rows = [&](CUdeviceptr to, std::size_t bytes, bool unaligned) {
    const CUDA_MEMCPY2D copy = shape(to, row / 2, row, bytes / row); // half of the bytes
    return unaligned ? cu.Memcpy2DUnaligned(&copy) : cu.Memcpy2D(&copy);
  };
  const auto one_row = [&](CUdeviceptr to, std::size_t bytes) {
    const CUDA_MEMCPY2D copy = shape(to, bytes, bytes, 1);
    return cu.Memcpy2D(&copy);
  };
  const auto box = [&](CUdeviceptr to, std::size_t bytes) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = pageable, copy.srcPitch = row, copy.srcHeight = 1;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = to, copy.dstPitch = row, copy.dstHeight = 1;
    copy.WidthInBytes = row, copy.Height = 1, copy.Depth = bytes / row;
    return cu.Memcpy3D(&copy);
  };
  const Stream stream(lab);
  const Form forms[] = {
      {"pageable", device, nullptr, row, [&](auto n) { return cu.MemcpyHtoD(device, pageable, n); }},
      {"by_address", device, nullptr, row, [&](auto n) { return cu.Memcpy(device, address(pageable), n); }},
      {"rows", device, nullptr, row / 2, [&](auto n) { return rows(device, n, false); }},
      {"to_managed", managed, nullptr, row, [&](auto n) { return cu.MemcpyHtoD(managed, pageable, n); }},
      {"pinned", device, nullptr, row, [&](auto n) { return cu.MemcpyHtoD(device, pinned, n); }},
      {"within_device", device, nullptr, row, [&](auto n) { return cu.MemcpyDtoD(device, second, n); }},
      {"fill", device, nullptr, row, [&](auto n) { return cu.MemsetD8(device, 2, n); }},
      {"on_legacy_stream", device, nullptr, row,
       [&](auto n) { return cu.MemcpyHtoDAsync(device, pageable, n, CU_STREAM_LEGACY); }},
      {"to_pageable", 0, pageable, row, [&](auto n) { return cu.MemcpyDtoH(pageable, second, n); }},
      {"to_pinned", 0, pinned, row, [&](auto n) { return cu.MemcpyDtoH(pinned, second, n); }},
      {"unaligned_rows", device, nullptr, row / 2, [&](auto n) { return rows(device, n, true); }},
      {"one_row", device, nullptr, row, [&](auto n) { return one_row(device, n); }},
      {"box", device, nullptr, row, [&](auto n) { return box(device, n); }},
      {"on_other_stream", device, nullptr, row,
       [&](auto n) { return cu.MemcpyHtoDAsync(device, pageable, n, stream); }},
  };
  for (const Form& form : forms)
    for (const std::size_t kib :
         {64u, 256u, 512u, 1008u, 1024u, 1088u, 2048u, 4096u, 8192u, 16384u, 16448u, 32768u, 65536u})
      of.show(form, kib);
}

// The same for cuMemcpyHtoD to memory that was made in other ways, on the stream of the thread, and in a
// green context.
void early_places(Lab& lab) {
  const Api& cu = lab.cu;
  EarlyCopies of(lab);
  const auto upload_to = [&](CUdeviceptr to) {
    return [&, to](std::size_t bytes) { return cu.MemcpyHtoD(to, of.pageable.get(), bytes); };
  };
  Stream owner(lab);
  CUdeviceptr pooled = 0, foreign = 0;
  lab.must(cu.MemAllocAsync(&pooled, largest, owner), "cuMemAllocAsync");
  {
    const Current there(lab, lab.second_context());
    lab.must(cu.MemAlloc(&foreign, largest), "cuMemAlloc");
  }
  decltype(cu.MemcpyHtoD) per_thread = nullptr;
  lab.must(cu.GetProcAddress("cuMemcpyHtoD", reinterpret_cast<void**>(&per_thread), 7000,
                             CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr),
           "cuGetProcAddress");
  const CUdeviceptr at = mapped_memory(lab, largest);
  std::vector<Form> forms{
      {"pooled", pooled, nullptr, row, upload_to(pooled)},
      {"mapped", at, nullptr, row, upload_to(at)},
      {"of_other_context", foreign, nullptr, row, upload_to(foreign)},
      {"per_thread", of.device, nullptr, row,
       [&](auto bytes) { return per_thread(of.device, of.pageable.get(), bytes); }},
  };
#if CUDA_VERSION >= 12050
  const Green green(lab);
  forms.push_back({"green", of.device, nullptr, row, [&](auto bytes) {
                     const Current there(lab, green.context);
                     return cu.MemcpyHtoD(of.device, of.pageable.get(), bytes);
                   }});
#endif
  for (const Form& form : forms)
    for (const std::size_t kib : {256u, 1024u, 4096u, 16384u, 65536u})
      of.show(form, kib);
}

// Whether the host may change the source as soon as cuMemcpyHtoD has returned, and whether the call returns
// while work before it is held.
void early_sources(Lab& lab) {
  const Api& cu = lab.cu;
  EarlyCopies of(lab);
  for (const std::size_t kib : {256u, 1024u, 2048u, 4096u, 16384u, 65536u}) {
    const std::size_t bytes = kib << 10;
    const std::string name = std::to_string(kib) + "_KiB";
    std::size_t changed = 0, most = 0;
    for (unsigned i = 0; i < tries; ++i) {
      std::memset(of.pageable.get(), 2, bytes);
      lab.must(cu.MemcpyHtoD(of.device, of.pageable.get(), bytes), "cuMemcpyHtoD");
      std::memset(of.pageable.get(), 3, bytes);
      lab.must(cu.CtxSynchronize(), "synchronize");
      lab.must(cu.MemcpyDtoH(of.pinned, of.device, bytes), "cuMemcpyDtoH");
      const auto later = static_cast<std::size_t>(std::count(of.pinned, of.pinned + bytes, 3));
      changed += later != 0;
      most = std::max(most, later);
    }
    lab.shows(name + ".changed_later", "copied in " + std::to_string(changed) + " of " +
                                           std::to_string(tries) + " tries, at most " + std::to_string(most) +
                                           " bytes");
    Stream blocking(lab, CU_STREAM_DEFAULT);
    for (const auto& [held, stream] :
         {std::pair{"legacy", CU_STREAM_LEGACY}, std::pair{"blocking", CUstream(blocking)}}) {
      Gate gate(lab, stream);
      std::memset(of.pageable.get(), 2, bytes);
      Background call(lab, [&] { return cu.MemcpyHtoD(of.device, of.pageable.get(), bytes); });
      const bool returns = call.returns_within(250ms);
      std::memset(of.pageable.get(), 3, bytes); // is it read before the work that is held?
      gate.open();
      std::string text = (returns ? "returns " : "waits ") + lab.name_of(call.join());
      lab.must(cu.CtxSynchronize(), "synchronize");
      lab.must(cu.MemcpyDtoH(of.pinned, of.device, bytes), "cuMemcpyDtoH");
      const auto later = std::count(of.pinned, of.pinned + bytes, 3);
      lab.shows(name + ".behind_" + held, text + ", " + std::to_string(later) + " bytes read later");
    }
  }
}

} // namespace

std::vector<Scenario> early_copies_scenarios() {
  return {{"copying.early_returns", early_returns, Place::probe},
          {"copying.early_places", early_places, Place::probe},
          {"copying.early_sources", early_sources, Place::probe}};
}

} // namespace transcript
