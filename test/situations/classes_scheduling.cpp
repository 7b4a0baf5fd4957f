// SPDX-License-Identifier: MIT
// The classes of the kit scheduling.
#include "situations.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_participant.h>
#include <cuevent/timeline_semaphore.hpp>

#include <chrono>
#include <unistd.h>

namespace situations {

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

constexpr const char* lease_is_gone = "the event has ended with its context: docs/lifetime.md";

template <class Lease>
std::vector<Operation> uses_of(World& w, Lease& lease) {
  return {
      BOTH(Does::submits, lease, record, w.given())
          .named()
          .not_called(In::lost, lease_is_gone)
          .but(In::captured, CUDA_SUCCESS),
      BOTH(Does::submits, lease, wait, w.given())
          .works(In::misnamed)
          .not_called(In::lost, lease_is_gone)
          .but(In::other_device, CUDA_SUCCESS)
          .but(In::captured, {.result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION, .breaks_capture = true}),
      BOTH(Does::asks, lease, query_relaxed).not_called(In::lost, lease_is_gone),
  };
}

struct OfPooledEvent {
  World& w;
  EventPool pool{w.context};
  PooledEvent lease = acquire();

  PooledEvent acquire() {
    PooledEvent made = pool.acquire();
    made.record(w.stream);
    return made;
  }
  PooledEvent& object() { return lease; }
  std::vector<Operation> operations() {
    std::vector<Operation> all = uses_of(w, lease);
    all.push_back(Operation("release, adopt", Does::nothing, {},
                            [this] { lease = PooledEvent::adopt(std::move(lease).release()); }));
    return all;
  }
};

struct OfSharedEvent {
  World& w;
  EventPool pool{w.context};
  SharedEvent lease = acquire(), copy = lease;

  SharedEvent acquire() {
    PooledEvent made = pool.acquire();
    made.record(w.stream);
    return std::move(made).share();
  }
  SharedEvent& object() { return lease; }
  std::vector<Operation> operations() { return uses_of(w, lease); }
};

/// Between the forks of a cell, a thread can repeat reserve() some ten thousand times.
constexpr std::size_t many_idle = 1 << 24;

struct OfEventPool {
  World& w;
  EventPool pool = with_an_idle_event();

  EventPool with_an_idle_event() {
    EventPool made(w.context, EventFlags::none, FreshLease::refuses, many_idle);
    made.reserve(2);
    return made;
  }
  EventPool& object() { return pool; }
  std::vector<Operation> operations() {
    return {
        GIVES(Does::nothing, PooledEvent, pool, acquire) // as events are idle
            .but(In::empty, CUDA_ERROR_INVALID_CONTEXT),
        BOTH(Does::makes, pool, reserve, pool.counters().idle + 1).but(In::empty, CUDA_ERROR_INVALID_CONTEXT),
        BOTH(Does::submits, pool, wait_stream, w.other, w.given())
            .named()
            .but(In::empty, CUDA_ERROR_INVALID_CONTEXT)
            .but(In::captured, CUDA_SUCCESS), // the other stream joins the capture
        Operation("counters", Does::nothing, {}, [this] { pool.counters(); }),
    };
  }
};

struct OfEventPools {
  World& w;
  EventPools pools = with_idle_events();

  EventPools with_idle_events() {
    EventPools made(w.context.driver(), EventFlags::none, FreshLease::refuses, many_idle);
    made.reserve(w.context, 2);
    return made;
  }
  EventPools& object() { return pools; }
  std::vector<Operation> operations() {
    return {
        GIVES(Does::submits, PooledEvent, pools, acquire, w.given())
            .named()
            .but(In::empty, CUDA_ERROR_INVALID_CONTEXT)
            .works(In::captured, In::other_device),
        BOTH(Does::submits, pools, wait_stream, w.other, w.given())
            .named()
            .but(In::empty, CUDA_ERROR_INVALID_CONTEXT)
            .works(In::captured, In::other_device),
        Operation("counters", Does::nothing, {}, [this] { pools.counters(w.context.native_handle()); }),
        Operation("trim", Does::nothing, {}, [this] { pools.trim(); })
            .not_called(In::full_queue, "it can wait, as ~DriverEvent"),
        BOTH(Does::makes, pools, reserve, w.context, pools.counters(w.context).idle + 1)
            .but(In::empty, CUDA_ERROR_INVALID_CONTEXT),
    };
  }
};

struct OfTimelineFence {
  World& w;
  TimelineFence fence = signalled();

  TimelineFence signalled() {
    TimelineFence made(w.context, w.target);
    made.signal();
    return made;
  }
  TimelineFence& object() { return fence; }
  std::vector<Operation> operations() {
    constexpr const char* counter_is_gone = "the counter ends with the context";
    return {
        GIVES(Does::submits, std::uint64_t, fence, signal)
            .not_called(In::lost, counter_is_gone)
            .not_called(In::captured, "the fence has a stream of its own, which is not captured")
            .not_called(In::other_device, "the fence has a stream of its own"),
        BOTH(Does::submits, fence, wait, w.target, fence.signalled())
            .not_called(In::lost, counter_is_gone)
            .but(In::other_device, CUDA_SUCCESS),
        BOTH(Does::asks, fence, wait_for, fence.signalled() + 1'000'000, 1ms)
            .not_called(In::lost, counter_is_gone),
        Operation("status", Does::asks, [this] { return fence.status(); })
            .not_called(In::lost, counter_is_gone),
        Operation("reached", Does::nothing,
                  [this] { return fence.reached(0) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; })
            .not_called(In::lost, counter_is_gone),
        CREATES(Does::makes, TimelineFence, w.name.value_or(w.context), w.target)
            .named()
            .but(In::other_device, CUDA_ERROR_INVALID_HANDLE)
            .not_called(In::faulted, "it makes no call that notices a fault")
            .but(In::full_queue, CUDA_SUCCESS),
    };
  }
};

struct OfCompletionQueue {
  World& w;
  CompletionQueue queue{w.context};
  int ran = 0;
  std::size_t room = 0;

  CompletionQueue& object() { return queue; }
  std::vector<Operation> operations() {
    return {
        Operation("poll", Does::nothing, {}, [this] { queue.poll(); }),
        Operation("wait_for", Does::nothing, {}, [this] { queue.wait_for(1ms); }),
        GIVES(Does::nothing, int, queue, native_handle)
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE)
            .but(In::forked, CUDA_ERROR_NOT_INITIALIZED),
        BOTH(Does::nothing, queue, arm)
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE)
            .but(In::forked, CUDA_ERROR_NOT_INITIALIZED),
        BOTH(Does::makes, queue, reserve, room = room % 8000 + 80).but(In::empty, CUDA_ERROR_INVALID_HANDLE),
        GIVES(Does::submits, CompletionLane, queue, lane, w.given())
            .named()
            .not_called(In::other_device, "the first submission finds the mismatch"),
        Operation("pending", Does::nothing, {}, [this] { queue.pending(); }),
        BOTH(Does::submits, queue, when_complete, w.given(), [this](CUresult) { ++ran; }).named(),
    };
  }
};

struct OfCompletionLane {
  World& w;
  CompletionQueue queue = reserved();
  CompletionLane lane = queue.lane(w.stream);

  CompletionQueue reserved() {
    CompletionQueue made(w.context);
    made.reserve(64);
    return made;
  }
  CompletionLane& object() { return lane; }
  std::vector<Operation> operations() {
    return {BOTH(Does::submits, lane, when_complete, [](CUresult) {})
                .not_called(In::captured, "the lane has a stream of its own, which is not captured")
                .not_called(In::other_device, "the lane has a stream of its own")};
  }
};

struct OfCompletionToken {
  World& w;
  CompletionQueue queue{w.context};
  CompletionToken token = submitted();

  CompletionToken submitted() {
    CompletionToken made;
    queue.when_complete(
        w.stream, [](CUresult) {}, &made);
    return made;
  }
  CompletionToken& object() { return token; }
  std::vector<Operation> operations() {
    return {Operation("cancel", Does::nothing, {}, [this] { token.cancel(); })};
  }
};

struct OfTimelineSemaphore {
  World& w;
  TimelineSemaphore semaphore = signalled();

  TimelineSemaphore signalled() {
    TimelineSemaphore made(w.context);
    made.signal(w.stream, 1);
    w.synchronize();
    return made;
  }
  /// Forked processes share the value.
  std::uint64_t next() const { return semaphore.submitted() + 1; }
  TimelineSemaphore& object() { return semaphore; }
  std::vector<Operation> operations() {
    return {
        Operation(
            "signal(stream)", Does::submits, [this] { return semaphore.try_signal(w.given(), next()); },
            [this] { semaphore.signal(w.given(), next()); })
            .works(In::misnamed)
            .but(In::other_device, CUDA_SUCCESS),
        Operation(
            "signal(value)", Does::nothing,
            [this] {
              static_cast<void>(
                  semaphore.try_wait_for(semaphore.submitted(), 1s)); // above a stream's signal it is refused
              return semaphore.try_signal(next());
            },
            [this] {
              static_cast<void>(semaphore.try_wait_for(semaphore.submitted(), 1s));
              semaphore.signal(next());
            })
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE)
            .not_called(In::forked, "both processes share the value, and the caller orders signals")
            .not_called(In::faulted, "a stream's signal may still be pending"),
        BOTH(Does::submits, semaphore, wait, w.given(), semaphore.submitted())
            .works(In::misnamed)
            .but(In::other_device, CUDA_SUCCESS),
        BOTH(Does::asks, semaphore, wait_for, next() + 1'000'000, 1ms)
            .but(In::lost, CUDA_ERROR_CONTEXT_IS_DESTROYED),
        Operation("value", Does::nothing, {}, [this] { semaphore.value(); }),
        Operation(
            "export_handle", Does::nothing,
            [this] {
              int handle = -1;
              const CUresult result = semaphore.try_export_handle(handle);
              if (result == CUDA_SUCCESS) close(handle);
              return result;
            },
            [this] { close(semaphore.export_handle()); })
            .but(In::empty, CUDA_ERROR_INVALID_HANDLE)
            .not_called(In::working, "each handle takes one of 63 places")
            .not_called(In::forked, "the child is no participant: docs/between-processes.md"),
        CREATES(Does::makes, TimelineSemaphore, w.context),
        Operation(
            "close", Does::makes,
            [this] {
              TimelineSemaphore made;
              const CUresult result = TimelineSemaphore::try_create(made, w.context);
              return result == CUDA_SUCCESS ? made.try_close() : result;
            },
            [this] { TimelineSemaphore(w.context).close(); }),
    };
  }
};

/// The C interface: a process without a driver.
struct OfTimelineParticipant {
  struct Timeline : cuevent_timeline {
    Timeline() : cuevent_timeline{} { cuevent_timeline_create(this, 1); }
    Timeline(const Timeline&) = delete;
    Timeline& operator=(const Timeline&) = delete;
    ~Timeline() { cuevent_timeline_close(this); }
  };
  World& w;
  Timeline timeline{};

  Timeline& object() { return timeline; }
  std::vector<Operation> operations() {
    return {
        Operation("signal", Does::nothing,
                  [this] {
                    return cuevent_timeline_signal(timeline.page, timeline.page->word + 1) == 0
                               ? CUDA_SUCCESS
                               : CUDA_ERROR_UNKNOWN;
                  }),
        Operation("wait", Does::nothing,
                  [this] {
                    return cuevent_timeline_wait(timeline.page, 1, 0) == 0 ? CUDA_SUCCESS
                                                                           : CUDA_ERROR_UNKNOWN;
                  }),
        Operation("participant_died", Does::nothing,
                  [this] {
                    return cuevent_timeline_participant_died(&timeline) == 0 ? CUDA_SUCCESS
                                                                             : CUDA_ERROR_UNKNOWN;
                  }),
    };
  }
};

} // namespace

std::vector<Class> scheduling_classes() {
  return {
      {.name = "PooledEvent", .make = make<OfPooledEvent>},
      {.name = "SharedEvent", .make = make<OfSharedEvent>},
      {.name = "EventPool", .make = make<OfEventPool>, .concurrent = true},
      {.name = "EventPools", .make = make<OfEventPools>, .concurrent = true},
      {.name = "TimelineFence", .make = make<OfTimelineFence>, .concurrent = true},
      {.name = "CompletionQueue", .make = make<OfCompletionQueue>, .concurrent = true},
      {.name = "CompletionLane", .make = make<OfCompletionLane>, .concurrent = true},
      {.name = "CompletionToken", .make = make<OfCompletionToken>, .concurrent = true},
      {.name = "TimelineSemaphore", .make = make<OfTimelineSemaphore>, .concurrent = true},
      {.name = "timeline_participant.h", .make = make<OfTimelineParticipant>},
  };
}

} // namespace situations
