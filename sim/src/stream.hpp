// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"

#include <algorithm>

namespace cuevent::sim {

struct Capture;
struct Node;

/// The next priority that a device has.
inline int possible_priority(int wanted) { return std::clamp(wanted, -5, 0); }

/// Attributes that have no effect in the simulator.
struct StreamAttributes {
  int policy = -1; ///< CUsynchronizationPolicy, once it was set
  CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  CUlaunchMemSyncDomainMap domains{0, 1};
  CUaccessPolicyWindow window{};
};

struct Stream : Object {
  Birthplace home;
  enum class Type { created, legacy, per_thread, all_streams } type = Type::created;
  unsigned flags = 0;
  int priority = 0;
  StreamAttributes attributes;
  unsigned long long id = 0;
  std::shared_ptr<Context> green; ///< set by cuGreenCtxStreamCreate
  std::shared_ptr<Operation> tail;
  std::shared_ptr<Operation> seen_tail; ///< the last operation that a query of the stream notices
  bool used = false;                    ///< it has had more than records of events
  std::size_t pending = 0;              ///< submissions that have not completed
  std::size_t queued = 0;               ///< places that they take in the launch queue
  bool has_freed = false;               ///< memory that no pool has, since it was last synchronized
  bool held = false;
  Time hold = 0; ///< how long each of its operations is held before it starts

  std::shared_ptr<Capture> capture;
  std::vector<Node*> frontier;             ///< the nodes before the next captured node
  std::vector<CUgraphNode> shown_frontier; ///< the array that cuStreamGetCaptureInfo returned
#if CUDA_VERSION >= 12030
  std::vector<CUgraphEdgeData> shown_edges; ///< as well
#endif

  bool blocking() const {
    return type == Type::per_thread || (type == Type::created && (flags & CU_STREAM_NON_BLOCKING) == 0);
  }
};

} // namespace cuevent::sim
