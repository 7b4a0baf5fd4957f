// SPDX-License-Identifier: MIT
#include <cuevent/explain.hpp>

#include <cuevent/event_pool.hpp>

#include "stream.hpp"
#include "thrown.hpp"

#include <string>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(StreamFixture, "a refused record or wait is explained as its exception explains it") {
  DriverEvent event(context), empty;

  const std::string none = explain_record(empty.try_record(stream), empty, stream);
  CHECK(none == thrown([&] { empty.record(stream); }));
  CHECK_THAT(none, ContainsSubstring("the event is empty"));
  CHECK(explain_wait(empty.try_wait(stream), empty, stream) == thrown([&] { empty.wait(stream); }));
  CHECK(explain_query(empty.try_query(), empty) == thrown([&] { static_cast<void>(empty.query()); }));

  const std::string outside =
      explain_record(event.try_record(stream, RecordFlags::external), event, stream, RecordFlags::external);
  CHECK(outside == thrown([&] { event.record(stream, RecordFlags::external); }));
  CHECK_THAT(outside, ContainsSubstring("not being captured"));

  const Context gone;
  CHECK(explain_record(event.try_record({gone, stream}), event, {gone, stream}) == thrown([&] {
          event.record({gone, stream});
        }));
  CHECK(explain_wait(event.try_wait({gone, stream}), event, {gone, stream}) == thrown([&] {
          event.wait({gone, stream});
        }));
}

TEST_CASE_METHOD(StreamFixture, "causes that share one result are told apart") {
  DriverEvent recorded(context, EventFlags::timing), never(context, EventFlags::timing), untimed(context);
  recorded.record(stream);
  untimed.record(stream);
  recorded.synchronize();
  untimed.synchronize();
  DriverEvent::Milliseconds time{};
  for (const DriverEvent* end : {&never, &untimed}) {
    const CUresult result = recorded.try_elapsed_time(time, *end);
    CHECK(result == CUDA_ERROR_INVALID_HANDLE);
    CHECK(explain_elapsed_time(result, recorded, *end) == thrown([&] { recorded.elapsed_time(*end); }));
  }
  CHECK_THAT(explain_elapsed_time(CUDA_ERROR_INVALID_HANDLE, recorded, never),
             ContainsSubstring("never recorded"));

  EventPool pool(context);
  const PooledEvent lease = pool.acquire();
  CHECK(explain_query(lease.try_query(), lease) == thrown([&] { static_cast<void>(lease.query()); }));
}

TEST_CASE_METHOD(Fixture, "a result that no longer fits the arguments is still explained") {
  const DriverEvent empty;
  CHECK(explain_query(CUDA_ERROR_ILLEGAL_ADDRESS, empty) ==
        explain(CUDA_ERROR_ILLEGAL_ADDRESS, "cuEventQuery"));
  CHECK_THAT(explain_query(CUDA_SUCCESS, empty), ContainsSubstring("CUDA_SUCCESS"));
  CHECK(explain_create(CUDA_ERROR_INVALID_VALUE, context, EventFlags::timing | EventFlags::interprocess) ==
        thrown([&] {
          DriverEvent{context, EventFlags::timing | EventFlags::interprocess};
        }));
}

TEST_CASE("a failed load says what to install") {
  Driver none;
  const char* const library = "/nowhere/libcuda.so.1";
  const std::string text = explain_load(Driver::try_load(none, library), library);
  CHECK(text == thrown([&] { Driver{std::string(library)}; }));
  CHECK_THAT(text, ContainsSubstring(library) && ContainsSubstring("install the NVIDIA driver, or set"));
  const GetProcAddress null = nullptr;
  CHECK(explain_load(Driver::try_load(none, null), null) == thrown([&] { Driver{null}; }));
}
