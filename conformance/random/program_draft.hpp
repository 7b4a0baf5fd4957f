// SPDX-License-Identifier: MIT
// A program as far as it is drawn, and what the generator knows of its objects if the driver refuses nothing.
#pragma once

#include "program.hpp"
#include "random_numbers.hpp"

namespace conformance {

class ProgramDraft {
protected:
  explicit ProgramDraft(std::uint64_t seed) : profile_(profile_of(seed)), random_(seed) {}

  /// The draws of a call stand in braces, which are evaluated in order; arguments of a function are not.
  void add(Call call) {
    call.thread = thread_;
    if (nulls() && call.op != Op::ctxSetCurrent) draw_nulls(call);
    program_.push_back(call);
  }
  /// Makes some of the handles and pointers null, also where no program of another profile has a null.
  void draw_nulls(Call& call) {
    const std::string_view form = form_of(call.op);
    int argument = 0;
    for (std::size_t i = form.find('%'); i != form.npos; i = form.find('%', i + 1)) {
      const char kind = form[i + 1];
      if (kind == 'f') continue;
      int& drawn = call.arguments[argument++];
      if (kind == 'i' || call.op == Op::open || !random_.percent(6)) continue;
      const bool used = i != 0 && (kind == 'g' || kind == 'x'); // not filled by the call
      drawn = used ? null_object : no_object;                   // a null stream is the default stream
    }
    // Without a mode, the exchange of the capture mode is known to crash. That ends a program early.
    const bool crashes = profile_ == Profile::broad && call.op == Op::exchangeMode;
    if (gives_result(call.op) && random_.percent(5) && !crashes) call.flags = null_result;
  }
  /// Whether the call returns something else than an object of a slot.
  static bool gives_result(Op op) {
    switch (op) {
    case Op::eventElapsedTime:
    case Op::streamGetFlags:
    case Op::streamGetPriority:
    case Op::streamGetCtx:
    case Op::streamGetId:
    case Op::streamIsCapturing:
    case Op::streamGetCaptureInfo:
    case Op::exchangeMode:
    case Op::graphAddEmptyNode:
    case Op::graphAddEventRecordNode:
    case Op::graphAddEventWaitNode:
    case Op::graphExecUpdate:
    case Op::pointerGetAttribute:
    case Op::memHostGetFlags:
    case Op::memHostGetDevicePointer:
    case Op::memPoolGetAttribute:
    case Op::deviceGetDefaultMemPool:
    case Op::deviceGetMemPool:
    case Op::libraryGetKernel:
    case Op::libraryGetModule:
    case Op::kernelGetFunction:
    case Op::kernelGetAttribute:
    case Op::graphGetNodes:
    case Op::graphNodeGetType:
    case Op::graphAddChildGraphNode:
    case Op::graphChildGraphNodeGetGraph:
    case Op::graphMemcpyNodeGetParams:
    case Op::graphMemsetNodeGetParams:
    case Op::graphNodeGetEnabled:
    case Op::graphExecGetFlags:
      return true;
    default:
      return false;
    }
  }
  void choose_thread() {
    if (random_.percent(20)) thread_ = any_of(threads());
  }

  // Slots. An object that was never created is drawn rarely, null more rarely still.
  int slot(unsigned known, int slots) {
    if (known != 0 && !random_.percent(2)) {
      int chosen = 0;
      do {
        chosen = static_cast<int>(random_.below(static_cast<unsigned>(slots)));
      } while ((known >> chosen & 1) == 0);
      return chosen;
    }
    return random_.percent(60) ? no_object : static_cast<int>(random_.below(static_cast<unsigned>(slots)));
  }
  int event() {
    if (profile_ == Profile::imported && random_.percent(40)) return shared_event();
    if (events_ >> recorded_ & 1 && random_.percent(40)) return recorded_;
    return slot(events_, event_slots);
  }
  int shared_event() { return slot(shared_, event_slots); }
  /// Mostly an event of the stream's context, because others cannot be recorded there.
  int event_to_record(int where) {
    const int context = where >= 0 ? stream_context_[where] : current_[thread_];
    int chosen = event();
    for (int attempt = 0; attempt < 3 && chosen != no_object && event_context_[chosen] != context; ++attempt)
      chosen = slot(events_, event_slots);
    if (chosen != no_object) recorded_ = chosen;
    return chosen;
  }
  int timed_event() {
    int chosen = event();
    for (int attempt = 0; attempt < 2 && chosen != no_object && (timed_ >> chosen & 1) == 0; ++attempt)
      chosen = slot(events_, event_slots);
    return chosen;
  }
  int stream() {
    if (capturing_ != 0 && random_.percent(45)) return slot_or_null(capturing_ | forks_);
    if (random_.percent(12)) return random_.one_of({null_stream, legacy_stream, per_thread_stream});
    return slot_or_null(streams_);
  }
  int slot_or_null(unsigned known) {
    const int chosen = slot(known, stream_slots);
    return chosen == no_object ? null_stream : chosen;
  }
  int graph() { return slot(graphs_, graph_slots); }
  int exec() { return slot(execs_, exec_slots); }
  int gate() { return static_cast<int>(random_.below(gate_slots)); }
  bool wide() const { return profile_ == Profile::wide || nulls(); }
  bool nulls() const { return profile_ >= Profile::nulls; }
  int threads() const { return wide() ? 3 : 2; }
  int any_context() {
    if (profile_ == Profile::two_devices)
      return random_.one_of({primary_context, created_context, far_primary_context, far_created_context});
    return any_of(wide() ? 3 : 2);
  }
  int any_of(int slots) { return static_cast<int>(random_.below(static_cast<unsigned>(slots))); }
  static void note(unsigned& known, int slot) { known |= 1u << slot; }
  static void forget(unsigned& known, int slot) {
    if (slot >= 0) known &= ~(1u << slot);
  }
  // The slot of a new object: an empty one while there are any, so that live objects are seldom lost.
  int empty_slot(unsigned known, int slots) {
    for (int attempt = 0; attempt < 8; ++attempt)
      if (const int chosen = any_of(slots); (known >> chosen & 1) == 0) return chosen;
    return any_of(slots);
  }

  Profile profile_;
  RandomNumbers random_;
  Program program_;
  int thread_ = 0;
  int words_ = 0;
  int recorded_ = 0; ///< the event recorded last
  int current_[thread_slots] = {no_object, no_object, no_object};
  int event_context_[event_slots] = {};
  int stream_context_[stream_slots] = {};
  int capture_thread_[stream_slots] = {};
  unsigned timed_ = 0;  ///< events
  unsigned shared_ = 0; ///< events that the partner has open
  unsigned memory_ = 0, host_memory_ = 0, managed_memory_ = 0;
  unsigned pools_ = 0, libraries_ = 0;
  // By slot: what the program has created, if the driver agreed.
  unsigned events_ = 0, streams_ = 0, graphs_ = 0, execs_ = 0, capturing_ = 0, forks_ = 0;
};

} // namespace conformance
