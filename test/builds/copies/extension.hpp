// SPDX-License-Identifier: MIT
// What a program sees of an extension that contains a cuevent: no type of cuevent.
#pragma once

#include <cuda.h>

struct Extension {
  const char* (*type)(); // the name of its DriverEvent's type
  bool (*leases)(CUcontext context,
                 CUstream stream); // whether it recorded a pool's event, and saw it reached
  void (*fails)();                 // throws its exception for CUDA_ERROR_INVALID_VALUE
};

using Extend = Extension();
