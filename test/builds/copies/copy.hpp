// SPDX-License-Identifier: MIT
// What the tests do with one of several copies of cuevent in a process.
#pragma once

#include <cuevent/context.hpp>
#include <cuevent/event_pool.hpp>

#include <memory>
#include <optional>
#include <vector>

struct Copy {
  virtual ~Copy() = default;
  virtual void lease(std::size_t count) = 0; // until there are that many
  virtual void give_back() = 0;
  virtual cuevent::EventPool::Counters counters() = 0;
  virtual std::unique_ptr<cuevent::ContextGuard> guard() = 0;
  virtual void end_pool() = 0;

  std::optional<cuevent::EventPool> pool;
  std::vector<cuevent::PooledEvent> leases;
};

using MakeCopy = Copy*(CUcontext context);
