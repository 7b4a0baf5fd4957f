// SPDX-License-Identifier: MIT
/// \file
/// \brief Why a `try_` call failed: the text that the exception would have had.
///
/// Call a function right after the failure, with the result and the arguments of the `try_` call. The text
/// names the cause if it can be found: several causes have one CUresult.
///
///     const CUresult result = event.try_record(stream);
///     if (result != CUDA_SUCCESS) std::puts(explain_record(result, event, stream).c_str());
///
/// The texts are for people and can change in any version. They advise in terms of cuevent's classes. For
/// users who do not know these classes, `driver_category().message(result)` has no advice.
///
/// Thread-safety: any thread, as the call that failed.
/// Context: leaves the caller's current context unchanged.
/// During capture: as the call that failed.
#pragma once

#include <cuevent/event_ref.hpp>

#include <string>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// The text for any failed call: the name of the call, the result, what it means and what to do.
/// No driver call.
std::string explain(CUresult result, const char* call);

/// \name As EventRef::record() and wait(), also of a DriverEvent or a lease
/// Driver functions: cuStreamGetCtx, cuCtxGetDevice.
/// @{
std::string explain_record(CUresult result, EventRef event, StreamRef stream,
                           RecordFlags flags = RecordFlags::none);
std::string explain_wait(CUresult result, EventRef event, StreamRef stream,
                         WaitFlags flags = WaitFlags::none);
/// @}

/// As query(), or as synchronize() with `call` "cuEventSynchronize". No driver call.
std::string explain_query(CUresult result, EventRef event, const char* call = "cuEventQuery");

/// As elapsed_time(). Driver functions: cuEventElapsedTime, cuCtxGetDevice.
std::string explain_elapsed_time(CUresult result, EventRef start, EventRef end);

/// As DriverEvent's constructor. No driver call.
std::string explain_create(CUresult result, const Context& context, EventFlags flags = EventFlags::none);

/// \name As Driver::instance() and the constructors of Driver
/// These try again to load the driver, because only the attempt says what is missing.
/// @{
std::string explain_load(CUresult result);
std::string explain_load(CUresult result, const char* library);
std::string explain_load(CUresult result, GetProcAddress get_proc_address);
/// @}

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
