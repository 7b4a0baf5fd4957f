// SPDX-License-Identifier: MIT
#include "handles.hpp"

#include "process.hpp"

#include <algorithm>
#include <cstdio>

namespace cuevent::sim {

namespace {

constexpr std::size_t histories_kept = 100'000;
constexpr std::size_t history_room = 160;         // fits that of an event with numbers of 16 digits
constexpr std::size_t handles_to_choose_from = 8; // few, so that short programs see the same handle again
constexpr std::uintptr_t stride = 64; // like an allocation; leaves room to notice misaligned pointers

std::string number_text(const void* handle) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", handle);
  return text;
}

} // namespace

const char* name_of(Kind kind) {
  switch (kind) {
  case Kind::context:
    return "context";
  case Kind::stream:
    return "stream";
  case Kind::event:
    return "event";
  case Kind::graph:
    return "graph";
  case Kind::node:
    return "graph node";
  case Kind::exec:
    return "graph exec";
  case Kind::user_object:
    return "user object";
  case Kind::module:
    return "module";
  case Kind::function:
    return "function";
  case Kind::green_context:
    return "green context";
  case Kind::description:
    return "resource description";
  case Kind::memory_pool:
    return "memory pool";
  case Kind::physical_memory:
    return "physical memory";
  case Kind::library:
    return "library";
  case Kind::kernel:
    return "kernel";
  case Kind::link:
    return "link state";
  case Kind::array:
    return "array";
  case Kind::mipmapped_array:
    return "mipmapped array";
  }
  return "object";
}

void Handles::insert(const std::shared_ptr<Object>& object, Kind kind, Process& process,
                     const std::string& history) {
  object->kind = kind;
  object->process = &process;
  object->number = ++numbers_[kind];
  object->history = std::string(name_of(kind)) + " #" + std::to_string(object->number) + ", " + history;
  object->handle = new_handle(object->history);
  live_.emplace(object->handle, object);
}

/// Often one that was destroyed not long ago, of whatever kind.
std::uintptr_t Handles::new_handle(std::string& history) {
  if (reuse_ && !dead_order_.empty() && (*reuse_)() % 4 != 0) {
    const auto back = (*reuse_)() % std::min(dead_order_.size(), handles_to_choose_from);
    const auto chosen = dead_order_.end() - 1 - static_cast<std::ptrdiff_t>(back);
    const std::uintptr_t handle = *chosen;
    dead_order_.erase(chosen);
    const std::string before = std::move(dead_.extract(handle).mapped());
    history += ", with the handle that was of " + before.substr(0, before.find(','));
    return handle;
  }
  const std::uintptr_t handle = next_;
  next_ += stride;
  return handle;
}

std::string Handles::describe(const Object& object) const {
  const auto handle = reinterpret_cast<const void*>(object.handle);
  const auto found = live_.find(object.handle);
  const bool lives = found != live_.end() && found->second.get() == &object;
  return number_text(handle) + (lives ? " is " : " was ") + object.history;
}

std::string Handles::describe(const void* handle) const {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (auto found = live_.find(value); found != live_.end())
    return number_text(handle) + " is " + found->second->history;
  if (auto found = dead_.find(value); found != dead_.end())
    return number_text(handle) + " was " + found->second;
  if (is_of_earlier_session(handle)) return number_text(handle) + " is a handle of an earlier session";
  if (value >= first_of_session_ && value < next_ && (value - first_handle) % stride == 0)
    return number_text(handle) + " was destroyed earlier; its history is no longer kept";
  return number_text(handle) + " is invented: this driver never returned it";
}

std::shared_ptr<Object> Handles::find_object(const void* handle, Kind kind, const Process& process) const {
  auto found = live_.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found == live_.end()) {
    // No device has earlier sessions, so no call with such a handle is modelled.
    if (is_of_earlier_session(handle)) not_modelled("a handle of an earlier session");
    undefined("the call uses a dead or invented " + std::string(name_of(kind)) + ": " + describe(handle));
  }
  if (found->second->kind != kind)
    undefined("the call needs a handle of another kind, " + std::string(name_of(kind)) + ": " +
              describe(handle));
  if (found->second->process != &process)
    undefined("the handle belongs to simulated process " + std::to_string(found->second->process->index) +
              ": " + describe(handle));
  return found->second;
}

bool Handles::is_of_earlier_session(const void* handle) const {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  return value >= first_handle && value < first_of_session_;
}

bool Handles::has_ended(const void* handle, Kind kind) const {
  const auto found = dead_.find(reinterpret_cast<std::uintptr_t>(handle));
  return found != dead_.end() && found->second.starts_with(std::string(name_of(kind)) + " #");
}

void Handles::remove(Object& object, const std::string& how) {
  const auto handle = object.handle;
  object.history.append(", ").append(how);
  if (dead_order_.size() < histories_kept) {
    std::string& kept = dead_[handle];
    kept.reserve(history_room);
    kept.assign(object.history);
  } else {
    // Reuses the memory of the oldest history, so that a long run needs no more memory.
    auto entry = dead_.extract(dead_order_.front());
    dead_order_.pop_front();
    entry.key() = handle;
    entry.mapped().assign(object.history);
    dead_.insert(std::move(entry));
  }
  dead_order_.push_back(handle);
  live_.erase(handle);
}

void Handles::forget(const Process& process) {
  std::vector<std::shared_ptr<Object>> gone;
  for (auto& [handle, object] : live_)
    if (object->process == &process) gone.push_back(object);
  for (auto& object : gone)
    if (live_.contains(object->handle)) remove(*object, "destroyed with its process");
}

void Handles::forget_all(std::optional<std::uint64_t> reuse) {
  // The last objects release others, which calls back into this class.
  auto gone = std::move(live_);
  live_.clear();
  gone.clear();
  dead_.clear();
  dead_order_.clear();
  numbers_.clear();
  reuse_.reset();
  if (reuse) reuse_.emplace(*reuse);
  first_of_session_ = next_;
}

} // namespace cuevent::sim
