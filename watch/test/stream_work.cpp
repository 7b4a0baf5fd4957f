// SPDX-License-Identifier: MIT
// What is pending on the streams of a process, from written calls and probes.
#include "rules/stream_work.hpp"

#include "recording/flight_analysis.hpp"
#include "written_calls.hpp"

namespace {

using namespace watch;
using namespace std::chrono_literals;
using cuevent::FlightFinding;
using cuevent::FlightReport;
using cuevent::FlightState;
using Kind = FlightFinding::Kind;

constexpr Handle a = 0xa00, b = 0xb00, c = 0xc00, event = 0x100, other_event = 0x101, spin = 0x500,
                 memory = 0x9000, context = 0x400, legacy = 1, reduce = 0x610, exchange = 0x611,
                 put_back = 0x7100;

/// A process whose calls and probes the test writes down. Every call takes a second.
class Process {
public:
  Process() {
    world.add(shared);
    for (const Handle stream : {a, b, c})
      see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    see("cuEventCreate", {event, 2});
    see("cuEventCreate", {other_event, 2});
  }

  void see(const char* symbol, const std::vector<std::uint64_t>& words, std::uint32_t thread = 1) {
    Call call = call_of(symbol, words);
    call.thread = thread;
    call.time = now_ += 1s;
    world.see(call);
  }

  void probe(Handle stream, bool late = false) {
    Call call;
    call.flags = late ? 1 : 0;
    call.entry = probe_entry;
    call.context = context;
    call.stream_handle = stream;
    call.number = ++state_of(stream).last;
    call.slot = state_of(stream).place;
    world.see(call);
  }

  void start_probes_again(Handle stream) { state_of(stream).last = 0; }

  /// A kernel, and a probe.
  void launch(Handle stream, Handle function = spin) {
    see("cuLaunchKernel", {stream, function});
    probe(stream);
  }

  void reach(Handle stream, std::uint64_t probe) {
    work.see(
        {ProbedState{state_of(stream).place, {stream, stream == legacy ? context : 0, 0}, false, 0, probe}});
  }
  void reach_all(Handle stream) { reach(stream, state_of(stream).last); }

  FlightReport report(std::vector<CallUnderWay> calls = {}) {
    const Moment moment{now_ + 1s, fault, {}, std::move(calls)};
    return cuevent::analyse(work.observe(
        moment,
        {[](Handle function) { return function == spin ? std::string("spin(int)") : std::string(); },
         [](const Call&) { return std::string("main.cpp:5"); },
         [](Handle address) { return address == put_back ? std::string("put_back") : std::string(); }}));
  }

  /// "stream 'stream 0xa00 ...' has not reached 'the end of ...'", without the names of places.
  std::string cause() { return report().findings.at(0).text; }

  World world;
  const std::shared_ptr<StreamWork> shared = std::make_shared<StreamWork>(world, [](Handle function) {
    return function == reduce ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
           : function == exchange ? "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
                                  : "spin(int)";
  });
  StreamWork& work = *shared;
  CUresult fault = CUDA_SUCCESS;

private:
  struct State {
    std::uint32_t place = 0;
    std::uint64_t last = 0;
  };
  State& state_of(Handle stream) {
    const auto [found, is_new] = states_.try_emplace(stream);
    if (is_new) found->second.place = static_cast<std::uint32_t>(states_.size() - 1);
    return found->second;
  }

  std::map<Handle, State> states_;
  std::chrono::nanoseconds now_{};
};

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a stream stands in the call after the last probe that was reached", "[watch][work]") {
  Process process;
  process.launch(a);
  process.launch(a, 0x600);
  process.see("cuMemcpyHtoDAsync_v2", {a});
  process.launch(a);
  process.reach(a, 1);
  CHECK(process.work.has_pending());
  has(process.cause(),
      "stream 'stream 0xa00 (made at main.cpp:5)' has not reached 'the end of kernel 0x600'");
  has(process.cause(), "the last mark reached is 'the end of spin(int)'");
  process.reach(a, 2);
  has(process.cause(), "'the end of one of the last 2 calls: cuMemcpyHtoDAsync, spin(int)'");
  process.reach(a, 3);
  CHECK_FALSE(process.work.has_pending());
  CHECK(process.report().findings.empty());
}

TEST_CASE("the report follows events to the stream that holds up the others", "[watch][work]") {
  Process process;
  process.launch(a);
  process.see("cuEventRecord", {event, a});
  process.see("cuStreamWaitEvent", {b, event, 0});
  process.launch(b, 0x600);
  process.see("cuEventRecord", {other_event, b});
  process.see("cuStreamWaitEvent", {c, other_event, 0});
  process.launch(c, 0x700);
  const FlightReport report = process.report();
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::unfinished);
  CHECK(report.findings[0].held_up == 2);
  has(report.findings[0].text, "'the end of spin(int)'");
  CHECK(report.streams[1].waits.at(0).what == "'the end of spin(int)'");
}

TEST_CASE("a record covers what was submitted before it, and nothing later", "[watch][work]") {
  Process process;
  process.see("cuLaunchKernel", {a, 0x600}); // too early for a probe
  process.see("cuEventRecord", {event, a});
  process.launch(a);
  process.see("cuStreamWaitEvent", {b, event, 0});
  process.launch(b, 0x700);
  // Nobody knows whether the record was reached.
  has(process.cause(), "has not reached 'the end of one of the last 2 calls: kernel 0x600, spin(int)'");
  has(process.report().findings.at(1).text,
      "has not reached 'the end of kernel 0x700 (or it waits for the end of "
      "kernel 0x600 on stream 0xa00 (made at main.cpp:5))'");
  CHECK_FALSE(process.report().streams[0].exact);
  process.see("cuEventSynchronize", {event});
  CHECK(process.report().streams[1].waits.empty());
  has(process.cause(), "has not reached 'the end of spin(int)'");
  CHECK(process.report().streams[0].exact);
}

TEST_CASE("calls that no probe separates are one of several, and none is certain", "[watch][work]") {
  Process process;
  process.launch(a, 0x600);
  process.reach_all(a);
  for (int i = 0; i < 3; ++i) {
    process.see("cuMemcpyHtoDAsync_v2", {a});
    process.see("cuEventRecord", {event, a});
    process.see("cuStreamWaitEvent", {b, event, 0});
    process.see("cuMemcpyHtoDAsync_v2", {b});
  }
  process.see("cuLaunchKernel", {a, spin});
  process.see("cuEventRecord", {event, a});
  process.see("cuStreamWaitEvent", {b, event, 0});
  CHECK(process.report().findings.empty()); // perhaps all is done
  CHECK(process.report().streams[0].state == FlightState::unknown);
  CHECK(process.work.has_unprobed({a, 0, 0}));
  process.probe(a, true);
  process.probe(b, true);
  CHECK_FALSE(process.work.has_unprobed({a, 0, 0}));
  const FlightReport report = process.report();
  has(report.findings.at(0).text,
      "has not reached 'the end of one of the last 4 calls: cuMemcpyHtoDAsync, spin(int)'");
  CHECK(report.findings.at(0).streams == std::vector<std::size_t>{0});
  CHECK_FALSE(report.streams[0].exact);
  CHECK(report.streams[1].state == FlightState::waiting); // for the last record, which was not reached
  CHECK(report.streams[1].waits.at(0).what == "'the end of spin(int)'");
  CHECK_FALSE(report.streams[1].exact);
  process.reach_all(a);
  CHECK(process.report().streams[0].state == FlightState::idle);
  has(process.cause(), "has not reached 'the end of one of the last 3 calls: cuMemcpyHtoDAsync'");
}

TEST_CASE("the first calls of a place and its last one are named", "[watch][work]") {
  Process process;
  for (Handle kernel = 0x600; kernel < 0x606; ++kernel)
    process.see("cuLaunchKernel", {a, kernel});
  process.launch(a);
  has(process.cause(), "'the end of one of the last 7 calls: kernel 0x600, kernel 0x601, kernel 0x602, ..., "
                       "spin(int)'");
}

TEST_CASE("a place that was reached says so of what it has waited for", "[watch][work]") {
  Process process;
  process.see("cuLaunchKernel", {a, spin});
  process.see("cuEventRecord", {event, a});
  process.see("cuStreamWaitEvent", {b, event, 0});
  process.launch(b, 0x600);
  process.see("cuLaunchKernel", {a, 0x601});
  process.reach_all(b);
  process.probe(a, true);
  has(process.cause(), "has not reached 'the end of kernel 0x601'");
}

TEST_CASE("a late probe behind no work says nothing", "[watch][work]") {
  Process process;
  process.launch(a);
  process.reach_all(a);
  const std::uint64_t before = process.work.progress();
  process.probe(a, true);
  CHECK_FALSE(process.work.has_pending());
  process.reach_all(a);
  CHECK(process.work.progress() == before);
}

TEST_CASE("a query that says not ready tells that work is pending, for a moment", "[watch][work]") {
  Process process;
  process.see("cuLaunchKernel", {legacy, spin});
  process.see("cuEventRecord", {event, legacy});
  Call query = call_of("cuEventQuery", {event});
  query.result = CUDA_ERROR_NOT_READY;
  query.time = 20s;
  SECTION("of the event") {}
  SECTION("of the stream") {
    query = call_of("cuStreamQuery", {legacy});
    query.result = CUDA_ERROR_NOT_READY;
    query.time = 20s;
  }
  process.world.see(query);
  CHECK(process.work.has_pending(20s + 100ms));
  CHECK_FALSE(process.work.has_pending(22s));
}

TEST_CASE("a host function is named, and so is the place of the wait that holds a stream up",
          "[watch][work]") {
  Process process;
  process.see("cuLaunchHostFunc", {a, put_back});
  process.probe(a);
  has(process.cause(), "has not reached 'the end of host function put_back'");
  Call wait = call_of("cuStreamWaitValue32_v2", {b, memory, 1, CU_STREAM_WAIT_VALUE_GEQ});
  wait.stack = 3;
  process.world.see(wait);
  process.probe(b);
  const Observation observed = process.work.observe(
      {}, {[](Handle) { return std::string(); },
           [](const Call& call) { return call.stack == 3 ? std::string("gate.cpp:7") : std::string(); },
           [](Handle) { return std::string(); }});
  CHECK(observed.notes.at(0).wait_place.empty());
  CHECK(observed.notes.at(1).wait_place == "gate.cpp:7");
}

TEST_CASE("a wait for a record that was reached, or that never was, holds up nothing", "[watch][work]") {
  Process process;
  process.see("cuStreamWaitEvent", {b, event, 0});
  process.launch(a);
  process.see("cuEventRecord", {event, a});
  process.reach_all(a);
  process.see("cuStreamWaitEvent", {b, event, 0});
  CHECK(process.report().findings.empty());
  process.launch(b);
  CHECK(process.report().streams[1].waits.empty());
  CHECK(process.report().untraced_waits == 0);
}

TEST_CASE("a wait for an event of another process is counted as untraced", "[watch][work]") {
  Process process;
  process.see("cuIpcOpenEventHandle", {0x102});
  process.see("cuStreamWaitEvent", {a, 0x102, 0});
  process.launch(a);
  CHECK(process.report().untraced_waits == 1);
  CHECK_FALSE(process.report().streams[0].exact); // perhaps it stands at the wait
}

TEST_CASE("two streams that wait for each other's writes are a deadlock", "[watch][work]") {
  Process process;
  process.see("cuStreamWaitValue32_v2", {a, memory, 1, CU_STREAM_WAIT_VALUE_GEQ});
  process.probe(a);
  process.see("cuStreamWaitValue32_v2", {b, memory + 4, 1, CU_STREAM_WAIT_VALUE_GEQ});
  process.probe(b);
  process.see("cuStreamWriteValue32_v2", {a, memory + 4, 1, 0});
  process.probe(a);
  process.see("cuStreamWriteValue32_v2", {b, memory, 1, 0});
  process.probe(b);
  const FlightReport report = process.report();
  REQUIRE_FALSE(report.findings.empty());
  CHECK(report.findings[0].kind == Kind::deadlock);
  has(report.findings[0].text, "for value 1 at 0x9000, which comes later on stream 'stream 0xb00");
}

TEST_CASE("a stream that waits for a value which nobody writes has no signal", "[watch][work]") {
  Process process;
  process.see("cuStreamWaitValue32_v2", {a, memory, 3, CU_STREAM_WAIT_VALUE_GEQ});
  process.probe(a);
  process.see("cuStreamWriteValue32_v2", {b, memory, 2, 0}); // too small
  process.probe(b);
  process.launch(a);
  process.reach_all(b);
  FlightReport report = process.report();
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::no_signal);
  process.see("cuStreamWriteValue32_v2", {b, memory, 4, 0});
  process.probe(b);
  process.reach_all(b);
  report = process.report(); // it is written now
  CHECK(report.findings.at(0).kind == Kind::unfinished);
}

TEST_CASE("values end waits as the driver compares them", "[watch][work]") {
  const ValueOperation geq{memory, 5, CU_STREAM_WAIT_VALUE_GEQ, false};
  CHECK(satisfies(geq, 5));
  CHECK_FALSE(satisfies(geq, 4));
  CHECK_FALSE(satisfies(geq, 0xFFFF'FFFF)); // 6 before 5
  CHECK(satisfies({memory, 0xFFFF'FFFF, CU_STREAM_WAIT_VALUE_GEQ, false}, 1));
  CHECK(satisfies({memory, 5, CU_STREAM_WAIT_VALUE_GEQ, true}, 0xFFFF'FFFF));
  CHECK(satisfies({memory, 5, CU_STREAM_WAIT_VALUE_EQ, false}, 5));
  CHECK_FALSE(satisfies({memory, 5, CU_STREAM_WAIT_VALUE_EQ, true}, 5 + (1ULL << 32)));
  CHECK(satisfies({memory, 4, CU_STREAM_WAIT_VALUE_AND, false}, 12));
  CHECK_FALSE(satisfies({memory, 4, CU_STREAM_WAIT_VALUE_AND, false}, 8));
  CHECK_FALSE(satisfies({memory, 0xFFFF'FFFF, CU_STREAM_WAIT_VALUE_NOR, false}, 0));
}

TEST_CASE("a replay is named by its number, its capture and its calls", "[watch][work]") {
  constexpr Handle graph = 0x600, exec = 0x700;
  Process process;
  process.see("cuStreamBeginCapture_v2", {a, 0});
  process.see("cuLaunchKernel", {a, spin});
  process.see("cuEventRecord", {event, a});
  process.see("cuStreamWaitEvent", {b, event, 0}); // b joins
  process.see("cuStreamWaitValue32_v2", {b, memory, 1, 0});
  process.see("cuEventRecord", {other_event, b});
  process.see("cuStreamWaitEvent", {a, other_event, 0});
  process.see("cuStreamEndCapture", {a, graph});
  CHECK_FALSE(process.work.has_pending());
  CHECK(process.report().findings.empty()); // nothing was submitted
  process.see("cuGraphInstantiateWithFlags", {exec, graph});
  process.see("cuGraphDestroy", {graph});
  process.see("cuGraphLaunch", {exec, c, 5000});
  process.probe(c);
  has(process.cause(), "'the end of replay 5000 of the graph captured at main.cpp:5 (its calls: spin(int), "
                       "a wait for value 1 at 0x9000)'");
  process.see("cuLaunchKernel", {b, spin}); // the capture is over
  process.probe(b);
  CHECK(process.report().findings.size() == 2);
}

TEST_CASE("collectives are counted for each stream, and a replay with collectives is one", "[watch][work]") {
  constexpr Handle graph = 0x600, exec = 0x700;
  Process process;
  process.see("cuStreamBeginCapture_v2", {a, 0});
  process.see("cuLaunchKernel", {a, reduce});
  process.see("cuLaunchKernel", {a, reduce});
  process.see("cuStreamEndCapture", {a, graph});
  process.see("cuGraphInstantiateWithFlags", {exec, graph});
  CHECK(process.work.collective_positions()[0].sequence->count() == 0);
  process.launch(b, reduce);
  process.launch(b);
  process.launch(b, exchange);
  process.see("cuGraphLaunch", {exec, b, 1});
  process.probe(b);
  const CollectiveSequence& sequence = *process.work.collective_positions()[1].sequence;
  REQUIRE(sequence.count() == 2);
  CHECK(sequence.last()[0].name == "AllReduce_Sum_f32_RING_LL");
  has(sequence.last()[1].name, "replay of 2 collectives, the last one AllReduce_Sum_f32_RING_LL [0x");
  const auto check = [&](std::uint64_t probe, std::uint64_t reached, std::uint64_t reached_next,
                         NcclWork next) {
    process.reach(b, probe);
    const CollectivePosition position = process.work.collective_positions()[1];
    CHECK((position.reached == reached && position.reached_next == reached_next && position.next == next));
  };
  check(0, 0, 1, NcclWork::collective);
  check(1, 1, 1, NcclWork::none);
  check(2, 1, 1, NcclWork::send_receive);
  check(3, 1, 2, NcclWork::collective);
  check(4, 2, 2, NcclWork::none);
}

TEST_CASE("a capture that fails or loses its stream is over", "[watch][work]") {
  Process process;
  process.see("cuStreamBeginCapture_v2", {a, 0});
  process.see("cuEventRecord", {event, a});
  process.see("cuStreamWaitEvent", {b, event, 0}); // b joins
  SECTION("its end fails") {
    Call end = call_of("cuStreamEndCapture", {a, 0});
    end.result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    process.world.see(end);
  }
  SECTION("its stream is destroyed") { process.see("cuStreamDestroy_v2", {a}); }
  process.launch(b);
  has(process.cause(), "the end of spin(int)");
}

TEST_CASE("a thread that has been inside a launch for a second is reported", "[watch][work]") {
  Process process;
  for (int i = 0; i < 999; ++i)
    process.see("cuLaunchKernel", {a, spin});
  process.launch(a);
  const Call launch = call_of("cuLaunchKernel", {a, spin});
  const FlightReport report = process.report({{launch, 3s}});
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[0].kind == Kind::full_queue);
  has(report.findings[0].text, "inside 'cuLaunchKernel (thread 1, behind 1000 pending calls)'");
  CHECK_FALSE(process.work.launches_with_room(launch));
  CHECK(process.report({{launch, 500ms}}).findings.size() == 1);
  CHECK(process.report({{call_of("cuStreamSynchronize", {a}), 3s}}).findings.size() == 1);
}

TEST_CASE("a launch that does not return behind few calls is not blocked on a full queue", "[watch][work]") {
  Process process;
  process.launch(a);
  for (const Handle stream : {a, b}) { // the first launch of a kernel may wait for work of other streams
    const Call launch = call_of("cuLaunchKernel", {stream, 0x600});
    const FlightReport report = process.report({{launch, 3s}});
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].kind == Kind::unfinished);
    CHECK(process.work.launches_with_room(launch));
  }
  CHECK_FALSE(process.work.launches_with_room(call_of("cuMemcpyHtoDAsync_v2", {a})));
  CHECK_FALSE(process.work.launches_with_room(call_of("cuStreamSynchronize", {a})));
}

TEST_CASE("timed records take places of a launch queue", "[watch][work]") {
  const auto findings = [](unsigned flags, int records) {
    Process process;
    process.see("cuEventCreate", {event, flags});
    for (int i = 0; i < records; ++i) {
      process.see("cuLaunchKernel", {a, spin});
      process.see("cuEventRecord", {event, a});
    }
    process.probe(a);
    return process.report({{call_of("cuLaunchKernel", {a, spin}), 3s}}).findings.size();
  };
  CHECK(findings(CU_EVENT_DEFAULT, 500) == 2);
  CHECK(findings(CU_EVENT_DISABLE_TIMING, 500) == 1);
  CHECK(findings(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, 500) == 2);
  CHECK(findings(CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC, 20) == 2);
}

TEST_CASE("replays take many places of a launch queue", "[watch][work]") {
  Process process;
  for (int i = 0; i < 19; ++i)
    process.see("cuGraphLaunch", {0x700, a, static_cast<std::uint64_t>(i + 1)});
  process.probe(a);
  CHECK(process.report({{call_of("cuGraphLaunch", {0x700, a}), 3s}}).findings.size() == 2);
}

TEST_CASE("work without a probe is pending only if something is known to wait for it", "[watch][work]") {
  Process process;
  process.launch(a);
  process.reach_all(a);
  process.see("cuLaunchKernel", {a, 0x600});
  CHECK_FALSE(process.work.has_pending());
  CHECK(process.report().findings.empty());
  CHECK(process.report().streams[0].state == FlightState::unknown);
  const auto waiting = [&](const char* symbol, std::vector<std::uint64_t> words) {
    return process.report({{call_of(symbol, words), 3s}}).findings.size();
  };
  CHECK(waiting("cuStreamSynchronize", {a}) == 1);
  CHECK(waiting("cuStreamSynchronize", {b}) == 0);
  CHECK(waiting("cuCtxSynchronize", {}) == 1);
  CHECK(waiting("cuMemcpyDtoH_v2", {}) == 0); // it does not wait for non-blocking streams
  process.see("cuEventRecord", {event, a});
  CHECK(waiting("cuEventSynchronize", {event}) == 1);
  process.see("cuStreamWaitEvent", {b, event, 0});
  CHECK(process.report().findings.empty());
  process.launch(b);
  const FlightReport report = process.report();
  REQUIRE(report.findings.size() == 1);
  has(report.findings[0].text,
      "stream 0xb00 (made at main.cpp:5)' has not reached 'the end of spin(int) (or it "
      "waits for the end of kernel 0x600 on stream 0xa00 (made at main.cpp:5))'");
  CHECK_FALSE(report.streams[1].exact);
}

TEST_CASE("calls that wait for the device tell what was reached", "[watch][work]") {
  Process process;
  const auto fill = [&] {
    process.launch(a);
    process.launch(b);
    REQUIRE(process.report().findings.size() == 2);
  };
  fill();
  process.see("cuStreamSynchronize", {a});
  CHECK(process.report().findings.size() == 1);
  process.see("cuStreamQuery", {b});
  CHECK(process.report().findings.empty());
  fill();
  process.see("cuCtxSynchronize", {});
  CHECK(process.report().findings.empty());
  fill();
  process.see("cuEventRecord", {event, a});
  process.launch(a);
  process.see("cuEventQuery", {event});
  process.see("cuStreamSynchronize", {b});
  CHECK(process.work.has_pending());
  process.reach_all(a);
  CHECK_FALSE(process.work.has_pending());
}

TEST_CASE("a wait of one thread says nothing about what others submit meanwhile", "[watch][work]") {
  Process process;
  process.launch(a);
  process.see("cuLaunchKernel", {a, 0x600}, 2); // 1 s later
  process.probe(a);
  Call synchronize = call_of("cuStreamSynchronize", {a});
  synchronize.time = 8s;
  synchronize.duration = 1500ms; // it began before the call of the other thread
  process.world.see(synchronize);
  CHECK(process.work.has_pending());
  has(process.cause(), "'the end of kernel 0x600'");
}

TEST_CASE("progress is whatever is submitted or reached, and no question", "[watch][work]") {
  Process process;
  process.launch(a);
  process.see("cuEventRecord", {event, a});
  const std::uint64_t before = process.work.progress();
  Call query = call_of("cuEventQuery", {event});
  query.result = CUDA_ERROR_NOT_READY;
  process.world.see(query);
  process.see("cuEventCreate", {0x103, 2});
  CHECK(process.work.progress() == before);
  process.reach_all(a);
  CHECK(process.work.progress() > before);
}

TEST_CASE("the legacy stream and blocking streams wait for each other", "[watch][work]") {
  Process process;
  process.see("cuStreamCreate", {0xd00, 0});
  process.launch(0xd00);
  process.launch(legacy, 0x600);
  process.see("cuEventRecord", {event, legacy});
  process.see("cuStreamWaitEvent", {a, event, 0});
  process.launch(a, 0x700);
  FlightReport report = process.report();
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].held_up == 2);
  process.reach_all(0xd00);
  report = process.report();
  REQUIRE(report.findings.size() == 1);
  has(report.findings[0].text, "the legacy default stream");
  process.launch(0xd00);
  CHECK(process.report().findings.at(0).held_up == 2);
}

TEST_CASE("after a fault the pending work is named", "[watch][work]") {
  Process process;
  process.launch(a);
  process.launch(b);
  process.reach_all(b);
  process.fault = CUDA_ERROR_ILLEGAL_ADDRESS;
  const FlightReport report = process.report();
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == Kind::fault);
  has(report.findings[0].text, "the driver answers 700; not finished when it failed: 'the end of spin(int)'");
}

TEST_CASE("a destroyed stream is forgotten, and another one may get its handle", "[watch][work]") {
  Process process;
  process.launch(a);
  process.see("cuEventRecord", {event, a});
  process.see("cuStreamDestroy_v2", {a});
  CHECK_FALSE(process.work.has_pending());
  process.see("cuStreamWaitEvent", {b, event, 0});
  process.see("cuStreamCreate", {a, 1});
  process.launch(a);
  process.reach(a, 1); // the probes of the old stream
  CHECK(process.work.has_pending());
  process.reach(a, 2);
  CHECK_FALSE(process.work.has_pending());
}

TEST_CASE("a stream that loses its probes is pending again with the next one", "[watch][work]") {
  Process process;
  process.launch(a);
  process.work.see({ProbedState{0, {a, 0, 0}, true}});
  CHECK_FALSE(process.work.has_pending());
  process.launch(a, 0x600);
  CHECK(process.work.has_pending());
  process.reach_all(a);
  CHECK(process.report().findings.empty());
}

TEST_CASE("a query of one thread may mean the record before that of another thread", "[watch][work]") {
  Process process;
  process.launch(a);
  process.see("cuEventRecord", {event, a}); // at 7 s
  Call query = call_of("cuEventQuery", {event});
  query.thread = 2;
  query.time = 7s;
  process.world.see(query);
  CHECK(process.work.has_pending());
  query.time = 8s;
  process.world.see(query);
  CHECK_FALSE(process.work.has_pending());
}

TEST_CASE("a probe stands for work even if its calls are not known", "[watch][work]") {
  Process process;
  process.probe(a);
  CHECK(process.work.has_pending());
  has(process.cause(), "has not reached 'the end of unknown work'");
  process.reach_all(a);
  CHECK_FALSE(process.work.has_pending());
  process.work.add_lost_probes({ProbedState{0, {a, 0, 0}, false, 1, 1}});
  CHECK_FALSE(process.work.has_pending());
  process.work.add_lost_probes({ProbedState{0, {a, 0, 0}, false, 5, 3}});
  CHECK(process.work.has_pending());
  process.reach(a, 5);
  CHECK_FALSE(process.work.has_pending());
}

TEST_CASE("probes may be numbered anew", "[watch][work]") {
  Process process;
  for (int i = 0; i < 3; ++i)
    process.launch(a);
  process.start_probes_again(a);
  process.launch(a, 0x600);
  process.reach(a, 1);
  CHECK_FALSE(process.work.has_pending());
}

TEST_CASE("without looks, the work of a stream takes a bounded amount of memory", "[watch][work]") {
  Process process;
  process.launch(a);
  for (int i = 0; i < 300'000; ++i) {
    process.see("cuEventRecord", {event, a});
    process.see("cuLaunchKernel", {a, 0x600});
  }
  process.probe(a);
  CHECK(process.report().streams[0].pending <= 100'001);
  process.reach_all(a);
  CHECK_FALSE(process.work.has_pending());
}
