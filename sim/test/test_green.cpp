// SPDX-License-Identifier: MIT
#include "fixture.hpp"

namespace sim = cuevent::sim;

#if CUDA_VERSION >= 12050

TEST_CASE("events of a primary and a green context of one device work with the streams of both") {
  Fixture f;
#define FIND(name, version) f.cu.find<PFN_##name##_v##version>(#name, version)
  const auto resources_of = FIND(cuDeviceGetDevResource, 12040);
  const auto describe = FIND(cuDevResourceGenerateDesc, 12040);
  const auto create_green = FIND(cuGreenCtxCreate, 12040);
  const auto destroy_green = FIND(cuGreenCtxDestroy, 12040);
  const auto context_of = FIND(cuCtxFromGreenCtx, 12040);
  const auto create_stream = FIND(cuGreenCtxStreamCreate, 12050);
  const auto record_context = FIND(cuCtxRecordEvent, 12050);
#undef FIND
  CUdevResource resource{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext primary = nullptr, green_context = nullptr;
  CUstream on_green = nullptr;
  OK(f.cu.primary_retain(&primary, 0));
  OK(resources_of(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  OK(describe(&description, &resource, 1));
  OK(create_green(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  OK(context_of(&green_context, green));
  OK(create_stream(&on_green, green, CU_STREAM_NON_BLOCKING, 0));
  OK(f.cu.context_push(primary));
  const CUevent of_primary = f.event();
  const CUstream on_primary = f.new_stream();
  OK(f.cu.context_push(green_context));
  const CUevent of_green = f.event();

  OK(f.cu.event_record(of_primary, on_green));
  OK(f.cu.event_record(of_green, on_primary));
  OK(f.cu.event_synchronize(of_green));
  float ms = 0;
  OK(f.cu.event_elapsed(&ms, of_primary, of_green));
  CHECK(f.cu.event_record(of_green, CU_STREAM_PER_THREAD) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.event_record(of_green, f.stream) == CUDA_ERROR_INVALID_HANDLE); // another context

  sim::hold(on_green);
  OK(f.cu.event_record(of_green, on_green));
  OK(record_context(primary, of_primary)); // applies to the streams of its green contexts too
  sim::run_until_idle();
  CHECK(f.cu.event_query(of_primary) == CUDA_ERROR_NOT_READY);
  sim::release(on_green);
  OK(f.cu.event_synchronize(of_primary));

  // A record of the green context does not come after a mere wait of its default stream.
  sim::hold(on_primary);
  OK(f.cu.event_record(of_primary, on_primary));
  OK(f.cu.stream_wait(CU_STREAM_LEGACY, of_primary, 0));
  OK(record_context(green_context, of_green));
  sim::run_until_idle();
  CHECK(f.cu.event_query(of_green) == CUDA_SUCCESS);
  sim::release(on_primary);
  OK(f.cu.event_synchronize(of_primary));

  OK(destroy_green(green));
  CHECK(f.cu.event_query(of_green) == CUDA_SUCCESS); // events outlive the green context
  CHECK(f.cu.stream_query(on_green) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

#endif
