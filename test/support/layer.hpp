// SPDX-License-Identifier: MIT
// Functions in front of a driver's functions. A test uses them to watch calls or to answer for the driver.
#pragma once

#include <cuda.h>

#include <atomic>

namespace test {

/// A function in front of a driver's function. Calling it calls Policy::call(below, arguments...).
template <class Policy, class Function>
struct InFront;
template <class Policy, class... Arguments>
struct InFront<Policy, CUresult (*)(Arguments...)> {
  using Function = CUresult (*)(Arguments...);
  // Set at each lookup, on any thread, to the same value.
  static inline std::atomic<Function> below = nullptr;

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
