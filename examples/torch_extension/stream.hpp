// SPDX-License-Identifier: MIT
// How this extension sees a torch.cuda.Stream, and which contexts PyTorch uses.
#pragma once

#include <cuevent/context.hpp>

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>

/// The primary context of a device, which PyTorch uses too. It is kept until the process ends, so
/// that nothing ends it when the interpreter ends. The caller holds the GIL.
inline const cuevent::Context& primary(int device) {
  static auto& contexts = *new std::map<int, cuevent::Context>;
  if (const auto found = contexts.find(device); found != contexts.end()) return found->second;
  return contexts.emplace(device, cuevent::Context::primary(device)).first->second;
}

/// A stream of PyTorch. Its handle alone is not enough: the default stream of every device has the
/// handle 0.
struct Stream {
  const cuevent::Context* context = nullptr;
  CUstream handle = nullptr;
};

namespace pybind11::detail {
/// Accepts a torch.cuda.Stream, and any other object with its two attributes. So an extension works
/// with every version of PyTorch, and can be tested without PyTorch.
template <>
struct type_caster<Stream> {
  PYBIND11_TYPE_CASTER(Stream, const_name("torch.cuda.Stream"));

  bool load(handle stream, bool /*convert*/) {
    if (!hasattr(stream, "cuda_stream") || !hasattr(stream, "device_index")) return false;
    value.context = &primary(stream.attr("device_index").cast<int>());
    value.handle = reinterpret_cast<CUstream>(stream.attr("cuda_stream").cast<std::uintptr_t>());
    return true;
  }
};
} // namespace pybind11::detail
