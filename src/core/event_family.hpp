// SPDX-License-Identifier: MIT
// Where an interprocess event can be waited for. Internal to the library.
#pragma once

#include <cuevent/driver_event.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Checks that `record` can record an event of `context`. Returns CUDA_ERROR_INVALID_HANDLE if it
/// cannot. An interprocess event can be waited for in the same places:
/// - in its own context
/// - on the same device, from a primary to a green context and back
/// No other query identifies a green context. Its handle and its id differ from those of its
/// primary context.
template <class Record>
CUresult check_family(const Context& context, const Record& record) noexcept {
  DriverEvent event;
  const CUresult result = DriverEvent::try_create(event, context);
  return result == CUDA_SUCCESS ? record(event) : result;
}

}} // namespace cuevent::CUEVENT_ABI
