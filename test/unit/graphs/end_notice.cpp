// SPDX-License-Identifier: MIT
// EndNotice: made, copied, ended, and its descriptor.
#include <cuevent/end_notice.hpp>
#include <cuevent/graph.hpp>

#include "recording_fixture.hpp"

#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(noexcept(EndNotice().ended()) && std::is_nothrow_copy_constructible_v<EndNotice>);

namespace {

bool readable(int descriptor) {
  pollfd asked{descriptor, POLLIN, 0};
  return poll(&asked, 1, 0) == 1;
}

} // namespace

TEST_CASE_METHOD(RecordingFixture, "a notice is true once the driver has ended the graph's object") {
  Graph graph = Graph::borrow(context, graph_handle(1));
  recording.calls();
  const EndNotice notice = graph.end_notice();
  CHECK(recording.calls() == Names{"cuUserObjectCreate", "cuGraphRetainUserObject"});
  const EndNotice copy = notice; // NOLINT(performance-unnecessary-copy-initialization): a second holder
  CHECK_FALSE(notice.ended());
  recording.end_user_objects();
  CHECK((notice.ended() && copy.ended()));
  CHECK(retired_events() == 0); // nothing waits for destroy_retired()
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "a graph outlives its notices, and notices outlive their graph") {
  std::optional<EndNotice> notice;
  {
    Graph graph = Graph::borrow(context, graph_handle(1));
    static_cast<void>(graph.end_notice());
    notice = graph.end_notice();
  }
  recording.end_user_objects();
  CHECK(notice->ended());
  notice.reset();
}

TEST_CASE_METHOD(RecordingFixture, "the notice of no graph never ends") {
  EndNotice none;
  CHECK_FALSE((none || none.ended()));
  int descriptor = 0;
  CHECK(none.try_native_handle(descriptor) == CUDA_ERROR_INVALID_HANDLE);
  refusal<InvalidHandle>([&] { static_cast<void>(none.native_handle()); });
  Graph empty;
  refusal<InvalidHandle>([&] { static_cast<void>(empty.end_notice()); });
  CHECK(empty.try_end_notice(none) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_FALSE(none);
}

TEST_CASE_METHOD(RecordingFixture, "a notice that the driver refuses leaves nothing behind") {
  Graph graph = Graph::borrow(context, graph_handle(1));
  EndNotice notice;
  for (const char* const call : {"cuUserObjectCreate", "cuGraphRetainUserObject"}) {
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(graph.try_end_notice(notice) == CUDA_ERROR_OUT_OF_MEMORY);
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    refusal<OutOfMemory>([&] { static_cast<void>(graph.end_notice()); });
    CHECK_FALSE(notice);
    recording.end_user_objects();
  }
}

TEST_CASE_METHOD(RecordingFixture, "the descriptor is readable from the end of the graph on") {
  Graph graph = Graph::borrow(context, graph_handle(1));
  std::optional<EndNotice> notice(graph.end_notice());
  EndNotice copy = *notice;
  const int descriptor = notice->native_handle();
  CHECK(copy.native_handle() == descriptor);
  CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK_FALSE(readable(descriptor));
  recording.end_user_objects();
  CHECK(readable(descriptor));
  notice.reset();
  CHECK(readable(descriptor)); // the copy keeps it open
  copy = EndNotice();
  CHECK(fcntl(descriptor, F_GETFD) == -1);
}

TEST_CASE_METHOD(RecordingFixture, "a descriptor that is asked for after the end is readable") {
  Graph graph = Graph::borrow(context, graph_handle(1));
  EndNotice notice = graph.end_notice();
  recording.end_user_objects();
  CHECK(readable(notice.native_handle()));
}

TEST_CASE_METHOD(RecordingFixture, "the descriptor is 0 if the program has closed its input") {
  const int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
  close(0);
  int descriptor = -1;
  bool is_readable = false;
  {
    Graph graph = Graph::borrow(context, graph_handle(1));
    EndNotice notice = graph.end_notice();
    descriptor = notice.native_handle();
    recording.end_user_objects();
    is_readable = readable(descriptor);
  }
  const bool is_closed = fcntl(descriptor, F_GETFD) == -1;
  if (input >= 0) dup2(input, 0);
  if (input >= 0) close(input);
  CHECK(descriptor == 0);
  CHECK((is_readable && is_closed));
}

TEST_CASE_METHOD(RecordingFixture,
                 "threads that ask for the descriptor at the end of the graph share a readable one") {
  for (int round = 0; round < 200; ++round) {
    Graph graph = Graph::borrow(context, graph_handle(1));
    const EndNotice notice = graph.end_notice();
    int descriptors[2] = {-1, -1};
    std::vector<std::thread> threads;
    for (int& descriptor : descriptors)
      threads.emplace_back([copy = notice, &descriptor]() mutable { descriptor = copy.native_handle(); });
    recording.end_user_objects();
    for (std::thread& thread : threads)
      thread.join();
    REQUIRE(descriptors[0] == descriptors[1]);
    REQUIRE(readable(descriptors[0]));
  }
}
