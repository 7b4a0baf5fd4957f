// SPDX-License-Identifier: MIT
// For each class and each of its driver calls that can fail: explain.hpp says what the exception says.
#include <cuevent/explain.hpp>

#include "overloads.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/capture_fork.hpp>
#include <cuevent/capture_info.hpp>
#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pools.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <utility>

using namespace cuevent;
using namespace test;

namespace {

struct ExplainFixture : RecordingFixture {
  ExplainFixture() { recording.stream_context(context_handle(1)); }
  ~ExplainFixture() {
    event = DriverEvent();
    end_graphs();
    while (RecordingDriver::live_events() > events_before) // events that could not be destroyed
      driver.table().cuEventDestroy_v4000(nullptr);
    while (RecordingDriver::live_graphs() > graphs_before)
      driver.table().cuGraphDestroy_v10000(nullptr);
    while (RecordingDriver::live_execs() > execs_before)
      driver.table().cuGraphExecDestroy_v10000(nullptr);
  }

  template <class Throwing, class Trying, class Explaining>
  int same(const Throwing& throwing, const Trying& trying, const Explaining& explaining) {
    return check_explained(recording, throwing, trying, explaining);
  }

  Context other = Context::borrow(context_handle(2), driver), none;
  Context foreign = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  DriverEvent event{context}, empty;
};

} // namespace

TEST_CASE("a call without a name is explained too") {
  CHECK_THAT(explain(CUDA_ERROR_INVALID_VALUE, nullptr), ContainsSubstring("CUDA_ERROR_INVALID_VALUE (1)"));
  CHECK_THAT(explain_query(CUDA_ERROR_INVALID_VALUE, EventRef(), nullptr),
             ContainsSubstring("CUDA_ERROR_INVALID_VALUE (1)"));
}

TEST_CASE_METHOD(ExplainFixture, "events and leases are explained as they throw") {
  EventPool strict(context), lenient(context, EventFlags::none, 8, FreshLease::reads_new);
  const PooledEvent fresh = strict.acquire(), reads_new = lenient.acquire(), recorded = strict.acquire();
  recorded.mark_recorded();
  const EventRef foreign_event(event_handle(7), driver);
  for (const EventRef& each : {EventRef(event), EventRef(empty), EventRef(fresh), EventRef(reads_new),
                               EventRef(recorded), EventRef(), foreign_event}) {
    same([&] { return each.query(); }, [&] { return each.try_query(); },
         [&](CUresult result) { return explain_query(result, each); });
    for (const CUstreamCaptureStatus status :
         {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE})
      for (CUstream handle : {stream, CUstream(nullptr)})
        for (const StreamRef given : {StreamRef(handle), StreamRef(context, handle), StreamRef(other, handle),
                                      StreamRef(none, handle), StreamRef(foreign, handle)})
          for (const unsigned flags : {0U, 1U, 0x100U, 0x101U, 2U}) {
            recording.capture_status(status);
            CAPTURE(status, handle, given.context() != nullptr, flags, each.leased());
            same(
                [&] {
                  each.record(given, RecordFlags(flags));
                  return 0;
                },
                [&] { return each.try_record(given, RecordFlags(flags)); },
                [&](CUresult result) { return explain_record(result, each, given, RecordFlags(flags)); });
            if (each == reads_new) static_cast<void>(lenient.acquire()); // recorded now, which is tested too
            same(
                [&] {
                  each.wait(given, WaitFlags(flags));
                  return 0;
                },
                [&] { return each.try_wait(given, WaitFlags(flags)); },
                [&](CUresult result) { return explain_wait(result, each, given, WaitFlags(flags)); });
          }
    recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
    DriverEvent::Milliseconds time{};
    same([&] { return each.elapsed_time(event); }, [&] { return each.try_elapsed_time(time, event); },
         [&](CUresult result) { return explain_elapsed_time(result, each, event); });
  }
}

TEST_CASE_METHOD(ExplainFixture, "leases that have recorded nothing are explained as they throw") {
  EventPool strict(context), lenient(context, EventFlags::none, 8, FreshLease::reads_new);
  for (EventPool* pool : {&strict, &lenient})
    for (CUstream handle : {stream, CUstream(nullptr)})
      for (const StreamRef given : {StreamRef(handle), StreamRef(context, handle), StreamRef(other, handle),
                                    StreamRef(none, handle), StreamRef(foreign, handle)})
        for (const unsigned flags : {0U, 1U, 0x100U, 0x101U, 2U}) {
          const PooledEvent each = pool->acquire();
          CAPTURE(handle, given.context() != nullptr, flags, pool == &lenient);
          same(
              [&] {
                each.wait(given, WaitFlags(flags));
                return 0;
              },
              [&] { return each.try_wait(given, WaitFlags(flags)); },
              [&](CUresult result) { return explain_wait(result, each, given, WaitFlags(flags)); });
          same([&] { return each.query(); }, [&] { return each.try_query(); },
               [&](CUresult result) { return explain_query(result, each); });
        }
}

TEST_CASE_METHOD(ExplainFixture, "pools are explained as they throw") {
  constexpr EventFlags wrong = EventFlags::timing | EventFlags::interprocess;
  EventPool out, moved;
  for (const Context* each : {&context, &none})
    for (const EventFlags flags : {EventFlags::none, wrong})
      for (const FreshLease fresh : {FreshLease::refuses, FreshLease::reads_new})
        same([&] { return EventPool(*each, flags, 8, fresh).flags(); },
             [&] { return EventPool::try_create(out, *each, flags, 8, fresh); },
             [&](CUresult result) { return explain_create_pool(result, *each, flags); });
  EventPool idle(context, EventFlags::none, 0), interprocess(context, EventFlags::interprocess);
  for (EventPool* pool : {&idle, &interprocess, &moved}) {
    PooledEvent lease;
    same([&] { return pool->acquire().recorded(); }, [&] { return pool->try_acquire(lease); },
         [&](CUresult result) { return explain_acquire(result, *pool); });
    for (const std::size_t count : {std::size_t{1}, std::size_t{1} << 40})
      same(
          [&] {
            pool->reserve(count);
            return 0;
          },
          [&] { return pool->try_reserve(count); },
          [&](CUresult result) { return explain_reserve(result, *pool, count); });
    for (const Context* first : {&context, &other, &none, &foreign})
      for (const Context* second : {&context, &other, &none, &foreign})
        for (CUstream handle : {stream_handle(2), CUstream(nullptr)}) {
          const StreamRef later(*first, handle), earlier(*second, stream);
          same(
              [&] {
                pool->wait_stream(later, earlier);
                return 0;
              },
              [&] { return pool->try_wait_stream(later, earlier); },
              [&](CUresult result) { return explain_wait_stream(result, *pool, later, earlier); });
        }
    same(
        [&] {
          pool->wait_stream(stream_handle(2), stream);
          return 0;
        },
        [&] { return pool->try_wait_stream(stream_handle(2), stream); },
        [&](CUresult result) { return explain_wait_stream(result, *pool, stream_handle(2), stream); });
  }
}

TEST_CASE_METHOD(ExplainFixture, "the pools of several contexts are explained as they throw") {
  EventPools pools(driver, EventFlags::none, 0), moved,
      lenient(driver, EventFlags::none, 0, FreshLease::reads_new);
  const ContextGuard current(context);
  for (EventPools* each : {&pools, &moved, &lenient}) {
    const auto compare = [&](StreamRef later, StreamRef earlier) {
      PooledEvent lease;
      same([&] { return each->acquire(earlier).recorded(); },
           [&] { return each->try_acquire(lease, earlier); },
           [&](CUresult result) { return explain_acquire(result, *each, earlier); });
      same(
          [&] {
            each->wait_stream(later, earlier);
            return 0;
          },
          [&] { return each->try_wait_stream(later, earlier); },
          [&](CUresult result) { return explain_wait_stream(result, *each, later, earlier); });
    };
    for (CUstream handle : {stream_handle(2), CUstream(nullptr)}) {
      compare(handle, stream);
      compare(stream, handle);
      for (const Context* named : {&context, &other, &none, &foreign}) {
        compare({*named, handle}, stream);
        compare(stream, {*named, handle});
      }
    }
    for (const Context* named : {&context, &none, &foreign})
      for (const std::size_t count : {std::size_t{1}, std::size_t{1} << 40})
        same(
            [&] {
              each->reserve(*named, count);
              return 0;
            },
            [&] { return each->try_reserve(*named, count); },
            [&](CUresult result) { return explain_reserve(result, *each, *named, count); });
  }
}

TEST_CASE_METHOD(ExplainFixture, "queues and lanes are explained as they throw") {
  CompletionQueue made(context), moved, out;
  for (const Context* each : {&context, &none})
    same([&] { return CompletionQueue(*each).pending(); },
         [&] { return CompletionQueue::try_create(out, *each); },
         [&](CUresult result) { return explain_create_queue(result, *each); });
  const auto callback = [](CUresult) {};
  for (CompletionQueue* queue : {&made, &moved}) {
    std::size_t more = 0;
    same(
        [&] {
          queue->reserve(++more);
          return 0;
        },
        [&] { return queue->try_reserve(++more); },
        [&](CUresult result) { return explain_reserve(result, *queue); });
    same(
        [&] {
          queue->reserve(std::size_t{1} << 40);
          return 0;
        },
        [&] { return queue->try_reserve(std::size_t{1} << 40); },
        [&](CUresult result) { return explain_reserve(result, *queue); });
    same([&] { return queue->arm(); }, [&] { return queue->try_arm(); },
         [&](CUresult result) { return explain_arm(result, *queue); });
    for (const CUstreamCaptureStatus status : {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE,
                                               CU_STREAM_CAPTURE_STATUS_INVALIDATED})
      for (CUstream handle : {stream, CUstream(nullptr), CU_STREAM_PER_THREAD})
        for (const StreamRef given : {StreamRef(handle), StreamRef(context, handle), StreamRef(other, handle),
                                      StreamRef(none, handle), StreamRef(foreign, handle)})
          for (const std::uintptr_t owner : {1U, 2U}) {
            recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
            CompletionLane lane;
            static_cast<void>(queue->try_lane(lane, handle));
            recording.capture_status(status);
            recording.stream_context(context_handle(owner));
            CAPTURE(status, handle, owner);
            same(
                [&] {
                  queue->when_complete(given, callback);
                  return 0;
                },
                [&] { return queue->try_when_complete(given, callback); },
                [&](CUresult result) { return explain_when_complete(result, *queue, given); });
            same([&] { return queue->lane(given).stream(); }, [&] { return queue->try_lane(lane, given); },
                 [&](CUresult result) { return explain_when_complete(result, *queue, given); });
            same(
                [&] {
                  lane.when_complete(callback);
                  return 0;
                },
                [&] { return lane.try_when_complete(callback); },
                [&](CUresult result) { return explain_when_complete(result, lane); });
            recording.stream_context(context_handle(1));
            recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
            queue->poll();
          }
  }
}

TEST_CASE_METHOD(ExplainFixture, "fences are explained as they throw") {
  Context fresh = Context::borrow(context_handle(77), driver);
  TimelineFence out, moved;
  for (const Context* each : {&context, &none, &fresh})
    same([&] { return TimelineFence(*each, stream).signalled(); },
         [&] { return TimelineFence::try_create(out, *each, stream); },
         [&](CUresult result) { return explain_create_fence(result, *each); });
  for (const CUstreamCaptureStatus status : {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE})
    for (CUstream of : {stream, CU_STREAM_PER_THREAD}) {
      TimelineFence fence(context, of);
      fence.signal();
      recording.capture_status(status);
      for (TimelineFence* each : {&fence, &moved}) {
        std::uint64_t ticket = 0;
        same([&] { return each->signal(); }, [&] { return each->try_signal(ticket); },
             [&](CUresult result) { return explain_signal(result, *each); });
        for (const std::uint64_t value : {std::uint64_t{1}, ~std::uint64_t{0}})
          for (CUstream waits : {stream_handle(2), of}) {
            same(
                [&] {
                  each->wait(waits, value);
                  return 0;
                },
                [&] { return each->try_wait(waits, value); },
                [&](CUresult result) { return explain_wait(result, *each, value); });
            same([&] { return each->wait_for(value, 0ns); }, [&] { return each->try_wait_for(value, 0ns); },
                 [&](CUresult result) { return explain_wait_for(result, *each); });
          }
      }
      recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

TEST_CASE_METHOD(ExplainFixture, "semaphores are explained as they throw") {
  TimelineSemaphore out, empty_one;
  for (const Context* each : {&context, &none})
    for (const std::uint64_t initial : {std::uint64_t{0}, ~std::uint64_t{0}})
      same([&] { return TimelineSemaphore(*each, initial).value(); },
           [&] { return TimelineSemaphore::try_create(out, *each, initial); },
           [&](CUresult result) { return explain_create_semaphore(result, *each); });
  for (const Context* each : {&context, &none})
    for (const int descriptor : {-1, 0})
      same([&] { return TimelineSemaphore::import(*each, descriptor).value(); },
           [&] { return TimelineSemaphore::try_import(out, *each, descriptor); },
           [&](CUresult result) { return explain_import_semaphore(result, *each); });
  for (const bool abandoned : {false, true})
    for (const CUstreamCaptureStatus status :
         {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE}) {
      TimelineSemaphore semaphore(context, 3);
      if (abandoned) semaphore.abandon();
      recording.capture_status(status);
      for (TimelineSemaphore* each : {&semaphore, &empty_one}) {
        for (const std::uint64_t value : {std::uint64_t{2}, std::uint64_t{9}, ~std::uint64_t{0}}) {
          for (const StreamRef given : {StreamRef(stream), StreamRef(nullptr), StreamRef(other, nullptr),
                                        StreamRef(none, nullptr), StreamRef(none, stream)}) {
            CAPTURE(abandoned, status, value);
            same(
                [&] {
                  each->wait(given, value);
                  return 0;
                },
                [&] { return each->try_wait(given, value); },
                [&](CUresult result) { return explain_wait(result, *each, value); });
            same(
                [&] {
                  each->wait(given, value, WaitOrder::before_signal);
                  return 0;
                },
                [&] { return each->try_wait(given, value, WaitOrder::before_signal); },
                [&](CUresult result) { return explain_wait(result, *each, value); });
            same([&] { return each->wait_when_submitted(given, value, 0ns); },
                 [&] { return each->try_wait_when_submitted(given, value, 0ns); },
                 [&](CUresult result) { return explain_wait(result, *each, value); });
          }
          same([&] { return each->wait_for(value, 0ns); }, [&] { return each->try_wait_for(value, 0ns); },
               [&](CUresult result) { return explain_wait_for(result, *each); });
          const TimelinePoint points[] = {{*each, value}};
          const ArrayView<TimelinePoint> all(points), nothing;
          for (const ArrayView<TimelinePoint>& view : {all, nothing}) {
            std::size_t index = 0;
            same([&] { return TimelineSemaphore::wait_all(view, 0ns); },
                 [&] { return TimelineSemaphore::try_wait_all(view, 0ns); },
                 [&](CUresult result) { return explain_wait_all(result, view); });
            same([&] { return TimelineSemaphore::wait_any(view, 0ns); },
                 [&] { return TimelineSemaphore::try_wait_any(index, view, 0ns); },
                 [&](CUresult result) { return explain_wait_any(result, view); });
          }
        }
        // A signal that is refused for its value, and one that every driver call refuses in turn.
        for (const std::uint64_t value : {std::uint64_t{2}, ~std::uint64_t{0}}) {
          same(
              [&] {
                each->signal(stream, value);
                return 0;
              },
              [&] { return each->try_signal(stream, value); },
              [&](CUresult result) { return explain_signal(result, *each, value); });
          same(
              [&] {
                each->signal(value);
                return 0;
              },
              [&] { return each->try_signal(value); },
              [&](CUresult result) { return explain_signal(result, *each, value); });
        }
        std::uint64_t next = 100;
        same(
            [&] {
              each->signal(stream, ++next);
              return 0;
            },
            [&] { return each->try_signal(stream, ++next); },
            [&](CUresult result) { return explain_signal(result, *each, next); });
        const int none_left = -1;
        int descriptor = none_left;
        if (!*each) {
          same([&] { return each->export_handle(); }, [&] { return each->try_export_handle(descriptor); },
               [&](CUresult result) { return explain_export_handle(result, *each); });
          same(
              [&] {
                each->abandon_on_death();
                return 0;
              },
              [&] { return each->try_abandon_on_death(); },
              [&](CUresult result) { return explain_abandon_on_death(result, *each); });
          same(
              [&] {
                each->close();
                return 0;
              },
              [&] { return each->try_close(); },
              [&](CUresult result) { return explain_close(result, *each); });
        }
      }
      recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
      recording.fail_always("cuMemHostUnregister", CUDA_ERROR_ILLEGAL_ADDRESS);
      CHECK(explain_close(semaphore.try_close(), semaphore) == text_thrown_by([&] {
              semaphore.close();
              return 0;
            }));
      recording.fail_nothing();
    }
}

TEST_CASE_METHOD(ExplainFixture,
                 "after the end of their context, fences and semaphores do not blame a value") {
  TimelineFence fence(context, stream);
  TimelineSemaphore semaphore(context);
  const std::uint64_t ticket = fence.signal();
  semaphore.signal(stream, 5); // stays pending
  recording.reset_contexts();
  for (const char* call : {"cuStreamWriteValue64", "cuStreamWaitValue64"})
    recording.fail_always(call, CUDA_ERROR_INVALID_VALUE); // the memory has ended with the context
  std::uint64_t next = 0;
  const auto check = [&](CUresult result, const std::string& explained, const auto& throwing) {
    CHECK(result == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_THAT(explained, ContainsSubstring("CUDA_ERROR_CONTEXT_IS_DESTROYED"));
    CHECK(explained == text_thrown_by(throwing));
    CHECK_THROWS_AS(throwing(), ContextLost);
  };
  CUresult result = fence.try_signal(next);
  check(result, explain_signal(result, fence), [&] { return fence.signal(); });
  result = fence.try_wait(stream_handle(2), ticket);
  check(result, explain_wait(result, fence, ticket), [&] {
    fence.wait(stream_handle(2), ticket);
    return 0;
  });
  for (const std::uint64_t value : {std::uint64_t{4}, std::uint64_t{6}}) {
    result = semaphore.try_signal(stream, value);
    check(result, explain_signal(result, semaphore, value), [&] {
      semaphore.signal(stream, value);
      return 0;
    });
    result = semaphore.try_wait(stream, value);
    check(result, explain_wait(result, semaphore, value), [&] {
      semaphore.wait(stream, value);
      return 0;
    });
  }
  result = semaphore.try_signal(9); // it would pass the pending signal
  check(result, explain_signal(result, semaphore, 9), [&] {
    semaphore.signal(9);
    return 0;
  });
  recording.fail_nothing();
}

TEST_CASE_METHOD(ExplainFixture, "graphs are explained as they throw") {
  recording.graph_nodes({CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_WAIT_EVENT});
  Graph made(context), moved, out;
  for (const Context* each : {&context, &none})
    same([&] { return Graph(*each).native_handle() != nullptr; },
         [&] { return Graph::try_create(out, *each); },
         [&](CUresult result) { return explain_create_graph(result, *each); });
  DriverEvent of_foreign(foreign);
  const EventRecordNode record(node_handle(0));
  const EventWaitNode wait(node_handle(1));
  for (Graph* graph : {&made, &moved}) {
    EventRecordNode found_record;
    EventWaitNode found_wait;
    for (const EventRef& each : {EventRef(event), EventRef(empty), EventRef(of_foreign)}) {
      same([&] { return graph->add_record(each).native_handle(); },
           [&] { return graph->try_add_record(found_record, each); },
           [&](CUresult result) { return explain_add_record(result, *graph, each); });
      same([&] { return graph->add_wait(each).native_handle(); },
           [&] { return graph->try_add_wait(found_wait, each); },
           [&](CUresult result) { return explain_add_wait(result, *graph, each); });
      same(
          [&] {
            graph->set_event(record, each);
            return 0;
          },
          [&] { return graph->try_set_event(record, each); },
          [&](CUresult result) { return explain_set_event(result, *graph, record, each); });
      same(
          [&] {
            graph->set_event(wait, each);
            return 0;
          },
          [&] { return graph->try_set_event(wait, each); },
          [&](CUresult result) { return explain_set_event(result, *graph, wait, each); });
      same([&] { return graph->record_node(each).native_handle(); },
           [&] { return graph->try_record_node(found_record, each); },
           [&](CUresult result) { return explain_record_node(result, *graph, each); });
      same([&] { return graph->wait_node(each).native_handle(); },
           [&] { return graph->try_wait_node(found_wait, each); },
           [&](CUresult result) { return explain_wait_node(result, *graph, each); });
    }
    Graph::EventNodes nodes;
    same([&] { return graph->event_nodes().records.size(); }, [&] { return graph->try_event_nodes(nodes); },
         [&](CUresult result) { return explain_event_nodes(result, *graph); });
    CUevent handle = nullptr;
    same([&] { return graph->event(record); }, [&] { return graph->try_event(handle, record); },
         [&](CUresult result) { return explain_event(result, *graph, record); });
    same([&] { return graph->event(wait); }, [&] { return graph->try_event(handle, wait); },
         [&](CUresult result) { return explain_event(result, *graph, wait); });
    for (const Context* each : {&context, &none, &foreign}) {
      DriverEvent given;
      const auto fill = [&] {
        if (!given && *each) given = DriverEvent::borrow(*each, event_handle(9), EventFlags::none);
      };
      fill();
      same(
          [&] {
            fill();
            graph->retain(std::move(given));
            return 0;
          },
          [&] {
            fill();
            return graph->try_retain(std::move(given));
          },
          [&](CUresult result) { return explain_retain(result, *graph, given); });
    }
    same(
        [&] {
          graph->retain(std::vector<int>{1});
          return 0;
        },
        [&] { return graph->try_retain(std::vector<int>{1}); },
        [&](CUresult result) { return explain_retain(result, *graph); });
    same(
        [&] {
          graph->when_destroyed([] {});
          return 0;
        },
        [&] { return graph->try_when_destroyed([] {}); },
        [&](CUresult result) { return explain_retain(result, *graph); });
    GraphExec exec;
    same([&] { return graph->instantiate().native_handle(); }, [&] { return graph->try_instantiate(exec); },
         [&](CUresult result) { return explain_instantiate(result, *graph); });
  }
  recording.graph_nodes({CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_EVENT_RECORD});
  EventRecordNode found;
  const EventRef of_both(made.event(record), driver); // each node of the stubs has the same event
  CHECK(made.try_record_node(found, of_both) == CUDA_ERROR_INVALID_VALUE);
  CHECK(same([&] { return made.record_node(of_both).native_handle(); },
             [&] { return made.try_record_node(found, of_both); },
             [&](CUresult result) { return explain_record_node(result, made, of_both); }) > 0);

  GraphExec exec = made.instantiate(), no_exec;
  for (GraphExec* each : {&exec, &no_exec}) {
    for (CUstream any : {stream, CUstream(nullptr)})
      same(
          [&] {
            each->launch(any);
            return 0;
          },
          [&] { return each->try_launch(any); },
          [&](CUresult result) { return explain_launch(result, *each); });
    for (const EventRef& given : {EventRef(event), EventRef(empty), EventRef(of_foreign)}) {
      same(
          [&] {
            each->set_event(record, given);
            return 0;
          },
          [&] { return each->try_set_event(record, given); },
          [&](CUresult result) { return explain_set_event(result, *each, record, given); });
      same(
          [&] {
            each->set_event(wait, given);
            return 0;
          },
          [&] { return each->try_set_event(wait, given); },
          [&](CUresult result) { return explain_set_event(result, *each, wait, given); });
    }
  }
}

TEST_CASE_METHOD(ExplainFixture, "captures are explained as they throw") {
  Graph graph = Graph::borrow(context, graph_handle(1)), no_graph;
  Graph of_foreign = Graph::borrow(foreign, graph_handle(1));
  for (const Context* each : {&context, &none, &foreign})
    for (CUstream any : {stream, CUstream(nullptr)}) {
      StreamCapture refused;
      same(
          [&] {
            const StreamCapture capture(*each, any);
            return 0;
          },
          [&] {
            StreamCapture capture;
            return capture.try_begin(*each, any);
          },
          [&](CUresult result) { return explain_begin(result, refused, *each); });
      for (Graph* into : {&graph, &no_graph, &of_foreign}) {
        const auto fill = [&] { // a capture that could not be ended has taken the graph
          if (!graph) graph = Graph::borrow(context, graph_handle(1));
          if (!of_foreign) of_foreign = Graph::borrow(foreign, graph_handle(1));
        };
        same(
            [&] {
              fill();
              const StreamCapture capture(*each, any, *into);
              return 0;
            },
            [&] {
              fill();
              StreamCapture capture;
              return capture.try_begin(*each, any, *into);
            },
            [&](CUresult result) { return explain_begin(result, refused, *each, *into); });
      }
      CaptureStatus status{};
      same([&] { return capture_status(*each, any); }, [&] { return try_capture_status(status, *each, any); },
           [&](CUresult result) { return explain_capture_status(result, *each); });
      CaptureInfo info;
      same([&] { return capture_info(*each, any).id(); }, [&] { return try_capture_info(info, *each, any); },
           [&](CUresult result) { return explain_capture_info(result, *each); });
      for (CUgraphNode node : {node_handle(0), CUgraphNode(nullptr)}) {
        const CUgraphNode nodes[] = {node};
        same(
            [&] {
              add_capture_dependencies(*each, any, nodes);
              return 0;
            },
            [&] { return try_add_capture_dependencies(*each, any, nodes); },
            [&](CUresult result) { return explain_capture_dependencies(result, *each); });
        same(
            [&] {
              set_capture_dependencies(*each, any, nodes);
              return 0;
            },
            [&] { return try_set_capture_dependencies(*each, any, nodes); },
            [&](CUresult result) { return explain_capture_dependencies(result, *each); });
      }
    }
  for (const bool into : {false, true}) {
    DriverEvent given;
    const auto with_capture = [&](const auto& act) {
      if (!graph) graph = Graph::borrow(context, graph_handle(1));
      if (!given) given = DriverEvent(context);
      StreamCapture capture;
      CHECK((into ? capture.try_begin(context, stream, graph) : capture.try_begin(context, stream)) ==
            CUDA_SUCCESS);
      return act(capture);
    };
    DriverEvent borrowed;
    // One capture for all: only the record and the end are refused.
    with_capture([&](StreamCapture& capture) {
      const auto fill = [&] {
        if (!given) given = DriverEvent(context);
      };
      std::string before;
      for (const char* call : {"cuEventRecordWithFlags", "cuUserObjectCreate", "cuGraphRetainUserObject"})
        for (const CUresult failure : {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE,
                                       CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_OUT_OF_MEMORY}) {
          CAPTURE(into, call, failure);
          fill();
          recording.fail_next(call, failure);
          const CUresult result = capture.try_record(borrowed, std::move(given), stream);
          const std::string explained =
              result == CUDA_SUCCESS ? std::string() : explain_record(result, capture, given, stream);
          recording.fail_nothing();
          fill();
          recording.fail_next(call, failure);
          CHECK(text_thrown_by([&] { return capture.record(std::move(given), stream).native_handle(); }) ==
                explained);
          recording.fail_nothing();
        }
      CHECK(
          explain_record(capture.try_record(borrowed, DriverEvent(), stream), capture, EventRef(), stream) ==
          text_thrown_by([&] { return capture.record(DriverEvent(), stream).native_handle(); }));
      CHECK(explain_begin(capture.try_begin(context, stream), capture, context) != std::string());
      return 0;
    });
    for (const char* call : {"cuStreamEndCapture", "cuUserObjectCreate", "cuGraphRetainUserObject"})
      for (const CUresult failure :
           {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED}) {
        CAPTURE(into, call, failure);
        const auto end = [&](const auto& act) {
          return with_capture([&](StreamCapture& capture) {
            static_cast<void>(capture.try_record(borrowed, std::move(given), stream));
            if (std::string_view(call) == "cuStreamEndCapture")
              recording.end_capture_result(failure);
            else
              recording.fail_next(call, failure);
            const std::string text = act(capture);
            recording.end_capture_result(CUDA_SUCCESS);
            recording.fail_nothing();
            return text;
          });
        };
        const std::string explained = end([&](StreamCapture& capture) {
          Graph out;
          const CUresult result = capture.try_end(out);
          return result == CUDA_SUCCESS ? std::string() : explain_end(result, capture);
        });
        CHECK(end([&](StreamCapture& capture) {
                return text_thrown_by([&] { return capture.end().native_handle(); });
              }) == explained);
      }
    with_capture([&](StreamCapture& capture) {
      Graph ended = capture.end();
      CHECK(explain_end(capture.try_end(ended), capture) ==
            text_thrown_by([&] { return capture.end().native_handle(); }));
      return 0;
    });
  }
}
