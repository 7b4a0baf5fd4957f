// SPDX-License-Identifier: MIT
// The code of one copy. Two libraries contain it with a libcuevent.a each, as embedders build them, and the
// program with libcuevent.so. MAKE_COPY names its function.
#include "copy.hpp"

namespace {

class CopyHere final : public Copy {
public:
  explicit CopyHere(CUcontext context) : context_(cuevent::Context::borrow(context)) {
    pool.emplace(context_);
  }

  void lease(std::size_t count) override {
    while (leases.size() < count)
      leases.push_back(pool->acquire());
  }
  void give_back() override { leases.clear(); }
  cuevent::EventPool::Counters counters() override { return pool->counters(); }
  std::unique_ptr<cuevent::ContextGuard> guard() override {
    return std::make_unique<cuevent::ContextGuard>(context_);
  }
  void end_pool() override { pool.reset(); }

private:
  cuevent::Context context_;
};

} // namespace

extern "C" [[gnu::visibility("default")]] Copy* MAKE_COPY(CUcontext context) { return new CopyHere(context); }
