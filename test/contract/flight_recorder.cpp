// SPDX-License-Identifier: MIT
// Marks on streams, and reports of where the streams have got to.
#include "destroyed.hpp"
#include "eventually.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/retired_events.hpp>
#include <cuevent/stage_timer.hpp>

#include <catch2/matchers/catch_matchers.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace test;
using namespace cuevent;
using Kind = FlightFinding::Kind;

namespace {

/// Few events, because the tests create and destroy all of them each time.
constexpr FlightRecorderOptions small{.marks_per_stream = 16};

FlightReport report_of(const FlightRecorder& recorder) {
  FlightReport report = recorder.report();
  CHECK(report.fault == CUDA_SUCCESS);
  CHECK(report.no_answer == CUDA_SUCCESS);
  return report;
}

template <class Named>
std::string name_of(const std::optional<Named>& named) {
  return named ? named->name : "none";
}

std::string next_on(const FlightRecorder& recorder, std::size_t stream = 0) {
  const FlightReport report = report_of(recorder);
  return stream < report.streams.size() ? name_of(report.streams[stream].next) : "no such stream";
}

/// Waits until the stream has done everything.
bool finished(const Context& context, CUstream stream) {
  DriverEvent done(context);
  done.record({context, stream});
  return done.synchronize_for(1min);
}

} // namespace

TEST_CASE_METHOD(StreamFixture, "a report has the last mark that was reached and the first that was not") {
  FlightRecorder recorder(context, small);
  recorder.add_stream(stream, "compute");
  recorder.mark(stream, "before");
  REQUIRE(finished(context, stream));
  CHECK(report_of(recorder).findings.empty());

  Gate gate(stream);
  recorder.mark(stream, "step 1");
  recorder.mark(stream, "step 2");
  FlightReport report = report_of(recorder);
  REQUIRE(report.streams.size() == 1);
  CHECK(report.streams[0].name == "compute");
  CHECK(report.streams[0].state == FlightState::running);
  CHECK(name_of(report.streams[0].reached) == "before");
  CHECK(name_of(report.streams[0].next) == "step 1");
  CHECK(report.streams[0].next.value().age >= 0ns);
  CHECK(report.streams[0].pending == 2);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::unfinished);

  gate.open();
  REQUIRE(finished(context, stream));
  report = report_of(recorder);
  CHECK(report.findings.empty());
  CHECK(name_of(report.streams[0].reached) == "step 2");
  CHECK(report.streams[0].pending == 0);
}

namespace {

const FlightRecorder* dumped = nullptr;
int nowhere = -1;
std::atomic<int> dumps{0};
timer_t interrupter{};
constexpr itimerspec soon{{0, 0}, {0, 100'000}};
void dump_in_handler(int) {
  dumped->dump(nowhere);
  ++dumps;
  timer_settime(interrupter, 0, &soon, nullptr); // only now, or a slow dump leaves no time for anything else
}

/// Sends SIGUSR1 to the thread that makes it, 0.1 ms after the previous handler has ended.
class Interruptions {
public:
  Interruptions() : before_(std::signal(SIGUSR1, dump_in_handler)) {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &interrupter) == 0);
    timer_settime(interrupter, 0, &soon, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;
  ~Interruptions() {
    timer_delete(interrupter);
    std::signal(SIGUSR1, before_);
  }

private:
  void (*before_)(int);
};

} // namespace

TEST_CASE_METHOD(Fixture, "a signal handler dumps at any moment, inside the driver and inside each member",
                 "[no-sweep]") {
  const Stream stream(context), captured(context);
  DriverEvent event(context);
  const int events = live_handles().events;
  FlightRecorder recorder(context, small);
  const auto graph = [&] {
    StreamCapture capture(context, captured);
    const FlightGraph named = recorder.name_capture(captured, "graph");
    recorder.mark(captured, "in the graph");
    const Graph ended = capture.end();
    return std::pair(named, ended.instantiate());
  };
  dumped = &recorder;
  nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dumps = 0;
  {
    const Interruptions interruptions;
    for (int rounds = 0; rounds < 20 || dumps < 100; ++rounds) {
      {
        const FlightScope scope(recorder, stream, "scope");
        event.record(stream);
        static_cast<void>(event.query());
      }
      recorder.add_stream({context, stream}, "stream");
      recorder.record(event, stream);
      recorder.wait(event, stream);
      recorder.note_signal(stream, &recorder, 1);
      recorder.note_wait(stream, &recorder, 1, "value");
      recorder.report();
      if (rounds % 10 == 0) {
        auto [named, exec] = graph();
        recorder.launch(exec, stream, named);
        event.record(stream);
        event.synchronize();
      }
      // Few of them, because their events stay with the recorder.
      if (rounds < 20) recorder.mark(Stream(context), "of a new stream");
    }
  }
  close(nowhere);
  CHECK(finished(context, stream));
  recorder = FlightRecorder();
  CHECK(destroyed_down_to(events, destroy_retired)); // the driver ends graphs on a thread of its own
}

TEST_CASE_METHOD(Fixture, "a report follows events from stream to stream, to the root") {
  const Stream compute(context), comm(context), copy(context);
  DriverEvent copied(context), reduced(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(compute, "compute");
  recorder.add_stream(comm, "comm");
  recorder.add_stream(copy, "copy");
  Gate gate(copy);
  recorder.mark(copy, "copy 3");
  recorder.record(copied, copy);
  recorder.wait(copied, comm);
  recorder.mark(comm, "all_reduce 17");
  recorder.record(reduced, comm);
  recorder.mark(compute, "step 17");
  recorder.wait(reduced, compute);
  recorder.mark(compute, "step 18");

  // What comes before the wait can take a moment.
  CHECK(test::eventually([&] { return next_on(recorder) == "step 18"; }));
  const FlightReport report = report_of(recorder);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].streams == std::vector<std::size_t>{2});
  CHECK(report.findings[0].held_up == 2);
  CHECK(report.untraced_waits == 0);
  CHECK_THAT(to_text(report),
             ContainsSubstring("stream 'compute' waits at 'step 18' for 'all_reduce 17' on "
                               "stream 'comm', which waits at 'all_reduce 17' for 'copy 3' on "
                               "stream 'copy', which was submitted"));
  gate.open();
  CHECK(finished(context, compute));
  CHECK(report_of(recorder).findings.empty());
}

TEST_CASE_METHOD(Fixture, "a stage timer tells a recorder of its records and waits") {
  const Stream first(context), second(context);
  DriverEvent event(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(first, "first");
  recorder.add_stream(second, "second");
  StageTimer timer(context, {.events_per_stream = 16});
  timer.add_stream(first);
  timer.add_stream(second);
  timer.set_flight_recorder(&recorder);
  Gate gate(first);
  recorder.mark(first, "work");
  timer.record(event, first);
  timer.wait(event, second);
  recorder.mark(second, "after");
  const FlightReport report = report_of(recorder);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].held_up == 1);
  CHECK(report.streams[1].state == FlightState::waiting);

  timer.set_flight_recorder(nullptr);
  CHECK(timer.try_record(event, second) == CUDA_SUCCESS);
  CHECK(timer.try_wait(event, first) == CUDA_SUCCESS);
  CHECK(report_of(recorder).progress == report.progress);
  gate.open();
  CHECK(finished(context, second));
  CHECK(finished(context, first));
  CHECK(report_of(recorder).untraced_waits == 0);
}

TEST_CASE_METHOD(Fixture, "a record that the recorder cannot mark ends the last record of the event") {
  const Context other = Context::create(0, driver);
  const Stream foreign(other), waiting(context);
  DriverEvent event(other);
  FlightRecorder recorder(context, small);
  recorder.add_stream({other, foreign}, "foreign");
  recorder.add_stream(waiting, "waiting");
  StageTimer timer(other, {.events_per_stream = 16});
  timer.set_flight_recorder(&recorder);
  Gate gate(foreign);
  recorder.record(event, foreign);
  SECTION("a throwing call") { timer.record(event, CU_STREAM_PER_THREAD); }
  SECTION("a call that does not throw") {
    CHECK(timer.try_record(event, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  }
  recorder.wait(event, waiting);
  recorder.mark(waiting, "after");
  CHECK(finished(context, waiting));
  CHECK(report_of(recorder).untraced_waits == 1);
  gate.open();
  CHECK(finished(other, foreign));
}

TEST_CASE_METHOD(Fixture, "an event that is recorded again stands for its last record") {
  const Stream first(context), second(context), waiting(context);
  DriverEvent event(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(first, "first");
  recorder.add_stream(second, "second");
  recorder.add_stream(waiting, "waiting");
  Gate gate(first);
  recorder.record(event, first);
  recorder.record(event, second);
  recorder.wait(event, waiting);
  recorder.mark(waiting, "after");
  CHECK(finished(context, waiting));
  CHECK(next_on(recorder, 2) == "none");

  DriverEvent unknown(context);
  recorder.wait(unknown, waiting);
  CHECK(report_of(recorder).untraced_waits == 1);
  gate.open();
  CHECK(finished(context, first));
}

TEST_CASE_METHOD(Fixture, "a wait in a capture is not a wait of the stream") {
  const Stream pending(context), captured(context);
  DriverEvent event(context), unknown(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(pending, "pending");
  recorder.add_stream(captured, "captured");
  Gate gate(pending);
  recorder.record(event, pending);
  {
    StreamCapture capture(context, captured);
    recorder.wait(event, captured, WaitFlags::external);
    recorder.wait(unknown, captured, WaitFlags::external);
    const FlightReport report = report_of(recorder);
    CHECK(report.streams[1].state == FlightState::idle);
    CHECK(report.untraced_waits == 0);
    capture.end();
  }
  CHECK(report_of(recorder).streams[1].state == FlightState::idle);
  gate.open();
  CHECK(finished(context, pending));
}

TEST_CASE_METHOD(Fixture, "default streams and streams of other contexts can be marked") {
  const Context other = Context::create(0, driver);
  const Stream foreign(other);
  FlightRecorder recorder(context, small);
  recorder.mark(nullptr, "null");
  recorder.mark(CU_STREAM_LEGACY, "legacy");
  recorder.mark(CU_STREAM_PER_THREAD, "per thread");
  recorder.mark(foreign, "foreign");
  recorder.add_stream({other, foreign}, "named");
  CHECK(finished(context, nullptr));
  CHECK(finished(context, CU_STREAM_PER_THREAD));
  CHECK(finished(other, foreign));
  const FlightReport report = report_of(recorder);
  REQUIRE(report.streams.size() == 3);
  CHECK(name_of(report.streams[0].reached) == "legacy"); // handle 0 is the same stream
  CHECK(report.streams[0].name == "stream 0");
  CHECK(name_of(report.streams[1].reached) == "per thread");
  CHECK(report.streams[2].name == "named");
  CHECK(name_of(report.streams[2].reached) == "foreign");

  CHECK_THROWS_AS(recorder.add_stream({other, nullptr}), ContextMismatch);
  CHECK_THROWS_AS(recorder.add_stream({context, foreign}), ContextMismatch);
  CHECK_THROWS_AS(recorder.add_stream({Context(), foreign}), InvalidContext);
}

TEST_CASE_METHOD(StreamFixture, "a full ring drops marks and counts them, and has room again later") {
  FlightRecorder recorder(context, small);
  Gate gate(stream);
  for (int i = 0; i < 100; ++i)
    recorder.mark(stream, "mark " + std::to_string(i));
  FlightReport report = report_of(recorder);
  REQUIRE(report.streams.size() == 1);
  CHECK(report.streams[0].dropped == 84);
  CHECK(name_of(report.streams[0].next) == "mark 0");
  CHECK(report.streams[0].pending == 16);
  gate.open();
  CHECK(finished(context, stream));
  for (int i = 0; i < 500; ++i) {
    recorder.mark(stream, "later " + std::to_string(i));
    CHECK(finished(context, stream));
  }
  report = report_of(recorder);
  CHECK(report.streams[0].dropped == 2 * 65); // the first of 65 marks looks for room
  CHECK(name_of(report.streams[0].reached) == "later 499");
}

TEST_CASE_METHOD(Fixture, "waits of a stream are traced however many came before") {
  const Stream stream(context), other(context);
  DriverEvent event(context);
  FlightRecorder recorder(context, small);
  for (int i = 0; i < 200; ++i) {
    recorder.record(event, other);
    recorder.wait(event, stream);
    recorder.mark(stream, "step");
    CHECK(finished(context, stream));
  }
  CHECK(report_of(recorder).untraced_waits == 0);
}

TEST_CASE_METHOD(Fixture, "streams that wait for each other's values are a deadlock") {
  const Stream a(context), b(context);
  FlightRecorder recorder(context, small);
  recorder.add_stream(a, "a");
  recorder.add_stream(b, "b");
  const int x = 0, y = 0;
  recorder.note_wait(a, &x, 1, "x");
  recorder.note_wait(b, &y, 1, "y");
  REQUIRE(finished(context, a));
  REQUIRE(finished(context, b));
  std::optional<Gate> gate(a); // stands for the two waits
  DriverEvent opened(context);
  opened.record(a);
  opened.wait(b);
  recorder.mark(a, "after x");
  recorder.note_signal(a, &y, 1);
  recorder.mark(b, "after y");
  recorder.note_signal(b, &x, 1);
  FlightReport report = report_of(recorder);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::deadlock);
  CHECK_THAT(report.findings[0].text, ContainsSubstring("stream 'a' waits at 'after x' for value 1 of 'x'"));
  gate.reset();
  CHECK(finished(context, b));
  CHECK(report_of(recorder).findings.empty());

  recorder.note_wait(a, &x, 2, "x");
  REQUIRE(finished(context, a));
  gate.emplace(a);
  recorder.mark(a, "behind the gate");
  report = report_of(recorder);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::no_signal);
  CHECK_THAT(report.findings[0].text, ContainsSubstring("for value 2 of 'x', which no stream"));
  gate.reset();
  CHECK(finished(context, a));
}

TEST_CASE_METHOD(Fixture, "a wait for a signal that is forgotten counts as not traced") {
  const Stream stream(context), other(context);
  FlightRecorder recorder(context, small);
  const int x = 0, y = 0;
  recorder.note_signal(other, &x, 1);
  for (int i = 0; i < (test::fault_is_planned() ? 2 : 3000); ++i) { // more signals than are kept
    recorder.note_signal(other, &y, 1);
    if (i % 16 == 0) CHECK(finished(context, other));
  }
  recorder.note_wait(stream, &x, 1, "x");
  REQUIRE(finished(context, stream));
  Gate gate(stream);
  recorder.mark(stream, "after x");
  if (!test::fault_is_planned()) {
    const FlightReport report = report_of(recorder);
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].kind == Kind::unfinished);
    CHECK(report.untraced_waits == 1);
  }
  gate.open();
  CHECK(finished(context, stream));
}

TEST_CASE_METHOD(StreamFixture, "a report names the call that a thread is inside") {
  FlightRecorder recorder(context, {.marks_per_stream = 16, .blocked_after = 0ns});
  Gate gate(stream);
  {
    const FlightScope scope(recorder, stream, "launch 7");
    const FlightReport report = report_of(recorder);
    REQUIRE(report.streams.size() == 1);
    REQUIRE(report.findings.size() == 1);
    REQUIRE(report.streams[0].call);
    CHECK(name_of(report.streams[0].call) == "launch 7");
    CHECK(report.findings[0].kind == Kind::full_queue);
  }
  CHECK(next_on(recorder) == "launch 7");
  CHECK(report_of(recorder).findings.size() == 1);
  gate.open();
  CHECK(finished(context, stream));
}

TEST_CASE_METHOD(StreamFixture, "a thread is not blocked in a call that it has just entered") {
  FlightRecorder recorder(context, {.marks_per_stream = 16, .blocked_after = 1h});
  Gate gate(stream);
  {
    const FlightScope scope(recorder, stream, "launch 7");
    const FlightReport report = report_of(recorder);
    REQUIRE(report.streams.size() == 1);
    CHECK(report.streams[0].call);
    CHECK(report.findings.empty());
  }
  gate.open();
  CHECK(finished(context, stream));
}

TEST_CASE_METHOD(StreamFixture, "a report creates and destroys nothing") {
  FlightRecorder recorder(context, small);
  recorder.mark(stream, "mark");
  const int before = test::live_handles().events;
  for (int i = 0; i < 10; ++i)
    report_of(recorder);
  CHECK(test::live_handles().events == before);
  CHECK(test::capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
}
