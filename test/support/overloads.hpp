// SPDX-License-Identifier: MIT
// Checks that a non-throwing overload returns what the throwing overload throws.
#pragma once

#include "recording_fixture.hpp"

#include <functional>
#include <new>
#include <type_traits>

namespace test {

/// The result of the exception that `call` throws. A timed wait that returns false is not ready.
template <class Call>
CUresult thrown_by(const Call& call) {
  try {
    if constexpr (std::is_same_v<decltype(call()), bool>) return call() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    call();
    return CUDA_SUCCESS;
  } catch (const cuevent::DriverError& error) {
    check_names_call(error);
    return error.result();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

/// Compares the two overloads, also with each driver call of `trying` failing in turn. Both are called many
/// times, and must make the same driver calls each time except the first. Returns the result without a
/// failure.
template <class Throwing>
CUresult check_overloads(RecordingDriver& recording, const Throwing& throwing,
                         const std::function<CUresult()>& trying) {
  const HookedErrors hooked; // for destructors whose calls fail
  trying();
  recording.calls();
  const CUresult result = trying();
  const Names calls = recording.calls();
  CHECK(thrown_by(throwing) == result);
  const std::vector<CUcontext> stack = recording.context_stack();
  const CUstreamCaptureMode mode = recording.capture_mode();
  const auto with_failure = [&](std::size_t k, CUresult failure, const std::function<CUresult()>& call) {
    recording.fail_call(int(k) + 1, failure);
    const CUresult got = call();
    recording.fail_nothing();
    recording.context_stack() = stack; // the failing call did not restore it
    recording.capture_mode() = mode;
    return got;
  };
  for (std::size_t k = 0; k < calls.size(); ++k)
    for (const CUresult failure :
         {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_OUT_OF_MEMORY,
          CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_CONTEXT_IS_DESTROYED}) {
      CAPTURE(k, calls[k], failure);
      const CUresult tried = with_failure(k, failure, trying);
      CHECK(with_failure(k, failure, [&] { return thrown_by(throwing); }) == tried);
    }
  recording.calls();
  return result;
}

/// The text of the exception that `call` throws, empty if it throws none.
template <class Call>
std::string text_thrown_by(const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const cuevent::DriverError& error) {
    return error.what();
  }
  return {};
}

/// Compares the text of each exception with the explanation of the same refused call: without a failure, and
/// with each driver call of `trying` failing in turn. Returns the number of refusals.
template <class Throwing, class Trying, class Explaining>
int check_explained(RecordingDriver& recording, const Throwing& throwing, const Trying& trying,
                    const Explaining& explaining) {
  const HookedErrors hooked; // for destructors whose calls fail
  static_cast<void>(trying());
  recording.calls();
  static_cast<void>(trying());
  const Names calls = recording.calls();
  const std::vector<CUcontext> stack = recording.context_stack();
  const CUstreamCaptureMode mode = recording.capture_mode();
  int refusals = 0;
  const auto with_failure = [&](std::size_t k, CUresult failure, const auto& call) {
    if (k != 0) recording.fail_call(int(k), failure);
    const auto got = call();
    recording.fail_nothing();
    recording.context_stack() = stack; // the failing call did not restore it
    recording.capture_mode() = mode;
    return got;
  };
  for (std::size_t k = 0; k <= calls.size(); ++k)
    for (const CUresult failure :
         {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_FOUND,
          CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED}) {
      CAPTURE(k, failure);
      std::string explained;
      const CUresult result = with_failure(k, failure, trying);
      if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
        explained = explaining(result);
        ++refusals;
      }
      CHECK(with_failure(k, failure, [&] { return text_thrown_by(throwing); }) == explained);
      if (k == 0) break; // nothing fails
    }
  recording.calls();
  return refusals;
}

/// check_overloads() of a member and its overload `try_name`, in a test with a RecordingFixture.
#define BOTH(object, name, ...)                                                                              \
  check_overloads(                                                                                           \
      recording, [&] { return (object).name(__VA_ARGS__); },                                                 \
      [&] { return (object).try_##name(__VA_ARGS__); })
/// The same for an overload that has its result in `out`, its first argument.
#define GIVES(object, name, out, ...)                                                                        \
  check_overloads(                                                                                           \
      recording, [&] { static_cast<void>((object).name(__VA_ARGS__)); },                                     \
      [&] { return (object).try_##name(out __VA_OPT__(, ) __VA_ARGS__); })
/// The same for a constructor and `try_create`.
#define CREATES(Made, ...)                                                                                   \
  check_overloads(                                                                                           \
      recording, [&] { static_cast<void>(Made{__VA_ARGS__}); },                                              \
      [&] {                                                                                                  \
        Made made;                                                                                           \
        return Made::try_create(made, __VA_ARGS__);                                                          \
      })

} // namespace test
