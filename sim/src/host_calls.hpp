// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

namespace cuevent::sim {

/// What a driver does with a call by a host function, a callback of a stream, or the destructor of a user
/// object. The three answer alike.
enum class HostCall {
  made,    ///< as by another thread without a context; what needs one returns CUDA_ERROR_NOT_PERMITTED
  refused, ///< with CUDA_ERROR_NOT_PERMITTED
  unknown, ///< nobody asked a device
};

/// `name` is the one that the library exports.
HostCall host_call(std::string_view name);

} // namespace cuevent::sim
