// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "fixture.hpp"

#include <catch2/catch_approx.hpp>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

TEST_CASE("an event that was never recorded is complete and has no time") {
  Fixture f;
  const CUevent a = f.event(), b = f.event();
  CHECK(f.cu.event_query(a) == CUDA_SUCCESS);
  CHECK(f.cu.event_synchronize(a) == CUDA_SUCCESS);
  CHECK(f.cu.stream_wait(f.stream, a, 0) == CUDA_SUCCESS);
  float ms = 0;
  CHECK(f.cu.event_elapsed(&ms, a, b) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("elapsed time is device time from one record to the other") {
  Fixture f;
  sim::set_kernel("work", {50ms});
  const CUevent start = f.event(), end = f.event();
  OK(f.cu.event_record(start, f.stream));
  OK(f.work(f.stream));
  OK(f.cu.event_record(end, f.stream));
  CHECK(f.cu.event_query(end) == CUDA_ERROR_NOT_READY);
  float ms = 0;
  CHECK(f.cu.event_elapsed(&ms, start, end) == CUDA_ERROR_NOT_READY);
  OK(f.cu.event_synchronize(end));
  OK(f.cu.event_elapsed(&ms, start, end));
  CHECK(ms == Catch::Approx(50.0013).margin(0.001));
  OK(f.cu.event_elapsed(&ms, end, start));
  CHECK(ms == Catch::Approx(-50.0013).margin(0.001));
  OK(f.cu.event_elapsed(&ms, end, end));
  CHECK(ms == 0);
}

TEST_CASE("recording an event again does not change an earlier wait") {
  Fixture f;
  const CUstream later = f.new_stream();
  const CUevent e = f.event(), waited = f.event();
  OK(f.cu.event_record(e, f.stream)); // done at once
  sim::run_until_idle();
  sim::hold(f.stream);
  OK(f.cu.event_record(e, f.stream));
  OK(f.cu.stream_wait(later, e, 0)); // waits for the record that is held
  OK(f.cu.event_record(waited, later));
  const CUstream elsewhere = f.new_stream();
  OK(f.cu.event_record(e, elsewhere)); // done at once
  sim::run_until_idle();
  CHECK(f.cu.event_query(e) == CUDA_SUCCESS);
  CHECK(f.cu.event_query(waited) == CUDA_ERROR_NOT_READY);
  sim::release(f.stream);
  sim::run_until_idle();
  CHECK(f.cu.event_query(waited) == CUDA_SUCCESS);
}

TEST_CASE("null handles and unknown flags are refused") {
  Fixture f;
  const CUevent e = f.event();
  float ms = 0;
  CHECK(f.cu.event_query(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.event_synchronize(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.event_record(nullptr, f.stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.event_destroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.stream_wait(f.stream, nullptr, 0) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.event_elapsed(&ms, e, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CUevent out = nullptr;
  CHECK(f.cu.event_create(&out, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.event_create(&out, CU_EVENT_INTERPROCESS) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.event_record_with_flags(e, f.stream, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.stream_wait(f.stream, e, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.cu.event_record_with_flags(e, f.stream, CU_EVENT_RECORD_EXTERNAL) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(f.cu.stream_wait(f.stream, e, CU_EVENT_WAIT_EXTERNAL) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE("only creation and the default streams need a current context") {
  Fixture f;
  const CUevent e = f.event();
  CUcontext popped = nullptr;
  OK(f.cu.context_pop(&popped));
  CUevent out = nullptr;
  CHECK(f.cu.event_create(&out, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(f.cu.event_record(e, f.stream) == CUDA_SUCCESS);
  CHECK(f.cu.event_record(e, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(f.cu.event_record(e, CU_STREAM_LEGACY) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(f.cu.event_record(e, CU_STREAM_PER_THREAD) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(f.cu.event_synchronize(e) == CUDA_SUCCESS);
  CHECK(f.cu.stream_wait(f.stream, e, 0) == CUDA_SUCCESS);
  CHECK(f.cu.stream_wait(nullptr, e, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CUcontext other = nullptr;
  OK(f.cu.context_create(&other, 0, 0));
  CHECK(f.cu.event_record(e, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.stream_wait(nullptr, e, 0) == CUDA_SUCCESS);
  CHECK(f.cu.event_destroy(e) == CUDA_SUCCESS);
  CHECK(sim::context_stack() == std::vector{other});
}

TEST_CASE("events of a destroyed context return CONTEXT_IS_DESTROYED") {
  Fixture f;
  const CUevent e = f.event(), g = f.event();
  OK(f.cu.context_destroy(f.context));
  float ms = 0;
  CHECK(f.cu.event_query(e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(f.cu.event_synchronize(e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(f.cu.event_elapsed(&ms, e, g) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(f.cu.event_destroy(e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(sim::context_stack().empty());
  CHECK(sim::live_handles() == sim::HandleCounts{.modules = 1});
  OK(f.cu.context_push(f.context));
}

TEST_CASE("events of a primary context that was reset return CONTEXT_IS_DESTROYED") {
  Fixture f;
  CUcontext primary = nullptr;
  OK(f.cu.primary_retain(&primary, 0));
  OK(f.cu.context_push(primary));
  const CUevent e = f.event();
  OK(f.cu.primary_reset(0));
  CHECK(f.cu.event_query(e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(f.cu.event_destroy(e) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUevent out = nullptr;
  CHECK(f.cu.event_create(&out, 0) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  unsigned flags = 0;
  int active = 1;
  OK(f.cu.primary_state(0, &flags, &active));
  CHECK(active == 0);
}

TEST_CASE("an event recorded on a destroyed stream completes") {
  Fixture f;
  const CUevent e = f.event();
  OK(f.work(f.stream));
  OK(f.cu.event_record(e, f.stream));
  OK(f.cu.stream_destroy(f.stream));
  CHECK(f.cu.event_query(e) == CUDA_ERROR_NOT_READY);
  sim::run_until_idle();
  CHECK(f.cu.event_query(e) == CUDA_SUCCESS);
}

TEST_CASE("blocking streams and the legacy stream wait for each other, and non-blocking streams do not") {
  Fixture f;
  const CUstream blocking = f.new_stream(CU_STREAM_DEFAULT);
  const CUevent on_legacy = f.event(), on_blocking = f.event(), on_other = f.event();
  sim::hold(blocking);
  OK(f.work(blocking));
  OK(f.cu.event_record(on_legacy, CU_STREAM_LEGACY));
  OK(f.cu.event_record(on_other, f.stream));
  sim::run_until_idle();
  CHECK(f.cu.event_query(on_legacy) == CUDA_ERROR_NOT_READY);
  CHECK(f.cu.event_query(on_other) == CUDA_SUCCESS);
  sim::hold(CU_STREAM_LEGACY, f.context);
  sim::release(blocking);
  OK(f.cu.event_record(on_blocking, blocking));
  sim::run_until_idle();
  CHECK(f.cu.event_query(on_blocking) == CUDA_ERROR_NOT_READY);
  sim::release(CU_STREAM_LEGACY, f.context);
  sim::run_until_idle();
  CHECK(f.cu.event_query(on_blocking) == CUDA_SUCCESS);
}

TEST_CASE("a record stays on its own device, and a wait can cross devices") {
  Fixture f({.devices = 2});
  const CUevent e = f.event();
  CUcontext second = nullptr;
  OK(f.cu.context_create(&second, 0, 1));
  const CUstream there = f.new_stream();
  const CUevent g = f.event();
  CHECK(f.cu.event_record(e, there) == CUDA_ERROR_INVALID_HANDLE);
  sim::hold(f.stream);
  OK(f.cu.event_record(e, f.stream));
  OK(f.cu.stream_wait(there, e, 0));
  OK(f.cu.event_record(g, there));
  sim::run_until_idle();
  CHECK(f.cu.event_query(g) == CUDA_ERROR_NOT_READY);
  sim::release(f.stream);
  OK(f.cu.event_synchronize(g));
  float ms = 0;
  CHECK(f.cu.event_elapsed(&ms, e, g) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a fault is silent until one call returns it, and then every call does") {
  Fixture f;
  const CUevent before = f.event(), start = f.event(), after = f.event();
  OK(f.cu.event_record(start, f.stream));
  OK(f.cu.event_record(before, f.stream));
  OK(f.cu.event_synchronize(before));
  sim::set_kernel("work", {10us, CUDA_ERROR_ILLEGAL_ADDRESS});
  OK(f.work(f.stream));
  OK(f.cu.event_record(after, f.stream));
  sim::run_until_idle();
  float ms = 0;
  CHECK(f.cu.event_query(before) == CUDA_SUCCESS);
  CHECK(f.cu.event_elapsed(&ms, start, before) == CUDA_SUCCESS);
  CHECK(f.cu.event_query(after) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(f.cu.event_query(before) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(f.cu.event_elapsed(&ms, start, before) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(f.cu.event_destroy(before) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CUevent out = nullptr;
  CHECK(f.cu.event_create(&out, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CUcontext other = nullptr;
  CHECK(f.cu.context_create(&other, 0, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("a fault made by a control call is returned by the next call that checks for work") {
  Fixture f;
  const CUevent e = f.event();
  OK(f.cu.event_record(e, f.stream));
  sim::run_until_idle();
  sim::make_context_fault(f.context, CUDA_ERROR_LAUNCH_FAILED);
  CHECK(f.cu.event_query(e) == CUDA_SUCCESS);
  CHECK(f.cu.event_query(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(f.cu.event_record(e, f.stream) == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(f.cu.event_query(e) == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(f.cu.context_get(&f.context) == CUDA_SUCCESS);
}

TEST_CASE("the driver notices a fault after a while without a query") {
  Fixture f;
  const CUevent e = f.event(), before = f.event();
  sim::set_kernel("work", {.fault = CUDA_ERROR_ILLEGAL_ADDRESS});
  OK(f.work(f.stream));
  sim::run_until_idle();
  OK(f.cu.event_record(e, f.new_stream())); // accepted, but does not run
  CHECK(f.cu.event_query(before) == CUDA_SUCCESS);
  sim::advance(1s);
  CHECK(f.cu.event_query(before) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("destroying a context waits for all work of its process") {
  Fixture f;
  const CUevent e = f.event();
  CUcontext other = nullptr;
  OK(f.cu.context_create(&other, 0, 0));
  OK(f.work(f.stream));
  OK(f.cu.event_record(e, f.stream));
  CHECK(f.cu.event_query(e) == CUDA_ERROR_NOT_READY);
  OK(f.cu.context_destroy(other));
  CHECK(f.cu.event_query(e) == CUDA_SUCCESS);
}

TEST_CASE("every call of an unloading driver returns DEINITIALIZED") {
  Fixture f;
  const CUevent e = f.event();
  sim::shut_down();
  CHECK(f.cu.event_query(e) == CUDA_ERROR_DEINITIALIZED);
  const char* text = "";
  CHECK(f.cu.get_error_name(CUDA_ERROR_DEINITIALIZED, &text) != CUDA_SUCCESS);
  CHECK(text == nullptr);
}

TEST_CASE("an event can order the work of two processes") {
  Fixture f;
  const RawDriver other(sim::get_proc_address_of(1));
  OK(other.init(0));
  CUcontext theirs = nullptr;
  OK(other.context_create(&theirs, 0, 0));
  CUstream their_stream = nullptr;
  OK(other.stream_create(&their_stream, 0));

  const CUevent e = f.event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  CUipcEventHandle handle;
  OK(f.cu.ipc_export(&handle, e));
  CHECK(f.cu.ipc_export(&handle, f.event()) == CUDA_ERROR_INVALID_HANDLE);
  CUevent opened = nullptr;
  CHECK(f.cu.ipc_open(&opened, handle) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(other.ipc_open(&opened, CUipcEventHandle{}) == CUDA_ERROR_MAP_FAILED);
  OK(other.ipc_open(&opened, handle));
  CHECK(other.event_query(opened) == CUDA_SUCCESS);

  sim::hold(f.stream);
  OK(f.cu.event_record(e, f.stream));
  CHECK(other.event_query(opened) == CUDA_ERROR_NOT_READY);
  OK(other.stream_wait(their_stream, opened, 0));
  CHECK(other.stream_query(their_stream) == CUDA_ERROR_NOT_READY);
  sim::release(f.stream);
  OK(other.stream_synchronize(their_stream));
  OK(other.event_synchronize(opened));
  OK(other.event_record(opened, their_stream));
  float ms = 0;
  CHECK(other.event_elapsed(&ms, opened, opened) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(other.ipc_export(&handle, opened) == CUDA_ERROR_INVALID_HANDLE);
  OK(other.event_destroy(opened));
}

TEST_CASE("a process that ends takes its contexts and handles with it") {
  Fixture f;
  const RawDriver other(sim::get_proc_address_of(1));
  OK(other.init(0));
  CUcontext theirs = nullptr;
  OK(other.context_create(&theirs, 0, 0));
  CUevent e = nullptr;
  OK(other.event_create(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  CUipcEventHandle handle;
  OK(other.ipc_export(&handle, e));
  CUevent opened = nullptr, late = nullptr;
  OK(f.cu.ipc_open(&opened, handle));
  sim::end_process(1);
  CHECK(sim::live_handles(1) == sim::HandleCounts{});
  CHECK(f.cu.event_query(opened) == CUDA_SUCCESS);
  OK(f.cu.event_destroy(opened));
  CHECK(f.cu.ipc_open(&late, handle) == CUDA_SUCCESS); // a device accepts it however late
  CHECK(f.cu.event_query(late) == CUDA_SUCCESS);
  CHECK(other.event_query(e) == CUDA_ERROR_NOT_INITIALIZED);
  OK(other.init(0));
}

TEST_CASE("a wait for an interprocess event of another context crashes, as on a device") {
  const Death death = death_of([] {
    Fixture f;
    CUevent e = nullptr;
    CUcontext other = nullptr;
    f.cu.event_create(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    f.cu.context_create(&other, 0, 0); // and makes it current
    f.cu.stream_wait(nullptr, e, 0);
  });
  CHECK(death.crashed);
  CHECK(death.says("cuStreamWaitEvent: crashes on a device"));
  CHECK(death.says("was made with CU_EVENT_INTERPROCESS in context #1, and context #2 waits for it"));
}
