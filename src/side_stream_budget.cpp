#include "side_stream_budget.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace cuevent {

namespace {

struct InUse {
  Driver driver;
  CUcontext context;
  unsigned long long id;
  std::size_t streams;
};

/// The contexts in which side streams are in use.
struct Contexts {
  std::mutex mutex;
  std::vector<InUse> in_use;

  std::vector<InUse>::iterator find(const Driver& driver, CUcontext context, unsigned long long id) {
    return std::find_if(in_use.begin(), in_use.end(), [&](const InUse& each) {
      return each.context == context && each.id == id && each.driver == driver;
    });
  }
};

Contexts& contexts() {
  static Contexts* const never_destroyed = new Contexts; // a timer may be a static object
  return *never_destroyed;
}

} // namespace

SideStreamPermit::SideStreamPermit(const Context& context, unsigned long long id, std::size_t most) {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  auto found = all.find(context.driver(), context.native_handle(), id);
  if ((found == all.in_use.end() ? 0 : found->streams) >= most) return;
  if (found == all.in_use.end())
    found = all.in_use.insert(found, {context.driver(), context.native_handle(), id, 0});
  ++found->streams;
  driver_ = context.driver();
  context_ = context.native_handle();
  id_ = id;
}

SideStreamPermit::SideStreamPermit(SideStreamPermit&& other) noexcept
    : driver_(other.driver_), context_(std::exchange(other.context_, nullptr)), id_(other.id_) {}

SideStreamPermit& SideStreamPermit::operator=(SideStreamPermit&& other) noexcept {
  SideStreamPermit taken(std::move(other));
  std::swap(driver_, taken.driver_);
  std::swap(context_, taken.context_);
  std::swap(id_, taken.id_);
  return *this;
}

void SideStreamPermit::give_back() noexcept {
  if (context_ == nullptr) return;
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.find(driver_, context_, id_);
  context_ = nullptr;
  if (--found->streams == 0) all.in_use.erase(found);
}

} // namespace cuevent
