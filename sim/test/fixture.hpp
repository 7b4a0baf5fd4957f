// SPDX-License-Identifier: MIT
#pragma once

#include "raw_driver.hpp"

#include <catch2/catch_test_macros.hpp>

#define OK(call) REQUIRE((call) == CUDA_SUCCESS)

/// A machine with a current context, a non-blocking stream and a kernel.
struct Fixture {
  explicit Fixture(const cuevent::sim::Options& options = {}) : machine(options) {
    OK(cu.init(0));
    OK(cu.context_create(&context, 0, 0));
    OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
    CUmodule module = nullptr;
    OK(cu.module_load(&module, ".version 8.0 .visible .entry work() { ret; }"));
    OK(cu.module_function(&kernel, module, "work"));
  }

  CUevent event(unsigned flags = 0) {
    CUevent made = nullptr;
    OK(cu.event_create(&made, flags));
    return made;
  }
  CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    OK(cu.stream_create(&made, flags));
    return made;
  }
  CUresult work(CUstream where) { return cu.launch(kernel, 1, 1, 1, 1, 1, 1, 0, where, nullptr, nullptr); }

  cuevent::sim::Machine machine;
  RawDriver cu;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUfunction kernel = nullptr;
};
