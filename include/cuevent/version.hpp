// SPDX-License-Identifier: MIT
// Version macros, for programs that compile with several versions of cuevent.
#pragma once

/// The major version. A new one may break interface and ABI.
#define CUEVENT_VERSION_MAJOR 0
/// The minor version. Before 1.0 a new one may break interface and ABI. From 1.0 on it only adds.
#define CUEVENT_VERSION_MINOR 1
/// The patch version. A new one changes neither interface nor ABI.
#define CUEVENT_VERSION_PATCH 0

/// The version as one number: major * 10000 + minor * 100 + patch. Version 0.1.0 is 100.
///
///     static_assert(CUEVENT_VERSION >= 100, "needs cuevent 0.1.0");
#define CUEVENT_VERSION (CUEVENT_VERSION_MAJOR * 10000 + CUEVENT_VERSION_MINOR * 100 + CUEVENT_VERSION_PATCH)

/// The inline namespace of everything in `cuevent`: for the linker, `cuevent::DriverEvent` is
/// `cuevent::v0_1::DriverEvent`, so that one process can hold two versions. It changes when the ABI does.
/// Whoever compiles a copy of cuevent into a library of their own can define another name, for the copy and
/// for what uses it.
#ifndef CUEVENT_ABI
#define CUEVENT_ABI v0_1
#endif
