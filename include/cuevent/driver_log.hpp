// SPDX-License-Identifier: MIT
/// \file
/// \brief What the driver itself says about a refused call.
///
/// From CUDA 12.9 on, the driver logs why it refuses a call. The exceptions of cuevent and the texts of
/// explain.hpp contain the reason: "the driver says: Event handle is NULL". A program without exceptions asks
/// for the lines:
///
///     const CUresult result = event.try_record(stream);
///     if (result != CUDA_SUCCESS) std::puts(driver_log(result, "cuEventRecord").c_str());
///
/// For this, the library registers a callback with each driver that it loads, and unregisters the callback
/// when the process ends or unloads the library. A call that succeeds pays nothing. A refused call pays for
/// the text that the driver makes: about 1 us on an H200.
///
/// Thread-safety: any thread. Each thread sees the lines about its own calls.
/// Context: needs none and changes none.
/// During capture: harmless.
#pragma once

#include <cuevent/version.hpp>

#include <cuda.h>

#include <string>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// What the driver logged about the last call of this thread that it refused, one line each: the reasons,
/// then "Returning 400 (CUDA_ERROR_INVALID_HANDLE) from cuEventRecord". Empty in these cases:
/// - The last refused call was not the driver function `call`, or its result was not `result`.
/// - An exception of cuevent, or a text of explain.hpp, already contains the lines.
/// - The driver logs nothing, because it is older than CUDA 12.9, or the log is off.
///
/// The lines are for people and can change with each driver. What does not fit into 480 bytes is cut off.
/// The library keeps the lines of up to 64 threads, and drops the oldest ones first. No driver call.
std::string driver_log(CUresult result, const char* call);

/// Whether the library listens to the log of its drivers.
enum class DriverLog { on, off };

/// Switches the log on or off, for every driver of this process that cuevent loaded or will load. Returns the
/// previous choice. The log is on if nobody switches it off. Driver functions: cuLogsRegisterCallback,
/// cuLogsUnregisterCallback. In a forked child the choice may stay what it was.
DriverLog set_driver_log(DriverLog) noexcept;

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
