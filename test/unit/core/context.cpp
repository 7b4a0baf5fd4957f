// SPDX-License-Identifier: MIT
#include <cuevent/context.hpp>
#include <cuevent/error.hpp>

#include "recording_driver.hpp"

#include <catch2/catch_test_macros.hpp>

#include <type_traits>
#include <utility>

using namespace cuevent;
using namespace test;
using Names = std::vector<std::string_view>;

static_assert(std::is_nothrow_copy_constructible_v<Context> && std::is_nothrow_move_constructible_v<Context>);
static_assert(std::is_nothrow_copy_assignable_v<Context> && std::is_nothrow_move_assignable_v<Context>);
static_assert(sizeof(Context) == 3 * sizeof(void*));
static_assert(!std::is_copy_constructible_v<ContextGuard> && !std::is_move_constructible_v<ContextGuard>);
static_assert(!std::is_convertible_v<const Context&, ContextGuard>);

namespace {

struct Fixture {
  RecordingDriver recording;
  Driver driver = RecordingDriver::driver();
  ~Fixture() {
    CHECK(recording.context_stack().empty());
    CHECK(RecordingDriver::live_contexts() == 0);
  }
};

CUresult hooked = CUDA_SUCCESS;
void remember(CUresult result, const char*, void*) noexcept { hooked = result; }

} // namespace

TEST_CASE_METHOD(Fixture, "the last copy of a primary context releases it") {
  {
    Context first = Context::primary(0, driver);
    CHECK(RecordingDriver::live_contexts() == 1);
    {
      const Context copy = first;
      CHECK(copy == first);
      first = Context();
      CHECK_FALSE(first);
      CHECK(recording.calls() == Names{"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxGetId"});
    }
    CHECK(recording.calls() == Names{"cuDevicePrimaryCtxRelease"});
  }
}

TEST_CASE_METHOD(Fixture, "a created context is not left current, and its last copy destroys it") {
  {
    const Context context = Context::create(0, driver);
    CHECK(recording.context_stack().empty());
    CHECK(recording.calls() == Names{"cuDeviceGet", "cuCtxCreate", "cuCtxGetId", "cuCtxPopCurrent"});
  }
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuCtxDestroy"});
}

TEST_CASE_METHOD(Fixture, "a created context that the program destroyed is not destroyed again") {
  const ErrorHook before = set_error_hook(remember);
  hooked = CUDA_SUCCESS;
  {
    const Context context = Context::create(0, driver);
    recording.calls();
    recording.fail_next("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }
  CHECK(recording.calls() == Names{"cuCtxGetId"});
  CHECK(hooked == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  driver.table().cuCtxDestroy_v4000(nullptr); // the stubs still count it
  set_error_hook(before);
}

TEST_CASE_METHOD(Fixture, "status tells whether a context is still the one that was retained") {
  const Context primary = Context::primary(0, driver);
  const Context borrowed = Context::borrow(primary.native_handle(), driver);
  CHECK(primary.status() == CUDA_SUCCESS);
  recording.reset_contexts();
  CHECK(primary.status() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(Context(primary).status() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(borrowed.status() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(Context().status() == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_METHOD(Fixture, "borrowing a context asks for its id and never releases the context") {
  {
    const Context context = Context::borrow(context_handle(1), driver);
    const Context copy = context;
    CHECK(copy.native_handle() == context_handle(1));
    CHECK(copy.driver() == driver);
    CHECK(copy.id() == context.id());
  }
  CHECK(recording.calls() == Names{"cuCtxGetId"});
  CHECK_THROWS_AS(Context::borrow(nullptr, driver), InvalidContext);
  Context out;
  CHECK(Context::try_borrow(out, nullptr, driver) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(Context::try_borrow(out, context_handle(1), Driver()) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_FALSE(out);
  CHECK(Context().id() == 0);
}

TEST_CASE_METHOD(Fixture, "a context that has ended cannot be borrowed") {
  recording.fail_always("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_THROWS_AS(Context::borrow(context_handle(1), driver), ContextIsDestroyed);
}

TEST_CASE_METHOD(Fixture, "a context is not equal to a later one with the same handle") {
  const Context before = Context::borrow(context_handle(1), driver);
  recording.reset_contexts();
  const Context after = Context::borrow(context_handle(1), driver);
  CHECK(before.native_handle() == after.native_handle());
  CHECK(before != after);
  CHECK(before == Context(before));
  CHECK(before.status() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(after.status() == CUDA_SUCCESS);
}

TEST_CASE_METHOD(Fixture, "moving or assigning a context to itself keeps it") {
  Context context = Context::primary(0, driver);
  Context& same = context;
  context = same;
  context = std::move(same);
  CHECK(context.native_handle() == context_handle(0x100));
  CHECK(RecordingDriver::live_contexts() == 1);
}

TEST_CASE_METHOD(Fixture, "a guard of the current context pushes nothing") {
  const Context context = Context::borrow(context_handle(1), driver);
  const ContextGuard guard(context);
  recording.calls();
  { const ContextGuard again(context); }
  CHECK(recording.calls() == Names{"cuCtxGetCurrent", "cuCtxGetId"});
}

TEST_CASE_METHOD(Fixture, "a context that the driver knows to be destroyed is never pushed") {
  const Context dead = Context::borrow(context_handle(1), driver);
  recording.calls();
  recording.fail_always("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_THROWS_AS(ContextGuard{dead}, ContextIsDestroyed);
  CUresult result = CUDA_SUCCESS;
  { const ContextGuard guard(dead, result); }
  CHECK(result == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(recording.calls() == Names{"cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetCurrent", "cuCtxGetId"});
}

TEST_CASE_METHOD(Fixture, "a guard of a context that has ended refuses a later one with the same handle") {
  const Context dead = Context::borrow(context_handle(1), driver);
  const Context owned = Context::primary(0, driver);
  recording.reset_contexts();
  for (const Context& stale : {dead, owned}) {
    recording.context_stack() = {stale.native_handle()};
    recording.calls();
    CHECK_THROWS_AS(ContextGuard{stale}, ContextIsDestroyed);
    CHECK(recording.calls() == Names{"cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetId"});
  }
  recording.context_stack().clear();
}

TEST_CASE_METHOD(Fixture, "a guard of an empty context throws InvalidContext without a driver call") {
  CHECK_THROWS_AS(ContextGuard{Context()}, InvalidContext);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(Fixture, "device() makes the context current and restores the caller's") {
  CHECK(Context::borrow(context_handle(2), driver).device() == 1);
  CHECK(Context::primary(3, driver).device() == 3);
  CHECK(recording.context_stack().empty());
}

TEST_CASE_METHOD(Fixture, "device() of a lost or empty context throws") {
  const Context owned = Context::primary(3, driver), borrowed = Context::borrow(context_handle(2), driver);
  recording.reset_contexts();
  CHECK_THROWS_AS(owned.device(), ContextLost);
  CHECK_THROWS_AS(borrowed.device(), ContextLost);
  CHECK_THROWS_AS(Context().device(), InvalidContext);
}

TEST_CASE_METHOD(Fixture, "a failed creation throws and leaks nothing") {
  for (const char* call : {"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxGetId"}) {
    recording.fail_next(call, CUDA_ERROR_INVALID_DEVICE);
    CHECK_THROWS_AS(Context::primary(0, driver), InvalidDevice);
  }
  for (const char* call : {"cuDeviceGet", "cuCtxCreate", "cuCtxGetId"}) {
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    Context context;
    CHECK(Context::try_create(context, 0, driver) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_FALSE(context);
  }
  CHECK_THROWS_AS(Context::primary(0, Driver()), InvalidHandle);
}

TEST_CASE_METHOD(Fixture, "a failed release goes to the error hook") {
  const ErrorHook before = set_error_hook(remember);
  {
    const Context context = Context::primary(0, driver);
    recording.fail_next("cuDevicePrimaryCtxRelease", CUDA_ERROR_UNKNOWN);
  }
  CHECK(hooked == CUDA_ERROR_UNKNOWN);
  driver.table().cuDevicePrimaryCtxRelease_v11000(0);
  set_error_hook(before);
}
