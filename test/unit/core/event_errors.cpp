// SPDX-License-Identifier: MIT
// Which cause an error names when several things are wrong at a time. Errors with one cause are tested
// with the function that throws them.
#include <cuevent/driver_event.hpp>

#include "recording_fixture.hpp"

#include <functional>
#include <string>

using namespace cuevent;
using namespace test;

namespace {

constexpr auto unknown_record = static_cast<RecordFlags>(0x40);
constexpr auto unknown_wait = static_cast<WaitFlags>(0x40);

} // namespace

TEST_CASE_METHOD(RecordingFixture, "a fault of the device is reported as such, even if arguments are wrong") {
  DriverEvent event(context);
  recording.fail_always("cuEventRecordWithFlags", CUDA_ERROR_ILLEGAL_ADDRESS);
  recording.fail_always("cuEventRecord", CUDA_ERROR_ILLEGAL_ADDRESS);
  recording.fail_always("cuStreamWaitEvent", CUDA_ERROR_ILLEGAL_ADDRESS);
  refusal<IllegalAddress>([&] { event.record(stream, RecordFlags::external); });
  refusal<IllegalAddress>([&] { event.wait(stream, WaitFlags::external); });
  recording.fail_nothing();
  recording.calls();
}

TEST_CASE_METHOD(RecordingFixture, "a refused value of known flags is not blamed on the flags") {
  DriverEvent event(context);
  recording.fail_always("cuEventRecordWithFlags", CUDA_ERROR_INVALID_VALUE);
  const std::string refused = refusal<InvalidValue>([&] { event.record(stream, RecordFlags::external); });
  CHECK_THAT(refused, !ContainsSubstring("unknown bits") && !ContainsSubstring("alternatives"));
  CHECK_THAT(refusal<InvalidValue>([&] { event.record(stream, unknown_record); }),
             ContainsSubstring("RecordFlags has unknown bits"));
  recording.fail_always("cuStreamWaitEvent", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>([&] { event.wait(stream, unknown_wait); }),
             ContainsSubstring("WaitFlags has unknown bits"));
  refusal<RecordedInCapture>([&] { event.wait(stream, WaitFlags::external); });
  recording.fail_nothing();
  recording.calls();
}

TEST_CASE_METHOD(RecordingFixture, "an illegal state is blamed on the external flag only if it is there") {
  DriverEvent event(context);
  recording.fail_always("cuEventRecord", CUDA_ERROR_ILLEGAL_STATE);
  recording.fail_always("cuEventRecordWithFlags", CUDA_ERROR_ILLEGAL_STATE);
  recording.fail_always("cuStreamWaitEvent", CUDA_ERROR_ILLEGAL_STATE);
  refusal<IllegalState>([&] { event.record(stream); });
  refusal<ExternalOutsideCapture>([&] { event.record(stream, RecordFlags::external); });
  refusal<IllegalState>([&] { event.wait(stream); });
  refusal<ExternalOutsideCapture>([&] { event.wait(stream, WaitFlags::external); });
  recording.fail_nothing();
  recording.calls();
}

TEST_CASE_METHOD(RecordingFixture, "an elapsed time names the first event that is wrong") {
  DriverEvent start = timed(), end = timed();
  const DriverEvent untimed(context), empty;
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE);
  const auto why = [&](const DriverEvent& from, const DriverEvent& to) {
    try {
      from.elapsed_time(to);
      return std::string("nothing");
    } catch (const DriverError& error) {
      return std::string(error.what());
    }
  };
  CHECK_THAT(why(empty, untimed), ContainsSubstring("the start event is empty"));
  CHECK_THAT(why(untimed, empty), ContainsSubstring("the end event is empty"));
  CHECK_THAT(why(untimed, untimed), ContainsSubstring("the start event was made without timing"));
  CHECK_THAT(why(start, untimed), ContainsSubstring("the end event was made without timing"));
  CHECK_THAT(why(start, end), ContainsSubstring("the start event was never recorded"));
  recording.fail_nothing();
  recording.fail_next("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(why(start, end), !ContainsSubstring("never recorded")); // each event alone is all right
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(why(start, end), ContainsSubstring("the start event was last recorded inside a stream capture"));
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_NOT_READY);
  CHECK_THAT(why(start, end), !ContainsSubstring("capture") && !ContainsSubstring("never recorded"));
  recording.fail_nothing();
  recording.calls();
}

TEST_CASE_METHOD(RecordingFixture, "an error about two contexts names both, the one of the event first") {
  const Context other = Context::borrow(context_handle(2), driver);
  const std::string own_name = "context 0xc001 (device 0)", other_name = "context 0xc002 (device 1)";
  const DriverEvent shared(context, EventFlags::interprocess), far = DriverEvent(other, EventFlags::timing);
  DriverEvent start = timed();
  recording.stream_context(context_handle(2));
  recording.fail_always("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);

  const auto names_own_first = [&](const std::function<void()>& call) {
    const std::string text = refusal<ContextMismatch>(call);
    CAPTURE(text);
    CHECK(text.find(own_name) != std::string::npos);
    CHECK(text.find(other_name) != std::string::npos);
    CHECK(text.find(own_name) < text.find(other_name));
  };
  names_own_first([&] { shared.wait(stream); });
  names_own_first([&] { shared.wait({other, nullptr}); });
  recording.fail_always("cuCtxRecordEvent", CUDA_ERROR_INVALID_HANDLE);
  names_own_first([&] { shared.wait_context(other); });
  names_own_first([&] { start.record_context(other); });
  names_own_first([&] { start.record(stream); });
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE);
  names_own_first([&] { start.elapsed_time(far); });
  recording.fail_nothing();
  recording.stream_context(context_handle(1));
  recording.calls();
}

TEST_CASE_METHOD(RecordingFixture, "only an interprocess event is refused as one") {
  const DriverEvent plain(context), shared(context, EventFlags::interprocess);
  auto* const green = reinterpret_cast<CUgreenCtx>(0x9c);
  for (const char* const call : {"cuCtxWaitEvent", "cuGreenCtxWaitEvent", "cuStreamWaitEvent"})
    recording.fail_always(call, CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<InvalidHandle>([&] { plain.wait_context(context); }),
             !ContainsSubstring("interprocess"));
  CHECK_THAT(refusal<InvalidHandle>([&] { plain.wait_context(green); }), !ContainsSubstring("interprocess"));
  CHECK_THAT(refusal<InvalidHandle>([&] { plain.wait(stream); }), !ContainsSubstring("interprocess"));
  for (const char* const call : {"cuCtxWaitEvent", "cuGreenCtxWaitEvent"})
    recording.fail_always(call, CUDA_ERROR_ILLEGAL_ADDRESS);
  refusal<IllegalAddress>([&] { shared.wait_context(context); });
  refusal<IllegalAddress>([&] { shared.wait_context(green); });
  recording.fail_nothing();
  recording.calls();
}
