// SPDX-License-Identifier: MIT
#include "rules/number_text.hpp"
#include "written_calls.hpp"

using namespace watch;
using namespace std::chrono_literals;

namespace {

constexpr Handle event = 0x100, other_event = 0x101, stream = 0x200, blocking_stream = 0x300;
constexpr std::uint64_t timed = 0, untimed = 2;

struct Process : WrittenProcess {
  Process() : WrittenProcess(cost_rules) {}
};

} // namespace

TEST_CASE("timed records are counted for all events of one place", "[watch][cost]") {
  Process process;
  process.see("cuEventCreate", {event, timed});
  process.see("cuEventCreate", {other_event, timed | 1});
  process.repeat(500, [&] {
    process.see("cuEventRecord", {event, stream});
    process.see("cuEventRecordWithFlags", {other_event, stream, 0});
  });
  CHECK(process.end() ==
        "timed-never-read 1000: events that were created here were recorded 1,000 times, and "
        "their time was never read");
}

TEST_CASE("a time that is read, or tried too early, is not wasted", "[watch][cost]") {
  for (const CUresult result : {CUDA_SUCCESS, CUDA_ERROR_NOT_READY}) {
    Process process;
    process.see("cuEventCreate", {event, timed});
    process.see("cuEventCreate", {other_event, timed});
    process.repeat(200, [&] { process.see("cuEventRecord", {event, stream}); });
    process.see("cuEventElapsedTime", {other_event, other_event}, result); // of the same place
    CHECK(process.end().empty());
  }
}

TEST_CASE("few records, untimed records and captured records cost nothing", "[watch][cost]") {
  Process process;
  process.see("cuEventCreate", {event, timed});
  process.repeat(99, [&] { process.see("cuEventRecord", {event, stream}); });
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.repeat(200, [&] { process.see("cuEventRecord", {event, stream}); });
  process.see("cuStreamEndCapture", {stream, 0x600});
  process.stack = 2;
  process.see("cuEventCreate", {other_event, untimed});
  process.repeat(200, [&] { process.see("cuEventRecord", {other_event, stream}); });
  process.repeat(200, [&] { process.see("cuEventRecord", {event, stream}, CUDA_ERROR_INVALID_HANDLE); });
  process.repeat(200, [&] { process.see("cuEventRecord", {0x999, stream}); }); // nobody knows it
  CHECK(process.end().empty());
}

TEST_CASE("records after a capture whose end failed are counted again", "[watch][cost]") {
  Process process;
  process.see("cuEventCreate", {event, timed});
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.see("cuStreamEndCapture", {stream, 0}, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  process.see("cuStreamEndCapture", {stream, 0}, CUDA_ERROR_ILLEGAL_STATE);
  process.repeat(100, [&] { process.see("cuEventRecord", {event, stream}); });
  CHECK(process.end().starts_with("timed-never-read 100:"));
}

TEST_CASE("a capture ends with the stream on which it began", "[watch][cost]") {
  Process process;
  process.see("cuEventCreate", {event, timed});
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.see("cuStreamDestroy_v2", {stream});
  process.repeat(100, [&] { process.see("cuEventRecord", {event, stream}); });
  CHECK(process.end().starts_with("timed-never-read 100:"));
}

TEST_CASE("events that live briefly are counted, with the size of a pool for them", "[watch][cost]") {
  Process process;
  process.repeat(600, [&] {
    for (const Handle made : {event, other_event})
      process.see("cuEventCreate", {made, untimed});
    for (const Handle made : {event, other_event}) {
      process.see("cuEventRecord", {made, stream});
      process.see("cuEventDestroy_v2", {made});
    }
  });
  CHECK(process.end() ==
        "created-in-a-loop 1200: 1,200 events were created here and destroyed after at most 4 "
        "records each; at most 2 of them lived at a time");
}

TEST_CASE("events that live at the same time, or are used for long, need no pool", "[watch][cost]") {
  Process process;
  for (Handle made = 0; made < 200; ++made)
    process.see("cuEventCreate", {0x1000 + made, untimed});
  for (Handle made = 0; made < 200; ++made)
    process.see("cuEventDestroy_v2", {0x1000 + made});
  process.stack = 2;
  process.repeat(200, [&] {
    process.see("cuEventCreate", {event, untimed});
    process.repeat(5, [&] { process.see("cuEventRecord", {event, stream}); });
    process.see("cuEventDestroy_v2", {event});
  });
  process.stack = 3;
  process.repeat(200, [&] { // for graphs
    process.see("cuEventCreate", {event, untimed});
    process.see("cuEventRecordWithFlags", {event, stream, CU_EVENT_RECORD_EXTERNAL});
    process.see("cuEventDestroy_v2", {event});
  });
  process.stack = 4;
  process.repeat(200, [&] { // each ends with its context
    process.see("cuEventCreate", {event, untimed});
    process.see("cuCtxDestroy_v2", {process.context});
  });
  CHECK(process.end().empty());
}

TEST_CASE("streams and executable graphs that live briefly are counted too", "[watch][cost]") {
  Process process;
  process.repeat(150, [&] {
    process.see("cuStreamCreate", {stream, 1});
    process.see("cuLaunchKernel", {stream, 0x800});
    process.see("cuStreamDestroy_v2", {stream});
    process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
    process.see("cuGraphLaunch", {0x700, 0x999});
    process.see("cuGraphExecDestroy", {0x700});
  });
  process.stack = 2;
  process.repeat(150, [&] { // used for long
    process.see("cuGraphInstantiateWithFlags", {0x701, 0x600});
    process.repeat(5, [&] { process.see("cuGraphLaunch", {0x701, 0x999}); });
    process.see("cuGraphExecDestroy", {0x701});
  });
  CHECK(process.end() ==
        "created-in-a-loop 150: 150 streams were created here and destroyed after at most 4 pieces of work "
        "each; at most 1 of them lived at a time\n"
        "created-in-a-loop 150: 150 graphs were instantiated here and destroyed after at most 4 launches "
        "each; at most 1 of them lived at a time");
}

TEST_CASE("waits for records of the same stream are counted", "[watch][cost]") {
  Process process;
  process.see("cuEventCreate", {event, untimed});
  process.repeat(120, [&] {
    process.see("cuEventRecord", {event, stream});
    process.see("cuStreamWaitEvent", {stream, event, 0});
    process.see("cuStreamWaitEvent", {blocking_stream, event, 0});
  });
  CHECK(process.end() == "wait-for-own-stream 120: streams waited here 120 times for their own records; the "
                         "event was recorded here on the same stream");
}

TEST_CASE("waits are counted with their time", "[watch][cost]") {
  Process process;
  process.duration = 3100us;
  const auto wait = [&](int times, const char* symbol, const std::vector<std::uint64_t>& words) {
    process.repeat(times, [&] {
      process.see("cuLaunchKernel", {stream, 0x800});
      process.see(symbol, words);
    });
  };
  wait(1000, "cuEventSynchronize", {event});
  process.duration = 20us;
  wait(100, "cuStreamSynchronize", {stream});
  wait(99, "cuCtxSynchronize", {});
  process.repeat(100, [&] { process.see("cuMemcpyDtoH_v2", {}); });
  CHECK(process.end() ==
        "blocking-in-a-loop 100: the thread waited 2 ms in 100 calls that were made here\n"
        "blocking-in-a-loop 1000: the thread waited 3.1 s in 1,000 calls that were made here\n"
        "blocking-in-a-loop 100: the thread waited 2 ms in 100 calls that were made here");
}

TEST_CASE("waits for what is complete, and failed waits, are not counted", "[watch][cost]") {
  Process process;
  process.duration = 1us;
  process.repeat(1000, [&] {
    process.see("cuLaunchKernel", {stream, 0x800});
    process.see("cuEventSynchronize", {event});
  });
  process.duration = 1ms;
  process.repeat(
      1000, [&] { process.see("cuStreamSynchronize", {stream}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); });
  CHECK(process.end().empty());
}

TEST_CASE("a thread that submits no work may wait", "[watch][cost]") {
  Process process;
  process.duration = 1ms;
  process.repeat(200, [&] {
    process.see("cuGraphLaunch", {0x700, stream});
    process.thread = 2;
    process.see("cuStreamSynchronize", {stream});
    process.thread = 1;
  });
  CHECK(process.end().empty());
}

TEST_CASE("queries after the event is known to be complete are counted", "[watch][cost]") {
  Process process;
  process.see("cuEventCreate", {event, untimed});
  process.see("cuEventRecord", {event, stream});
  process.repeat(500, [&] { process.see("cuEventQuery", {event}, CUDA_ERROR_NOT_READY); });
  process.repeat(121, [&] { process.see("cuEventQuery", {event}); });
  CHECK(process.end() ==
        "query-of-completed 120: events were queried here 120 times although they were known "
        "to be complete");
}

TEST_CASE("a new record makes the answer of a query new", "[watch][cost]") {
  Process process;
  process.see("cuEventCreate", {event, untimed});
  process.repeat(200, [&] { process.see("cuEventQuery", {event}); }); // never recorded
  process.repeat(200, [&] {
    process.see("cuEventRecord", {event, stream});
    process.repeat(50, [&] { process.see("cuEventQuery", {event}); });
  });
  CHECK(process.end().empty());
}

TEST_CASE("a graph or another process may have recorded an event again", "[watch][cost]") {
  const std::pair<const char*, std::vector<std::uint64_t>> ways[] = {
      {"cuEventRecordWithFlags", {event, stream, CU_EVENT_RECORD_EXTERNAL}},
      {"cuGraphAddEventRecordNode", {0x500, 0x600, event}},
      {"cuGraphEventRecordNodeSetEvent", {0x500, event}},
      {"cuGraphExecEventRecordNodeSetEvent", {0x700, 0x500, event}},
      {"cuIpcGetEventHandle", {event}},
      {"cuIpcOpenEventHandle", {event}},
  };
  for (const auto& [symbol, words] : ways) {
    Process process;
    process.see("cuEventCreate", {event, untimed});
    process.see(symbol, words);
    process.see("cuEventRecord", {event, stream});
    process.repeat(200, [&] { process.see("cuEventQuery", {event}); });
    INFO(symbol);
    CHECK(process.end().empty());
  }
}

TEST_CASE("legacy work that follows work on blocking streams is counted", "[watch][cost]") {
  Process process;
  process.see("cuStreamCreate", {blocking_stream, CU_STREAM_DEFAULT});
  process.repeat(100, [&] {
    process.repeat(3, [&] { process.see("cuLaunchKernel", {blocking_stream, 0x800}); });
    process.repeat(3, [&] { process.see("cuMemsetD8Async", {1}); });
  });
  CHECK(process.end() ==
        "legacy-between-streams 100: work was submitted to the legacy stream here 100 times while "
        "a blocking stream had newer work; a blocking stream was created here");
}

TEST_CASE("the per-thread stream is a blocking stream", "[watch][cost]") {
  Process process;
  process.repeat(100, [&] {
    process.see("cuLaunchKernel", {2, 0x800});
    process.see("cuGraphLaunch", {0x700, 1});
  });
  CHECK(process.end().starts_with("legacy-between-streams 100:"));
}

TEST_CASE("legacy work that waits for no other stream is not counted", "[watch][cost]") {
  Process process;
  process.see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
  process.see("cuStreamCreate", {blocking_stream, CU_STREAM_DEFAULT});
  const auto alternate = [&](Handle other) {
    process.repeat(200, [&] {
      process.see("cuLaunchKernel", {other, 0x800});
      process.see("cuMemsetD8Async", {1});
    });
  };
  alternate(stream);
  alternate(0x999); // nobody knows how it was created
  process.context = 0x401;
  alternate(blocking_stream); // of the other context
  process.context = 0x400;
  process.see("cuStreamBeginCapture_v2", {stream, 2});
  alternate(blocking_stream);
  process.see("cuStreamEndCapture", {stream, 0x600});
  process.see("cuStreamDestroy_v2", {blocking_stream});
  process.see("cuStreamCreate", {blocking_stream, CU_STREAM_NON_BLOCKING}); // another one
  alternate(blocking_stream);
  CHECK(process.end().empty());
}

TEST_CASE("numbers and times are short", "[watch][cost]") {
  CHECK(number_text(0) == "0");
  CHECK(number_text(999) == "999");
  CHECK(number_text(1000) == "1,000");
  CHECK(number_text(1234567) == "1,234,567");
  CHECK(time_text(12'400ns) == "12 us");
  CHECK(time_text(999'600ns) == "1 ms");
  CHECK(time_text(999'600us) == "1.0 s");
  CHECK(time_text(3'149ms) == "3.1 s");
  CHECK(time_text(1234s) == "1,234 s");
}
