// SPDX-License-Identifier: MIT
#include <cuevent/stage_timer.hpp>

#include "recording_fixture.hpp"

#include <cstdlib>
#include <dlfcn.h>

using namespace cuevent;
using namespace test;

#ifdef NVTX_TOOL // the headers of NVTX are there

namespace {

struct ToolFixture : RecordingFixture {
  // NVTX looks for a tool when the process calls it for the first time.
  ToolFixture() { REQUIRE(setenv("NVTX_INJECTION64_PATH", NVTX_TOOL, 1) == 0); }

  StageTimer timer_with(StageRanges ranges) {
    return StageTimer(context, {.events_per_stream = 16, .side_streams = 0, .ranges = ranges});
  }

  /// What the tool was told since the last call.
  static std::string told() {
    static void* const tool = dlopen(NVTX_TOOL, RTLD_NOW);
    REQUIRE(tool != nullptr);
    return reinterpret_cast<const char* (*)()>(dlsym(tool, "nvtx_tool_lines"))();
  }

  /// `lines` with the ids of the ranges counted from the last range before.
  std::string since(std::uint64_t first, std::string lines) {
    for (std::size_t at = 0; (at = lines.find('#', at)) != std::string::npos;)
      lines.replace(at, 2, std::to_string(first + static_cast<std::uint64_t>(lines[at + 1] - '0')));
    return lines;
  }

  /// Begins and ends one range, and returns its id.
  std::uint64_t last_range() {
    StageTimer timer = timer_with(StageRanges::nvtx);
    timer.open(stream, timer.stage("probe"));
    timer.close(stream);
    const std::string lines = told();
    REQUIRE_THAT(lines, ContainsSubstring("begin "));
    return std::strtoull(lines.substr(6).c_str(), nullptr, 10);
  }
};

} // namespace

TEST_CASE_METHOD(ToolFixture, "stages of several streams are ranges with their names") {
  const std::uint64_t before = last_range();
  {
    StageTimer timer = timer_with(StageRanges::nvtx);
    const StageId copy = timer.stage("copy"), compute = timer.stage("compute");
    CHECK(timer.stage("copy") == copy);
    timer.open(stream, copy);
    timer.open(stream_handle(2), compute); // ends after the stage that began before it
    timer.next(stream, compute);
    timer.close(stream);
    timer.close(stream_handle(2));
  }
  CHECK(told() == since(before, "begin #1 copy in cuevent\n"
                                "begin #2 compute in cuevent\n"
                                "end #1\n"
                                "begin #3 compute in cuevent\n"
                                "end #3\n"
                                "end #2\n"));
}

TEST_CASE_METHOD(ToolFixture, "a stage without room is a range, and a stage that fails is none") {
  const std::uint64_t before = last_range();
  StageTimer timer(context, {.events_per_stream = 2, .side_streams = 0, .ranges = StageRanges::nvtx});
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_NOT_READY); // the device makes no progress
  const StageId stage = timer.stage("stage");
  timer.open(stream, stage);
  timer.close(stream);
  CHECK_FALSE(timer.open(stream, stage));
  timer.close(stream);
  recording.fail_nothing();
  recording.fail_always("cuStreamIsCapturing", CUDA_ERROR_INVALID_VALUE);
  CHECK(timer.try_open(stream, stage) == CUDA_ERROR_INVALID_VALUE);
  recording.fail_nothing();
  CHECK(told() == since(before, "begin #1 stage in cuevent\nend #1\nbegin #2 stage in cuevent\nend #2\n"));
}

TEST_CASE_METHOD(ToolFixture, "a timer that ends also ends the ranges of its open stages") {
  const std::uint64_t before = last_range();
  {
    StageTimer timer = timer_with(StageRanges::nvtx);
    timer.open(stream, timer.stage("outer"));
    timer.open(stream, timer.stage("inner"));
    const StageTimer moved = std::move(timer);
    CHECK(told() == since(before, "begin #1 outer in cuevent\nbegin #2 inner in cuevent\n"));
  }
  CHECK(told() == since(before, "end #1\nend #2\n"));
}

TEST_CASE_METHOD(ToolFixture, "without the option, a timer calls no tool") {
  last_range();
  StageTimer timer = timer_with(StageRanges::none);
  timer.open(stream, timer.stage("stage"));
  timer.close(stream);
  CHECK(told().empty());
}

#else

TEST_CASE_METHOD(RecordingFixture, "a build without NVTX refuses to make ranges, and says why") {
  const StageTimerOptions options{.ranges = StageRanges::nvtx};
  CHECK_THAT(refusal<NotSupported>([&] { StageTimer timer(context, options); }),
             ContainsSubstring("built without NVTX"));
  StageTimer timer;
  CHECK(StageTimer::try_create(timer, context, options) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK_FALSE(timer);
}

#endif
