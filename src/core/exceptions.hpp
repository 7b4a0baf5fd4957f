// SPDX-License-Identifier: MIT
// All that differs in a copy of the library that is compiled without exceptions. Internal to the library.
#pragma once

#include <cuevent/error.hpp>

#include <cstdio>
#include <exception>

namespace cuevent { inline namespace CUEVENT_ABI {

#ifdef __cpp_exceptions
inline constexpr bool has_exceptions = true;
#else
inline constexpr bool has_exceptions = false;
#endif

/// Throws an Exception that is made from `arguments`. Without exceptions, prints its text and ends the
/// program.
template <class Exception, class... Arguments>
[[noreturn]] void raise(const Arguments&... arguments) {
#ifdef __cpp_exceptions
  throw Exception(arguments...);
#else
  std::fprintf(stderr, "cuevent: %s\n", Exception(arguments...).what());
  std::terminate();
#endif
}

/// Returns what `work` returns. If it throws, returns what `caught` returns for the DriverError, or for null
/// if the exception is another one.
template <class Work, class Caught>
auto catching(const Work& work, [[maybe_unused]] const Caught& caught) -> decltype(work()) {
#ifdef __cpp_exceptions
  try {
    return work();
  } catch (const DriverError& error) {
    return caught(&error);
  } catch (...) {
    return caught(nullptr);
  }
#else
  return work();
#endif
}

}} // namespace cuevent::CUEVENT_ABI
