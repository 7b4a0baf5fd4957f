// SPDX-License-Identifier: MIT
// Each non-throwing overload of events and contexts returns what the throwing overload throws.
// Pools, queues and fences have tests of their own for this.
#include "overloads.hpp"

#include <cuevent/ipc.hpp>

#include <catch2/catch_test_macros.hpp>

using namespace cuevent;
using namespace test;
using namespace std::chrono_literals;

namespace {

struct OverloadFixture : RecordingFixture {
  CUresult check(const std::function<void()>& throwing, const std::function<CUresult()>& trying) {
    const long events = RecordingDriver::live_events();
    const CUresult result = check_overloads(recording, throwing, trying);
    while (RecordingDriver::live_events() > events) // events that could not be destroyed
      driver.table().cuEventDestroy_v4000(nullptr);
    return result;
  }

  Context other = Context::borrow(context_handle(2), driver), none;
  Context foreign = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  DriverEvent event{context}, interprocess{context, EventFlags::interprocess}, empty;
  CUgreenCtx green = reinterpret_cast<CUgreenCtx>(0x9c);
};

} // namespace

TEST_CASE_METHOD(OverloadFixture, "the non-throwing overloads of contexts return what the others throw",
                 "[context][overloads]") {
  Context out;
  for (const Driver& each : {driver, Driver()}) {
    check([&] { Context::primary(0, each); }, [&] { return Context::try_primary(out, 0, each); });
    check([&] { Context::create(0, each); },
          [&] {
            const CUresult result = Context::try_create(out, 0, each);
            out = Context();
            return result;
          });
    for (CUcontext handle : {context_handle(1), CUcontext(nullptr)})
      check([&] { Context::borrow(handle, each); }, [&] { return Context::try_borrow(out, handle, each); });
    check([&] { Context::current(each); }, [&] { return Context::try_current(out, each); });
  }
  for (const Context* each : {&context, &none})
    check([&] { const ContextGuard guard(*each); },
          [&] {
            CUresult result = CUDA_SUCCESS;
            const ContextGuard guard(*each, result);
            return result;
          });
}

TEST_CASE_METHOD(OverloadFixture,
                 "the non-throwing overloads of records and waits return what the others throw",
                 "[event][overloads]") {
  CHECK(event.try_wait({none, stream}) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(event.try_record({none, stream}) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(event.try_wait_context(none) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(event.try_record_context(none) == CUDA_ERROR_INVALID_CONTEXT);
  for (DriverEvent* each : {&event, &interprocess, &empty}) {
    for (CUstream any : {stream, CUstream(nullptr), CU_STREAM_PER_THREAD}) {
      for (const auto flags : {RecordFlags::none, RecordFlags::external, RecordFlags::external_in_capture})
        check([&] { each->record(any, flags); }, [&] { return each->try_record(any, flags); });
      for (const auto flags : {WaitFlags::none, WaitFlags::external, WaitFlags::external_in_capture})
        check([&] { each->wait(any, flags); }, [&] { return each->try_wait(any, flags); });
      for (const Context* named : {&context, &other, &none, &foreign}) {
        check([&] { each->record({*named, any}); }, [&] { return each->try_record({*named, any}); });
        check([&] { each->wait({*named, any}); }, [&] { return each->try_wait({*named, any}); });
      }
    }
    for (const Context* named : {&context, &other, &none, &foreign}) {
      check([&] { each->record_context(*named); }, [&] { return each->try_record_context(*named); });
      check([&] { each->wait_context(*named); }, [&] { return each->try_wait_context(*named); });
    }
    check([&] { each->record_context(green); }, [&] { return each->try_record_context(green); });
    check([&] { each->wait_context(green); }, [&] { return each->try_wait_context(green); });
  }
}

TEST_CASE_METHOD(OverloadFixture, "the other non-throwing overloads of events return what the others throw",
                 "[event][overloads]") {
  DriverEvent out;
  for (const Context* each : {&context, &none}) {
    check([&] { DriverEvent{*each}; },
          [&] {
            const CUresult result = DriverEvent::try_create(out, *each);
            out = DriverEvent();
            return result;
          });
    check([&] { DriverEvent::from_ipc_handle(*each, IpcHandle{}); },
          [&] {
            const CUresult result = DriverEvent::try_from_ipc_handle(out, *each, IpcHandle{});
            out = DriverEvent();
            return result;
          });
  }
  const auto ready = [](bool is_ready) {
    if (!is_ready) throw NotReady("cuEventQuery");
  };
  for (DriverEvent* each : {&event, &empty}) {
    check([&] { ready(each->query()); }, [&] { return each->try_query(); });
    check([&] { ready(each->query_relaxed()); }, [&] { return each->try_query_relaxed(); });
    check([&] { each->synchronize(); }, [&] { return each->try_synchronize(); });
    check([&] { ready(each->synchronize_for(0s)); }, [&] { return each->try_synchronize_for(0s); });
    check([&] { ready(each->synchronize_until(Deadline())); },
          [&] { return each->try_synchronize_until(Deadline()); });
    IpcHandle handle;
    check([&] { static_cast<void>(each->ipc_handle()); }, [&] { return each->try_ipc_handle(handle); });
    DriverEvent::Milliseconds time{};
    for (DriverEvent* end : {&event, &empty})
      check([&] { each->elapsed_time(*end); }, [&] { return each->try_elapsed_time(time, *end); });
  }
  check([&] { empty.close(); }, [&] { return empty.try_close(); });
  IpcHandle parsed;
  check([&] { IpcHandle::parse("short"); }, [&] { return IpcHandle::try_parse(parsed, "short"); });
}
