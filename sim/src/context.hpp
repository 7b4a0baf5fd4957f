// SPDX-License-Identifier: MIT
#pragma once

#include "core_dumps.hpp"
#include "object.hpp"
#include "operation.hpp"

#include <map>
#include <memory>
#include <set>
#include <vector>

namespace cuevent::sim {

struct BoundMemory;
struct Recording;

using ThreadId = unsigned long long;

struct Context : Object {
  int device = 0;
  enum class Type { created, primary, green } type = Type::created;
  unsigned flags = 0;
  std::map<int, std::size_t> limits; ///< that were set
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
  CoreDumpSettings core_dumps;
  unsigned long long id = 0;
  bool active = true;
  bool detached = false; ///< ended by cuCtxDetach
  /// A primary context can be reset and return with the same handle. Objects made before the reset
  /// do not return.
  unsigned generation = 0;
  unsigned retained = 0; ///< for a primary context
  unsigned attached = 1; ///< for a created context: cuCtxDetach ends it when this is 0
  std::shared_ptr<Stream> legacy;
  std::map<ThreadId, std::shared_ptr<Stream>> per_thread;
  std::shared_ptr<Stream> all_streams; ///< carries cuCtxRecordEvent, which belongs to no stream
  std::vector<std::shared_ptr<Operation>>
      barriers; ///< from cuCtxWaitEvent: later work of all streams must wait
  /// Of a primary context, from cuCtxWaitEvent of a green one for an event of another family: they hold the
  /// first work on each stream of the family that has had none.
  std::vector<std::shared_ptr<Operation>> first_use_waits;
  unsigned blocked_submitters = 0;  ///< threads blocked on a full launch queue
  std::shared_ptr<Context> primary; ///< for a green context
  unsigned multiprocessors = 0;     ///< of a green context
  bool has_rest = false;            ///< of a green context: some are what a split of the device has left
  std::set<std::uintptr_t> peers;   ///< handles of contexts whose memory this one may access
  std::map<unsigned long long, std::shared_ptr<const BoundMemory>> textures; ///< and surfaces, by object
  std::vector<std::shared_ptr<Recording>> shared_recordings;                 ///< of its interprocess events

  /// Events of one context may be recorded on streams of another context with the same family.
  /// Contexts of one family are the same context, or a green and the primary context of one
  /// device.
  const Context* family() const { return primary ? primary.get() : this; }
};

/// The context and generation that an object was made in. The object dies with that generation.
struct Birthplace {
  std::shared_ptr<Context> context;
  unsigned generation = 0;

  bool alive() const { return context->active && context->generation == generation; }
};

} // namespace cuevent::sim
