// SPDX-License-Identifier: MIT
// Functions in front of a driver's own: how a test looks on at its calls, or answers in its place.
#pragma once

#include <cuda.h>

#include <atomic>

namespace test {

/// A function in front of one of the driver's: a call of it is Policy::call(below, arguments...).
template <class Policy, class Function>
struct InFront;
template <class Policy, class... Arguments>
struct InFront<Policy, CUresult (*)(Arguments...)> {
  using Function = CUresult (*)(Arguments...);
  static inline std::atomic<Function> below = nullptr; // set at each lookup, on any thread, to the same

  static CUresult CUDAAPI call(Arguments... arguments) { return Policy::call(below.load(), arguments...); }
};

/// Puts a function in front of `below`, and returns it.
template <class Policy, class Function>
void* put_in_front(void* below) {
  using Wrapper = InFront<Policy, Function>;
  Wrapper::below = reinterpret_cast<Function>(below);
  return reinterpret_cast<void*>(Wrapper::call);
}

} // namespace test
