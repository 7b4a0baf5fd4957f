// SPDX-License-Identifier: MIT
// The state in which every test starts, and which it must restore.
#pragma once

#include "driver_under_test.hpp"

#include <cuevent/context.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace test {

using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;

/// The contexts pushed on the calling thread. The current context is first.
std::vector<CUcontext> context_stack();

/// The calling thread's stream capture mode.
CUstreamCaptureMode capture_mode();

/// Whether the device's primary context is active.
bool primary_is_active(int device);

int device_count();

/// The primary context of a second device. Skips the test if there is none.
cuevent::Context second_device(const cuevent::Driver& driver);

/// Skips the test on a driver older than `version`.
void need(int version);

/// The primary context of device 0. It outlives the tests, because creating one takes a large part
/// of a second. A test that needs it gone empties the reference.
cuevent::Context& kept_primary();

/// What a test has not restored, as text.
struct LeftBehind {
  std::vector<std::string> on_thread; ///< the context stack and the capture mode
  std::vector<std::string> handles;   ///< "events +1"
};

/// Observes tests whose calls are made to fail, and judges what they leave behind instead of the
/// fixture's own assertions. Its functions throw nothing.
class FixtureObserver {
public:
  virtual ~FixtureObserver() = default;
  virtual void body_begins() = 0;
  virtual void body_ends() = 0;            ///< also called when an exception ends the body
  virtual bool judges_handles() const = 0; ///< if false, the remaining handles are ignored
  virtual void reported(CUresult result, const char* call) = 0;
  /// The fixture has restored the thread.
  virtual void left_behind(const LeftBehind& left) = 0;
};
/// Null, the default, means no observer.
void set_fixture_observer(FixtureObserver* observer) noexcept;

/// A test starts with no context current. At its end these must be as before: the context stack, the
/// thread's capture mode, the numbers of live handles, and the devices with an active primary context. No
/// destructor may have reported an error.
class Fixture {
public:
  Fixture();
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  ~Fixture();

protected:
  /// The time on the driver's clock. In a stepped simulator, it is not wall time.
  static std::chrono::steady_clock::time_point now();

  /// The errors that destructors have reported since the last call: "cuEventDestroy 709".
  static std::vector<std::string> take_reports();

  const cuevent::Driver& driver = test::driver();
  cuevent::Context context; // the primary context of device 0

private:
  static void finish_work();
  LeftBehind left_behind() const;
  void mend() const;

  std::vector<CUcontext> stack_;
  CUstreamCaptureMode mode_;
  LiveHandles handles_;
  std::vector<bool> active_; // by device
};

} // namespace test
