// SPDX-License-Identifier: MIT
// Draws of broad programs: what programs do besides events, streams and plain memory.
#pragma once

#include "profile_draws.hpp"

namespace conformance {

class BroadDraws : protected ProfileDraws {
protected:
  using ProfileDraws::ProfileDraws;

  void prepare_broad() {
    allocate();
    create_pool();
    load_library();
    allocate_broadly();
  }
  void broad_call() {
    switch (random_.below(6)) {
    case 0:
      return allocate_or_free();
    case 1:
      return copy();
    case 2:
      return ask_about_memory();
    case 3:
      return pool_call();
    case 4:
      return code_call();
    default:
      return node_call();
    }
  }

private:
  int pool() { return slot(pools_, pool_slots); }
  int library() { return slot(libraries_, library_slots); }
  /// Bits of pointers that are null.
  unsigned without(int pointers) {
    unsigned missing = 0;
    for (int i = 0; i < pointers; ++i)
      if (random_.percent(6)) missing |= 1u << i;
    return missing;
  }
  int managed_or_any() { return random_.percent(80) ? slot(managed_memory_, memory_slots) : memory(); }
  /// Mostly the memory that the call is for.
  int host_or_any(bool host) {
    const unsigned wanted = host ? host_memory_ & memory_ : memory_ & ~host_memory_;
    return random_.percent(90) ? slot(wanted, memory_slots) : memory();
  }

  void allocate_broadly() {
    const int chosen = empty_slot(memory_, memory_slots);
    note(memory_, chosen);
    forget(host_memory_, chosen);
    forget(managed_memory_, chosen);
    const unsigned kind = random_.below(100);
    if (kind < 30) return add({Op::memAllocAsync, {chosen, stream()}});
    if (kind < 55) return add({Op::memAllocFromPoolAsync, {chosen, pool(), stream()}});
    if (kind < 65) return add({Op::memAllocPitch, {chosen}, without(1)});
    const unsigned flags = random_.percent(12) ? random_.one_of({0u, 4u}) : random_.one_of({1u, 2u});
    if (flags == 1 || flags == 2) note(managed_memory_, chosen);
    add({Op::memAllocManaged, {chosen}, flags});
  }
  void allocate_or_free() {
    if (random_.percent(20)) return allocate();
    if (random_.percent(55)) return allocate_broadly();
    const int gone = memory();
    forget(memory_, gone);
    forget(managed_memory_, gone);
    if (random_.percent(25)) return add({Op::memFree, {gone}});
    add({Op::memFreeAsync, {gone, stream()}});
  }

  void copy() {
    const unsigned form = random_.percent(60) ? 0 : random_.below(8);
    switch (random_.below(10)) {
    case 0:
      return add({Op::memcpyHtoDAsync, {host_or_any(false), host_or_any(true), stream()}});
    case 1:
      return add({Op::memcpyDtoHAsync, {host_or_any(true), host_or_any(false), stream()}});
    case 2:
      return add({Op::memcpyDtoDAsync, {host_or_any(false), host_or_any(false), stream()}});
    case 3:
      return add({Op::memcpy2D, {memory(), memory()}, form});
    case 4:
      return add({Op::memcpy2DAsync, {memory(), memory(), stream()}, form});
    case 5:
      return add({Op::memcpy3D, {memory(), memory()}, form});
    case 6:
      return add({Op::memcpy3DAsync, {memory(), memory(), stream()}, form});
    case 7:
      return add({Op::memcpyPeer, {memory(), memory()}, random_.below(16)});
    case 8:
      return add({Op::memcpyPeerAsync, {memory(), memory(), stream()}, random_.below(16)});
    default:
      return add({Op::memsetD2D8Async, {memory(), stream()}, form});
    }
  }

  void ask_about_memory() {
    switch (random_.below(10)) {
    case 0:
      return add({Op::memPrefetchAsync, {managed_or_any(), any_of(3), stream()}});
    case 1:
      return add({Op::memAdvise, {managed_or_any(), any_of(8), any_of(3)}});
    case 2:
      return add({Op::streamAttachMemAsync, {stream(), managed_or_any()}, 1u << random_.below(3)});
    case 3:
    case 4:
      return add({Op::pointerGetAttribute, {memory(), any_of(16)}});
    case 5:
      return add({Op::pointerGetAttributes, {memory()}, without(2)});
    case 6:
      return add({Op::pointerSetAttribute, {memory()}, without(1)});
    case 7:
      return add({Op::memGetAddressRange, {memory()}, without(2)});
    case 8:
      return add({random_.percent(50) ? Op::memHostGetFlags : Op::memHostGetDevicePointer, {memory()}});
    default:
      return add({Op::memGetInfo, {}, without(2)});
    }
  }

  void create_pool() {
    const int chosen = empty_slot(pools_, pool_slots);
    note(pools_, chosen);
    add({Op::memPoolCreate, {chosen}, without(1)});
  }
  void pool_call() {
    switch (random_.below(10)) {
    case 0:
    case 1:
      return create_pool();
    case 2: {
      const int gone = pool();
      forget(pools_, gone);
      return add({Op::memPoolDestroy, {gone}});
    }
    case 3:
      return add({Op::memPoolTrimTo, {pool()}});
    case 4:
      return add({Op::memPoolGetAttribute, {pool(), any_of(10)}});
    case 5:
      return add({Op::memPoolSetAttribute, {pool(), any_of(10)}, without(1)});
    case 6:
      return add({Op::memPoolGetAccess, {pool()}, without(2)});
    case 7:
      return add({Op::memPoolSetAccess, {pool()}, without(1)});
    case 8:
      return add({random_.percent(50) ? Op::deviceGetDefaultMemPool : Op::deviceGetMemPool, {device()}});
    default:
      return add({Op::deviceSetMemPool, {device(), pool()}});
    }
  }
  int device() { return random_.percent(85) ? 0 : 99; }

  void load_library() {
    const int chosen = empty_slot(libraries_, library_slots);
    note(libraries_, chosen);
    add({Op::libraryLoadData, {chosen}, without(1)});
  }
  void code_call() {
    switch (random_.below(13)) {
    case 0:
      return load_library();
    case 1: {
      const int gone = library();
      forget(libraries_, gone);
      return add({Op::libraryUnload, {gone}});
    }
    case 2:
      return add({Op::libraryGetKernel, {library(), name()}});
    case 3:
      return add({Op::libraryGetModule, {library()}});
    case 4:
      return add({Op::libraryGetGlobal, {library(), name()}, without(2)});
    case 5:
      return add({Op::kernelGetFunction, {library()}});
    case 6:
      return add({Op::kernelGetAttribute, {library(), any_of(12)}});
    case 7:
      return add({Op::moduleGetFunction, {name()}, without(2)});
    case 8:
      return add({Op::moduleGetGlobal, {name()}, without(3)});
    case 9:
      return add({Op::funcGetAttribute, {any_of(12)}, without(2)});
    case 10:
      return add({Op::occupancy, {random_.one_of({0, 1, 32, 1024, 1025})}, without(2)});
    default:
      return add({Op::libraryKernelLaunch, {library(), stream()}});
    }
  }
  int name() { return random_.percent(60) ? any_of(2) : any_of(5); }

  /// A graph of new kinds of nodes, then a launch and changes.
  void graph_story() {
    const int chosen = empty_slot(graphs_, graph_slots), made = empty_slot(execs_, exec_slots);
    add({Op::graphCreate, {chosen}});
    note(graphs_, chosen);
    for (unsigned nodes = 1 + random_.below(3); nodes != 0; --nodes) {
      const int newest = random_.percent(60) ? 1 : 0;
      const unsigned kind = random_.below(10);
      const int other = memory();
      if (kind < 4)
        add({Op::graphAddMemcpyNode, {chosen, other, memory()}, random_.percent(80) ? 0 : without(4)});
      else if (kind < 8)
        add({Op::graphAddMemsetNode, {chosen, newest, other}, random_.percent(80) ? 0 : without(3)});
      else
        add({Op::graphAddChildGraphNode, {chosen, newest, graph()}});
    }
    add({Op::graphInstantiate, {made, chosen}});
    note(execs_, made);
    for (unsigned calls = 1 + random_.below(4); calls != 0; --calls)
      change_node(random_.percent(40) ? -1 : made, chosen);
    add({Op::graphLaunch, {made, stream()}});
  }
  /// Changes a node of the graph, or of the exec if there is one.
  void change_node(int exec, int graph) {
    const int node = any_of(3);
    if (exec < 0) {
      switch (random_.below(4)) {
      case 0:
        return add({random_.percent(50) ? Op::graphMemcpyNodeGetParams : Op::graphMemsetNodeGetParams,
                    {graph, node}});
      case 1:
        return add({Op::graphChildGraphNodeGetGraph, {graph, node}});
      default:
        return add({random_.percent(50) ? Op::graphMemcpyNodeSetParams : Op::graphMemsetNodeSetParams,
                    {graph, node, memory()},
                    without(1)});
      }
    }
    switch (random_.below(6)) {
    case 0:
      return add({Op::graphNodeSetEnabled, {exec, node, any_of(2)}});
    case 1:
      return add({Op::graphNodeGetEnabled, {exec, node}});
    case 2:
      return add({Op::graphExecChildGraphNodeSetParams, {exec, node, ObjectDraws::graph()}});
    default:
      return add({random_.percent(50) ? Op::graphExecMemcpyNodeSetParams : Op::graphExecMemsetNodeSetParams,
                  {exec, node, memory()},
                  without(2)});
    }
  }

  void node_call() {
    const int newest = random_.percent(60) ? 1 : 0;
    const int node = any_of(4);
    switch (random_.below(15)) {
    case 0:
    case 1: {
      const int from = graph();
      const int chosen = empty_slot(graphs_, graph_slots);
      note(graphs_, chosen);
      return add({Op::graphClone, {chosen, from}});
    }
    case 2:
      return add({Op::graphGetNodes, {graph()}});
    case 3:
      return add({Op::graphNodeGetType, {graph(), node}});
    case 4:
    case 5:
    case 6: {
      const int into = graph();
      return add({Op::graphAddChildGraphNode, {into, newest, graph()}});
    }
    case 7:
      return add({Op::graphChildGraphNodeGetGraph, {graph(), node}});
    case 8:
    case 9: {
      const int into = graph(), to = memory();
      return add({Op::graphAddMemcpyNode, {into, to, memory()}, without(4)});
    }
    case 10:
    case 11: {
      const int into = graph();
      return add({Op::graphAddMemsetNode, {into, newest, memory()}, without(3)});
    }
    case 12: {
      const int changed = graph();
      return change_node(exec(), changed);
    }
    case 13:
      return add({Op::graphExecGetFlags, {exec()}});
    default:
      return graph_story();
    }
  }
};

} // namespace conformance
