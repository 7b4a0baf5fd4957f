// SPDX-License-Identifier: MIT
// Which kernels were launched before. The first launch of a kernel loads its code, which can wait until other
// kernels have ended.
#pragma once

#include <cstdint>

namespace watch {

/// True once for each kernel. A few kernels are never told apart from another one.
[[gnu::hot]] bool is_first_launch(std::uint64_t function);

} // namespace watch
