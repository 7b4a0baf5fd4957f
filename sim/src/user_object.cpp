// SPDX-License-Identifier: MIT
#include "user_object.hpp"

#include "computer.hpp"

namespace cuevent::sim {

void UserObject::release(unsigned count) {
  references -= count;
  if (references != 0) return;
  Computer& computer = Computer::instance();
  const CUhostFn function = destroy;
  void* const argument = pointer;
  computer.handles.remove(*this, "released for the last time");
  computer.host.run_destructor(function, argument);
}

UserObjectReferences::~UserObjectReferences() {
  for (auto& [key, entry] : held_)
    entry.first->release(entry.second);
}

void UserObjectReferences::add(const std::shared_ptr<UserObject>& object, unsigned count) {
  auto& entry = held_[object.get()];
  entry.first = object;
  entry.second += count;
}

bool UserObjectReferences::release(const UserObject& object, unsigned count) {
  auto found = held_.find(&object);
  if (found == held_.end() || found->second.second < count) return false;
  found->second.second -= count;
  const auto keep = found->second.first;
  if (found->second.second == 0) held_.erase(found);
  keep->release(count);
  return true;
}

void UserObjectReferences::share_from(const UserObjectReferences& other) {
  for (auto& [key, entry] : other.held_) {
    ++entry.first->references;
    add(entry.first, 1);
  }
}

} // namespace cuevent::sim
