// SPDX-License-Identifier: MIT
#include <cuevent/driver.hpp>

#include <cuevent/driver_event.hpp>
#include <cuevent/error.hpp>

#include "core/fork_lock.hpp"
#include "emulator.hpp"
#include "forked_child.hpp"
#include "on_threads.hpp"
#include "recording_driver.hpp"
#include "recording_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

using namespace cuevent;
using Catch::Matchers::ContainsSubstring;
using test::RecordingDriver;
using test::refusal;

static_assert(std::is_trivially_copyable_v<Driver> && sizeof(Driver) == sizeof(void*));
static_assert(std::is_nothrow_default_constructible_v<Driver>);
static_assert(noexcept(Driver::try_load(std::declval<Driver&>())));

namespace {

CUresult stub_library(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
  return CUDA_ERROR_STUB_LIBRARY;
}

CUresult lacking_query(const char* name, void** function, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult* status) {
  if (std::string(name) == "cuEventQuery") return *function = nullptr, CUDA_ERROR_NOT_FOUND;
  return RecordingDriver::get_proc_address(name, function, version, flags, status);
}

} // namespace

TEST_CASE("the driver is asked once for each row, in the row's own version") {
  RecordingDriver recording;
  RecordingDriver::driver();
  std::vector<std::string> requests = RecordingDriver::requests();
  for (const char* row : {
#define CUEVENT_REQUIRED(name, version) #name " " #version,
#include <cuevent/driver_symbols.inc>
       }) {
    CAPTURE(row);
    const bool probed_first = std::string(row) == "cuDriverGetVersion 2020";
    CHECK(std::count(requests.begin(), requests.end(), row) == (probed_first ? 2 : 1));
  }
}

TEST_CASE("version() returns the driver's version") {
  RecordingDriver recording;
  CHECK(RecordingDriver::driver(13000).version() == 13000);
  CHECK(RecordingDriver::driver(12040).version() == 12040);
  CHECK(Driver().version() == 0);
}

TEST_CASE("an older driver is never asked for functions that came later") {
  RecordingDriver recording;
  RecordingDriver::driver(12000);
  for (const std::string& request : RecordingDriver::requests()) {
    CAPTURE(request);
    CHECK(std::stoi(request.substr(request.find(' '))) <= 12000);
  }
}

TEST_CASE("elapsed time falls back to its first version on a driver older than 12.8") {
  RecordingDriver recording;
  float time = 0;
  RecordingDriver::driver(13000).table().cuEventElapsedTime_v12080(&time, nullptr, nullptr);
  CHECK(time == 2.5F);
  RecordingDriver::driver(12060).table().cuEventElapsedTime_v12080(&time, nullptr, nullptr);
  CHECK(time == 1.5F);
}

TEST_CASE("requesting an entry point that the driver is too old for throws and names the version") {
  RecordingDriver recording;
  const Driver driver = RecordingDriver::driver(12000);
  const std::string text = refusal<NotSupported>(
      [&] { driver.entry_point<PFN_cuEventElapsedTime_v2000>("cuEventElapsedTime", 12080); });
  CHECK_THAT(text,
             ContainsSubstring(
                 "cuEventElapsedTime needs a driver for CUDA 12.8, and this driver supports CUDA 12.0"));
}

TEST_CASE("requesting an unknown entry point throws and names it") {
  RecordingDriver recording;
  const Driver driver = RecordingDriver::driver();
  CHECK_THAT(refusal<NotFound>([&] { driver.entry_point<void (*)()>("cuNothing", 12000); }),
             ContainsSubstring("cuNothing"));
  CHECK_THAT(refusal<NotFound>([&] { driver.entry_point<PFN_cuStreamGetCtx_v9020>("cuStreamGetCtx", 2000); }),
             ContainsSubstring("did not exist in CUDA 2.0"));
  CHECK(driver.entry_point<PFN_cuEventQuery_v2000>("cuEventQuery", 2000) ==
        driver.table().cuEventQuery_v2000);
}

TEST_CASE("drivers with the same functions are equal, however the functions were found") {
  RecordingDriver recording;
  CHECK(RecordingDriver::driver() == RecordingDriver::driver());
  CHECK_FALSE(RecordingDriver::driver(12000) == RecordingDriver::driver(13000));
}

TEST_CASE("all functions of an empty Driver return CUDA_ERROR_INVALID_HANDLE") {
  const Driver none;
  CHECK_FALSE(none);
  CHECK(none.table().cuEventQuery_v2000(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(none.table().cuInit_v2000(0) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<InvalidHandle>([&] { none.fail(CUDA_ERROR_INVALID_HANDLE, "cuDeviceGet"); }),
             ContainsSubstring("the Driver is empty"));
}

TEST_CASE("loading a missing library throws and names the library") {
  const auto load = [] { return Driver("libcuda-that-is-not-there.so.1"); };
  CHECK_THAT(refusal<SharedObjectInitFailed>(load), ContainsSubstring("libcuda-that-is-not-there.so.1"));
  CHECK_THAT(refusal<SharedObjectInitFailed>(load), ContainsSubstring("no driver: "));
  Driver driver;
  CHECK(Driver::try_load(driver, "libcuda-that-is-not-there.so.1") == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
  CHECK(Driver::try_load(driver, static_cast<const char*>(nullptr)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(Driver::try_load(driver, GetProcAddress(nullptr)) == CUDA_ERROR_INVALID_VALUE);
  CHECK_THROWS_AS(Driver(GetProcAddress(nullptr)), InvalidValue);
  CHECK_FALSE(driver);
}

TEST_CASE("loading a library that is not a driver throws and says so") {
  CHECK_THAT(refusal<SharedObjectInitFailed>([] { return Driver("libm.so.6"); }),
             ContainsSubstring("libm.so.6 is not a CUDA driver"));
}

TEST_CASE("loading the toolkit's link stub throws StubLibrary") {
  CHECK_THAT(refusal<StubLibrary>([] { return Driver(stub_library); }), ContainsSubstring("link stub"));
  Driver driver;
  CHECK(Driver::try_load(driver, stub_library) == CUDA_ERROR_STUB_LIBRARY);
}

TEST_CASE("a driver older than 12.0 is refused, and the error names both versions") {
  RecordingDriver recording;
  const std::string text = refusal<CallRequiresNewerDriver>([] { RecordingDriver::driver(11080); });
  CHECK_THAT(text, ContainsSubstring("12.0 or later") && ContainsSubstring("11.8"));
}

TEST_CASE("a driver library without cuGetProcAddress is refused as too old") {
  REQUIRE(setenv("OLD_DRIVER_VERSION", "11020", 1) == 0);
  const auto load = [] { return Driver(OLD_DRIVER); };
  CHECK_THAT(refusal<CallRequiresNewerDriver>(load),
             ContainsSubstring("12.0 or later, and this driver supports CUDA 11.2: "));
  unsetenv("OLD_DRIVER_VERSION"); // it cannot tell its version
  CHECK_THAT(refusal<CallRequiresNewerDriver>(load),
             ContainsSubstring("12.0 or later, and this driver is older: "));
}

TEST_CASE("NO_DEVICE and other failures of cuInit keep their codes") {
  RecordingDriver recording;
  recording.fail_next("cuInit", CUDA_ERROR_NO_DEVICE);
  CHECK_THAT(refusal<NoDevice>([] { RecordingDriver::driver(); }), ContainsSubstring("CUDA_VISIBLE_DEVICES"));
  recording.fail_next("cuInit", CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  try {
    RecordingDriver::driver();
    FAIL("cuInit failed unnoticed");
  } catch (const DriverUnavailable& error) {
    CHECK(error.result() == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
    CHECK_THAT(error.what(), ContainsSubstring("cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"));
  }
  recording.fail_next("cuInit", CUDA_ERROR_OUT_OF_MEMORY);
  refusal<DriverUnavailable>([] { RecordingDriver::driver(); });
}

TEST_CASE("a driver without a required entry is refused, and the error names the entry") {
  RecordingDriver recording;
  CHECK_THAT(refusal<SharedObjectSymbolNotFound>([] { return Driver(lacking_query); }),
             ContainsSubstring("cuEventQuery"));
}

TEST_CASE("CUEVENT_DRIVER names the library of instance(), and a failed load is retried") {
  REQUIRE(setenv("CUEVENT_DRIVER", "first-that-is-not-there.so", 1) == 0);
  CHECK_THAT(refusal<SharedObjectInitFailed>([] { Driver::instance(); }),
             ContainsSubstring("first-that-is-not-there.so"));
  REQUIRE(setenv("CUEVENT_DRIVER", "second-that-is-not-there.so", 1) == 0);
  CHECK_THAT(refusal<SharedObjectInitFailed>([] { Driver::instance(); }),
             ContainsSubstring("second-that-is-not-there.so"));
  Driver driver;
  CHECK(Driver::try_load(driver) == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
  unsetenv("CUEVENT_DRIVER");
}

TEST_CASE("threads that load the same driver get the same table", "[threads]") {
  constexpr std::size_t threads = 4, versions = 16;
  std::vector<Driver> loaded[threads];
  test::on_threads(threads, [&](std::size_t t) {
    RecordingDriver recording;
    for (std::size_t i = 0; i < versions; ++i) // drivers of these versions have tables of their own
      loaded[t].push_back(RecordingDriver::driver(12500 + static_cast<int>(i)));
  });
  std::map<int, Driver> by_version;
  for (const std::vector<Driver>& drivers : loaded)
    for (const Driver& driver : drivers)
      CHECK(by_version.emplace(driver.version(), driver).first->second == driver);
}

TEST_CASE("every call in a forked child fails and says why, and destructors are silent") {
  RecordingDriver recording;
  const Driver driver = RecordingDriver::driver();
  DriverEvent event(Context::borrow(test::context_handle(1), driver));
  const auto said = [&](const std::function<void()>& call) {
    try {
      call();
      return false;
    } catch (const NotInitialized& error) {
      const bool named = std::string_view(error.call()).find(' ') == std::string_view::npos;
      return named && std::string(error.what()).find("forked") != std::string::npos;
    }
  };
  recording.calls();
  const int failed = test::in_child([&] {
    set_error_hook([](CUresult, const char*, void*) noexcept { _exit(99); });
    if (!said([&] { return event.query(); })) return 1;
    if (!said([&] { event.record(test::stream_handle(1)); })) return 2;
    if (!said([&] { event.record(nullptr); })) return 3;
    if (!said([&] { return event.synchronize_for(std::chrono::seconds(1)); })) return 4;
    if (!said([&] { DriverEvent another(event.context()); })) return 5;
    if (!said([&] { static_cast<void>(Context::primary(0, driver)); })) return 6;
    if (!said([&] { driver.entry_point<PFN_cuStreamQuery_v2000>("cuStreamQuery", 2000); })) return 7;
    if (!said([&] { Driver{driver.table().get_proc_address}; })) return 8;
    if (event.try_query() != CUDA_ERROR_NOT_INITIALIZED) return 9;
    event = DriverEvent();
    return recording.calls().empty() ? 0 : 10;
  });
  CHECK(failed == 0);
  CHECK(event.query()); // the parent's event still works
}

TEST_CASE("a forked child knows that it is another process") {
  RecordingDriver recording;
  RecordingDriver::driver(); // a process without a driver does not notice forks
  const HomeProcess home;
  const int failed = test::in_child([&] {
    if (home.is_this()) return 1;
    return HomeProcess().is_this() ? 0 : 2;
  });
  CHECK(failed == 0);
  CHECK(home.is_this());
}

TEST_CASE("a forked child does not wait for a lock that a thread of its parent holds") {
  RecordingDriver recording;
  RecordingDriver::driver(); // a process without a driver does not notice forks
  const ProcessLock held, free;
  std::atomic<int> step{0};
  std::thread holder([&] {
    const auto lock = held.hold();
    step = 1;
    step.notify_one();
    step.wait(1);
  });
  step.wait(0);
  const int failed = test::in_child([&] {
    alarm(10);
    if (held.hold()) return 1;
    if (!free.hold()) return 2;
#if !defined(__SANITIZE_THREAD__)      // refuses threads in a child that was forked while other threads ran
    if (!emulator().empty()) return 0; // so does QEMU
    const ProcessLock of_child;
    auto lock = of_child.hold();
    bool waited = false;
    std::thread other([&] { waited = static_cast<bool>(of_child.hold()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    lock.unlock();
    other.join();
    if (!waited) return 3;
#endif
    return 0;
  });
  CHECK(failed == 0);
  step = 2;
  step.notify_one();
  CHECK(held.hold()); // the parent waits
  holder.join();
}

TEST_CASE("a driver first loaded in a forked child reports the result of cuInit") {
  RecordingDriver recording;
  recording.fail_next("cuInit", CUDA_ERROR_NOT_INITIALIZED);
  CHECK_THAT(refusal<NotInitialized>([] { Driver{RecordingDriver::get_proc_address}; }),
             ContainsSubstring("forked"));
}

TEST_CASE("the driver is not called any more once the process exits") {
  const int failed = test::in_child([] {
    // The child loads its own driver, because the one that was loaded before the fork cannot be used.
    RecordingDriver recording;
    static std::unique_ptr<DriverEvent> event;
    static PFN_cuEventQuery_v2000 working = nullptr;
    static int result = 1;
    // Registered before the driver is loaded, so it runs after the driver's end.
    std::atexit([] {
      result = event->try_query() == CUDA_ERROR_DEINITIALIZED ? 0 : 2;
      event.reset(); // silently
      _exit(result);
    });
    const Driver driver = RecordingDriver::driver(12060);
    event = std::make_unique<DriverEvent>(Context::borrow(test::context_handle(1), driver));
    working = driver.table().cuEventQuery_v2000;
    // Registered after the driver was loaded, so it runs while the driver still works. The stubs no
    // longer work, because their thread-local records are gone, so they are not called.
    std::atexit([] {
      if (event->context().driver().table().cuEventQuery_v2000 != working) _exit(3);
    });
    std::exit(4);
    return 5;
  });
  CHECK(failed == 0);
}
