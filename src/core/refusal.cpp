// SPDX-License-Identifier: MIT
#include "core/refusal.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

constinit thread_local Refusal Refusal::newest;

}} // namespace cuevent::CUEVENT_ABI
