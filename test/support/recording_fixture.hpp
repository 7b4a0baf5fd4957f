// SPDX-License-Identifier: MIT
// What the unit tests on recording stubs share: a context, a stream, and a check of what is left behind.
#pragma once

#include "recording_driver.hpp"

#include <cuevent/error.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace test {

using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;

using Names = std::vector<std::string_view>;

/// Collects the errors that reach the error hook on this thread.
class HookedErrors {
public:
  HookedErrors() : before_(cuevent::set_error_hook(note)) { last_ = CUDA_SUCCESS; }
  HookedErrors(const HookedErrors&) = delete;
  HookedErrors& operator=(const HookedErrors&) = delete;
  ~HookedErrors() { cuevent::set_error_hook(before_); }

  /// The last error since the last call, CUDA_SUCCESS if none.
  CUresult take() { return std::exchange(last_, CUDA_SUCCESS); }

private:
  static void note(CUresult result, const char*, void*) noexcept { last_ = result; }
  static inline thread_local CUresult last_ = CUDA_SUCCESS;
  cuevent::ErrorHook before_;
};

struct RecordingFixture {
  RecordingFixture() { recording.calls(); } // clears the calls that made the fixture

  RecordingDriver recording;
  cuevent::Driver driver = RecordingDriver::driver();
  cuevent::Context context = cuevent::Context::borrow(context_handle(1), driver);
  CUstream stream = stream_handle(1);
  long events_before = RecordingDriver::live_events();
  long graphs_before = RecordingDriver::live_graphs();
  long execs_before = RecordingDriver::live_execs();

  cuevent::DriverEvent timed() { return cuevent::DriverEvent(context, cuevent::EventFlags::timing); }

  void check_nothing_left() {
    CHECK(recording.context_stack().empty());
    CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(RecordingDriver::live_events() == events_before);
    CHECK(RecordingDriver::live_graphs() == graphs_before);
    CHECK(RecordingDriver::live_execs() == execs_before);
  }

  /// Destroys what graphs have kept, as the driver does some time after the last graph is destroyed.
  void end_graphs() {
    recording.end_user_objects();
    cuevent::destroy_retired();
  }

  ~RecordingFixture() {
    end_graphs();
    check_nothing_left();
  }
};

/// An error names the call that failed, also at the beginning of its text. The text and the advice have
/// spaces, and the name has none.
inline void check_names_call(const cuevent::DriverError& error) {
  const std::string_view text = error.what();
  INFO(text);
  CHECK(text.substr(0, text.find(' ')).ends_with(':'));
  CHECK(std::string_view(error.call()).find(' ') == std::string_view::npos);
}

/// The text of the exception that `call` throws. The exception must have exactly this type.
template <class Exception>
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    CHECK(typeid(error) == typeid(Exception));
    if constexpr (std::is_base_of_v<cuevent::DriverError, Exception>) check_names_call(error);
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

} // namespace test
