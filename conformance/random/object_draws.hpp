// SPDX-License-Identifier: MIT
// Draws that create an object, and flags.
#pragma once

#include "program_draft.hpp"

#include <cuda.h>

namespace conformance {

class ObjectDraws : protected ProgramDraft {
protected:
  using ProgramDraft::ProgramDraft;

  void make_current(int context) {
    add({Op::ctxSetCurrent, {context}});
    current_[thread_] = context;
  }
  void create_event() {
    const unsigned untimed = CU_EVENT_DISABLE_TIMING;
    unsigned flags = random_.one_of({0u, 0u, untimed, untimed, untimed, untimed | CU_EVENT_INTERPROCESS});
    if (random_.percent(8)) flags |= CU_EVENT_BLOCKING_SYNC;
    const bool illegal = random_.percent(4);
    if (illegal) flags = random_.one_of({unsigned{CU_EVENT_INTERPROCESS}, 0x8u, 0x100u});
    const int chosen = random_.percent(2) ? no_object : empty_slot(events_, event_slots);
    add({Op::eventCreate, {chosen}, flags});
    if (chosen == no_object || illegal) return;
    note(events_, chosen);
    event_context_[chosen] = current_[thread_];
    if ((flags & CU_EVENT_DISABLE_TIMING) == 0)
      note(timed_, chosen);
    else
      forget(timed_, chosen);
  }
  void create_stream() {
    const int chosen = empty_slot(streams_, stream_slots);
    unsigned flags = random_.percent(45) ? unsigned{CU_STREAM_NON_BLOCKING} : 0u;
    const bool illegal = random_.percent(4);
    if (illegal) flags = 0x10;
    if (random_.percent(20))
      add({Op::streamCreateWithPriority, {chosen, any_of(8)}, flags});
    else
      add({Op::streamCreate, {chosen}, flags});
    if (illegal) return;
    note(streams_, chosen);
    stream_context_[chosen] = current_[thread_];
  }

  unsigned record_flags() {
    if (random_.percent(5)) return random_.one_of({0x2u, 0x100u});
    return random_.percent(capturing_ != 0 ? 60 : 20) ? unsigned{CU_EVENT_RECORD_EXTERNAL} : 0u;
  }
  unsigned wait_flags() {
    if (random_.percent(3)) return random_.one_of({0x2u, 0x100u});
    return random_.percent(capturing_ != 0 ? 25 : 4) ? unsigned{CU_EVENT_WAIT_EXTERNAL} : 0u;
  }
  unsigned capture_mode() {
    if (random_.percent(2)) return 3;
    return random_.one_of(
        {unsigned{CU_STREAM_CAPTURE_MODE_GLOBAL}, unsigned{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
         unsigned{CU_STREAM_CAPTURE_MODE_RELAXED}, unsigned{CU_STREAM_CAPTURE_MODE_RELAXED}});
  }

  void record(Op op) {
    const int where = stream();
    const int chosen = event_to_record(where);
    const unsigned flags = op == Op::eventRecordWithFlags ? record_flags() : 0;
    add({op, {chosen, where}, flags});
  }
};

} // namespace conformance
