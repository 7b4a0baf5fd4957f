// SPDX-License-Identifier: MIT
#include "fixture.hpp"

TEST_CASE("peer access is from one context to a context of another device, and enabled once") {
  Fixture f({.devices = 2});
  CUcontext same_device = nullptr, far = nullptr;
  OK(f.cu.context_create(&same_device, 0, 0));
  OK(f.cu.context_create(&far, 0, 1));
  OK(f.cu.context_set(f.context));
  CHECK(f.cu.disable_peer(far) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  CHECK(f.cu.enable_peer(far, 1) == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.enable_peer(far, 0));
  CHECK(f.cu.enable_peer(far, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  CHECK(f.cu.enable_peer(f.context, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  CHECK(f.cu.enable_peer(same_device, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  OK(f.cu.context_set(far));
  OK(f.cu.enable_peer(f.context, 0)); // the other direction is enabled by itself
  OK(f.cu.context_set(f.context));
  OK(f.cu.disable_peer(far));
  CHECK(f.cu.disable_peer(far) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  CUcontext popped = nullptr;
  while (f.cu.context_pop(&popped) == CUDA_SUCCESS) {
  }
  CHECK(f.cu.enable_peer(far, 0) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("only a relaxed capture survives a change of peer access") {
  Fixture f({.devices = 2});
  CUcontext far = nullptr;
  OK(f.cu.context_create(&far, 0, 1));
  OK(f.cu.context_set(f.context));
  CUgraph graph = nullptr;
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    OK(f.cu.begin_capture(f.stream, mode));
    CHECK(f.cu.enable_peer(far, 0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(f.cu.end_capture(f.stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(f.cu.begin_capture(f.stream, mode));
    CHECK(f.cu.disable_peer(far) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); // although it is not enabled
    CHECK(f.cu.end_capture(f.stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(f.cu.enable_peer(far, 0));
  OK(f.cu.disable_peer(far));
  OK(f.cu.end_capture(f.stream, &graph));
}
