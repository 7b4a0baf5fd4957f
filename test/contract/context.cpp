// SPDX-License-Identifier: MIT
#include "fixture.hpp"

#include <thread>

using namespace cuevent;
using namespace test;

namespace {

CUcontext current_context() {
  CUcontext current = nullptr;
  CHECK(test::driver().table().cuCtxGetCurrent_v4000(&current) == CUDA_SUCCESS);
  return current;
}

struct WorkFailed {};

} // namespace

TEST_CASE_METHOD(Fixture, "a primary context is active until its last holder drops it") {
  context = Context();
  test::kept_primary() = Context();
  CHECK_FALSE(test::primary_is_active(0));
  {
    const Context held = Context::primary(0, driver);
    CHECK(test::primary_is_active(0));
    CHECK(current_context() == nullptr);
  }
  CHECK_FALSE(test::primary_is_active(0));
}

TEST_CASE_METHOD(Fixture, "the primary context of one device leaves the other devices alone") {
  if (test::device_count() < 2) SKIP("needs a second device");
  CHECK_FALSE(test::primary_is_active(1));
  {
    const Context second = Context::primary(1, driver);
    CHECK(test::primary_is_active(1));
    CHECK(second.device() == 1);
    CHECK(second != context);
  }
  CHECK_FALSE(test::primary_is_active(1));
}

TEST_CASE_METHOD(Fixture, "current() borrows the current context and throws if there is none") {
  CHECK_THROWS_AS(Context::current(driver), InvalidContext);
  Context found;
  CHECK(Context::try_current(found, driver) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_FALSE(found);

  const int before = live_handles().primary_retains;
  const ContextGuard guard(context);
  CHECK(Context::current(driver) == context);
  CHECK(Context::try_current(found, driver) == CUDA_SUCCESS);
  CHECK(found == context);
  CHECK(live_handles().primary_retains == before);
}

TEST_CASE_METHOD(Fixture, "creating a context on a device that does not exist throws") {
  const int none = test::device_count();
  CHECK_THROWS_AS(Context::primary(none, driver), InvalidDevice);
  CHECK_THROWS_AS(Context::create(none, driver), InvalidDevice);
  Context out = context;
  CHECK(Context::try_primary(out, none, driver) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(Context::try_create(out, none, driver) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(Context::try_primary(out, -1, driver) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(out == context);
}

TEST_CASE_METHOD(Fixture, "a guard makes a context current for its scope, whichever was current before") {
  const Context created = Context::create(0, driver);
  {
    const ContextGuard outer(context);
    CHECK(current_context() == context.native_handle());
    {
      const ContextGuard inner(created);
      CHECK(current_context() == created.native_handle());
    }
    CHECK(current_context() == context.native_handle());
  }
  CHECK(current_context() == nullptr);
}

TEST_CASE_METHOD(Fixture, "a guard restores the context when an exception ends its scope") {
  const Context created = Context::create(0, driver);
  const ContextGuard outer(context);
  const auto stack = context_stack();
  try {
    const ContextGuard inner(created);
    throw WorkFailed();
  } catch (const WorkFailed&) {
    CHECK(context_stack() == stack);
  }
}

TEST_CASE_METHOD(Fixture, "a guard whose scope made another context current undoes nothing and reports it") {
  const Context created = Context::create(0, driver);
  {
    const ContextGuard guard(context);
    REQUIRE(driver.table().cuCtxPushCurrent_v4000(created.native_handle()) == CUDA_SUCCESS);
  }
  CHECK(take_reports() == std::vector<std::string>{"cuCtxPopCurrent 201"});
  CHECK(context_stack() == std::vector{created.native_handle(), context.native_handle()});
  for (int pushed = 0; pushed < 2; ++pushed) {
    CUcontext popped = nullptr;
    CHECK(driver.table().cuCtxPopCurrent_v4000(&popped) == CUDA_SUCCESS);
  }
}

TEST_CASE_METHOD(Fixture, "a guard destroyed on another thread undoes nothing and reports it") {
  auto* const guard = new ContextGuard(context);
  std::vector<CUcontext> theirs;
  std::thread([&] {
    delete guard;
    theirs = context_stack();
  }).join();
  CHECK(theirs.empty());
  CHECK(take_reports().size() == 1);
  CHECK(context_stack() == std::vector{context.native_handle()});
  CUcontext popped = nullptr;
  CHECK(driver.table().cuCtxPopCurrent_v4000(&popped) == CUDA_SUCCESS);
}

TEST_CASE_METHOD(Fixture, "the driver of this machine is found by default and loaded once") {
  Driver none;
  if (Driver::try_load(none) != CUDA_SUCCESS) SKIP("this machine has no driver");
  const Driver& found = Driver::instance();
  CHECK(&found == &Driver::instance());
  CHECK(found.version() >= 12000);
  CHECK(Context::primary(0).native_handle() == Context::primary(0).native_handle());
}
