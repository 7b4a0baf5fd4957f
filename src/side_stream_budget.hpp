// How many side streams the timers of a context use together. Inside the library only.
#pragma once

#include <cuevent/context.hpp>

namespace cuevent {

/// The right to use one side stream in a context, counted until the object ends. Move-only; empty
/// if it was not granted. Any thread, under a lock that no driver call is made in.
class SideStreamPermit {
public:
  SideStreamPermit() noexcept = default;
  /// Granted if fewer than `most` are in use in the context, whoever uses them. `id` is the
  /// driver's id of the context, as a later context can have its handle.
  SideStreamPermit(const Context& context, unsigned long long id, std::size_t most);
  SideStreamPermit(SideStreamPermit&& other) noexcept;
  SideStreamPermit& operator=(SideStreamPermit&& other) noexcept;
  ~SideStreamPermit() { give_back(); }

  void give_back() noexcept;
  explicit operator bool() const noexcept { return context_ != nullptr; }

private:
  Driver driver_;
  CUcontext context_ = nullptr; // null: not granted
  unsigned long long id_ = 0;
};

} // namespace cuevent
