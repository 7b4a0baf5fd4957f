// SPDX-License-Identifier: MIT
// What the files with models share.
#pragma once

#include "variables.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace model {

using Catch::Matchers::StartsWith;

inline constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
                      release = std::memory_order_release, acq_rel = std::memory_order_acq_rel,
                      seq_cst = std::memory_order_seq_cst;

} // namespace model
