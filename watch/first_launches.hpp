// SPDX-License-Identifier: MIT
// Which kernels were launched before. The first launch of a kernel loads its code, which can wait until other
// kernels have ended.
#pragma once

#include <cstdint>

namespace watch {

/// True for the first launch with this handle, unless another one with the same hash came before.
[[gnu::hot]] bool is_first_launch(std::uint64_t function);

} // namespace watch
