// SPDX-License-Identifier: MIT
#pragma once

#include "object.hpp"
#include "refusal.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

namespace cuevent::sim {

/// All handles ever created. A handle is looked up and never dereferenced, so every misuse is found, unless
/// the handle has been given away again.
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

  /// Marks the handle as dead. `how` ends the object's history.
  void remove(Object&, const std::string& how);

  template <class Visitor>
  void for_each(Visitor visitor) const {
    for (auto& [handle, object] : live_)
      visitor(*object);
  }
  void forget(const Process&); ///< the process has ended
  /// A new session begins. With a seed, it gives handles of destroyed objects away again.
  void forget_all(std::optional<std::uint64_t> reuse);

  /// Describe a handle, and an object that may be gone, for reports.
  std::string describe(const void* handle) const;
  std::string describe(const Object&) const;

private:
  void insert(const std::shared_ptr<Object>&, Kind, Process&, const std::string& history);
  std::shared_ptr<Object> find_object(const void* handle, Kind, const Process&) const;
  std::uintptr_t new_handle(std::string& history);
  bool is_of_earlier_session(const void* handle) const;

  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> live_;
  std::unordered_map<std::uintptr_t, std::string> dead_; ///< histories of last destroyed handles
  std::deque<std::uintptr_t> dead_order_;                ///< the last one is last
  std::map<Kind, unsigned long long> numbers_;
  std::uintptr_t first_of_session_ = first_handle;
  std::uintptr_t next_ = first_handle;
  std::optional<std::mt19937_64> reuse_; ///< chooses the handles that are given away again

  static constexpr std::uintptr_t first_handle = 0x0c0e'0000'0000;
};

} // namespace cuevent::sim
