// SPDX-License-Identifier: MIT
// Draws programs. What is drawn depends on the seed alone, never on an answer: a program may use an
// object that the driver refused to create, and the interpreter then leaves that call out.
#include "broad_draws.hpp"

namespace conformance {
namespace {

constexpr std::size_t program_length = 60;

class Generator : BroadDraws {
public:
  explicit Generator(std::uint64_t seed) : BroadDraws(seed), theme_(static_cast<Theme>(random_.below(3))) {}

  Program generate() {
    prepare();
    while (program_.size() < program_length)
      draw();
    program_.resize(program_length);
    return std::move(program_);
  }

private:
  /// What a program is mostly about. A capture is invalidated by so many calls that one program has
  /// no room for all.
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
    prepare_profile();
    if (profile_ == Profile::broad) prepare_broad();
    thread_ = any_of(threads());
    if (theme_ == Theme::work) {
      close_gate(stream());
      close_gate(stream());
    }
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
  void memory_operation() {
    if (profile_ == Profile::memory && random_.percent(60)) return use_memory();
    if (wide() && random_.percent(35)) return launch_kernel();
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
    if (wide() && execs_ != 0 && random_.percent(20)) return add({Op::graphExecUpdate, {exec(), graph()}});
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
    if (nulls() && random_.percent(15)) return add({Op::streamGetId, {stream()}});
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
    if (profile_ == Profile::imported && random_.percent(25)) return partner_call();
    if (profile_ == Profile::two_devices && random_.percent(1)) return peer_access();
    if (theme_ == Theme::work && random_.percent(15)) return ask();
    if (profile_ == Profile::memory && random_.percent(15)) return use_memory();
    if (profile_ == Profile::broad && random_.percent(45)) return broad_call();
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

Profile profile_of(std::uint64_t seed) {
  const std::uint64_t number = seed / seeds_of_a_profile;
  return number <= 6 ? static_cast<Profile>(number) : Profile::broad;
}

int devices_needed(std::uint64_t seed) { return profile_of(seed) == Profile::two_devices ? 2 : 1; }

Program program_of(std::uint64_t seed) { return Generator(seed).generate(); }

} // namespace conformance
