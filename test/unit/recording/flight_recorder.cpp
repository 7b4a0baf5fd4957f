// SPDX-License-Identifier: MIT
// The driver calls of a flight recorder, and what it does not do: allocate, create, destroy.
#include <cuevent/flight_recorder.hpp>

#include "allocations.hpp"
#include "recording_fixture.hpp"

#include <catch2/matchers/catch_matchers.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <thread>
#include <type_traits>
#include <unistd.h>

using namespace cuevent;
using namespace test;
using Catch::Matchers::StartsWith;

static_assert(!std::is_copy_constructible_v<FlightRecorder>);
static_assert(std::is_nothrow_move_constructible_v<FlightRecorder> &&
              std::is_nothrow_move_assignable_v<FlightRecorder>);
static_assert(!std::is_copy_constructible_v<FlightScope> && !std::is_move_constructible_v<FlightScope>);

namespace {

struct RecorderFixture : RecordingFixture {
  FlightRecorder recorder{context, {.marks_per_stream = 16}};

  RecorderFixture() {
    recorder.add_stream(stream, "compute");
    recording.calls();
  }
  ~RecorderFixture() { recorder = FlightRecorder(); }
};

/// The two ends of a pipe.
struct Pipe {
  Pipe() { REQUIRE(pipe(ends) == 0); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  std::string read_all() const {
    char text[4096];
    const ssize_t size = read(ends[0], text, sizeof text);
    return {text, size < 0 ? 0 : static_cast<std::size_t>(size)};
  }
  int ends[2];
};

const FlightRecorder* dumped = nullptr;
int dump_file = -1;
void dump_in_handler(int) { dumped->dump(dump_file); }

} // namespace

TEST_CASE_METHOD(RecorderFixture, "a mark asks for a capture and records, and allocates nothing") {
  {
    const FailingAllocation each(0); // the stubs' own ones succeed
    for (int i = 0; i < 100; ++i)
      recorder.mark(stream, "a name that is longer than the forty bytes which a mark keeps");
  }
  CHECK_FALSE(FailingAllocation::happened());
  const Names calls = recording.calls();
  CHECK(Names(calls.begin(), calls.begin() + 4) ==
        Names{"cuStreamIsCapturing", "cuEventRecord", "cuStreamIsCapturing", "cuEventRecord"});
  CHECK(recorder.report().streams.at(0).dropped == 0);
  CHECK(recorder.report().progress == 100);
  CHECK(recorder.report().streams[0].reached.value().name == "a name that is longer than the forty byt");
}

TEST_CASE_METHOD(RecorderFixture, "a report asks events in relaxed capture mode, and few of them") {
  for (int i = 0; i < 16; ++i)
    recorder.mark(stream, "mark");
  recording.fail_always("cuEventQuery", CUDA_ERROR_NOT_READY);
  recording.calls();
  CHECK(recorder.report().streams.at(0).pending == 16);
  CHECK(recording.calls() == Names{"cuThreadExchangeStreamCaptureMode", "cuCtxGetId", "cuEventQuery",
                                   "cuThreadExchangeStreamCaptureMode"});
  recording.fail_nothing();
  CHECK(recorder.report().streams.at(0).pending == 0);
  CHECK(recording.calls().size() == 3 + 5); // the steps double
  // What was reached is not asked again.
  recorder.report();
  CHECK(recording.calls() ==
        Names{"cuThreadExchangeStreamCaptureMode", "cuCtxGetId", "cuThreadExchangeStreamCaptureMode"});
}

TEST_CASE_METHOD(RecorderFixture, "no event is asked in another capture mode") {
  recorder.mark(stream, "mark");
  recording.calls();
  recording.fail_next("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_ILLEGAL_ADDRESS);
  const FlightReport report = recorder.report();
  CHECK(recording.calls() == Names{"cuThreadExchangeStreamCaptureMode"});
  CHECK(report.fault == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_FALSE(report.streams.at(0).exact);
  CHECK(report.findings.at(0).kind == FlightFinding::Kind::fault);
}

TEST_CASE_METHOD(RecorderFixture, "after a fault a report knows what the last report saw") {
  recorder.mark(stream, "before");
  recorder.report();
  recorder.mark(stream, "suspect");
  recorder.mark(stream, "innocent");
  recording.fail_always("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
  const FlightReport report = recorder.report();
  CHECK(report.streams.at(0).reached.value().name == "before");
  CHECK_THAT(to_text(report),
             ContainsSubstring("'suspect' on stream 'compute' or one of the 1 marks after it"));
}

TEST_CASE_METHOD(RecorderFixture, "only an error of the device is a fault") {
  recorder.mark(stream, "reached");
  recorder.note_wait(stream, &recorder, 1, "gate");
  recorder.report();
  recorder.mark(stream, "pending"); // the wait may be over
  for (const char* call : {"cuThreadExchangeStreamCaptureMode", "cuEventQuery"})
    for (const CUresult result : {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_UNKNOWN}) {
      INFO(call << ": " << result);
      recording.fail_always(call, result);
      const FlightReport report = recorder.report();
      CHECK(report.fault == CUDA_SUCCESS);
      CHECK(report.no_answer == result);
      REQUIRE(report.findings.size() == 1);
      CHECK(report.findings[0].kind == FlightFinding::Kind::no_answer);
      CHECK_THAT(to_text(report),
                 StartsWith("The driver does not say what has completed: CUDA_ERROR_") &&
                     ContainsSubstring("; not seen to finish: 'pending' on stream 'compute'") &&
                     !ContainsSubstring("failed") && !ContainsSubstring("likely"));
      recording.fail_nothing();
    }
  recorder.report();
  recording.fail_always("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_DEINITIALIZED);
  CHECK(recorder.report().findings.empty()); // all was seen to finish
  CHECK(recorder.report().streams.at(0).exact);
  recording.fail_always("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_NOT_INITIALIZED);
  CHECK_THROWS_AS(recorder.report(), NotInitialized);
  recording.fail_nothing();
}

TEST_CASE_METHOD(RecorderFixture, "the work of a destroyed context is over, and nobody asks again") {
  DriverEvent event(context);
  recorder.record(event, stream);
  recorder.mark(stream, "mark");
  recorder.wait(event, stream);
  recording.fail_always("cuEventQuery", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  for (int i = 0; i < 2; ++i) {
    recording.calls();
    const FlightReport report = recorder.report();
    CHECK(recording.calls().size() == (i == 0 ? 4 : 2));
    CHECK(report.fault == CUDA_SUCCESS);
    CHECK(report.findings.empty());
    CHECK(report.streams.at(0).exact);
    CHECK(report.streams.at(0).state == FlightState::ended);
    CHECK(report.streams.at(0).pending == 0);
  }
}

TEST_CASE_METHOD(RecorderFixture,
                 "no event is queried after its context was reset, even if it is retained again") {
  recorder.mark(stream, "ours");
  const auto counted = [&](std::string_view call) {
    const Names calls = recording.calls();
    return std::count(calls.begin(), calls.end(), call);
  };
  recording.stream_context(context_handle(2));
  CUstream const of_others = stream_handle(2);
  recorder.add_stream(of_others, "theirs");
  recorder.mark(of_others, "their work");

  recording.reset_contexts(); // the handles of contexts and streams name others now
  recording.fail_always("cuEventQuery", CUDA_ERROR_LAUNCH_FAILED); // on a device, a crash
  recording.calls();
  for (int i = 0; i < 2; ++i) {
    const FlightReport report = recorder.report();
    CHECK(counted("cuEventQuery") == 0);
    CHECK(report.fault == CUDA_SUCCESS);
    CHECK(report.findings.empty());
    for (const FlightStream& each : report.streams) {
      CHECK(each.state == FlightState::ended);
      CHECK(each.exact);
      CHECK_THAT(to_text(report),
                 ContainsSubstring("stream '" + each.name + "' has ended, because its context"));
      CHECK_THAT(to_json(report), ContainsSubstring(R"("state":"ended")"));
      CHECK_THAT(to_svg(report), ContainsSubstring("ended with its context"));
    }
  }
  recording.fail_nothing();

  // A stream of the new context is a new stream, although it has the handle.
  const long events = RecordingDriver::live_events();
  recorder.mark(of_others, "again");
  CHECK(RecordingDriver::live_events() == events + 16);
  recorder.mark(stream, "after a report, also in the recorder's own context");
  const FlightReport report = recorder.report();
  REQUIRE(report.streams.size() == 4);
  CHECK(report.streams[2].reached.value().name == "again");
  CHECK(report.streams[2].state == FlightState::idle);
  CHECK(report.streams[3].state == FlightState::idle);
  const Pipe out;
  recorder.dump(out.ends[1]);
  CHECK_THAT(out.read_all(), ContainsSubstring("stream 1 'theirs': 1 places submitted, 1 seen reached, 0 "
                                               "dropped, ended with its context\n"));
  recording.stream_context(context.native_handle());
  recorder = FlightRecorder();
  while (RecordingDriver::live_events() > events_before) // left to the lost contexts
    driver.table().cuEventDestroy_v4000(nullptr);
}

TEST_CASE_METHOD(RecorderFixture,
                 "a mark of a foreign stream finds out by itself that the context has ended") {
  recording.stream_context(context_handle(2));
  CUstream const of_others = stream_handle(2);
  recorder.mark(of_others, "their work");
  recording.calls();
  recorder.mark(of_others, "their work");
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuStreamIsCapturing", "cuEventRecord"});
  recorder.mark(stream, "ours");
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuEventRecord"});
  recording.reset_contexts();
  const auto before = RecordingDriver::live_events();
  recorder.mark(of_others, "again");
  CHECK(RecordingDriver::live_events() == before + 16);
  { // also with a name, and for the other members
    recording.reset_contexts();
    const Context now = Context::borrow(context_handle(2), driver);
    recorder.add_stream({now, of_others}, "a third one");
    recording.reset_contexts();
    recorder.note_signal(of_others, &recorder, 1);
  }
  recording.calls();
  const FlightReport report = recorder.report();
  REQUIRE(report.streams.size() == 5);
  CHECK(report.streams[3].name == "a third one");
  CHECK(report.streams[3].state == FlightState::ended);
  CHECK(report.streams[4].state == FlightState::idle);
  recording.stream_context(context.native_handle());
  recorder = FlightRecorder();
  while (RecordingDriver::live_events() > events_before)
    driver.table().cuEventDestroy_v4000(nullptr);
}

TEST_CASE_METHOD(RecorderFixture,
                 "a stream that is named with another context is refused, and leaves nothing") {
  const Context other = Context::borrow(context_handle(2), driver);
  CUstream const added = stream_handle(2);
  CHECK_THAT(refusal<ContextMismatch>([&] {
               recorder.add_stream({other, added}, "wrong");
             }),
             ContainsSubstring("name the context of the stream, or none"));
  CHECK(recorder.try_add_stream({other, added}, "wrong") == CUDA_ERROR_INVALID_HANDLE);
  CHECK(recorder.try_add_stream({other, stream}, "wrong") == CUDA_ERROR_INVALID_HANDLE);
  recorder.add_stream({context, added}, "right");
  recorder.mark(added, "mark");
  const FlightReport report = recorder.report();
  REQUIRE(report.streams.size() == 2);
  CHECK(report.streams[0].name == "compute");
  CHECK(report.streams[1].name == "right");
}

TEST_CASE_METHOD(RecordingFixture, "a dump visits each stream once, in the order in which they were added") {
  const auto recorder_of = [&](std::uintptr_t streams) {
    FlightRecorder made(context, {.marks_per_stream = 1});
    for (std::uintptr_t i = 0; i < streams; ++i)
      made.add_stream(stream_handle(16 + 8 * i));
    return made;
  };
  const FlightRecorder few = recorder_of(40), many = recorder_of(500), more = recorder_of(8 * 500);
  const Pipe out;
  few.dump(out.ends[1]);
  const std::string text = out.read_all();
  std::size_t at = 0;
  for (int i = 0; i < 40 && at != std::string::npos; ++i)
    at = text.find("stream " + std::to_string(i) + " '", at);
  CHECK(at != std::string::npos);

  // The processor's time, of the fastest of some tries. With a walk for each stream, it would be 64 times.
  const int nowhere = open("/dev/null", O_WRONLY);
  const auto cost = [&](const FlightRecorder& recorder) {
    const auto now = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    };
    double least = 1e18;
    for (int i = 0; i < 5; ++i) {
      const double begin = now();
      recorder.dump(nowhere);
      least = std::min(least, now() - begin);
    }
    return least;
  };
  CHECK(cost(more) < 40 * cost(many));
  close(nowhere);
}

TEST_CASE_METHOD(RecorderFixture, "a dump needs no driver and no memory, also in a signal handler") {
  recorder.mark(stream, "reached \x01\xff\xc3\xbc");
  recorder.report();
  recorder.mark(stream, "pending");
  DriverEvent event(context);
  recorder.record(event, stream);
  recording.calls();
  const Pipe out;
  dumped = &recorder;
  dump_file = out.ends[1];
  auto* const handler = std::signal(SIGUSR1, dump_in_handler);
  const std::size_t before = allocations_of_this_thread();
  errno = 7;
  std::raise(SIGUSR1);
  const int error_after = errno;
  const std::size_t after = allocations_of_this_thread(); // not in a CHECK, which could allocate first
  CHECK(after == before);
  CHECK(error_after == 7);
  CHECK(recording.calls().empty());
  std::signal(SIGUSR1, handler);
  const std::string text = out.read_all();
  CHECK_THAT(text, ContainsSubstring("stream 0 'compute': 3 places submitted, 1 seen reached, 0 dropped\n"));
  CHECK_THAT(text, ContainsSubstring("  reached  'reached ??\xc3\xbc', submitted 0.0"));
  CHECK_THAT(text, ContainsSubstring("  pending  'pending', submitted"));
  CHECK_THAT(text, ContainsSubstring("  pending  a record or a signal, submitted"));
  CHECK_THAT(text, ContainsSubstring("end of the flight recorder\n"));
}

TEST_CASE_METHOD(RecorderFixture, "reports and dumps read marks while they are made") {
  const Pipe out;
  std::atomic<bool> stop = false;
  std::atomic<int> reports = 0;
  bool wrong = false;
  std::thread reader([&] {
    const RecordingDriver calls_of_this_thread;
    while (!stop) {
      const FlightReport report = recorder.report();
      for (const FlightStream& each : report.streams)
        for (const auto& mark : {each.reached, each.next})
          if (mark && mark->name != "aaaaaaaaaaaaaaaaaaaaaaaa" && mark->name != "bbbbbbbbbbbbbbbbbbbbbbbb")
            wrong = true;
      if (reports == 0) recorder.dump(out.ends[1]);
      ++reports;
    }
  });
  for (int i = 0; i < 20'000 || reports < 10; ++i)
    recorder.mark(stream, i % 2 == 0 ? "aaaaaaaaaaaaaaaaaaaaaaaa" : "bbbbbbbbbbbbbbbbbbbbbbbb");
  stop = true;
  reader.join();
  CHECK_FALSE(wrong);
  CHECK(recorder.report().streams.at(0).pending == 0);
  recording.fail_always("cuEventQuery", CUDA_ERROR_NOT_READY);
  recorder.mark(stream, "bbbbbbbbbbbbbbbbbbbbbbbb");
  CHECK(recorder.report().streams.at(0).pending == 1);
  CHECK_THAT(out.read_all(), ContainsSubstring("end of the flight recorder"));
}

TEST_CASE_METHOD(RecordingFixture, "a recorder without marks, or with too many, is refused") {
  for (const std::size_t marks : {std::size_t{0}, std::size_t{1} << 25, SIZE_MAX}) {
    const FlightRecorderOptions options{.marks_per_stream = marks};
    CHECK(refusal<InvalidValue>([&] { FlightRecorder(context, options); }).find(": use ") !=
          std::string::npos);
    FlightRecorder recorder;
    CHECK(FlightRecorder::try_create(recorder, context, options) == CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE_METHOD(RecorderFixture, "no event is asked for a mark whose node the driver has refused") {
  const auto queries = [&] {
    recording.calls();
    static_cast<void>(recorder.report());
    const Names calls = recording.calls();
    return std::count(calls.begin(), calls.end(), "cuEventQuery");
  };
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  recording.fail_next("cuEventRecordWithFlags", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(recorder.mark(stream, "refused"), OutOfMemory);
  CHECK(queries() == 0);
  recorder.mark(stream, "accepted");
  CHECK(queries() == 1);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE_METHOD(RecordingFixture, "a mark in a capture is a node, and the graph has its share first") {
  FlightRecorder recorder(context, {.marks_per_stream = 2});
  recorder.add_stream(stream);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  recording.calls();
  recorder.mark(stream, "first");
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamIsCapturing", "cuStreamGetCaptureInfo",
                                   "cuUserObjectCreate", "cuGraphRetainUserObject", "cuCtxGetCurrent",
                                   "cuCtxGetId", "cuCtxPushCurrent", "cuEventCreate", "cuCtxPopCurrent",
                                   "cuEventRecordWithFlags"});
  CHECK(recording.record_flags() == CU_EVENT_RECORD_EXTERNAL);
  recorder.mark(stream, "second");
  CHECK(recording.calls().size() == 9); // the capture is known
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
}
