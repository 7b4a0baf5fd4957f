// SPDX-License-Identifier: MIT
// Which work is behind a closed gate. The interpreter needs it to leave out calls that would block,
// and to know which work it can expect to finish.
#pragma once

#include "program.hpp"

namespace conformance {

using Gates = unsigned; // one bit for each gate

/// Everything that is submitted to one stream.
struct Lane {
  int context = 0;
  bool legacy = false;
  bool blocking = false; ///< waits for the legacy stream, and the legacy stream for it
  bool dirty = false;    ///< has work that was not yet seen to be finished
  Gates behind = 0;
};

class HeldWork {
public:
  void reset() { *this = {}; }

  void open(int gate) { closed_ &= ~(1u << gate); }
  void open_all() { closed_ = 0; }
  Gates closed(Gates gates) const { return gates & closed_; }
  static Gates bit(int gate) { return 1u << gate; }

  /// What work that is submitted to the lane next is behind.
  Gates next(const Lane& lane) const {
    const Context& home = contexts_[lane.context];
    Gates gates = lane.behind | barrier(lane.context);
    if (lane.legacy) gates |= home.blocking;
    if (lane.blocking) gates |= home.legacy;
    return gates & closed_;
  }
  /// What the work is behind that was submitted to the lane so far. A wait of the whole context may hold
  /// later work only.
  Gates submitted(const Lane& lane) const { return lane.legacy ? next(lane) : closed(lane.behind); }
  /// The same, and what a wait of the whole context may hold.
  Gates unfinished(const Lane& lane) const {
    return lane.legacy ? next(lane) : (lane.behind | barrier(lane.context)) & closed_;
  }
  void submit(Lane& lane, Gates behind) {
    Context& home = contexts_[lane.context];
    lane.behind = behind;
    lane.dirty = true;
    home.all |= behind;
    if (lane.legacy) home.legacy = behind;
    if (lane.blocking) home.blocking |= behind;
  }
  /// Later work of all streams of the context comes after what is behind these gates.
  void bar(int context, Gates gates) {
    contexts_[context].barrier |= gates;
    contexts_[context].all |= gates;
  }
  /// Records and waits of the whole context come one after another.
  Gates whole(int context) const { return closed(contexts_[context].whole); }
  void submit_whole(int context, Gates gates) {
    contexts_[context].whole = gates;
    contexts_[context].all |= gates;
  }
  /// All work of the context. The streams of a green context count as those of the primary one, too.
  Gates all(int context) const {
    const Gates green = context == primary_context ? contexts_[green_context].all : 0;
    return (contexts_[context].all | green) & closed_;
  }

private:
  struct Context {
    Gates barrier = 0, legacy = 0, blocking = 0, whole = 0, all = 0;
  };
  Gates barrier(int context) const {
    const Gates primary = context == green_context ? contexts_[primary_context].barrier : 0;
    return contexts_[context].barrier | primary;
  }
  Gates closed_ = (1u << gate_slots) - 1;
  Context contexts_[context_slots];
};

} // namespace conformance
