// SPDX-License-Identifier: MIT
// Calls that are wrong in two ways: a device was measured to answer with the error that stands here.
#include "fixture.hpp"

#include <thread>

namespace sim = cuevent::sim;

namespace {

constexpr auto relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
constexpr unsigned unknown = 0x100;
constexpr auto invalid_value = CUDA_ERROR_INVALID_VALUE;
constexpr auto invalid_handle = CUDA_ERROR_INVALID_HANDLE;
constexpr auto invalid_context = CUDA_ERROR_INVALID_CONTEXT;
constexpr auto invalidated = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
constexpr auto implicit = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;

struct CheckFixture : Fixture {
  CheckFixture() {
    OK(cu.host_allocate(&memory, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    *static_cast<unsigned*>(memory) = 0;
    word = reinterpret_cast<CUdeviceptr>(memory);
  }
  CUstreamCaptureStatus status(CUstream of) const {
    CUstreamCaptureStatus found{};
    OK(cu.is_capturing(of, &found));
    return found;
  }
  bool active(CUstream of) const { return status(of) == CU_STREAM_CAPTURE_STATUS_ACTIVE; }
  bool broken(CUstream of) const { return status(of) == CU_STREAM_CAPTURE_STATUS_INVALIDATED; }
  CUresult end(CUstream of) const {
    CUgraph graph = nullptr;
    return cu.end_capture(of, &graph);
  }
  /// The stream captures, and its capture is invalidated.
  void break_capture(CUstream of) const {
    OK(cu.begin_capture(of, relaxed));
    REQUIRE(cu.stream_query(of) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  CUevent event_of_another_context() {
    CUcontext other = nullptr;
    OK(cu.context_create(&other, 0, 0));
    const CUevent made = event();
    OK(cu.context_pop(&other));
    return made;
  }

  void* memory = nullptr;
  CUdeviceptr word = 0;
};

} // namespace

TEST_CASE("a record checks the stream and its capture, then the event, then the flags") {
  CheckFixture f;
  const CUevent event = f.event();
  const CUevent foreign = f.event_of_another_context();
  CHECK(f.cu.event_record_with_flags(nullptr, f.stream, unknown) == invalid_handle);
  CHECK(f.cu.event_record_with_flags(foreign, f.stream, unknown) == invalid_value);
  CHECK(f.cu.event_record_with_flags(foreign, f.stream, CU_EVENT_RECORD_EXTERNAL) ==
        CUDA_ERROR_ILLEGAL_STATE);
  CHECK(f.cu.event_record(foreign, f.stream) == invalid_handle);
  f.break_capture(f.stream);
  CHECK(f.cu.event_record(nullptr, f.stream) == invalidated);
  CHECK(f.cu.event_record_with_flags(event, f.stream, unknown) == invalidated);
  OK(f.cu.context_set(nullptr));
  CHECK(f.cu.event_record(nullptr, nullptr) == invalid_context);
}

TEST_CASE("a record on the legacy stream next to a capture says so before it looks at the event") {
  CheckFixture f;
  const CUstream blocking = f.new_stream(CU_STREAM_DEFAULT);
  OK(f.cu.begin_capture(blocking, relaxed));
  CHECK(f.cu.event_record(nullptr, nullptr) == implicit);
  CHECK(f.broken(blocking));
}

TEST_CASE("a wait checks the stream and its capture, then the flags, then the event") {
  CheckFixture f;
  const CUevent event = f.event();
  CHECK(f.cu.stream_wait(f.stream, nullptr, unknown) == invalid_value);
  const CUevent captured = f.event();
  OK(f.cu.begin_capture(f.stream, relaxed));
  OK(f.cu.event_record(captured, f.stream));
  CHECK(f.cu.stream_wait(f.stream, event, unknown) == invalid_value);
  CHECK(f.cu.stream_wait(f.stream, nullptr, unknown) == invalid_value);
  CHECK(f.active(f.stream));
  OK(f.end(f.stream));
  CHECK(f.cu.stream_wait(f.stream, captured, CU_EVENT_WAIT_EXTERNAL) == invalid_value);
  CHECK(f.cu.stream_wait(f.stream, event, CU_EVENT_WAIT_EXTERNAL) == CUDA_ERROR_ILLEGAL_STATE);
  OK(f.cu.begin_capture(f.stream, relaxed));
  CHECK(f.cu.stream_wait(f.stream, nullptr, 0) == invalid_handle);
  CHECK(f.broken(f.stream));
  CHECK(f.cu.stream_wait(f.stream, nullptr, unknown) == invalidated);
  OK(f.cu.context_set(nullptr));
  CHECK(f.cu.stream_wait(nullptr, nullptr, unknown) == invalid_context);
}

TEST_CASE("a wait of the legacy stream for a captured event harms the capture of each blocking stream") {
  CheckFixture f;
  const CUstream blocking = f.new_stream(CU_STREAM_DEFAULT);
  const CUevent captured = f.event();
  OK(f.cu.begin_capture(f.stream, relaxed));
  OK(f.cu.event_record(captured, f.stream));
  OK(f.cu.begin_capture(blocking, relaxed));
  CHECK(f.cu.stream_wait(nullptr, captured, 0) == implicit);
  CHECK(f.broken(f.stream));
  CHECK(f.broken(blocking));

  // Next to captures that are all invalidated, the capture of the event is unharmed.
  const CUstream third = f.new_stream();
  OK(f.cu.begin_capture(third, relaxed));
  OK(f.cu.event_record(captured, third));
  CHECK(f.cu.stream_wait(nullptr, captured, 0) == implicit);
  CHECK(!f.broken(third));
}

TEST_CASE("memory operations check the capture before the flags, and no flag is known for a write") {
  CheckFixture f;
  for (const unsigned flags : {unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}, unknown}) {
    CHECK(f.cu.write_value_32(f.stream, f.word, 7, flags) == invalid_value);
    OK(f.cu.begin_capture(f.stream, relaxed));
    CHECK(f.cu.write_value_32(f.stream, f.word, 7, flags) == invalid_value);
    CHECK(f.active(f.stream));
    CUgraph graph = nullptr;
    std::size_t nodes = 0;
    OK(f.cu.end_capture(f.stream, &graph));
    OK(f.cu.graph_nodes(graph, nullptr, &nodes));
    CHECK(nodes == 0);
  }
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(*static_cast<unsigned*>(f.memory) == 0);
  f.break_capture(f.stream);
  CHECK(f.cu.write_value_32(f.stream, f.word, 7, unknown) == invalidated);
  CHECK(f.cu.wait_value_32(f.stream, f.word, 7, unknown) == invalidated);
}

TEST_CASE("without a current context an event is refused for the context and a stream for its flags") {
  CheckFixture f;
  OK(f.cu.context_set(nullptr));
  CUevent event = nullptr;
  CUstream stream = nullptr;
  CHECK(f.cu.event_create(&event, unknown) == invalid_context);
  CHECK(f.cu.event_create(nullptr, 0) == invalid_context);
  CHECK(f.cu.stream_create(&stream, unknown) == invalid_value);
  CHECK(f.cu.stream_create(&stream, 0) == invalid_context);
}

TEST_CASE("the elapsed time checks the start completely before the end") {
  CheckFixture f;
  const CUevent captured = f.event();
  const CUevent never = f.event();
  const CUevent pending = f.event();
  const CUevent foreign = f.event_of_another_context();
  const CUevent untimed = f.event(CU_EVENT_DISABLE_TIMING);
  sim::hold(f.stream);
  OK(f.cu.event_record(pending, f.stream));
  const CUstream other = f.new_stream();
  OK(f.cu.begin_capture(other, relaxed));
  OK(f.cu.event_record(captured, other));
  float ms = 0;
  CHECK(f.cu.event_elapsed(&ms, never, captured) == invalid_handle);
  CHECK(f.cu.event_elapsed(&ms, untimed, captured) == invalid_handle);
  CHECK(f.cu.event_elapsed(&ms, nullptr, captured) == invalid_handle);
  CHECK(f.cu.event_elapsed(&ms, captured, nullptr) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(f.cu.event_elapsed(&ms, pending, captured) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(f.cu.event_elapsed(&ms, pending, foreign) == invalid_handle);
  OK(f.end(other));
  CHECK(f.cu.event_elapsed(&ms, captured, nullptr) == invalid_value);
  CHECK(f.cu.event_elapsed(&ms, pending, pending) == CUDA_ERROR_NOT_READY);
  sim::release(f.stream);
}

TEST_CASE("the end of a capture looks at the thread last") {
  CheckFixture f;
  const CUstream fork = f.new_stream();
  const CUevent event = f.event();
  const auto begin_here_end_there = [&](auto in_between) {
    OK(f.cu.begin_capture(f.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    in_between();
    CUresult result = CUDA_SUCCESS;
    std::thread([&] { result = f.end(f.stream); }).join();
    CHECK(f.end(f.stream) == CUDA_ERROR_ILLEGAL_STATE); // it is over in each case
    return result;
  };
  CHECK(begin_here_end_there([] {}) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  CHECK(begin_here_end_there([&] { f.cu.stream_query(f.stream); }) == invalidated);
  CHECK(begin_here_end_there([&] {
          OK(f.cu.event_record(event, f.stream));
          OK(f.cu.stream_wait(fork, event, 0));
          OK(f.work(fork));
        }) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

TEST_CASE("a default stream cannot be destroyed, and the error depends on the context and the captures") {
  CheckFixture f;
  CHECK(f.cu.stream_destroy(CU_STREAM_LEGACY) == invalid_handle);
  CHECK(f.cu.stream_destroy(CU_STREAM_PER_THREAD) == invalid_handle);
  f.break_capture(f.new_stream(CU_STREAM_DEFAULT));
  CHECK(f.cu.stream_destroy(CU_STREAM_LEGACY) == implicit);
  CHECK(f.cu.stream_destroy(CU_STREAM_PER_THREAD) == invalid_handle);
  CHECK(f.cu.stream_destroy(nullptr) == invalid_handle);
  OK(f.cu.context_set(nullptr));
  CHECK(f.cu.stream_destroy(CU_STREAM_LEGACY) == invalid_context);
  CHECK(f.cu.stream_destroy(CU_STREAM_PER_THREAD) == invalid_context);
  CHECK(f.cu.stream_destroy(nullptr) == invalid_handle);
}
