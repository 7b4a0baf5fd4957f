// SPDX-License-Identifier: MIT
// How the stand-in reports what went wrong: inside as an exception, outside as ncclResult_t and a text.
#pragma once

#include "nccl.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace cuevent::sim::nccl {

struct Failure {
  ncclResult_t result;
  std::string text; ///< for ncclGetLastError
};

[[noreturn]] inline void fail(ncclResult_t result, std::string text) {
  throw Failure{result, std::move(text)};
}

inline void require(bool holds, const char* what) {
  if (!holds) fail(ncclInvalidArgument, what);
}

inline void expect(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS)
    fail(ncclUnhandledCudaError, std::string(call) + " returned " + std::to_string(result));
}

/// How the body has failed, if it has.
template <class Body>
std::optional<Failure> failure_of(const Body& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure;
  } catch (const std::exception& error) {
    return Failure{ncclSystemError, error.what()};
  }
  return std::nullopt;
}

/// Remembers the failure for this thread.
ncclResult_t told(const Failure&);

/// The answer of a function of NCCL. `body` returns ncclSuccess or ncclInProgress.
template <class Body>
ncclResult_t answer(Body body) {
  ncclResult_t result = ncclSuccess;
  const std::optional<Failure> failure = failure_of([&] { result = body(); });
  return failure ? told(*failure) : result;
}

} // namespace cuevent::sim::nccl
