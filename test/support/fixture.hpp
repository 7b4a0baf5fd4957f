// SPDX-License-Identifier: MIT
// What every test starts from, and must leave as it found it.
#pragma once

#include "driver_under_test.hpp"

#include <cuevent/context.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace test {

/// The contexts pushed on the calling thread, the current one first.
std::vector<CUcontext> context_stack();

/// The calling thread's stream capture mode.
CUstreamCaptureMode capture_mode();

/// Whether the device's primary context is active.
bool primary_is_active(int device);

int device_count();

/// Skips the test on a driver older than `version`.
void need(int version);

/// The primary context of device 0, which outlives the tests, since to make one takes a large part of a
/// second. A test that wants it gone empties the reference.
cuevent::Context& kept_primary();

/// What a test has not put back, in words.
struct LeftBehind {
  std::vector<std::string> on_thread; ///< the stack of contexts, the capture mode
  std::vector<std::string> handles;   ///< "events +1"
};

/// Looks on at tests whose calls are made to fail, and judges what they leave behind in place of the
/// fixture's own assertions. Its functions throw nothing.
class FixtureObserver {
public:
  virtual ~FixtureObserver() = default;
  virtual void body_begins() = 0;
  virtual void body_ends() = 0;            ///< also by an exception
  virtual bool judges_handles() const = 0; ///< if not, what is left of them is dropped
  virtual void reported(CUresult result, const char* call) = 0;
  /// The fixture has mended the thread.
  virtual void left_behind(const LeftBehind& left) = 0;
};
/// Null, as at first: none.
void set_fixture_observer(FixtureObserver* observer) noexcept;

/// A test starts with no context current. At its end the stack of contexts, the thread's capture mode, the
/// numbers of live handles and the devices whose primary context is active have to be what they were, and no
/// destructor may have had anything to report.
class Fixture {
public:
  Fixture();
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  ~Fixture();

protected:
  /// The time on the driver's clock, which in a stepped simulator is not the wall's.
  static std::chrono::steady_clock::time_point now();

  /// What destructors have reported since the last call: "cuEventDestroy 709".
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
  std::vector<bool> active_; // a device each
};

} // namespace test
