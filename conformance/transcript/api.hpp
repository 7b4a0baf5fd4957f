// SPDX-License-Identifier: MIT
// The driver functions of the transcript, resolved from one library through cuGetProcAddress.
#pragma once

#include <cudaTypedefs.h>

#include <stdexcept>
#include <string>

namespace transcript {

struct Api {
#define ROW(name, version) PFN_cu##name##_v##version name = nullptr;
#define ROW_AS(member, name, version) PFN_cu##name##_v##version member = nullptr;
#include "symbols.inc"
#undef ROW_AS
#undef ROW
  PFN_cuGetProcAddress_v12000 GetProcAddress = nullptr;

  // The library is never unloaded. A function that the driver lacks is null.
  static Api load(const std::string& library);
  static Api resolved_by(PFN_cuGetProcAddress_v12000);
};

struct LoadFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

} // namespace transcript
