// SPDX-License-Identifier: MIT
// What a failing call leaves behind: each member, with each of its driver calls failing, behaves as
// documented. The tests plan their own faults, so the fault sweep leaves them out.
#include "destroyed.hpp"
#include "faults.hpp"
#include "fixture.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using cuevent::capture_status;
using cuevent::CaptureModeGuard;
using cuevent::CaptureStatus;
using cuevent::Context;
using cuevent::ContextGuard;
using cuevent::DriverEvent;
using cuevent::EventFlags;
using cuevent::EventRecordNode;
using cuevent::Graph;
using cuevent::GraphExec;
using cuevent::RecordFlags;
using cuevent::StreamCapture;
using test::call;
using test::Fault;
using test::FaultPlan;
using test::FaultScope;
using test::Fixture;
using test::live_handles;
using test::Stream;

namespace {

constexpr CUresult results[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
                                CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_DEINITIALIZED};

/// Runs `operation` with its first driver call failing, then with its second, and so on, with each result.
/// If it throws, the exception must have that result, and `check_failed` then checks the state. If it does
/// not throw, the failing call was in a destructor, and the error must reach the error hook, except
/// CUDA_ERROR_DEINITIALIZED.
class FaultyFixture : public Fixture {
protected:
  void fail_each_call(const std::function<void()>& operation, const std::function<void()>& check_failed) {
    FaultPlan counting;
    {
      const FaultScope scope(counting);
      operation();
    }
    REQUIRE(counting.calls() > 0);
    for (int k = 1; k <= counting.calls(); ++k)
      for (const CUresult result : results)
        fail({.result = result, .call = k}, operation, check_failed);
  }

  void fail(const Fault& fault, const std::function<void()>& operation,
            const std::function<void()>& check_failed) {
    FaultPlan plan(fault);
    bool thrown = false;
    {
      const FaultScope scope(plan);
      try {
        operation();
      } catch (const cuevent::DriverError& error) {
        thrown = true;
        CHECK(error.result() == fault.result);
      }
    }
    CAPTURE(fault.call, fault.result, plan.struck(), thrown);
    CHECK_FALSE(plan.struck().empty());
    const std::vector<std::string> reports = take_reports();
    const bool exits = fault.result == CUDA_ERROR_DEINITIALIZED; // then destructors do nothing
    CHECK(reports.size() == (thrown || exits ? 0 : 1));
    for (const std::string& report : reports)
      CHECK(report.ends_with(" " + std::to_string(fault.result)));
    if (thrown) check_failed();
    CHECK(test::context_stack().empty());
  }
};

} // namespace

TEST_CASE_METHOD(FaultyFixture, "a failed creation leaves no event and changes no other", "[no-sweep]") {
  const int before = live_handles().events;
  const auto check_nothing_made = [&] { CHECK(live_handles().events == before + 1); }; // `out`
  DriverEvent out(context, EventFlags::timing);
  CUevent const handle = out.native_handle();
  for (const char* const function : {"cuCtxGetCurrent", "cuCtxGetId", "cuCtxPushCurrent", "cuEventCreate"})
    for (const CUresult result : results) {
      CAPTURE(function, result);
      const Fault fault{.result = result, .call = 1, .function = function};
      fail(
          fault, [&] { const DriverEvent event(context); }, check_nothing_made);
      FaultPlan plan(fault);
      const FaultScope scope(plan);
      CHECK(DriverEvent::try_create(out, context) == result);
      CHECK(plan.struck() == function);
      CHECK(out.native_handle() == handle);
      CHECK(out.flags() == EventFlags::timing);
    }
}

TEST_CASE_METHOD(FaultyFixture, "a member that throws leaves the event unchanged", "[no-sweep]") {
  const Stream stream(context);
  DriverEvent event(context, EventFlags::timing), end(context, EventFlags::timing);
  CUevent const handle = event.native_handle();
  const auto check_as_it_was = [&] {
    CHECK(event.native_handle() == handle);
    CHECK(event.context() == context);
    CHECK(event.flags() == EventFlags::timing);
    CHECK(event.query());
    CHECK(test::capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  };
  const auto check_not_recorded = [&] {
    check_as_it_was();
    DriverEvent::Milliseconds time{};
    CHECK(event.try_elapsed_time(time, event) == CUDA_ERROR_INVALID_HANDLE);
  };
  for (const CUresult result : results) {
    const Fault first{.result = result, .call = 1};
    fail(
        first, [&] { event.record(stream); }, check_not_recorded);
    fail(
        first, [&] { event.record(CU_STREAM_LEGACY); }, check_not_recorded);
    fail(
        first, [&] { event.record(stream, RecordFlags::external_in_capture); }, check_not_recorded);
    fail(
        {.result = result, .call = 1, .function = "cuEventRecord"},
        [&] { event.record(CU_STREAM_PER_THREAD); }, check_not_recorded);
  }
  event.record(stream);
  end.record(stream);
  end.synchronize();
  const DriverEvent::Milliseconds time = event.elapsed_time(end);
  const auto check_recorded = [&] {
    check_as_it_was();
    CHECK(event.elapsed_time(end) == time);
  };
  fail_each_call([&] { event.wait(stream); }, check_recorded);
  fail_each_call([&] { event.wait(CU_STREAM_LEGACY); }, check_recorded);
  fail_each_call([&] { return event.query(); }, check_recorded);
  fail_each_call([&] { return event.query_relaxed(); }, check_recorded);
  fail_each_call([&] { event.synchronize(); }, check_recorded);
  fail_each_call([&] { return event.synchronize_for(1min); }, check_recorded);
  for (const CUresult result : results)
    fail(
        {.result = result, .call = 1}, [&] { event.elapsed_time(end); }, check_recorded);
}

TEST_CASE_METHOD(FaultyFixture, "errors of destructors and assignments go to the error hook", "[no-sweep]") {
  const int before = live_handles().events;
  const auto check_unthrown = [] { FAIL_CHECK("a destructor has thrown"); };
  for (const CUresult result : results) {
    const Fault of_destroy{.result = result, .call = 1, .function = "cuEventDestroy"};
    std::optional<DriverEvent> event(std::in_place, context);
    fail(
        of_destroy, [&] { event.reset(); }, check_unthrown);

    DriverEvent replaced(context), kept(context);
    CUevent const handle = kept.native_handle();
    fail(
        of_destroy, [&] { replaced = std::move(kept); }, check_unthrown);
    CHECK(replaced.native_handle() == handle);

    cuevent::retire(DriverEvent(context));
    fail(
        of_destroy, [] { CHECK(cuevent::destroy_retired() == 1); }, check_unthrown);

    const auto of = [result](const char* function) {
      return Fault{.result = result, .call = 1, .function = function};
    };
    fail(
        of("cuDevicePrimaryCtxRelease"), [&] { Context::primary(0, driver); }, check_unthrown);
    fail(
        of("cuCtxDestroy"), [&] { Context::create(0, driver); }, check_unthrown);
    fail(
        of("cuCtxPopCurrent"), [&] { const ContextGuard guard(context); }, check_unthrown);
    fail(
        of("cuGraphDestroy"), [&] { const Graph graph(context); }, check_unthrown);
    const Graph graph(context);
    fail(
        of("cuGraphExecDestroy"), [&] { graph.instantiate(); }, check_unthrown);
    const Stream stream(context);
    fail(
        of("cuStreamEndCapture"), [&] { const StreamCapture capture(context, stream); }, check_unthrown);
    fail(
        {.result = result, .call = 2, .function = "cuThreadExchangeStreamCaptureMode"},
        [&] { const CaptureModeGuard relaxed(driver); }, check_unthrown);
    CHECK(test::capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  CHECK(live_handles().events == before);
}

TEST_CASE_METHOD(FaultyFixture, "a capture that fails to begin or end is over, and its events stay owned",
                 "[no-sweep]") {
  const int before = live_handles().events;
  const Stream stream(context);
  const auto check_over = [&] {
    CHECK(capture_status(context, stream) == CaptureStatus::none);
    CHECK(StreamCapture(context, stream).end());
  };
  for (const CUresult result : results) {
    const auto of = [result](const char* function) {
      return Fault{.result = result, .call = 1, .function = function};
    };
    fail(
        of("cuStreamBeginCapture"), [&] { const StreamCapture capture(context, stream); }, check_over);
    for (const char* const function : {"cuStreamEndCapture", "cuUserObjectCreate", "cuGraphRetainUserObject"})
      fail(
          of(function),
          [&] {
            StreamCapture capture(context, stream);
            capture.record(DriverEvent(context), stream);
            capture.end();
          },
          check_over);
    cuevent::destroy_retired();
    CHECK(live_handles().events == before);

    DriverEvent event(context);
    StreamCapture capture(context, stream);
    fail(
        of("cuEventRecordWithFlags"), [&] { capture.record(std::move(event), stream); },
        [&] {
          CHECK(event); // NOLINT(bugprone-use-after-move)
          CHECK(capture_status(context, stream) == CaptureStatus::active);
        });
    CHECK(capture.end().event_nodes().records.empty());
  }
  CHECK(test::destroyed_down_to(before, cuevent::destroy_retired));
}

TEST_CASE_METHOD(FaultyFixture, "a graph that refuses an event is unchanged, and the caller keeps the event",
                 "[no-sweep]") {
  const Stream stream(context);
  DriverEvent event(context, EventFlags::timing), other(context, EventFlags::timing);
  Graph graph(context);
  const EventRecordNode node = graph.add_record(event);
  GraphExec exec = graph.instantiate();
  const auto check_as_it_was = [&] {
    CHECK(event);
    CHECK(other);
    CHECK(graph.event_nodes().records == std::vector{node});
    CHECK(graph.event_nodes().waits.empty());
    CHECK(graph.event(node) == event.native_handle());
    exec.launch(stream);
    CHECK(event.synchronize_for(1min));
    DriverEvent::Milliseconds time{};
    CHECK(event.try_elapsed_time(time, event) == CUDA_SUCCESS);
    CHECK(other.try_elapsed_time(time, other) == CUDA_ERROR_INVALID_HANDLE);
  };
  for (const CUresult result : results) {
    const Fault first{.result = result, .call = 1};
    const Fault second{.result = result, .call = 2};
    fail(
        first, [&] { graph.add_record(other); }, check_as_it_was);
    fail(
        first, [&] { graph.add_wait(other); }, check_as_it_was);
    fail(
        first, [&] { graph.set_event(node, other); }, check_as_it_was);
    fail(
        first, [&] { graph.retain(std::move(other)); }, check_as_it_was);
    fail(
        second, [&] { graph.retain(std::move(other)); }, check_as_it_was);
    fail(
        first, [&] { exec.set_event(node, std::as_const(other)); }, check_as_it_was);
    fail(
        first, [&] { static_cast<void>(exec.set_event(node, std::move(other))); }, check_as_it_was);
    fail(
        first, [&] { exec.launch(stream); }, check_as_it_was);
    fail(
        {.result = result, .call = 1, .function = "cuGraphInstantiateWithFlags"},
        [&] { graph.instantiate(); }, check_as_it_was);
  }
  fail_each_call([&] { graph.event_nodes(); }, check_as_it_was);
}
