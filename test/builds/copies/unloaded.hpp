// SPDX-License-Identifier: MIT
// What a plugin does before it is unloaded, and what its program then expects.
#pragma once

#include <cuda.h>

/// `capturing` is a stream that is being captured. The program owns it, and the graph. Returns null, or what
/// went wrong.
using UsePlugin = const char*(const char* use, CUcontext context, CUstream stream, CUstream capturing,
                              CUgraph graph);
