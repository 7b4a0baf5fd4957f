// SPDX-License-Identifier: MIT
// The operations, each written once for all implementations.
//
// An implementation is a struct with these members:
//   Stream                       the type that its members take as a stream; stream(CUstream) makes one
//   Event<timed>                 Event(const Lane&), record(Stream), wait(Stream), query(), synchronize()
//                                and, if timed, elapsed(end). They contain only the call that is measured.
#pragma once

#include "contest.hpp"

#include <deque>
#include <stdexcept>

namespace peers {

inline void expect(bool right, const char* what) {
  if (!right) [[unlikely]]
    throw std::runtime_error(what);
}

template <class Peer, bool timed = false>
using EventOf = typename Peer::template Event<timed>;

/// An operation on the lane's streams, which are empty before each turn.
template <class Peer>
class OnStreams : public Workload {
public:
  explicit OnStreams(Lane& lane) : lane_(lane) {}
  void finish() override { lane_.drain(); }

protected:
  using Stream = typename Peer::Stream;
  Lane& lane_;
  Stream stream_ = Peer::stream(lane_.stream), other_ = Peer::stream(lane_.other);
};

template <class Peer, bool timed>
class CreateDestroy : public Workload {
public:
  explicit CreateDestroy(Lane& lane) : lane_(lane) {}
  void run(int calls) override {
    for (int i = 0; i < calls; ++i) {
      EventOf<Peer, timed> event(lane_);
      hide(event);
    }
  }

private:
  Lane& lane_;
};

template <class Peer, bool timed>
class Record : public OnStreams<Peer> {
public:
  using OnStreams<Peer>::OnStreams;
  void run(int calls) override {
    typename Peer::Stream stream = this->stream_;
    for (int i = 0; i < calls; ++i) {
      hide(stream);
      event_.record(stream);
    }
  }

private:
  EventOf<Peer, timed> event_{this->lane_};
};

/// On an event that is recorded before each turn, and completed.
template <class Peer>
class OnCompleted : public OnStreams<Peer> {
public:
  using OnStreams<Peer>::OnStreams;
  void prepare() override {
    event_.record(this->stream_);
    this->lane_.drain();
  }

protected:
  EventOf<Peer> event_{this->lane_};
};

template <class Peer>
class QueryDone : public OnCompleted<Peer> {
public:
  using OnCompleted<Peer>::OnCompleted;
  void run(int calls) override {
    for (int i = 0; i < calls; ++i) {
      hide(this->event_);
      expect(this->event_.query(), "a query of a completed event said that it is pending");
    }
  }
};

template <class Peer>
class QueryPending : public OnCompleted<Peer> {
public:
  using OnCompleted<Peer>::OnCompleted;
  void prepare() override {
    this->lane_.hold();
    this->event_.record(this->stream_);
  }
  void run(int calls) override {
    for (int i = 0; i < calls; ++i) {
      hide(this->event_);
      expect(!this->event_.query(), "a query of a pending event said that it has completed");
    }
  }
  void finish() override {
    this->lane_.open();
    this->lane_.drain();
  }
};

template <class Peer>
class Synchronize : public OnCompleted<Peer> {
public:
  using OnCompleted<Peer>::OnCompleted;
  void run(int calls) override {
    for (int i = 0; i < calls; ++i) {
      hide(this->event_);
      this->event_.synchronize();
    }
  }
};

/// The other stream waits for the completed event.
template <class Peer>
class Wait : public OnCompleted<Peer> {
public:
  using OnCompleted<Peer>::OnCompleted;
  void run(int calls) override {
    typename Peer::Stream stream = this->other_;
    for (int i = 0; i < calls; ++i) {
      hide(stream);
      this->event_.wait(stream);
    }
  }
};

template <class Peer>
class Elapsed : public OnStreams<Peer> {
public:
  using OnStreams<Peer>::OnStreams;
  void prepare() override {
    start_.record(this->stream_);
    end_.record(this->stream_);
    this->lane_.drain();
  }
  void run(int calls) override {
    for (int i = 0; i < calls; ++i) {
      hide(start_);
      float milliseconds = start_.elapsed(end_);
      hide(milliseconds);
    }
  }

private:
  EventOf<Peer, true> start_{this->lane_}, end_{this->lane_};
};

template <class Peer>
class CreateRecordDestroy : public OnStreams<Peer> {
public:
  using OnStreams<Peer>::OnStreams;
  void run(int calls) override {
    typename Peer::Stream stream = this->stream_;
    for (int i = 0; i < calls; ++i) {
      hide(stream);
      EventOf<Peer> event(this->lane_);
      event.record(stream);
    }
  }
};

/// Each of two streams waits for the other: two records and two waits.
template <class Peer>
class ForkJoin : public OnStreams<Peer> {
public:
  using OnStreams<Peer>::OnStreams;
  void run(int calls) override {
    typename Peer::Stream stream = this->stream_, other = this->other_;
    for (int i = 0; i < calls; ++i) {
      hide(stream);
      hide(other);
      fork_.record(stream);
      fork_.wait(other);
      join_.record(other);
      join_.wait(stream);
    }
  }

private:
  EventOf<Peer> fork_{this->lane_}, join_{this->lane_};
};

/// Records a thousand events, and waits on the host for the last of them.
template <class Peer>
class ThousandRecords : public OnStreams<Peer> {
public:
  explicit ThousandRecords(Lane& lane) : OnStreams<Peer>(lane) {
    for (int i = 0; i < 1'000; ++i)
      events_.emplace_back(lane);
  }
  void run(int calls) override {
    typename Peer::Stream stream = this->stream_;
    for (int i = 0; i < calls; ++i) {
      for (EventOf<Peer>& event : events_) {
        hide(stream);
        event.record(stream);
      }
      events_.back().synchronize();
    }
  }

private:
  std::deque<EventOf<Peer>> events_;
};

/// The entry of an implementation for an operation.
struct Entry {
  const char* operation;
  /// In a turn of one thread. Together with a lead-in, fewer submissions than a stream's queue takes.
  int calls;
  Contestant contestant;
};
using Entries = std::vector<Entry>;

template <class Peer>
void enter(Entries& entries, const char* name) {
  const Entry all[] = {
      {"create_destroy", 512, {name, make<CreateDestroy<Peer, false>>}},
      {"create_destroy_timed", 512, {name, make<CreateDestroy<Peer, true>>}},
      {"record", 512, {name, make<Record<Peer, false>>}},
      {"record_timed", 256, {name, make<Record<Peer, true>>}},
      {"query_done", 1'024, {name, make<QueryDone<Peer>>}},
      {"query_pending", 1'024, {name, make<QueryPending<Peer>>}},
      {"synchronize_done", 1'024, {name, make<Synchronize<Peer>>}},
      {"wait", 512, {name, make<Wait<Peer>>}},
      {"elapsed", 1'024, {name, make<Elapsed<Peer>>}},
      {"create_record_destroy", 512, {name, make<CreateRecordDestroy<Peer>>}},
      {"fork_join", 128, {name, make<ForkJoin<Peer>>}},
      {"thousand_records", 1, {name, make<ThousandRecords<Peer>>}},
  };
  entries.insert(entries.end(), std::begin(all), std::end(all));
}

// The implementations. Those of other projects throw if they do not work on this machine.
void enter_raw(Entries& entries);
void enter_cuevent(Entries& entries);
void enter_runtime(Entries& entries);
void enter_torch(Entries& entries);
void enter_cccl(Entries& entries);

/// How the cost grows with the number of events, streams and threads.
void register_growth();

} // namespace peers
