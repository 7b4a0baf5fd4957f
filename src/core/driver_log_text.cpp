// SPDX-License-Identifier: MIT
#include "core/driver_log.hpp"

#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

std::string driver_log(CUresult result, const char* call) {
  return std::string(LoggedLines(result, call, Words::keep).all());
}

}} // namespace cuevent::CUEVENT_ABI
