// SPDX-License-Identifier: MIT
/// \file
/// \brief Values as text, for logs and test reports.
///
/// - `to_string(value)` returns the text, and `out << value` writes it to a `std::ostream`.
/// - `std::format("{}", value)` gives the same text, with the options of a string. It needs C++20
///   and a standard library that has `<format>`.
/// - A CUresult has only to_string(), because the type belongs to the driver: a stream writes its number.
/// - A value that has no enumerator is shown as its type and number, such as "CaptureMode(7)".
///
///     const DriverEvent done(context);
///     assert(to_string(EventFlags::timing | EventFlags::retire) == "timing | retire");
///     assert(cuevent::to_string(CUDA_ERROR_NOT_READY) == "CUDA_ERROR_NOT_READY (600)");
///     std::cout << done << '\n'; // event 0x7f52dc0012a0, context 0x5581c52b9d10 (id 3)
///
/// The texts are for people and can change in any version.
/// Thread-safety: any thread, if no other thread changes the value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
#pragma once

#include <cuevent/forward.hpp>

#include <cuda.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>
#if __has_include(<format>)
#include <format>
#endif

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// \name The bits of the value, such as "timing | retire", or "none"
/// @{
std::string to_string(EventFlags flags);
std::string to_string(RecordFlags flags);
std::string to_string(WaitFlags flags);
/// @}

/// \name The name of the enumerator, such as "relaxed"
/// @{
std::string to_string(CaptureMode mode);
std::string to_string(CaptureStatus status);
std::string to_string(ErrorKind kind);
std::string to_string(EventTrigger trigger);
std::string to_string(MeasuredEnd end);
std::string to_string(MeasuredScope scope);
std::string to_string(SpanEscape escaped);
std::string to_string(StageEscapes escapes);
std::string to_string(StageRanges ranges);
std::string to_string(TimelineStatus status);
std::string to_string(WaitOrder order);
std::string to_string(WhenFull what);
/// @}

/// \name The number, such as "stage 3"
/// @{
std::string to_string(StageId stage);
std::string to_string(StreamId stream);
/// @}

/// The name and the number: "CUDA_ERROR_NOT_READY (600)", or "CUresult 987" for an unknown code.
/// `driver_category().message(result)` also explains the result.
std::string to_string(CUresult result);

/// The handle and the driver's id: "context 0x5581c52b9d10 (id 3)", or "no context".
std::string to_string(const Context& context);

/// The CUDA version: "driver of CUDA 13.0", or "no driver".
std::string to_string(const Driver& driver);

/// \name The handle, the flags and the context of an event, an EventRef or a lease
/// "leased event 0x7f52dc0012a0 (timing), context 0x5581c52b9d10 (id 3)", or "no event"
/// @{
std::string to_string(const DriverEvent& event);
std::string to_string(const EventAccess& event);
/// @}

/// The median, its interval, and whether it is proved:
/// "2.315 ms (95 %: 2.312 ms to 2.320 ms; 43 samples), proved".
std::string to_string(const Measurement& measurement);
/// The ratio, and both measurements.
std::string to_string(const Comparison& comparison);

/// As IpcHandle::to_string().
std::string to_string(const IpcHandle& handle);

template <class Value, class... Types>
using IsOneOf = std::disjunction<std::is_same<Value, Types>...>;

/// Whether a stream and std::format take a `Value`.
template <class Value> // not a variable, which only objects of a standard with std::format would have
struct HasText : IsOneOf<Value, CaptureMode, CaptureStatus, Comparison, Context, Driver, DriverEvent,
                         ErrorKind, EventFlags, EventRef, EventTrigger, IpcHandle, MeasuredEnd, MeasuredScope,
                         Measurement, PooledEvent, RecordFlags, SharedEvent, SpanEscape, StageEscapes,
                         StageId, StageRanges, StreamId, TimelineStatus, WaitFlags, WaitOrder, WhenFull> {};

template <class Traits, class Value, std::enable_if_t<HasText<Value>::value, int> = 0>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const Value& value) {
  return out << to_string(value).c_str();
}

}} // namespace cuevent::CUEVENT_ABI

#ifdef __cpp_lib_format
template <class Value>
requires cuevent::HasText<Value>::value struct std::formatter<Value, char>
    : std::formatter<std::string, char> {
  template <class FormatContext>
  auto format(const Value& value, FormatContext& context) const {
    return std::formatter<std::string, char>::format(to_string(value), context);
  }
};
#endif
#pragma GCC visibility pop
