// SPDX-License-Identifier: MIT
#pragma once

#include "object.hpp"
#include "refusal.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace cuevent::sim {

/// All handles ever created. A handle is looked up and never dereferenced, so every misuse is
/// found.
class Handles {
public:
  template <class T>
  std::shared_ptr<T> add(Kind kind, Process& process, const std::string& history) {
    auto object = std::make_shared<T>();
    insert(object, kind, process, history);
    return object;
  }

  /// The live object of this handle. Any other handle is undefined on a device, and ends the
  /// program with a report.
  template <class T>
  std::shared_ptr<T> find(const void* handle, Kind kind, const Process& process) const {
    return std::static_pointer_cast<T>(find_object(handle, kind, process));
  }

  /// The live object of this handle, or null.
  template <class T>
  std::shared_ptr<T> peek(std::uintptr_t handle) const {
    auto found = live_.find(handle);
    return found == live_.end() ? nullptr : std::static_pointer_cast<T>(found->second);
  }

  /// Whether the handle was one of this kind. False for one that died long ago.
  bool has_ended(const void* handle, Kind kind) const;

  /// Marks the handle as dead. `how` ends the handle's history.
  void remove(const Object&, const std::string& how);

  template <class Visitor>
  void for_each(Visitor visitor) const {
    for (auto& [handle, object] : live_)
      visitor(*object);
  }
  void forget(const Process&); ///< the process has ended
  void forget_all();

  /// Describes a handle for reports.
  std::string describe(const void* handle) const;

private:
  void insert(const std::shared_ptr<Object>&, Kind, Process&, const std::string& history);
  std::shared_ptr<Object> find_object(const void* handle, Kind, const Process&) const;

  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> live_;
  std::unordered_map<std::uintptr_t, std::string> dead_; ///< histories of last destroyed handles
  std::deque<std::uintptr_t> dead_order_;
  std::map<Kind, unsigned long long> numbers_;
  std::uintptr_t first_of_session_ = first_handle;
  std::uintptr_t next_ = first_handle;

  static constexpr std::uintptr_t first_handle = 0x0c0e'0000'0000;
};

} // namespace cuevent::sim
