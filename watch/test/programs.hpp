// SPDX-License-Identifier: MIT
// A test program of `cuevent watch` is a function. MISTAKE or HARMLESS registers it by its name, with what
// has to be found. programs.cpp has main(), and check-programs compares what is found.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

/// Ends the program if the call gives another result.
inline void expect(CUresult result, CUresult wanted = CUDA_SUCCESS) {
  if (result == wanted) return;
  std::fprintf(stderr, "a call returned %d instead of %d\n", static_cast<int>(result),
               static_cast<int>(wanted));
  std::exit(3);
}

/// The first device, its primary context, and two streams.
class Gpu {
public:
  Gpu() {
    expect(cuInit(0));
    expect(cuDevicePrimaryCtxRetain(&context, 0));
    expect(cuCtxSetCurrent(context));
    a = stream(), b = stream();
    expect(cuMemAlloc(&memory, 4096));
  }

  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) const {
    CUstream made = nullptr;
    expect(cuStreamCreate(&made, flags));
    return made;
  }
  CUevent event(unsigned flags = CU_EVENT_DISABLE_TIMING) const {
    CUevent made = nullptr;
    expect(cuEventCreate(&made, flags));
    return made;
  }
  void work(CUstream on) const { expect(cuMemsetD8Async(memory, 1, 64, on)); }

  /// Another context of the same device. It becomes current.
  CUcontext other_context() const {
    CUcontext made = nullptr;
#if CUDA_VERSION >= 13000
    expect(cuCtxCreate(&made, nullptr, 0, 0));
#else
    expect(cuCtxCreate(&made, 0, 0));
#endif
    return made;
  }

  CUcontext context = nullptr;
  CUstream a = nullptr, b = nullptr;
  CUdeviceptr memory = 0;
};

struct Program {
  const char* rules; // which find the mistake, with spaces between them. "" for a program that is right
  const char* name;
  void (*run)(Gpu&, bool corrected);
  const char* what;    // is wrong, or looks wrong and is not
  const char* options; // of `cuevent watch`
  const char* source;  // the file
};

std::vector<Program>& programs();

struct Listed {
  /// Unless the program says otherwise, a mistake needs no option, and the others waste and leak nothing.
  Listed(const char* rules, const char* name, void (*run)(Gpu&, bool), const char* what,
         const char* options = nullptr, const char* source = __builtin_FILE()) {
    const char* const usual = *rules != 0 ? "" : "--cost --leaks";
    programs().push_back({rules, name, run, what, options != nullptr ? options : usual, source});
  }
};

#define CUEVENT_PROGRAM(rules, name, ...)                                                                    \
  static void name(Gpu&, bool);                                                                              \
  static const Listed listed_##name(rules, #name, name, __VA_ARGS__);                                        \
  static void name([[maybe_unused]] Gpu& gpu, [[maybe_unused]] bool corrected)
/// MISTAKE(rules, name, what[, options]). One finding has to name every line that ends with `//!`. If
/// `corrected` is true, the program has the smallest change that makes it right, and nothing may be found.
#define MISTAKE(rules, name, ...) CUEVENT_PROGRAM(rules, name, __VA_ARGS__)
/// HARMLESS(name, what[, options]). Nothing may be found.
#define HARMLESS(name, ...) CUEVENT_PROGRAM("", name, __VA_ARGS__)
