// SPDX-License-Identifier: MIT
// Which rank a process is, by the variables that launchers set. Internal to the library and to the command.
#pragma once

#include <cuevent/rank_report.hpp>

#include <functional>
#include <optional>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The value of an environment variable, or null.
using VariableOf = std::function<const char*(const char* variable)>;

/// As RankIdentity::from_environment(), with the variables of any process of this host.
std::optional<RankIdentity> rank_identity_in(const VariableOf& value_of);

}} // namespace cuevent::CUEVENT_ABI
