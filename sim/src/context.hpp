// SPDX-License-Identifier: MIT
#pragma once

#include "object.hpp"
#include "operation.hpp"

#include <map>
#include <memory>
#include <vector>

namespace cuevent::sim {

using ThreadId = unsigned long long;

struct Context : Object {
  int device = 0;
  enum class Type { created, primary, green } type = Type::created;
  unsigned flags = 0;
  unsigned long long id = 0;
  bool active = true;
  /// A primary context can be reset and come back under the same handle; what was made before does not come
  /// back.
  unsigned generation = 0;
  unsigned retained = 0; ///< of a primary context
  std::shared_ptr<Stream> legacy;
  std::map<ThreadId, std::shared_ptr<Stream>> per_thread;
  std::shared_ptr<Stream> all_streams; ///< carries cuCtxRecordEvent, which is in no stream
  std::vector<std::shared_ptr<Operation>>
      barriers;                     ///< of cuCtxWaitEvent: later work of every stream waits for them
  unsigned blocked_submitters = 0;  ///< threads stuck in a full launch queue
  std::shared_ptr<Context> primary; ///< of a green context

  /// Events of one may be recorded on streams of the other: the same context, or green and primary of a
  /// device.
  const Context* family() const { return primary ? primary.get() : this; }
};

/// Where something was made. It dies with that generation of its context.
struct Birthplace {
  std::shared_ptr<Context> context;
  unsigned generation = 0;

  bool alive() const { return context->active && context->generation == generation; }
};

} // namespace cuevent::sim
