// SPDX-License-Identifier: MIT
// What a driver tells about an address, as text that is the same in every run.
#pragma once

#include "lab.hpp"

#include <cstdint>

namespace transcript {

// An address, relative to the memory that it may belong to; or a context.
std::string place(Lab& lab, std::uint64_t value, CUdeviceptr base, std::size_t bytes);

// The value of an attribute of cuPointerGetAttribute. Some values are addresses, some are numbers that only
// this process knows, and some are small.
std::string pointer_value(Lab& lab, int attribute, std::uint64_t value, CUdeviceptr base, std::size_t bytes);

} // namespace transcript
