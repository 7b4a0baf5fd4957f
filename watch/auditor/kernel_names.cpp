// SPDX-License-Identifier: MIT
#include "auditor/kernel_names.hpp"

#include "auditor/recorder.hpp"
#include "auditor/state.hpp"

#include <cstring>

namespace watch {

namespace {

constexpr std::uint32_t places_tried = 16;

/// The place of this handle, or else a free one. Null if there is none.
Name* place_of(std::uint64_t handle, bool may_be_free) {
  const std::uint64_t hash = (handle * 0x9E37'79B9'7F4A'7C15U) >> 40;
  for (std::uint32_t i = 0; i < places_tried; ++i) {
    Name& name = region->names[(hash + i) % name_limit];
    const std::uint64_t owner = name.handle.load(std::memory_order_relaxed);
    if (owner == handle || (owner == 0 && may_be_free)) return &name;
    if (owner == 0) return nullptr; // names are never taken out
  }
  return nullptr;
}

void set(std::uint64_t handle, std::uint32_t text) {
  Name* const name = place_of(handle, true);
  if (name == nullptr) return;
  name->text.store(text, std::memory_order_relaxed);
  name->handle.store(handle, std::memory_order_release);
}

} // namespace

void name_kernel(std::uint64_t handle, const char* name) {
  if (handle == 0 || name == nullptr) return;
  const Locked lock(cleared_by_fork->locks.names);
  std::size_t length = std::strlen(name);
  if (length >= longest_name) length = longest_name - 1;
  if (const Name* const known = place_of(handle, false); known != nullptr) {
    const char* const text = region->name_text + known->text.load(std::memory_order_relaxed);
    if (std::strncmp(text, name, length) == 0 && text[length] == '\0') return; // looked up again
  }
  const std::uint32_t begin = region->name_size.load(std::memory_order_relaxed);
  if (begin + length + 1 > name_room || !has_memory(region->name_text + begin, length + 1)) return;
  std::memcpy(region->name_text + begin, name, length); // the end is there: the memory is of zeros
  region->name_size.store(begin + static_cast<std::uint32_t>(length) + 1, std::memory_order_relaxed);
  set(handle, begin);
}

void copy_kernel_name(std::uint64_t from, std::uint64_t to) {
  if (from == 0 || to == 0) return;
  const Locked lock(cleared_by_fork->locks.names);
  if (const Name* const name = place_of(from, false); name != nullptr)
    set(to, name->text.load(std::memory_order_relaxed));
}

} // namespace watch
