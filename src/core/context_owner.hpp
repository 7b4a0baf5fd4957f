// SPDX-License-Identifier: MIT
// What ends a context that the library has made or retained. Internal to the library.
#pragma once

#include <cuevent/context.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

struct Context::Owner : Shared {
  Owner(Kind its_kind, CUdevice its_device) noexcept : kind(its_kind), device(its_device) {}
  Kind kind;
  CUdevice device;

  void end(const DriverTable& table, CUcontext context) const noexcept;
};

}} // namespace cuevent::CUEVENT_ABI
