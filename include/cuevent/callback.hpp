// SPDX-License-Identifier: MIT
/// \file
/// \brief What every function that takes a callback checks first. For the library only.
#pragma once

#include <cuevent/version.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// Whether a callable object can be null and compared with null: a function pointer, a std::function. A
/// lambda can be compared, but not null.
template <class Callback, class = void>
struct CanBeNull : std::false_type {};
template <class Callback>
struct CanBeNull<Callback, std::void_t<decltype(std::declval<const Callback&>() == nullptr)>>
    : std::is_constructible<Callback, std::nullptr_t> {};

/// Whether there is nothing to call.
/// Thread-safety: any thread.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
template <class Callback>
bool is_null_callback([[maybe_unused]] const Callback& callback) noexcept {
  if constexpr (CanBeNull<Callback>::value)
    return callback == nullptr;
  else
    return false;
}

/// Throws InvalidValue, and names the function that got the callback.
[[noreturn, gnu::cold]] void fail_null_callback(const char* call);

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
