// SPDX-License-Identifier: MIT
// Each non-throwing overload of events and contexts returns what the throwing overload throws.
// References, pools, queues and fences have tests of their own for this.
#include "overloads.hpp"

#include <cuevent/ipc.hpp>

using namespace cuevent;
using namespace test;

namespace {

struct OverloadFixture : RecordingFixture {
  ~OverloadFixture() {
    event = DriverEvent();
    interprocess = DriverEvent();
    while (RecordingDriver::live_events() > events_before) // events that could not be destroyed
      driver.table().cuEventDestroy_v4000(nullptr);
  }

  Context other = Context::borrow(context_handle(2), driver), none;
  Context foreign = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  DriverEvent event{context}, interprocess{context, EventFlags::interprocess}, empty;
  CUgreenCtx green = reinterpret_cast<CUgreenCtx>(0x9c);
};

} // namespace

TEST_CASE_METHOD(OverloadFixture, "the non-throwing overloads of contexts return what the others throw") {
  Context maker, out; // `maker` only names the class
  for (const Driver& each : {driver, Driver()}) {
    GIVES(maker, primary, out, 0, each);
    GIVES(maker, create, out, 0, each);
    for (CUcontext handle : {context_handle(1), CUcontext(nullptr)})
      GIVES(maker, borrow, out, handle, each);
    GIVES(maker, current, out, each);
  }
  for (const Context* each : {&context, &none})
    check_overloads(
        recording, [&] { const ContextGuard guard(*each); },
        [&] {
          CUresult result = CUDA_SUCCESS;
          const ContextGuard guard(*each, result);
          return result;
        });
}

TEST_CASE_METHOD(OverloadFixture,
                 "the non-throwing overloads of records and waits return what the others throw") {
  for (DriverEvent* each : {&event, &interprocess, &empty}) {
    for (CUstream any : {stream, CUstream(nullptr), CU_STREAM_PER_THREAD}) {
      for (const auto flags : {RecordFlags::none, RecordFlags::external, RecordFlags::external_in_capture})
        BOTH(*each, record, any, flags);
      for (const auto flags : {WaitFlags::none, WaitFlags::external, WaitFlags::external_in_capture})
        BOTH(*each, wait, any, flags);
      for (const Context* named : {&context, &other, &none, &foreign}) {
        BOTH(*each, record, {*named, any});
        BOTH(*each, wait, {*named, any});
      }
    }
    for (const Context* named : {&context, &other, &none, &foreign}) {
      BOTH(*each, record_context, *named);
      BOTH(*each, wait_context, *named);
    }
    BOTH(*each, record_context, green);
    BOTH(*each, wait_context, green);
  }
}

TEST_CASE_METHOD(OverloadFixture, "the other non-throwing overloads of events return what the others throw") {
  DriverEvent out;
  for (const Context* each : {&context, &none}) {
    CREATES(DriverEvent, *each);
    GIVES(out, from_ipc_handle, out, *each, IpcHandle{});
  }
  for (DriverEvent* each : {&event, &empty}) {
    BOTH(*each, query);
    BOTH(*each, query_relaxed);
    BOTH(*each, synchronize);
    BOTH(*each, synchronize_for, 0s);
    BOTH(*each, synchronize_until, Deadline());
    IpcHandle handle;
    GIVES(*each, ipc_handle, handle);
    DriverEvent::Milliseconds time{};
    for (DriverEvent* end : {&event, &empty})
      GIVES(*each, elapsed_time, time, *end);
  }
  BOTH(empty, close);
  IpcHandle parsed;
  GIVES(parsed, parse, parsed, "short");
}
