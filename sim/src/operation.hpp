// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cuevent::sim {

using Time = long long; ///< ns since the session began
inline constexpr Time never = -1;

struct Context;
struct Stream;
struct Event;
struct Graph;
struct GraphMemory;
struct Conditional;

/// What a copy, fill, kernel or memory node was made from, for calls that ask. A kernel node copies its
/// arguments.
struct NodeParameters {
  CUDA_MEMCPY3D copy{};
  bool by_address = false; ///< a captured copy that did not say where its memory is
  bool captured = false;   ///< also a fill; nobody asked what an exec takes in its place
  bool source_pooled = false, target_pooled = false; ///< whether a copy uses memory of a pool
  const Context* filled_home = nullptr;              ///< of the memory of a fill
  const Context* read_home = nullptr; ///< of the pinned memory from which a copy within the host reads
  CUDA_MEMSET_NODE_PARAMS fill{};
  std::shared_ptr<GraphMemory> memory{}; ///< of an allocation or free node
  std::shared_ptr<const Conditional> conditional{};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  std::vector<std::vector<std::byte>> arguments;
  std::vector<void*> pointers;     ///< to the arguments
  std::vector<std::byte> buffer{}; ///< the arguments, if they came in one
  std::size_t buffer_bytes = 0;
  std::array<void*, 5> extra{}; ///< which names the buffer

  /// Whether an exec takes the others for these. It keeps to the kinds of a copy's memory, to the context of
  /// a fill's memory, and to the numbers of rows.
  bool fit(const NodeParameters& other) const {
    if (captured || other.captured) return true;
    return copy.srcMemoryType == other.copy.srcMemoryType && copy.dstMemoryType == other.copy.dstMemoryType &&
           source_pooled == other.source_pooled && target_pooled == other.target_pooled &&
           filled_home == other.filled_home && copy.Height == other.copy.Height &&
           copy.Depth == other.copy.Depth && fill.height == other.fill.height;
  }

  bool has_target_of(const NodeParameters& other) const {
    return copy.dstMemoryType != CU_MEMORYTYPE_ARRAY || copy.dstArray == other.copy.dstArray;
  }
};

/// The number of places that a submission takes in a launch queue if the driver is notified of its
/// end. On a device, 20 to 60 of these submissions fill the queue. In the simulator, 56 do.
inline constexpr std::size_t places_of_a_notification = 18;

/// Memory that work uses, and the allocation that it was in when the work was described.
struct UsedMemory {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::uintptr_t block = 0; ///< where the allocation begins
  std::size_t block_bytes = 0;
  unsigned long long number = 0;                                          ///< of the allocation
  enum class Kind { device, host_block, registered } kind = Kind::device; ///< managed memory is as a device's
};

/// The work to do, without its place and time. A stream operation and a graph node hold the same
/// data.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::string text;             ///< for the wait-for graph
  Time duration = 0;            ///< or `never`: runs until the work is ended
  std::function<void()> effect; ///< the effect on memory, at the end of the work
  /// Whether its memory has been unmapped. Then a copy ends with CUDA_ERROR_ILLEGAL_ADDRESS, and a fill with
  /// CUDA_ERROR_LAUNCH_FAILED, as a store of a value does.
  std::function<bool()> gone;
  std::vector<UsedMemory> memory;  ///< of a copy or a fill: a graph may be launched after its end
  std::function<bool()> condition; ///< the work may start once this returns true
  CUhostFn function = nullptr;     ///< a host function ends when it returns
  void* data = nullptr;
  std::shared_ptr<Event> event;                     ///< of event record and event wait nodes
  std::size_t places = 1;                           ///< places taken in the launch queue of its stream
  CUresult fault = CUDA_SUCCESS;                    ///< the work ends with this fault
  std::shared_ptr<const void> owner;                ///< kept until the work is done
  std::shared_ptr<Graph> child;                     ///< of a child graph node
  std::shared_ptr<const std::vector<Work>> earlier; ///< operations of the same node, one after another
  std::shared_ptr<const NodeParameters> parameters;
  const char* unmodelled = nullptr; ///< what a launch of the node would need
  bool launch_waits = false;        ///< a launch of the node returns only when the node is done
  bool fills_nothing = false; ///< a captured fill of memory that was not allocated: no exec can have the node
};

/// One submitted piece of work. An event's record refers to the operation that recorded the event.
/// A later query asks that operation, so recording the event again does not affect earlier queries
/// or waits.
struct Operation {
  Work work;
  std::shared_ptr<Stream> stream;
  std::shared_ptr<const Context> caller; ///< the context that was current, if this is its work too
  unsigned long long number = 0;
  enum class State { waiting, running, done } state = State::waiting;
  bool abandoned = false;           ///< its context ended or its process faulted before it completed
  bool submitted = false;           ///< by its own call, not as a node of a graph
  std::vector<const Context*> used; ///< other contexts, whose memory a copy on a created stream uses
  bool between_contexts = false;    ///< a copy that is as work of other contexts, too
  bool elsewhere = false;           ///< work of another process, which this one can only wait for
  Time ended = never;
  std::vector<std::shared_ptr<Operation>> after; ///< emptied once done
  std::vector<Operation*> dependents;
  std::size_t unmet = 0;

  bool done() const { return state == State::done; }
};

} // namespace cuevent::sim
