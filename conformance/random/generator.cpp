// SPDX-License-Identifier: MIT
// Draws programs. What is drawn depends on the seed alone, never on an answer: a program may use an
// object that the driver refused to create, and the interpreter then leaves that call out.
#include "program_draft.hpp"

#include <cuda.h>

namespace conformance {
namespace {

constexpr std::size_t program_length = 60;

class Generator : ProgramDraft {
public:
  explicit Generator(std::uint64_t seed) : ProgramDraft(seed), theme_(static_cast<Theme>(random_.below(3))) {}

  Program generate() {
    prepare();
    while (program_.size() < program_length)
      draw();
    program_.resize(program_length);
    return std::move(program_);
  }

private:
  /// What a program is mostly about. A capture is invalidated by so many calls that one program has no
  /// room for all.
  enum class Theme { work, captures, everything };

  // A few objects of each context, so that the draws have something to work with.
  void prepare() {
    thread_ = 0;
    make_current(0);
    create_event();
    create_stream();
    create_event();
    create_stream();
    thread_ = 1;
    make_current(random_.percent(65) ? 1 : 0);
    create_event();
    create_stream();
    if (random_.percent(50)) create_stream();
    if (wide_) {
      thread_ = 2;
      make_current(green_context);
      create_stream();
    }
    thread_ = any_of(threads());
    if (theme_ == Theme::work) {
      close_gate(stream());
      close_gate(stream());
    }
  }

  void record(Op op) {
    const int where = stream();
    const int chosen = event_to_record(where);
    const unsigned flags = op == Op::eventRecordWithFlags ? record_flags() : 0;
    add({op, {chosen, where}, flags});
  }
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

  void begin_capture() {
    const int origin = stream();
    add({Op::streamBeginCapture, {origin}, capture_mode()});
    if (origin < 0) return;
    note(capturing_, origin);
    capture_thread_[origin] = thread_;
  }
  void end_capture() {
    const int origin = capturing_ != 0 && random_.percent(90) ? slot_or_null(capturing_) : stream();
    const int chosen = empty_slot(graphs_, graph_slots);
    if (origin >= 0 && capturing_ >> origin & 1 && random_.percent(85)) thread_ = capture_thread_[origin];
    add({Op::streamEndCapture, {chosen, origin}});
    note(graphs_, chosen);
    forget(capturing_, origin);
    if (capturing_ == 0) forks_ = 0;
  }

  void close_gate(int where) {
    unsigned flags = random_.one_of({unsigned{CU_STREAM_WAIT_VALUE_GEQ}, unsigned{CU_STREAM_WAIT_VALUE_GEQ},
                                     unsigned{CU_STREAM_WAIT_VALUE_EQ}, unsigned{CU_STREAM_WAIT_VALUE_AND}});
    if (random_.percent(3)) flags = 0x10;
    add({Op::streamWaitValue, {where, gate()}, flags});
  }
  void launch_kernel() {
    if (random_.percent(40)) return add({Op::kernelLaunch, {stream()}});
    const int where = stream();
    const int chosen = event_to_record(where);
    const unsigned flags = random_.percent(8) ? random_.one_of({0x1u, 0x100u}) : 0;
    add({Op::kernelLaunchWithEvent, {where, chosen, any_of(2)}, flags});
  }
  void memory_operation() {
    if (wide_ && random_.percent(35)) return launch_kernel();
    if (random_.percent(50)) {
      close_gate(stream());
    } else {
      unsigned flags = 0;
      if (random_.percent(10))
        flags = random_.one_of({unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}, 0x100u});
      add({Op::streamWriteValue, {stream(), words_++}, flags});
    }
  }
  void read() {
    if (words_ != 0) add({Op::read, {any_of(words_)}});
  }

  void add_nodes(int graph, unsigned count) {
    for (; count != 0; --count) {
      const int after = random_.percent(70) ? 1 : 0;
      if (random_.percent(15))
        add({Op::graphAddEmptyNode, {graph, after}});
      else
        add({random_.percent(60) ? Op::graphAddEventRecordNode : Op::graphAddEventWaitNode,
             {graph, after, event()}});
    }
  }
  void graph_call() {
    if (wide_ && execs_ != 0 && random_.percent(20)) return add({Op::graphExecUpdate, {exec(), graph()}});
    const unsigned kind = random_.below(26);
    if (kind < 3 || graphs_ == 0) {
      const int chosen = empty_slot(graphs_, graph_slots);
      add({Op::graphCreate, {chosen}});
      note(graphs_, chosen);
      add_nodes(chosen, 1 + random_.below(2));
    } else if (kind < 9) {
      add_nodes(graph(), 1);
    } else if (kind < 14 || execs_ == 0) {
      const int chosen = empty_slot(execs_, exec_slots);
      add({Op::graphInstantiate, {chosen, graph()}});
      note(execs_, chosen);
    } else if (kind < 20) {
      add({Op::graphLaunch, {exec(), stream()}});
    } else if (kind < 23) {
      add({random_.one_of({Op::graphExecEventRecordNodeSetEvent, Op::graphExecEventWaitNodeSetEvent}),
           {exec(), any_of(3), event()}});
    } else if (kind < 24) {
      add({random_.one_of({Op::graphEventRecordNodeSetEvent, Op::graphEventWaitNodeSetEvent}),
           {graph(), any_of(3), event()}});
    } else if (kind < 25) {
      const int gone = graph();
      add({Op::graphDestroy, {gone}});
      forget(graphs_, gone);
    } else {
      const int gone = exec();
      add({Op::graphExecDestroy, {gone}});
      forget(execs_, gone);
    }
  }

  void context_call() {
    const unsigned kind = random_.below(11);
    const int context = any_context();
    if (kind < 4)
      make_current(random_.percent(12) ? no_object : context);
    else if (kind < 5)
      add({Op::ctxSynchronize});
    else if (kind < 8)
      add({Op::ctxRecordEvent, {context, event()}});
    else
      add({Op::ctxWaitEvent, {context, event()}});
  }

  void stream_call() {
    const unsigned kind = random_.below(10);
    if (kind < 5) {
      add({Op::streamQuery, {stream()}});
    } else if (kind < 7) {
      add({Op::streamSynchronize, {stream()}});
    } else {
      add({random_.one_of({Op::streamGetFlags, Op::streamGetPriority, Op::streamGetCtx}), {stream()}});
    }
  }

  /// An event that brings work from one stream to another: at best, a stream joins a capture, or comes back.
  void bring(int from, int to) {
    const int event = event_to_record(from);
    add({Op::eventRecord, {event, from}});
    add({Op::streamWaitEvent, {to, event}});
  }
  void fork() {
    const int origin = slot(capturing_, stream_slots);
    const int joins = random_.percent(80) ? slot_or_null(streams_ & ~capturing_) : stream();
    if (origin == no_object) return;
    bring(origin, joins);
    if (joins >= 0) note(forks_, joins);
  }
  void join() {
    const int fork = slot(forks_, stream_slots);
    const int origin = slot(capturing_, stream_slots);
    if (origin == no_object || fork == no_object) return;
    bring(fork, origin);
  }
  /// A capture from begin to end, in which little happens that invalidates it.
  void capture_story() {
    begin_capture();
    for (unsigned step = 2 + random_.below(7); step != 0; --step) {
      const unsigned kind = random_.below(100);
      if (kind < 25)
        fork();
      else if (kind < 40)
        join();
      else if (kind < 60)
        add({Op::streamWriteValue, {slot_or_null(capturing_ | forks_), words_++}});
      else if (kind < 75)
        record(Op::eventRecordWithFlags);
      else if (kind < 85)
        add({Op::streamWaitEvent, {slot_or_null(capturing_ | forks_), event()}, CU_EVENT_WAIT_EXTERNAL});
      else
        draw();
    }
    if (random_.percent(15) && forks_ != 0)
      add({Op::streamEndCapture, {empty_slot(graphs_, graph_slots), slot_or_null(forks_)}});
    end_capture();
  }
  void capture_call() {
    if (theme_ == Theme::work && random_.percent(85)) return memory_operation();
    if (capturing_ == 0 && theme_ == Theme::captures && random_.percent(70)) return capture_story();
    if (capturing_ == 0) return random_.percent(4) ? end_capture() : begin_capture();
    const unsigned kind = random_.below(100);
    if (kind < 20)
      fork();
    else if (kind < 35 && forks_ != 0)
      join();
    else if (kind < 75)
      end_capture();
    else
      begin_capture();
  }

  void ask() {
    switch (random_.below(4)) {
    case 0:
      return add({Op::streamQuery, {stream()}});
    case 1:
      return add({Op::eventElapsedTime, {timed_event(), timed_event()}});
    default:
      return add({Op::eventQuery, {event()}});
    }
  }

  void draw() {
    choose_thread();
    if (theme_ == Theme::work && random_.percent(15)) return ask();
    const unsigned kind = random_.below(116);
    // Most queries and synchronisations invalidate a capture. Its theme has fewer.
    const bool asks = (kind >= 25 && kind < 36) || (kind >= 55 && kind < 61);
    if (asks && theme_ == Theme::captures && capturing_ != 0 && random_.percent(75)) return;
    if (kind < 5) {
      create_event();
    } else if (kind < 7) {
      const int gone = event();
      add({Op::eventDestroy, {gone}});
      forget(events_, gone);
    } else if (kind < 19) {
      record(Op::eventRecord);
    } else if (kind < 25) {
      record(Op::eventRecordWithFlags);
    } else if (kind < 33) {
      add({Op::eventQuery, {event()}});
    } else if (kind < 36) {
      add({Op::eventSynchronize, {event()}});
    } else if (kind < 40) {
      add({Op::eventElapsedTime, {timed_event(), timed_event()}});
    } else if (kind < 51) {
      add({Op::streamWaitEvent, {stream(), event()}, wait_flags()});
    } else if (kind < 53) {
      create_stream();
    } else if (kind < 55) {
      const int gone = stream();
      add({Op::streamDestroy, {gone}});
      forget(streams_, gone);
      forget(capturing_, gone);
      forget(forks_, gone);
    } else if (kind < 61) {
      stream_call();
    } else if (kind < 64) {
      add({random_.percent(60) ? Op::streamIsCapturing : Op::streamGetCaptureInfo, {stream()}});
    } else if (kind < 74) {
      capture_call();
    } else if (kind < 76) {
      add({Op::exchangeMode, {}, capture_mode() % 3});
    } else if (kind < 85) {
      context_call();
    } else if (kind < 94) {
      memory_operation();
    } else if (kind < 97) {
      read();
    } else if (kind < 100) {
      if (random_.percent(50)) add({Op::open, {gate()}});
    } else {
      graph_call();
    }
  }

  Theme theme_;
};

} // namespace

Program program_of(std::uint64_t seed) { return Generator(seed).generate(); }

} // namespace conformance
