// SPDX-License-Identifier: MIT
#include "call.hpp"

namespace neighbours {

std::vector<Function> all_functions() {
  std::vector<Function> all;
#define FUNCTION(name, version, symbol, parameters)                                                          \
  all.push_back(                                                                                             \
      function_of(#symbol, #name, version, #parameters, static_cast<CUresult(*) parameters>(nullptr)));
#include "functions.inc"
#undef FUNCTION
  return all;
}

} // namespace neighbours
