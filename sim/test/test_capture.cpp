// SPDX-License-Identifier: MIT
#include "fixture.hpp"

#include <thread>

namespace sim = cuevent::sim;

namespace {

constexpr auto global = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto per_thread = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

struct CaptureFixture : Fixture {
  using Fixture::Fixture;

  void begin(CUstreamCaptureMode mode) { OK(cu.begin_capture(stream, mode)); }
  CUresult end(CUstream where) {
    CUgraph graph = nullptr;
    const CUresult result = cu.end_capture(where, &graph);
    CHECK((graph != nullptr) == (result == CUDA_SUCCESS));
    if (graph != nullptr) OK(cu.graph_destroy(graph));
    return result;
  }
  CUresult end() { return end(stream); }
  CUresult on_another_thread(CUresult (*call)(CaptureFixture&, CUevent), CUevent event) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    std::thread([&] { result = call(*this, event); }).join();
    return result;
  }
};

CUresult query(CaptureFixture& f, CUevent event) { return f.cu.event_query(event); }
CUresult query_relaxed(CaptureFixture& f, CUevent event) {
  CUstreamCaptureMode mode = relaxed;
  OK(f.cu.exchange_mode(&mode));
  const CUresult result = f.cu.event_query(event);
  OK(f.cu.exchange_mode(&mode));
  return result;
}

constexpr auto ok = CUDA_SUCCESS;
constexpr auto unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
constexpr auto invalidated = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

} // namespace

TEST_CASE("querying an outside event breaks a capture of the same thread unless the capture is relaxed") {
  for (auto [mode, expected] : {std::pair{global, unsupported}, {per_thread, unsupported}, {relaxed, ok}}) {
    CaptureFixture f;
    const CUevent outside = f.event();
    OK(f.cu.event_record(outside, f.new_stream()));
    sim::run_until_idle();
    f.begin(mode);
    CHECK(f.cu.event_query(outside) == expected);
    CHECK(f.end() == (expected == ok ? ok : invalidated));
    f.begin(mode);
    CHECK(f.cu.event_synchronize(outside) == expected);
    CHECK(f.end() == (expected == ok ? ok : invalidated));
    f.begin(mode);
    float ms = 0;
    CHECK(f.cu.event_elapsed(&ms, outside, outside) == ok);
    const CUevent fresh = f.event();
    CHECK(f.cu.event_destroy(fresh) == ok);
    CHECK(f.end() == ok);
  }
}

TEST_CASE(
    "querying an outside event on another thread breaks only global captures, and none in relaxed mode") {
  for (auto [mode, expected] : {std::pair{global, unsupported}, {per_thread, ok}, {relaxed, ok}}) {
    CaptureFixture f;
    const CUevent outside = f.event();
    f.begin(mode);
    CHECK(f.on_another_thread(query_relaxed, outside) == ok);
    CHECK(f.on_another_thread(query, outside) == expected);
    CHECK(f.end() == (expected == ok ? ok : invalidated));
  }
}

TEST_CASE("querying an event recorded in a capture breaks the capture in every mode") {
  for (auto mode : {global, per_thread, relaxed}) {
    CaptureFixture f;
    const CUevent inside = f.event();
    f.begin(mode);
    OK(f.cu.event_record(inside, f.stream));
    CHECK(query_relaxed(f, inside) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(f.cu.event_query(inside) == CUDA_ERROR_INVALID_VALUE);
    CHECK(f.cu.event_synchronize(inside) == CUDA_ERROR_INVALID_VALUE);
    float ms = 0;
    CHECK(f.cu.event_elapsed(&ms, inside, inside) == CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureStatus status{};
    OK(f.cu.is_capturing(f.stream, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK(f.work(f.stream) == invalidated);
    CHECK(f.end() == invalidated);
    CHECK(f.cu.event_query(inside) == CUDA_ERROR_INVALID_VALUE);
    CHECK(f.cu.stream_wait(f.stream, inside, 0) == CUDA_ERROR_INVALID_VALUE);
    OK(f.cu.event_record(inside, f.stream));
    CHECK(f.cu.event_synchronize(inside) == ok); // a record outside makes the event usable again
  }
}

TEST_CASE("a plain wait for an outside event breaks a capture, and an external one adds a node") {
  for (auto mode : {global, per_thread, relaxed}) {
    CaptureFixture f;
    const CUevent outside = f.event();
    OK(f.cu.event_record(outside, f.new_stream()));
    f.begin(mode);
    CHECK(f.cu.stream_wait(f.stream, outside, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    CHECK(f.end() == invalidated);
    f.begin(mode);
    CHECK(f.cu.stream_wait(f.stream, outside, CU_EVENT_WAIT_EXTERNAL) == ok);
    CUgraph graph = nullptr;
    OK(f.cu.end_capture(f.stream, &graph));
    std::size_t count = 0;
    OK(f.cu.graph_nodes(graph, nullptr, &count));
    CHECK(count == 1);
  }
}

TEST_CASE("a forked stream must be joined if it did work") {
  CaptureFixture f;
  const CUstream fork = f.new_stream();
  const CUevent begin = f.event(), done = f.event();
  auto start = [&] {
    f.begin(global);
    OK(f.cu.event_record(begin, f.stream));
    OK(f.cu.stream_wait(fork, begin, 0));
  };
  start();
  CHECK(f.end() == ok); // the fork did no work
  start();
  OK(f.work(fork));
  CHECK(f.end() == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  start();
  OK(f.work(fork));
  OK(f.cu.event_record(done, fork));
  OK(f.cu.stream_wait(f.stream, done, 0));
  CHECK(f.end() == ok);
  start();
  OK(f.work(fork));
  OK(f.cu.event_record(done, fork));
  OK(f.cu.stream_wait(f.stream, done, 0));
  OK(f.work(fork)); // after the join
  CHECK(f.end() == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  start();
  CHECK(f.end(fork) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  CHECK(f.end() == invalidated);
  start();
  OK(f.work(fork));
  const CUevent external = f.event();
  OK(f.cu.event_record_with_flags(external, fork, CU_EVENT_RECORD_EXTERNAL)); // joins nothing
  OK(f.cu.stream_wait(f.stream, external, 0));
  OK(f.cu.stream_wait(f.stream, external, CU_EVENT_WAIT_EXTERNAL));
  CHECK(f.end() == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  OK(f.work(f.stream));
  OK(f.work(fork));
}

TEST_CASE("two captures cannot be merged") {
  CaptureFixture f;
  const CUstream other = f.new_stream();
  const CUevent e = f.event();
  f.begin(global);
  OK(f.cu.begin_capture(other, global));
  OK(f.cu.event_record(e, f.stream));
  CHECK(f.cu.stream_wait(other, e, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CHECK(f.end() == invalidated);
  CHECK(f.end(other) == invalidated);
}

TEST_CASE("a capture must end on the thread that began it") {
  CaptureFixture f;
  f.begin(global);
  CHECK(f.on_another_thread([](CaptureFixture& g, CUevent) { return g.end(); }, nullptr) ==
        CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  CHECK(f.end() == CUDA_ERROR_ILLEGAL_STATE);
  f.begin(relaxed);
  CHECK(f.on_another_thread([](CaptureFixture& g, CUevent) { return g.end(); }, nullptr) == ok);
}

TEST_CASE("a capture begins only once, never on the legacy stream, and ends only if it began") {
  CaptureFixture f;
  CHECK(f.end() == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(f.cu.begin_capture(CU_STREAM_LEGACY, global) == unsupported);
  f.begin(global);
  CHECK(f.cu.begin_capture(f.stream, global) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(f.end() == ok);
}

TEST_CASE(
    "using the legacy stream breaks the capture of a blocking stream, and querying the status does not") {
  CaptureFixture f;
  const CUstream blocking = f.new_stream(CU_STREAM_DEFAULT);
  const CUevent e = f.event();
  OK(f.cu.begin_capture(blocking, global));
  CUstreamCaptureStatus status{};
  CHECK(f.cu.is_capturing(CU_STREAM_LEGACY, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  OK(f.cu.is_capturing(blocking, &status));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(f.cu.event_record(e, CU_STREAM_LEGACY) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(f.end(blocking) == invalidated);
  f.begin(global); // of a non-blocking stream
  CHECK(f.cu.event_record(e, CU_STREAM_LEGACY) == ok);
  CHECK(f.end() == ok);
}

#if CUDA_VERSION >= 12050
TEST_CASE("recording a whole context breaks all captures in the context") {
  CaptureFixture f;
  const auto record_context = f.cu.find<PFN_cuCtxRecordEvent_v12050>("cuCtxRecordEvent", 12050);
  const CUevent e = f.event();
  f.begin(relaxed);
  CHECK(record_context(f.context, e) == unsupported);
  CHECK(f.end() == invalidated);
  sim::hold(f.stream);
  OK(f.work(f.stream));
  OK(record_context(f.context, e));
  CHECK(f.cu.event_query(e) == CUDA_ERROR_NOT_READY);
  sim::release(f.stream);
  CHECK(f.cu.event_synchronize(e) == ok);
}
#endif

TEST_CASE("an event recorded in a capture is an ordinary one again once it is recorded outside") {
  CaptureFixture f;
  const CUevent e = f.event();
  f.begin(global);
  OK(f.cu.event_record(e, f.stream));
  OK(f.cu.event_record(e, f.new_stream()));
  CHECK(query_relaxed(f, e) != CUDA_ERROR_CAPTURED_EVENT);
  CHECK(f.end() == ok);
}

TEST_CASE("a capture can fork to another device and join back, and a query there breaks it") {
  CaptureFixture f({.devices = 2});
  const CUevent begin = f.event();
  CUcontext second = nullptr;
  OK(f.cu.context_create(&second, 0, 1));
  const CUstream there = f.new_stream();
  const CUevent done = f.event(), outside = f.event();
  f.begin(global);
  OK(f.cu.event_record(begin, f.stream));
  OK(f.cu.stream_wait(there, begin, 0));
  CUdeviceptr memory = 0;
  CUstreamCaptureMode mode = relaxed;
  OK(f.cu.exchange_mode(&mode));
  OK(f.cu.allocate(&memory, 64));
  OK(f.cu.exchange_mode(&mode));
  OK(f.cu.fill_32(memory, 1, 16, there));
  OK(f.cu.event_record(done, there));
  OK(f.cu.stream_wait(f.stream, done, 0));
  CHECK(f.end() == ok);
  f.begin(global);
  CHECK(f.cu.event_query(outside) == unsupported);
  CHECK(f.end() == invalidated);
}
