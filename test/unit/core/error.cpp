// SPDX-License-Identifier: MIT
#include <cuevent/error.hpp>

#include "core/failure.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <typeinfo>
#include <unistd.h>

using namespace cuevent;
using Catch::Matchers::ContainsSubstring;

static_assert(std::is_nothrow_copy_constructible_v<InvalidHandle> &&
              std::is_nothrow_copy_assignable_v<InvalidHandle>);
static_assert(std::is_base_of_v<std::system_error, DriverError> && std::is_abstract_v<DriverError> == false);
static_assert(std::is_base_of_v<UsageError, InvalidHandle> && std::is_base_of_v<OutOfResources, OutOfMemory>);
static_assert(std::is_base_of_v<DeviceFault, IllegalAddress> &&
              std::is_base_of_v<ContextLost, ContextIsDestroyed>);
static_assert(std::is_base_of_v<InvalidHandle, EmptyEvent> &&
              std::is_base_of_v<InvalidHandle, TimingDisabled>);
static_assert(std::is_base_of_v<InvalidHandle, NeverRecorded> &&
              std::is_base_of_v<InvalidHandle, ContextMismatch>);
static_assert(std::is_base_of_v<InvalidValue, RecordedInCapture>);
static_assert(std::is_base_of_v<IllegalState, ExternalOutsideCapture>);
static_assert(std::is_base_of_v<DriverError, NotReady> &&
              std::is_base_of_v<CaptureError, StreamCaptureUnjoined>);

namespace {

CUresult hooked_result = CUDA_SUCCESS;
std::string hooked_call;
void* hooked_user = nullptr;
void remember(CUresult result, const char* call, void* user) noexcept {
  hooked_user = user;
  hooked_result = result;
  hooked_call = call;
}

template <class Class>
void throws_its_class(int code) {
  CAPTURE(code);
  try {
    throw_error(static_cast<CUresult>(code), "cuTest");
  } catch (const DriverError& error) {
    CHECK(typeid(error) == typeid(Class));
    CHECK(error.result() == code);
    CHECK(error.code() == make_error_code(static_cast<CUresult>(code)));
    CHECK(std::string(error.call()) == "cuTest");
  }
}

} // namespace

TEST_CASE("every CUresult of the header in use has a row with its number") {
  std::ifstream header(CUEVENT_DRIVER_HEADERS "/cuda.h");
  REQUIRE(header);
  int found = 0;
  for (std::string line; std::getline(header, line);) {
    std::istringstream words(line); // "    CUDA_ERROR_INVALID_VALUE                  = 1,"
    std::string name, equals;
    int code = 0;
    if (!(words >> name >> equals >> code) || equals != "=") continue;
    if (!name.starts_with("CUDA_ERROR_") && name != "CUDA_SUCCESS") continue;
    ++found;
    CHECK_THAT(driver_category().message(code),
               Catch::Matchers::StartsWith(name + " (" + std::to_string(code) + "): "));
  }
  CHECK(found > 90);
}

TEST_CASE("each code is thrown as its own class") {
#define CUEVENT_ERROR(code, name, Class, kind, text, advice) throws_its_class<Class>(code);
#include <cuevent/errors.inc>
}

TEST_CASE("each code has the kind of its row, and only lost contexts and device faults are sticky") {
#define CUEVENT_ERROR(code, name, Class, kind, text, advice)                                                 \
  CHECK(kind_of(static_cast<CUresult>(code)) == ErrorKind::kind);
#include <cuevent/errors.inc>
  CHECK(kind_of(CUDA_SUCCESS) == ErrorKind::success);
  CHECK(kind_of(CUDA_ERROR_NOT_READY) == ErrorKind::not_ready);
  CHECK(is_sticky(CUDA_ERROR_ILLEGAL_ADDRESS));
  CHECK(is_sticky(CUDA_ERROR_CONTEXT_IS_DESTROYED));
  CHECK(is_sticky(CUDA_ERROR_DEINITIALIZED));
  CHECK_FALSE(is_sticky(CUDA_ERROR_OUT_OF_MEMORY));
  CHECK_FALSE(is_sticky(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
  CHECK_FALSE(is_sticky(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
}

TEST_CASE("an unknown code is thrown as a DriverError that names its number") {
  const auto unknown = static_cast<CUresult>(987);
  CHECK(kind_of(unknown) == ErrorKind::other);
  CHECK_FALSE(is_sticky(unknown));
  try {
    throw_error(unknown, "cuTest");
  } catch (const DriverError& error) {
    CHECK(typeid(error) == typeid(DriverError));
    CHECK(error.result() == unknown);
    CHECK_THAT(error.what(), ContainsSubstring("cuTest: CUresult 987"));
  }
}

TEST_CASE("what() names the call, the code, its number, the text and the advice") {
  CHECK(std::string(InvalidHandle("cuEventRecord").what()) ==
        "cuEventRecord: CUDA_ERROR_INVALID_HANDLE (400): a handle is null, belongs to another context, or is "
        "wrong "
        "for this call");
  CHECK(
      std::string(NotReady("cuEventElapsedTime").what()) ==
      "cuEventElapsedTime: CUDA_ERROR_NOT_READY (600): the work has not completed yet; query again later, or "
      "synchronize first");
  CHECK_THAT(InvalidHandle("cuEventRecord", "do this").what(), Catch::Matchers::EndsWith("; do this"));
}

TEST_CASE("a copy of an exception has the same text") {
  const EmptyEvent error("cuEventQuery", "make it first");
  const DriverError copy = error;
  CHECK(std::string(copy.what()) == error.what());
  CHECK(copy.result() == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("the error hook gets what is reported, and set_error_hook returns the one before") {
  const ErrorHook before = set_error_hook(remember);
  report_error(CUDA_ERROR_INVALID_VALUE, "cuEventDestroy");
  CHECK(hooked_result == CUDA_ERROR_INVALID_VALUE);
  CHECK(hooked_call == "cuEventDestroy");
  CHECK(hooked_user == nullptr);
  int log = 0;
  CHECK(set_error_hook(remember, &log) == ErrorHook{remember, nullptr});
  report_error(CUDA_ERROR_INVALID_VALUE, "cuEventDestroy");
  CHECK(hooked_user == &log);
  CHECK(set_error_hook(nullptr) == ErrorHook{remember, &log});
  CHECK(set_error_hook(before) == before);
}

TEST_CASE("the default hook prints one line for a result, and none for a lost context or a device fault") {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  const int before = dup(STDERR_FILENO);
  const ErrorHook hook = set_error_hook(nullptr);
  const auto printed = [&](CUresult result) {
    REQUIRE(ftruncate(fileno(file), 0) == 0);
    std::rewind(file);
    REQUIRE(dup2(fileno(file), STDERR_FILENO) >= 0);
    report_error(result, "cuTest");
    std::fflush(stderr);
    REQUIRE(dup2(before, STDERR_FILENO) >= 0);
    std::rewind(file);
    char text[1000];
    return std::string(text, std::fread(text, 1, sizeof text, file));
  };
#define CUEVENT_ERROR(code, name, Class, kind, text, advice)                                                 \
  CHECK(printed(static_cast<CUresult>(code)) ==                                                              \
        (ErrorKind::kind == ErrorKind::context_lost || ErrorKind::kind == ErrorKind::device_fault ||         \
                 code == CUDA_ERROR_NOT_INITIALIZED                                                          \
             ? ""                                                                                            \
             : "cuevent: cuTest failed in a destructor: " #name " (" #code ")\n"));
#include <cuevent/errors.inc>
  CHECK(printed(static_cast<CUresult>(987)) == "cuevent: cuTest failed in a destructor: CUresult (987)\n");
  set_error_hook(hook);
  close(before);
  std::fclose(file);
}

TEST_CASE("codes with a portable meaning match std::errc") {
  CHECK(make_error_code(CUDA_ERROR_OUT_OF_MEMORY) == std::errc::not_enough_memory);
  CHECK(make_error_code(CUDA_ERROR_INVALID_VALUE) == std::errc::invalid_argument);
  CHECK(make_error_code(CUDA_ERROR_NOT_SUPPORTED) == std::errc::not_supported);
  CHECK(make_error_code(CUDA_ERROR_NOT_PERMITTED) == std::errc::operation_not_permitted);
  CHECK(make_error_code(CUDA_ERROR_INVALID_HANDLE) != std::errc::invalid_argument);
}

TEST_CASE("the message of a result names no class of cuevent") {
  for (int code = 0; code < 1000; ++code) {
    const std::string message = driver_category().message(code);
    for (const char* const name : {"ContextGuard", "DriverEvent", "EventPool", "StreamCapture", "Driver::"})
      CHECK_THAT(message, !Catch::Matchers::ContainsSubstring(name));
  }
}

TEST_CASE("an error code is equal to its kind, and to no other") {
  constexpr ErrorKind kinds[] = {ErrorKind::success,
                                 ErrorKind::not_ready,
                                 ErrorKind::usage,
                                 ErrorKind::unsupported,
                                 ErrorKind::capture,
                                 ErrorKind::context_lost,
                                 ErrorKind::out_of_resources,
                                 ErrorKind::device_fault,
                                 ErrorKind::driver_unavailable,
                                 ErrorKind::other};
  std::set<std::string> messages;
  for (const ErrorKind kind : kinds) {
    messages.insert(make_error_condition(kind).message());
    for (const CUresult result :
         {CUDA_SUCCESS, CUDA_ERROR_NOT_READY, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_OUT_OF_MEMORY,
          CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_UNKNOWN}) {
      const std::error_code code = make_error_code(result);
      CHECK((code == kind) == (kind_of(result) == kind));
      CHECK(kind_of(code) == kind_of(result));
    }
    CHECK((std::error_code() == kind) == (kind == ErrorKind::success));
    CHECK((std::make_error_code(std::errc::io_error) == kind) == (kind == ErrorKind::other));
  }
  CHECK(messages.size() == std::size(kinds));
  CHECK(std::string_view(make_error_condition(ErrorKind::usage).category().name()) == "cuda-driver-kind");
  CHECK(make_error_condition(static_cast<ErrorKind>(99)).message() == "no kind of error");
  CHECK(OutOfMemory("cuMemAlloc").code() == std::errc::not_enough_memory);
}

TEST_CASE("an exception has its parts as data") {
  const TimingDisabled error("cuEventElapsedTime",
                             "the start event was made without timing: make it with timing");
  CHECK(error.result() == CUDA_ERROR_INVALID_HANDLE);
  CHECK(error.cause() == ErrorCause::timing_disabled);
  CHECK(error.reason() == "the start event was made without timing");
  CHECK(error.driver_words().empty());
  CHECK(error.advice() == "make it with timing");
  const DriverError copy = error;
  CHECK(copy.reason() == error.reason());

  const NotReady usual("cuEventQuery");
  CHECK(usual.cause() == ErrorCause::unknown);
  CHECK(usual.reason() == "the work has not completed yet");
  CHECK(usual.advice() == "query again later, or synchronize first");
  const InvalidHandle advised("cuEventRecord", "do this");
  CHECK(advised.reason() == "a handle is null, belongs to another context, or is wrong for this call");
  CHECK(advised.advice() == "do this");
}

TEST_CASE("no reason of a row of errors.inc contains its advice") {
#define CUEVENT_ERROR(code, name, Class, kind, text, advice_of_row)                                          \
  CHECK(Class("cuTest").reason() == text);                                                                   \
  CHECK(Class("cuTest").advice() == advice_of_row);
#include <cuevent/errors.inc>
}

TEST_CASE("each class of a cause has the cause and is thrown for it") {
  const auto throws = []<class Class>(const Class*, ErrorCause cause) {
    CHECK(Class("cuTest").cause() == cause);
    try {
      throw_failure({.result = result_for(cause), .call = "cuTest", .cause = cause});
    } catch (const DriverError& error) {
      CHECK(typeid(error) == typeid(Class));
      CHECK(error.cause() == cause);
      CHECK(error.result() == Class("cuTest").result());
    }
  };
  throws(static_cast<EmptyEvent*>(nullptr), ErrorCause::empty_event);
  throws(static_cast<TimingDisabled*>(nullptr), ErrorCause::timing_disabled);
  throws(static_cast<NeverRecorded*>(nullptr), ErrorCause::never_recorded);
  throws(static_cast<ContextMismatch*>(nullptr), ErrorCause::context_mismatch);
  throws(static_cast<RecordedInCapture*>(nullptr), ErrorCause::recorded_in_capture);
  throws(static_cast<ExternalOutsideCapture*>(nullptr), ErrorCause::external_outside_capture);
  throws(static_cast<SemaphoreAbandoned*>(nullptr), ErrorCause::semaphore_abandoned);
}

TEST_CASE("a failure of a kind is thrown as the class of the kind, whatever its code") {
  CHECK_THROWS_AS(
      throw_failure({.result = CUDA_ERROR_UNKNOWN, .call = "cuInit", .kind = ErrorKind::driver_unavailable}),
      DriverUnavailable);
  CHECK_THROWS_AS(
      throw_failure(
          {.result = CUDA_ERROR_NO_DEVICE, .call = "cuInit", .kind = ErrorKind::driver_unavailable}),
      NoDevice);
}
