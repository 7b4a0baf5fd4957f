// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"
#include "object.hpp"

#include <map>
#include <memory>

namespace cuevent::sim {

/// A reference-counted resource of the user. The last release runs its destructor on the thread
/// for host functions.
struct UserObject : Object {
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  unsigned references = 0;

  void release(unsigned count);
};

/// The references that a graph or an exec holds.
class UserObjectReferences {
public:
  UserObjectReferences() = default;
  UserObjectReferences(const UserObjectReferences&) = delete;
  UserObjectReferences& operator=(const UserObjectReferences&) = delete;
  ~UserObjectReferences();

  void add(const std::shared_ptr<UserObject>&, unsigned count); ///< takes over existing references
  bool empty() const { return held_.empty(); }
  bool release(const UserObject&, unsigned count); ///< false if it holds fewer references
  void share_from(const UserObjectReferences&);    ///< adds one reference to each object

private:
  std::map<const UserObject*, std::pair<std::shared_ptr<UserObject>, unsigned>> held_;
};

} // namespace cuevent::sim
