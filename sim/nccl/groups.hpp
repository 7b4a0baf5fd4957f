// SPDX-License-Identifier: MIT
// Groups: what a thread does between ncclGroupStart and ncclGroupEnd takes effect together, at the end.
#pragma once

#include "communicator.hpp"

#include <functional>
#include <memory>

namespace cuevent::sim::nccl {

/// Runs now, or at the end of the group together with its other jobs. A communicator that does not block gets
/// a thread, and ncclInProgress.
ncclResult_t begin_job(const std::shared_ptr<Communicator>& of, std::function<void()> job);

void submit(const std::shared_ptr<Communicator>& to, const Communicator::Collective&, CUstream);
void submit(const std::shared_ptr<Communicator>& to, const Meeting::Transfer&, void* memory, CUstream);

/// A failure inside a group is also the answer of the group's end.
void note_in_group(const Failure&);

void start_group();
ncclResult_t end_group();

/// Several submissions that take effect together.
template <class Body>
ncclResult_t as_group(Body body) {
  start_group();
  const ncclResult_t result = answer([&] {
    body();
    return ncclSuccess;
  });
  const ncclResult_t ended = answer(end_group);
  return result != ncclSuccess ? result : ended;
}

} // namespace cuevent::sim::nccl
