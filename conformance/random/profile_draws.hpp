// SPDX-License-Identifier: MIT
// Draws that only one profile makes.
#pragma once

#include "object_draws.hpp"

namespace conformance {

class ProfileDraws : protected ObjectDraws {
protected:
  using ObjectDraws::ObjectDraws;

  /// The objects that a profile needs in addition.
  void prepare_profile() {
    if (wide()) {
      thread_ = 2;
      make_current(green_context);
      create_stream();
    }
    if (profile_ == Profile::memory) {
      allocate();
      allocate();
    }
    if (profile_ == Profile::two_devices) {
      make_current(random_.percent(65) ? far_primary_context : far_created_context);
      create_event();
      create_stream();
      if (random_.percent(50)) create_stream();
      if (random_.percent(50)) add({Op::ctxEnablePeerAccess, {primary_context}});
      if (random_.percent(50)) peer_access();
    }
    if (profile_ == Profile::imported) {
      import_event();
      thread_ = 0;
      import_event();
      export_event();
    }
  }

  // Wide programs.
  void launch_kernel() {
    if (nulls() && random_.percent(10)) return add({Op::nullKernelLaunch, {stream()}});
    if (random_.percent(40)) return add({Op::kernelLaunch, {stream()}});
    const int where = stream();
    const int chosen = event_to_record(where);
    const unsigned flags = random_.percent(8) ? random_.one_of({0x1u, 0x100u}) : 0;
    add({Op::kernelLaunchWithEvent, {where, chosen, any_of(2)}, flags});
  }

  // Programs with memory.
  int memory() { return slot(memory_, memory_slots); }
  void allocate() {
    const int chosen = empty_slot(memory_, memory_slots);
    note(memory_, chosen);
    if (random_.percent(60)) {
      forget(host_memory_, chosen);
      return add({Op::memAlloc, {chosen}});
    }
    note(host_memory_, chosen);
    add({Op::memHostAlloc, {chosen}, random_.percent(10) ? 0x100u : 0u});
  }
  void use_memory() {
    const unsigned kind = random_.below(100);
    if (kind < 12) return allocate();
    if (kind < 20) {
      const int gone = memory();
      const bool host = gone != no_object && (host_memory_ >> gone & 1) != 0;
      forget(memory_, gone);
      return add({host == random_.percent(90) ? Op::memFreeHost : Op::memFree, {gone}});
    }
    if (kind < 30) return add({Op::memcpy, {memory(), memory()}});
    if (kind < 55) return add({Op::memcpyAsync, {memory(), memory(), stream()}});
    if (kind < 62) return add({Op::memcpyPageable, {memory(), stream()}});
    if (kind < 72) return add({Op::memset, {memory()}});
    if (kind < 90) return add({Op::memsetAsync, {memory(), stream()}});
    add({Op::launchHostFunc, {stream()}});
  }

  // Programs of two devices.
  void peer_access() { add({Op::ctxEnablePeerAccess, {any_context()}}); }

  // Programs with imported events.
  void import_event() {
    const unsigned flags = random_.percent(8) ? unsigned{CU_EVENT_BLOCKING_SYNC} : 0u;
    const int chosen = empty_slot(events_ | shared_, event_slots);
    add({Op::importEvent, {chosen}, flags});
    note(events_, chosen);
    note(shared_, chosen);
    forget(timed_, chosen);
    event_context_[chosen] = current_[thread_];
  }
  void export_event() {
    int chosen = event();
    if (random_.percent(75)) {
      chosen = empty_slot(events_ | shared_, event_slots);
      add({Op::eventCreate, {chosen}, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS});
      note(events_, chosen);
      forget(timed_, chosen);
      event_context_[chosen] = current_[thread_];
    }
    add({Op::exportEvent, {chosen}});
    if (chosen != no_object) note(shared_, chosen);
  }
  void partner_call() {
    const unsigned kind = random_.below(100);
    const int stream = any_of(partner_streams);
    if (kind < 5)
      return import_event();
    else if (kind < 11)
      return export_event();
    else if (kind < 35)
      return add({Op::partnerRecord, {shared_event(), stream}});
    else if (kind < 53)
      return add({Op::partnerWait, {stream, shared_event()}});
    else if (kind < 69)
      return add({Op::partnerQuery, {shared_event()}});
    else if (kind < 74)
      return add({Op::partnerSynchronize, {shared_event()}});
    else if (kind < 85)
      return add({Op::partnerWaitValue, {stream, gate()}});
    else if (kind < 96)
      return add({Op::partnerStreamQuery, {stream}});
    const int gone = shared_event();
    add({Op::partnerDestroy, {gone}});
    forget(shared_, gone);
  }
};

} // namespace conformance
