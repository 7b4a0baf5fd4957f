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

/// ExplainFixture::same() of a member and its overload `try_name`. The explanation is of `result`.
#define EXPLAINS(explanation, object, name, ...)                                                             \
  same([&] { return (object).name(__VA_ARGS__); }, [&] { return (object).try_##name(__VA_ARGS__); },         \
       [&](CUresult result) { return explanation; })
/// The same for an overload that has its result in `out`, its first argument.
#define EXPLAINS_GIVEN(explanation, object, name, out, ...)                                                  \
  same([&] { static_cast<void>((object).name(__VA_ARGS__)); },                                               \
       [&] { return (object).try_##name(out __VA_OPT__(, ) __VA_ARGS__); },                                  \
       [&](CUresult result) { return explanation; })
/// The same for a constructor and `try_create`.
#define EXPLAINS_CREATED(explanation, Made, out, ...)                                                        \
  same([&] { static_cast<void>(Made(__VA_ARGS__)); }, [&] { return Made::try_create(out, __VA_ARGS__); },    \
       [&](CUresult result) { return explanation; })

} // namespace

TEST_CASE("a call without a name is explained too") {
  CHECK_THAT(explain(CUDA_ERROR_INVALID_VALUE, nullptr), ContainsSubstring("CUDA_ERROR_INVALID_VALUE (1)"));
  CHECK_THAT(explain_query(CUDA_ERROR_INVALID_VALUE, EventRef(), nullptr),
             ContainsSubstring("CUDA_ERROR_INVALID_VALUE (1)"));
}

TEST_CASE_METHOD(ExplainFixture, "events and leases are explained as they throw") {
  EventPool strict(context), lenient(context, EventFlags::none, FreshLease::reads_new, 8);
  const PooledEvent fresh = strict.acquire(), reads_new = lenient.acquire(), recorded = strict.acquire();
  recorded.mark_recorded();
  const EventRef foreign_event(event_handle(7), driver);
  for (const EventRef& each : {EventRef(event), EventRef(empty), EventRef(fresh), EventRef(reads_new),
                               EventRef(recorded), EventRef(), foreign_event}) {
    EXPLAINS(explain_query(result, each), each, query);
    for (const CUstreamCaptureStatus status :
         {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE})
      for (CUstream handle : {stream, CUstream(nullptr)})
        for (const StreamRef given : {StreamRef(handle), StreamRef(context, handle), StreamRef(other, handle),
                                      StreamRef(none, handle), StreamRef(foreign, handle)})
          for (const unsigned flags : {0U, 1U, 0x100U, 0x101U, 2U}) {
            recording.capture_status(status);
            CAPTURE(status, handle, given.context() != nullptr, flags, each.leased());
            EXPLAINS(explain_record(result, each, given, RecordFlags(flags)), each, record, given,
                     RecordFlags(flags));
            if (each == reads_new) static_cast<void>(lenient.acquire()); // recorded now, which is tested too
            EXPLAINS(explain_wait(result, each, given, WaitFlags(flags)), each, wait, given,
                     WaitFlags(flags));
          }
    recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
    DriverEvent::Milliseconds time{};
    EXPLAINS_GIVEN(explain_elapsed_time(result, each, event), each, elapsed_time, time, event);
  }
}

TEST_CASE_METHOD(ExplainFixture, "leases that have recorded nothing are explained as they throw") {
  EventPool strict(context), lenient(context, EventFlags::none, FreshLease::reads_new, 8);
  for (EventPool* pool : {&strict, &lenient})
    for (CUstream handle : {stream, CUstream(nullptr)})
      for (const StreamRef given : {StreamRef(handle), StreamRef(context, handle), StreamRef(other, handle),
                                    StreamRef(none, handle), StreamRef(foreign, handle)})
        for (const unsigned flags : {0U, 1U, 0x100U, 0x101U, 2U}) {
          const PooledEvent each = pool->acquire();
          CAPTURE(handle, given.context() != nullptr, flags, pool == &lenient);
          EXPLAINS(explain_wait(result, each, given, WaitFlags(flags)), each, wait, given, WaitFlags(flags));
          EXPLAINS(explain_query(result, each), each, query);
        }
}

TEST_CASE_METHOD(ExplainFixture, "pools are explained as they throw") {
  constexpr EventFlags wrong = EventFlags::timing | EventFlags::interprocess;
  EventPool out, moved;
  for (const Context* each : {&context, &none})
    for (const EventFlags flags : {EventFlags::none, wrong})
      for (const FreshLease fresh : {FreshLease::refuses, FreshLease::reads_new})
        EXPLAINS_CREATED(explain_create_pool(result, *each, flags), EventPool, out, *each, flags, fresh, 8);
  EventPool idle(context, EventFlags::none, FreshLease::refuses, 0),
      interprocess(context, EventFlags::interprocess);
  for (EventPool* pool : {&idle, &interprocess, &moved}) {
    PooledEvent lease;
    EXPLAINS_GIVEN(explain_acquire(result, *pool), *pool, acquire, lease);
    for (const std::size_t count : {std::size_t{1}, std::size_t{1} << 40})
      EXPLAINS(explain_reserve(result, *pool, count), *pool, reserve, count);
    for (const Context* first : {&context, &other, &none, &foreign})
      for (const Context* second : {&context, &other, &none, &foreign})
        for (CUstream handle : {stream_handle(2), CUstream(nullptr)}) {
          const StreamRef later(*first, handle), earlier(*second, stream);
          EXPLAINS(explain_wait_stream(result, *pool, later, earlier), *pool, wait_stream, later, earlier);
        }
    EXPLAINS(explain_wait_stream(result, *pool, stream_handle(2), stream), *pool, wait_stream,
             stream_handle(2), stream);
  }
}

TEST_CASE_METHOD(ExplainFixture, "the pools of several contexts are explained as they throw") {
  EventPools pools(driver, EventFlags::none, FreshLease::refuses, 0), moved,
      lenient(driver, EventFlags::none, FreshLease::reads_new, 0);
  const ContextGuard current(context);
  for (EventPools* each : {&pools, &moved, &lenient}) {
    const auto compare = [&](StreamRef later, StreamRef earlier) {
      PooledEvent lease;
      EXPLAINS_GIVEN(explain_acquire(result, *each, earlier), *each, acquire, lease, earlier);
      EXPLAINS(explain_wait_stream(result, *each, later, earlier), *each, wait_stream, later, earlier);
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
        EXPLAINS(explain_reserve(result, *each, *named, count), *each, reserve, *named, count);
  }
}

TEST_CASE_METHOD(ExplainFixture, "queues and lanes are explained as they throw") {
  CompletionQueue made(context), moved, out;
  for (const Context* each : {&context, &none})
    EXPLAINS_CREATED(explain_create_queue(result, *each), CompletionQueue, out, *each);
  const auto callback = [](CUresult) {};
  for (CompletionQueue* queue : {&made, &moved}) {
    std::size_t more = 0;
    EXPLAINS(explain_reserve(result, *queue), *queue, reserve, ++more);
    EXPLAINS(explain_reserve(result, *queue), *queue, reserve, std::size_t{1} << 40);
    EXPLAINS(explain_arm(result, *queue), *queue, arm);
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
            EXPLAINS(explain_when_complete(result, *queue, given), *queue, when_complete, given, callback);
            EXPLAINS_GIVEN(explain_when_complete(result, *queue, given), *queue, lane, lane, given);
            EXPLAINS(explain_when_complete(result, lane), lane, when_complete, callback);
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
    EXPLAINS_CREATED(explain_create_fence(result, *each), TimelineFence, out, *each, stream);
  for (const CUstreamCaptureStatus status : {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE})
    for (CUstream of : {stream, CU_STREAM_PER_THREAD}) {
      TimelineFence fence(context, of);
      fence.signal();
      recording.capture_status(status);
      for (TimelineFence* each : {&fence, &moved}) {
        std::uint64_t ticket = 0;
        EXPLAINS_GIVEN(explain_signal(result, *each), *each, signal, ticket);
        for (const std::uint64_t value : {std::uint64_t{1}, ~std::uint64_t{0}})
          for (CUstream waits : {stream_handle(2), of}) {
            EXPLAINS(explain_wait(result, *each, value), *each, wait, waits, value);
            EXPLAINS(explain_wait_for(result, *each), *each, wait_for, value, 0ns);
          }
      }
      recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

TEST_CASE_METHOD(ExplainFixture, "semaphores are explained as they throw") {
  TimelineSemaphore out, empty_one;
  for (const Context* each : {&context, &none})
    for (const std::uint64_t initial : {std::uint64_t{0}, ~std::uint64_t{0}})
      EXPLAINS_CREATED(explain_create_semaphore(result, *each), TimelineSemaphore, out, *each, initial);
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
            EXPLAINS(explain_wait(result, *each, value), *each, wait, given, value);
            EXPLAINS(explain_wait(result, *each, value), *each, wait, given, value, WaitOrder::before_signal);
            EXPLAINS(explain_wait(result, *each, value), *each, wait_when_submitted, given, value, 0ns);
          }
          EXPLAINS(explain_wait_for(result, *each), *each, wait_for, value, 0ns);
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
          EXPLAINS(explain_signal(result, *each, value), *each, signal, stream, value);
          EXPLAINS(explain_signal(result, *each, value), *each, signal, value);
        }
        std::uint64_t next = 100;
        EXPLAINS(explain_signal(result, *each, next), *each, signal, stream, ++next);
        const int none_left = -1;
        int descriptor = none_left;
        if (!*each) {
          EXPLAINS_GIVEN(explain_export_handle(result, *each), *each, export_handle, descriptor);
          EXPLAINS(explain_abandon_on_death(result, *each), *each, abandon_on_death);
          EXPLAINS(explain_close(result, *each), *each, close);
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
    EXPLAINS_CREATED(explain_create_graph(result, *each), Graph, out, *each);
  DriverEvent of_foreign(foreign);
  const EventRecordNode record(node_handle(0));
  const EventWaitNode wait(node_handle(1));
  for (Graph* graph : {&made, &moved}) {
    EventRecordNode found_record;
    EventWaitNode found_wait;
    for (const EventRef& each : {EventRef(event), EventRef(empty), EventRef(of_foreign)}) {
      EXPLAINS_GIVEN(explain_add_record(result, *graph, each), *graph, add_record, found_record, each);
      EXPLAINS_GIVEN(explain_add_wait(result, *graph, each), *graph, add_wait, found_wait, each);
      EXPLAINS(explain_set_event(result, *graph, record, each), *graph, set_event, record, each);
      EXPLAINS(explain_set_event(result, *graph, wait, each), *graph, set_event, wait, each);
      EXPLAINS_GIVEN(explain_record_node(result, *graph, each), *graph, record_node, found_record, each);
      EXPLAINS_GIVEN(explain_wait_node(result, *graph, each), *graph, wait_node, found_wait, each);
    }
    Graph::EventNodes nodes;
    EXPLAINS_GIVEN(explain_event_nodes(result, *graph), *graph, event_nodes, nodes);
    CUevent handle = nullptr;
    EXPLAINS_GIVEN(explain_event(result, *graph, record), *graph, event, handle, record);
    EXPLAINS_GIVEN(explain_event(result, *graph, wait), *graph, event, handle, wait);
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
          },
          [&] {
            fill();
            return graph->try_retain(std::move(given));
          },
          [&](CUresult result) { return explain_retain(result, *graph, given); });
    }
    EXPLAINS(explain_retain(result, *graph), *graph, retain, std::vector<int>{1});
    EXPLAINS(explain_retain(result, *graph), *graph, when_destroyed, [] {});
    GraphExec exec;
    EXPLAINS_GIVEN(explain_instantiate(result, *graph), *graph, instantiate, exec);
  }
  recording.graph_nodes({CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_EVENT_RECORD});
  EventRecordNode found;
  const EventRef of_both(made.event(record), driver); // each node of the stubs has the same event
  CHECK(made.try_record_node(found, of_both) == CUDA_ERROR_INVALID_VALUE);
  CHECK(EXPLAINS_GIVEN(explain_record_node(result, made, of_both), made, record_node, found, of_both) > 0);

  GraphExec exec = made.instantiate(), no_exec;
  for (GraphExec* each : {&exec, &no_exec}) {
    for (CUstream any : {stream, CUstream(nullptr)})
      EXPLAINS(explain_launch(result, *each), *each, launch, any);
    for (const EventRef& given : {EventRef(event), EventRef(empty), EventRef(of_foreign)}) {
      EXPLAINS(explain_set_event(result, *each, record, given), *each, set_event, record, given);
      EXPLAINS(explain_set_event(result, *each, wait, given), *each, set_event, wait, given);
    }
  }
}

TEST_CASE_METHOD(ExplainFixture, "captures are explained as they throw") {
  Graph graph = Graph::borrow(context, graph_handle(1)), no_graph;
  Graph of_foreign = Graph::borrow(foreign, graph_handle(1));
  for (const Context* each : {&context, &none, &foreign})
    for (CUstream any : {stream, CUstream(nullptr)}) {
      StreamCapture refused;
      same([&] { const StreamCapture capture(*each, any); },
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
        same([&] { add_capture_dependencies(*each, any, nodes); },
             [&] { return try_add_capture_dependencies(*each, any, nodes); },
             [&](CUresult result) { return explain_capture_dependencies(result, *each); });
        same([&] { set_capture_dependencies(*each, any, nodes); },
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
