// SPDX-License-Identifier: MIT
#include <cuevent/capture_fork.hpp>

#include "overloads.hpp"

#include <stdexcept>
#include <type_traits>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(!std::is_copy_constructible_v<CaptureFork> && !std::is_move_constructible_v<CaptureFork>);
static_assert(std::is_nothrow_destructible_v<CaptureFork>);

namespace {

using Nodes = std::vector<CUgraphNode>;
constexpr auto node = node_handle;
constexpr CUgraphEdgeData plain{}, programmatic{1, 0, 1, {}};

std::vector<int> ports(const std::vector<CUgraphEdgeData>& edges) {
  std::vector<int> found;
  for (const CUgraphEdgeData& edge : edges)
    found.push_back(edge.from_port);
  return found;
}

struct ForkFixture : RecordingFixture {
  ForkFixture() {
    recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recording.frontier({node(1)});
  }
  /// Work that is captured makes this node the frontier.
  void work(std::uintptr_t n) { recording.frontier({node(n)}); }
};

} // namespace

TEST_CASE_METHOD(ForkFixture, "dependencies are added to the frontier or replace it") {
  add_capture_dependencies(context, stream, {node(2), node(3)});
  CHECK(recording.frontier() == Nodes{node(1), node(2), node(3)});
  set_capture_dependencies(context, stream, {node(4)});
  CHECK(recording.frontier() == Nodes{node(4)});
  set_capture_dependencies(context, stream, {});
  CHECK(recording.frontier().empty());
  CHECK(recording.calls_with_contexts() ==
        std::vector<Call>(3, {"cuStreamUpdateCaptureDependencies", nullptr}));
  add_capture_dependencies(context, CU_STREAM_PER_THREAD, {node(5)});
  CHECK(recording.calls_with_contexts().at(3) ==
        Call{"cuStreamUpdateCaptureDependencies", context_handle(1)});
}

TEST_CASE_METHOD(ForkFixture, "edges reach the driver unless they are all plain") {
  const Nodes nodes{node(2), node(3)};
  const std::vector<CUgraphEdgeData> edges{plain, programmatic}, all_plain{plain, plain};
  set_capture_dependencies(context, stream, nodes, edges);
  CHECK(ports(recording.frontier_edges()) == std::vector{0, 1});

  const Context old = Context::borrow(context_handle(1), RecordingDriver::driver(12020));
  set_capture_dependencies(old, stream, nodes, all_plain);
  CHECK(ports(recording.frontier_edges()) == std::vector{0, 0});
  recording.calls();
  CHECK_THAT(refusal<NotSupported>([&] { set_capture_dependencies(old, stream, nodes, edges); }),
             ContainsSubstring("needs a driver for CUDA 12.3"));
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(ForkFixture, "bad dependencies are refused without a driver call") {
  const Nodes nodes{node(2), node(3)}, with_null{node(2), nullptr};
  const std::vector<CUgraphEdgeData> one_edge{plain};
  for (const auto change : {set_capture_dependencies, add_capture_dependencies}) {
    CHECK_THAT(refusal<InvalidValue>([&] { change(context, stream, nodes, one_edge); }),
               ContainsSubstring("one for each node"));
    CHECK_THAT(refusal<InvalidValue>([&] { change(context, stream, with_null, {}); }),
               ContainsSubstring("a node is null"));
    refusal<InvalidContext>([&] { change(Context(), stream, nodes, {}); });
  }
  CHECK(recording.calls().empty());
  for (const auto& [result, advice] : {std::pair{CUDA_ERROR_INVALID_VALUE, "another graph"},
                                       std::pair{CUDA_ERROR_ILLEGAL_STATE, "not being captured"}}) {
    recording.fail_next("cuStreamUpdateCaptureDependencies", result);
    try {
      add_capture_dependencies(context, stream, nodes);
      FAIL("nothing was thrown");
    } catch (const DriverError& error) {
      CHECK(error.result() == result);
      CHECK_THAT(error.what(), ContainsSubstring(advice));
    }
  }
}

TEST_CASE_METHOD(ForkFixture, "the overloads that change dependencies agree") {
  for (CUstream const asked : {stream, CU_STREAM_PER_THREAD}) {
    CHECK(check_overloads(
              recording, [&] { set_capture_dependencies(context, asked, {node(2)}); },
              [&] { return try_set_capture_dependencies(context, asked, {node(2)}); }) == CUDA_SUCCESS);
    CHECK(check_overloads(
              recording, [&] { add_capture_dependencies(context, asked, {node(2)}); },
              [&] { return try_add_capture_dependencies(context, asked, {node(2)}); }) == CUDA_SUCCESS);
  }
  CHECK(try_add_capture_dependencies(Context(), stream, {}) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_METHOD(ForkFixture,
                 "each branch begins at the fork, and the join follows the end of every branch") {
  {
    CaptureFork fork(context, stream);
    CHECK(recording.calls() == Names{"cuStreamGetCaptureInfo"});
    work(2);
    fork.next_branch();
    CHECK(recording.frontier() == Nodes{node(1)});
    recording.frontier({node(3), node(4)});
    fork.next_branch();
    CHECK(recording.frontier() == Nodes{node(1)});
    work(5);
    recording.calls();
    fork.join();
    CHECK(recording.calls() == Names{"cuStreamGetCaptureInfo", "cuStreamUpdateCaptureDependencies"});
    CHECK(recording.frontier() == Nodes{node(5), node(2), node(3), node(4)});
    fork.join(); // has no effect
  }
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(ForkFixture, "a scope that ends joins its branches, also with an exception") {
  HookedErrors hooked;
  const auto leave_by_exception = [&] {
    CaptureFork fork(context, stream);
    work(2);
    fork.next_branch();
    work(3);
    throw std::runtime_error("first");
  };
  CHECK_THROWS_AS(leave_by_exception(), std::runtime_error);
  CHECK(recording.frontier() == Nodes{node(3), node(2)});
  CHECK(hooked.take() == CUDA_SUCCESS);
}

TEST_CASE_METHOD(ForkFixture, "a branch without work leaves no trace") {
  {
    CaptureFork fork(context, stream);
    fork.next_branch(); // the first
    work(2);
    fork.next_branch();
    fork.next_branch(); // between others
    work(3);
    fork.next_branch(); // the last
  }
  CHECK(recording.frontier() == Nodes{node(2), node(3)});
  recording.frontier({node(1)});
  { CaptureFork fork(context, stream); }
  { CaptureFork fork(context, stream), inner(context, stream); }
  CHECK(recording.frontier() == Nodes{node(1)});
  recording.frontier({}); // at the begin of a capture
  {
    CaptureFork fork(context, stream);
    work(2);
    fork.next_branch();
    CHECK(recording.frontier().empty());
    work(3);
  }
  CHECK(recording.frontier() == Nodes{node(3), node(2)});
}

TEST_CASE_METHOD(ForkFixture, "no node is added twice, and of two edges the stronger one stays") {
  {
    CaptureFork fork(context, stream);
    recording.frontier({node(2), node(7)}, {plain, programmatic});
    fork.next_branch();
    recording.frontier({node(7), node(3)}, {plain, programmatic});
    fork.next_branch();
    recording.frontier({node(3), node(7)}, {programmatic, plain});
    fork.join();
  }
  CHECK(recording.frontier() == Nodes{node(3), node(7), node(2)});
  CHECK(ports(recording.frontier_edges()) == std::vector{1, 0, 0});
}

TEST_CASE_METHOD(ForkFixture, "a fork begins with the edges that it found") {
  recording.frontier({node(1)}, {programmatic});
  CaptureFork fork(context, stream);
  work(2);
  fork.next_branch();
  CHECK(recording.frontier() == Nodes{node(1)});
  CHECK(ports(recording.frontier_edges()) == std::vector{1});
}

TEST_CASE_METHOD(ForkFixture, "only a stream in an active capture can fork") {
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK_THAT(refusal<IllegalState>([&] { CaptureFork fork(context, stream); }),
             ContainsSubstring("not being captured"));
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  refusal<StreamCaptureInvalidated>([&] { CaptureFork fork(context, stream); });
  refusal<InvalidContext>([&] { CaptureFork fork(Context(), stream); });
}

TEST_CASE_METHOD(ForkFixture, "after the end of its capture a fork joins nothing and says so") {
  HookedErrors hooked;
  for (const auto& [status, id] :
       {std::pair{CU_STREAM_CAPTURE_STATUS_NONE, 1}, std::pair{CU_STREAM_CAPTURE_STATUS_ACTIVE, 2},
        std::pair{CU_STREAM_CAPTURE_STATUS_INVALIDATED, 1}}) {
    recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
    recording.capture_id(1);
    {
      CaptureFork fork(context, stream);
      work(2);
      fork.next_branch();
      work(3);
      recording.capture_status(status);
      recording.capture_id(static_cast<unsigned>(id));
      recording.calls();
      if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
        refusal<StreamCaptureInvalidated>([&] { fork.join(); });
        refusal<StreamCaptureInvalidated>([&] { fork.next_branch(); });
      } else {
        CHECK_THAT(refusal<IllegalState>([&] { fork.join(); }), ContainsSubstring("has ended"));
        CHECK_THAT(refusal<IllegalState>([&] { fork.next_branch(); }), ContainsSubstring("has ended"));
      }
    }
    CHECK(recording.calls() == Names(3, "cuStreamGetCaptureInfo"));
    CHECK(hooked.take() == CUDA_SUCCESS);
  }
}

TEST_CASE_METHOD(ForkFixture, "after the join there is no further branch") {
  CaptureFork fork(context, stream);
  fork.join();
  CHECK_THAT(refusal<IllegalState>([&] { fork.next_branch(); }), ContainsSubstring("make another"));
}

TEST_CASE_METHOD(ForkFixture, "a failing call leaves no branch unjoined, and a retry joins once") {
  HookedErrors hooked;
  for (const char* const call : {"cuStreamGetCaptureInfo", "cuStreamUpdateCaptureDependencies"}) {
    recording.frontier({node(1)});
    {
      CaptureFork fork(context, stream);
      work(2);
      recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
      refusal<OutOfMemory>([&] { fork.next_branch(); });
      CHECK(recording.frontier() == Nodes{node(2)}); // this branch goes on
      fork.next_branch();
      work(3);
      recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
      refusal<OutOfMemory>([&] { fork.join(); });
    }
    CHECK(recording.frontier() == Nodes{node(3), node(2)});
    CHECK(hooked.take() == CUDA_SUCCESS);
  }
  { // The destructor joins without knowing what the last branch did.
    recording.frontier({node(1)});
    CaptureFork fork(context, stream);
    work(2);
    fork.next_branch();
    work(3);
    recording.fail_next("cuStreamGetCaptureInfo", CUDA_ERROR_OUT_OF_MEMORY);
  }
  CHECK(recording.frontier() == Nodes{node(3), node(2)});
  CHECK(hooked.take() == CUDA_ERROR_OUT_OF_MEMORY);
}
