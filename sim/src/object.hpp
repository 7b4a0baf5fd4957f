// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace cuevent::sim {

struct Process;

enum class Kind {
  context,
  stream,
  event,
  graph,
  node,
  exec,
  user_object,
  module,
  function,
  green_context,
  description,
  memory_pool,
  physical_memory,
  library,
  kernel,
  link,
  array,
  mipmapped_array
};

/// An object that a handle names. Handles are numbers, never our addresses.
struct Object {
  Kind kind{};
  std::uintptr_t handle = 0;
  unsigned long long number = 0; ///< the n-th of its kind in this session
  Process* process = nullptr;
  std::string history; ///< who made and destroyed the object, where, and in which call

  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
};

const char* name_of(Kind);

/// The handle as the driver's type: `as<CUevent>(event)`.
template <class Handle>
Handle as(const Object& object) {
  return reinterpret_cast<Handle>(object.handle);
}

} // namespace cuevent::sim
