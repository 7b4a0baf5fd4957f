// SPDX-License-Identifier: MIT
#include <cuevent/ipc.hpp>

#include "recording_fixture.hpp"

#include <type_traits>

using namespace cuevent;
using namespace test;

static_assert(sizeof(IpcHandle) == sizeof(CUipcEventHandle) && std::is_trivially_copyable_v<IpcHandle>);
static_assert(noexcept(IpcHandle::try_parse(std::declval<IpcHandle&>(), "")));
static_assert(noexcept(std::declval<const DriverEvent&>().try_ipc_handle(std::declval<IpcHandle&>())));

namespace {

/// 00 05 0a ...
IpcHandle counting() {
  IpcHandle handle;
  for (std::size_t i = 0; i < handle.bytes.size(); ++i)
    handle.bytes[i] = std::byte(i * 5);
  return handle;
}

} // namespace

TEST_CASE("an IPC handle is printed as hexadecimal digits and parsed back") {
  const std::string text = counting().to_string();
  CHECK(text.size() == 128);
  CHECK(text.substr(0, 8) == "00050a0f");
  CHECK(text.substr(100, 4) == "faff");
  CHECK(IpcHandle::parse(text) == counting());
  CHECK(IpcHandle::parse("00050A0F" + text.substr(8)) == counting());
  CHECK(IpcHandle() != counting());
  CHECK(IpcHandle().to_string() == std::string(128, '0'));
}

TEST_CASE("parsing text that is not an IPC handle throws and says why") {
  const std::string good = counting().to_string();
  const auto refused = [](const std::string& text) {
    IpcHandle untouched = counting();
    CHECK(IpcHandle::try_parse(untouched, text) == CUDA_ERROR_INVALID_VALUE);
    CHECK(untouched == counting());
    return refusal<InvalidValue>([&] { static_cast<void>(IpcHandle::parse(text)); });
  };
  CHECK_THAT(refused(""), ContainsSubstring("128 hexadecimal digits") && ContainsSubstring("has 0"));
  CHECK_THAT(refused(good.substr(1)), ContainsSubstring("has 127"));
  CHECK_THAT(refused(good + "\n"), ContainsSubstring("has 129"));
  for (const char wrong : {'g', 'G', ' ', '/', ':', '@', '`', '\0', '\xff'}) {
    std::string text = good;
    text[37] = wrong;
    CHECK_THAT(refused(text), ContainsSubstring("position 37"));
  }
}

TEST_CASE_METHOD(RecordingFixture, "export and import act in the event's context and restore the caller's") {
  const DriverEvent event(context, EventFlags::interprocess);
  recording.calls();
  const IpcHandle handle = event.ipc_handle();
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuCtxGetId", nullptr},
                                                             {"cuCtxGetCurrent", nullptr},
                                                             {"cuCtxGetId", nullptr},
                                                             {"cuCtxPushCurrent", nullptr},
                                                             {"cuIpcGetEventHandle", context_handle(1)},
                                                             {"cuCtxPopCurrent", context_handle(1)}});
  CHECK(handle == counting());

  const DriverEvent opened = DriverEvent::from_ipc_handle(context, handle);
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuCtxGetCurrent", nullptr},
                                                             {"cuCtxGetId", nullptr},
                                                             {"cuCtxPushCurrent", nullptr},
                                                             {"cuIpcOpenEventHandle", context_handle(1)},
                                                             {"cuCtxPopCurrent", context_handle(1)}});
  CHECK(opened.flags() == EventFlags::interprocess);
  CHECK(opened.context() == context);
}

TEST_CASE_METHOD(RecordingFixture, "a refused export says why") {
  const auto refused = [&](const DriverEvent& event) {
    recording.fail_next("cuIpcGetEventHandle", CUDA_ERROR_INVALID_HANDLE);
    return refusal<InvalidHandle>([&] { static_cast<void>(event.ipc_handle()); });
  };
  CHECK_THAT(refused(DriverEvent(context)), ContainsSubstring("EventFlags::interprocess"));
  CHECK_THAT(refused(DriverEvent::from_ipc_handle(context, counting())), ContainsSubstring("imported"));
  refusal<EmptyEvent>([] { static_cast<void>(DriverEvent().ipc_handle()); });
  const DriverEvent event(context, EventFlags::interprocess);
  recording.calls();
  recording.fail_next("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  refusal<ContextIsDestroyed>([&] { static_cast<void>(event.ipc_handle()); });
  CHECK(recording.calls() == Names{"cuCtxGetId"}); // the driver would crash
}

TEST_CASE_METHOD(RecordingFixture, "a refused import says why and creates nothing") {
  const auto refused = [&]<class Exception>(CUresult result, Exception*) {
    recording.fail_next("cuIpcOpenEventHandle", result);
    DriverEvent out(context);
    CUevent const handle = out.native_handle();
    CHECK(DriverEvent::try_from_ipc_handle(out, context, counting()) == result);
    CHECK(out.native_handle() == handle);
    recording.fail_next("cuIpcOpenEventHandle", result);
    return refusal<Exception>([&] { static_cast<void>(DriverEvent::from_ipc_handle(context, counting())); });
  };
  CHECK_THAT(refused(CUDA_ERROR_INVALID_CONTEXT, static_cast<InvalidContext*>(nullptr)),
             ContainsSubstring("this process exported"));
  CHECK_THAT(refused(CUDA_ERROR_MAP_FAILED, static_cast<MapFailed*>(nullptr)),
             ContainsSubstring("all bytes of the handle"));
  refused(CUDA_ERROR_OUT_OF_MEMORY, static_cast<OutOfMemory*>(nullptr));
  CHECK_THAT(refusal<InvalidContext>(
                 [&] { static_cast<void>(DriverEvent::from_ipc_handle(Context(), counting())); }),
             ContainsSubstring("empty"));
}
