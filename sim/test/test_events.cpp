// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <cstring>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

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

namespace {

/// The driver of another process, where a context is current.
RawDriver other_process() {
  const RawDriver other(sim::get_proc_address_of(1));
  CUcontext context = nullptr;
  OK(other.init(0));
  OK(other.context_create(&context, 0, 0));
  return other;
}

} // namespace

TEST_CASE("an event can order the work of two processes") {
  Fixture f;
  const RawDriver other = other_process();
  CUstream their_stream = nullptr;
  OK(other.stream_create(&their_stream, 0));

  const CUevent e = f.event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  CUipcEventHandle handle;
  OK(f.cu.ipc_export(&handle, e));
  CUipcEventHandle refused = handle;
  CHECK(f.cu.ipc_export(&refused, f.event()) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(std::memcmp(&refused, &handle, sizeof handle) != 0); // on a device, too, the place is written
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

TEST_CASE("an imported event answers for the event that takes the place of the destroyed one") {
  Fixture f;
  const RawDriver other = other_process();
  constexpr unsigned shared = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  const auto imported = [&](CUevent event) {
    CUipcEventHandle handle;
    CUevent opened = nullptr;
    OK(f.cu.ipc_export(&handle, event));
    OK(other.ipc_open(&opened, handle));
    return opened;
  };
  const CUevent idle = f.event(shared), busy = f.event(shared);
  const CUevent of_idle = imported(idle), of_busy = imported(busy);
  sim::hold(f.stream);
  OK(f.cu.event_record(busy, f.stream));
  OK(f.cu.event_destroy(busy));
  OK(f.cu.event_destroy(idle));

  OK(f.cu.event_record(f.event(), f.stream)); // not an interprocess event
  CHECK(other.event_query(of_idle) == CUDA_SUCCESS);
  const CUevent next = f.event(shared);
  CHECK(other.event_query(of_idle) == CUDA_SUCCESS);
  OK(f.cu.event_record(next, f.stream));
  CHECK(other.event_query(of_idle) == CUDA_ERROR_NOT_READY);
  f.event(shared); // another place, because the record there is pending
  CHECK(other.event_query(of_busy) == CUDA_ERROR_NOT_READY);
  sim::release(f.stream);
  OK(f.cu.stream_synchronize(f.stream));
  CHECK(other.event_query(of_idle) == CUDA_SUCCESS);
}

TEST_CASE("a process that ends takes its contexts and handles with it") {
  Fixture f;
  const RawDriver other = other_process();
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
