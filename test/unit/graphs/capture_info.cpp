// SPDX-License-Identifier: MIT
#include <cuevent/capture_info.hpp>

#include "overloads.hpp"

#include <type_traits>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(std::is_copy_constructible_v<CaptureInfo> && std::is_nothrow_move_constructible_v<CaptureInfo>);
static_assert(std::is_nothrow_default_constructible_v<CaptureInfo>);

namespace {

constexpr CUgraphEdgeData plain{}, programmatic{1, 0, 1, {}};

bool same(const std::vector<CUgraphEdgeData>& edges, const std::vector<unsigned char>& ports) {
  if (edges.size() != ports.size()) return false;
  for (std::size_t i = 0; i < edges.size(); ++i)
    if (edges[i].from_port != ports[i]) return false;
  return true;
}

} // namespace

TEST_CASE_METHOD(RecordingFixture, "capture_info copies what the driver says about an active capture") {
  const std::vector nodes{node_handle(3), node_handle(1)};
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  recording.frontier(nodes);
  const CaptureInfo info = capture_info(context, stream);
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuStreamGetCaptureInfo", nullptr}});
  recording.frontier({}); // the driver's array is gone
  CHECK(info.status() == CaptureStatus::active);
  CHECK(info.id() == 1);
  CHECK(info.frontier() == nodes);
  CHECK(info.frontier_edges().empty());
  {
    const Graph graph = info.graph();
    CHECK(graph);
    CHECK(graph.context() == context);
    CHECK(graph.native_handle() == info.graph().native_handle());
  }
  CHECK(recording.calls().empty()); // the graph is borrowed
}

TEST_CASE_METHOD(RecordingFixture, "capture_info of a default stream asks in the given context") {
  for (CUstream const standard : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    capture_info(context, standard);
    const std::vector<Call> calls = recording.calls_with_contexts();
    REQUIRE(calls.size() == 5);
    CHECK(calls[3] == Call{"cuStreamGetCaptureInfo", context_handle(1)});
  }
}

TEST_CASE_METHOD(RecordingFixture, "capture_info believes the driver only about an active capture") {
  for (const auto& [driver_status, status] :
       {std::pair{CU_STREAM_CAPTURE_STATUS_NONE, CaptureStatus::none},
        std::pair{CU_STREAM_CAPTURE_STATUS_INVALIDATED, CaptureStatus::invalidated}}) {
    recording.capture_status(driver_status); // the stubs fill in everything else all the same
    const CaptureInfo info = capture_info(context, stream);
    CHECK(info.status() == status);
    CHECK(info.id() == 0);
    CHECK(info.frontier().empty());
    CHECK_THAT(refusal<IllegalState>([&] { info.graph(); }), ContainsSubstring("check that status()"));
  }
  refusal<IllegalState>([] { CaptureInfo().graph(); });
}

TEST_CASE_METHOD(RecordingFixture, "edges that are plain are left out, and others are copied") {
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  recording.frontier({node_handle(1), node_handle(2)}, {plain, plain});
  CHECK(capture_info(context, stream).frontier_edges().empty());
  recording.frontier({node_handle(1), node_handle(2)}, {plain, programmatic});
  CHECK(same(capture_info(context, stream).frontier_edges(), {0, 1}));
  for (const CUgraphEdgeData edge :
       {CUgraphEdgeData{1, 0, 0, {}}, CUgraphEdgeData{0, 1, 0, {}}, CUgraphEdgeData{0, 0, 1, {}}}) {
    recording.frontier({node_handle(1)}, {edge});
    CHECK(capture_info(context, stream).frontier_edges().size() == 1);
  }
}

TEST_CASE_METHOD(RecordingFixture, "capture_info works on a driver that knows no edges") {
  const Driver old = RecordingDriver::driver(12020);
  const Context there = Context::borrow(context_handle(1), old);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  recording.frontier({node_handle(1)}, {programmatic});
  recording.calls();
  const CaptureInfo info = capture_info(there, stream);
  CHECK(recording.calls() == Names{"cuStreamGetCaptureInfo"});
  CHECK(info.frontier() == std::vector{node_handle(1)});
  CHECK(info.frontier_edges().empty());
}

TEST_CASE_METHOD(RecordingFixture, "the overloads of capture_info agree") {
  CaptureInfo info;
  for (CUstream const asked : {stream, CU_STREAM_PER_THREAD})
    for (const CUstreamCaptureStatus status :
         {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE}) {
      recording.capture_status(status);
      CHECK(check_overloads(
                recording, [&] { capture_info(context, asked); },
                [&] { return try_capture_info(info, context, asked); }) == CUDA_SUCCESS);
    }
  CHECK(check_overloads(
            recording, [&] { capture_info(Context(), stream); },
            [&] { return try_capture_info(info, Context(), stream); }) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_METHOD(RecordingFixture, "a failed capture_info says why and assigns nothing") {
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CaptureInfo info = capture_info(context, stream);
  recording.frontier({});
  recording.fail_next("cuStreamGetCaptureInfo", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(try_capture_info(info, context, CU_STREAM_LEGACY) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(info.frontier().size() == 1);
  recording.fail_next("cuStreamGetCaptureInfo", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK_THAT(refusal<StreamCaptureImplicit>([&] { capture_info(context, CU_STREAM_LEGACY); }),
             ContainsSubstring("CU_STREAM_NON_BLOCKING"));
}
