// SPDX-License-Identifier: MIT
// Version macros, for programs that compile with several versions of cuevent.
#pragma once

#include <cstddef> // the settings of the standard library

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
/// `cuevent::v0_1::DriverEvent`, so that one process can hold two versions. The name changes with the ABI of
/// cuevent, and with the settings of the standard library that change the layout of its classes. A program
/// with other settings than the library's does not link, and the missing names say which settings:
///
/// - `no_cxx11_abi`: libstdc++ with `_GLIBCXX_USE_CXX11_ABI=0`.
/// - `glibcxx_debug`: libstdc++ with `_GLIBCXX_DEBUG`.
/// - `libcxx`: libc++.
///
/// docs/using.md says what to do.
///
/// Whoever compiles a copy of cuevent into a library of their own can define another name, for the copy and
/// for what uses it. The copy and what uses it must then have the same settings.
#ifndef CUEVENT_ABI
#if defined(_LIBCPP_VERSION) && _LIBCPP_ABI_VERSION != 1
#define CUEVENT_ABI v0_1_libcxx_unstable_abi
#elif defined(_LIBCPP_VERSION)
#define CUEVENT_ABI v0_1_libcxx
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI && defined(_GLIBCXX_DEBUG)
#define CUEVENT_ABI v0_1_no_cxx11_abi_glibcxx_debug
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define CUEVENT_ABI v0_1_no_cxx11_abi
#elif defined(_GLIBCXX_DEBUG)
#define CUEVENT_ABI v0_1_glibcxx_debug
#else
#define CUEVENT_ABI v0_1
#endif
#endif
