// SPDX-License-Identifier: MIT
#include "report/process_rules.hpp"
#include "written_calls.hpp"

namespace {

using namespace watch;

constexpr Handle event = 0x100, stream = 0x200, other_stream = 0x300, context = 0x400;

/// A process whose calls the test writes down.
class Process {
public:
  explicit Process(OptInRules more = {}) {
    add_rules(world_, more, [this](const Finding& finding) {
      found.emplace_back(page_of(finding.rule).name);
      sentences.push_back(finding.sentence);
    });
    see("cuStreamCreate", {stream, CU_STREAM_NON_BLOCKING});
    see("cuStreamCreate", {other_stream, CU_STREAM_NON_BLOCKING});
  }

  void see(const char* symbol, const std::vector<std::uint64_t>& words, CUresult result = CUDA_SUCCESS,
           std::uint32_t thread = 1) {
    Call call = call_of(symbol, words, current);
    call.result = static_cast<std::uint32_t>(result);
    call.null_handle = null_handle;
    call.thread = thread;
    call.stack = stack;
    world_.see(call);
  }

  /// The process ended in this call.
  void see_unfinished(const char* symbol, const std::vector<std::uint64_t>& words) {
    Call call = call_of(symbol, words);
    call.returned = false;
    world_.see(call);
  }

  /// The auditor lists an event of a graph that is about to be instantiated.
  void see_graph_event(Handle graph, Handle node, Handle of, CUgraphNodeType type) {
    CallData data{};
    data.entry = graph_event_entry;
    data.count = 4;
    data.words[0] = graph, data.words[1] = node, data.words[2] = of, data.words[3] = type;
    world_.see(decoded(data));
  }

  /// Some findings wait until it is certain that nothing makes them right.
  const std::vector<std::string>& end() {
    world_.end(true);
    return found;
  }

  std::vector<std::string> found, sentences;
  std::uint32_t stack = 0;
  Handle current = context;
  HandleKind null_handle = HandleKind::none; // of the calls that follow

private:
  World world_;
};

using Found = std::vector<std::string>;

} // namespace

TEST_CASE("objects that were made before the records begin are never reported", "[watch][rules]") {
  Process process;
  process.see("cuStreamWaitEvent", {stream, event, 0});
  process.see("cuEventSynchronize", {event});
  process.see("cuEventElapsedTime", {event, event}, CUDA_ERROR_INVALID_HANDLE);
  process.see("cuEventRecord", {event, 0x999}, CUDA_ERROR_INVALID_HANDLE);
  CHECK(process.found.empty());
}

TEST_CASE("a handle that the driver gives away again is another object", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventRecord", {event, stream});
  process.see("cuEventDestroy_v2", {event});
  process.see("cuEventCreate", {event, 2});
  process.see("cuStreamWaitEvent", {stream, event, 0});
  CHECK(process.end() == Found{"wait-never-recorded"});
}

TEST_CASE("an event whose destruction failed lives on", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventDestroy_v2", {event}); // recorded before the call
  process.see("cuEventDestroy_v2", {event}, CUDA_ERROR_DEINITIALIZED);
  process.see("cuEventQuery", {event});
  CHECK(process.found.empty());
}

TEST_CASE("a stream and an executable graph whose destruction failed live on", "[watch][rules]") {
  Process process;
  process.see("cuStreamDestroy_v2", {1});
  process.see("cuStreamDestroy_v2", {1}, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  process.see("cuEventRecord", {event, 1});
  process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
  process.see("cuGraphExecDestroy", {0x700});
  process.see("cuGraphExecDestroy", {0x700}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  process.see("cuGraphLaunch", {0x700, stream});
  CHECK(process.found.empty());
}

TEST_CASE("a destruction in which the process ends is no use after itself", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventDestroy_v2", {event});
  process.see_unfinished("cuEventDestroy_v2", {event});
  process.see("cuStreamDestroy_v2", {stream});
  process.see_unfinished("cuStreamDestroy_v2", {stream});
  CHECK(process.found.empty());
}

TEST_CASE("an event that other processes may record is not reported as never recorded", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 6}); // interprocess, without timing
  process.see("cuStreamWaitEvent", {stream, event, 0});
  process.see("cuIpcOpenEventHandle", {0x101});
  process.see("cuEventSynchronize", {0x101});
  CHECK(process.found.empty());
}

TEST_CASE("an object of a context that has ended is reported when it is used", "[watch][rules]") {
  Process process;
  process.see("cuDevicePrimaryCtxRetain", {0x500, 0});
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventRecord", {event, stream});
  SECTION("destroyed") {
    process.see("cuCtxDestroy_v2", {context});
    process.see("cuEventSynchronize", {event});
    process.see("cuStreamSynchronize", {stream});
    CHECK(process.found == Found{"use-after-context", "use-after-context"});
  }
  SECTION("reset") {
    process.see("cuDevicePrimaryCtxRetain", {context, 1});
    process.see("cuDevicePrimaryCtxReset_v2", {1});
    process.see("cuEventQuery", {event}, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(process.found == Found{"use-after-context"});
  }
  SECTION("destroyed in vain") {
    process.see("cuCtxDestroy_v2", {context}); // recorded before the call
    process.see("cuCtxDestroy_v2", {context}, CUDA_ERROR_INVALID_VALUE);
    process.see("cuEventSynchronize", {event});
    CHECK(process.found.empty());
  }
  SECTION("another context") {
    process.see("cuDevicePrimaryCtxReset_v2", {0});
    process.see("cuCtxDestroy_v2", {0x501});
    process.see("cuEventSynchronize", {event});
    CHECK(process.found.empty());
  }
  SECTION("the event is only destroyed") {
    process.see("cuCtxDestroy_v2", {context});
    process.see("cuEventDestroy_v2", {event}); // recorded before the call
    process.see("cuEventDestroy_v2", {event}, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(process.found == Found{"use-after-context"});
  }
  SECTION("the process ends in its destruction") {
    process.see("cuCtxDestroy_v2", {context});
    process.see_unfinished("cuEventDestroy_v2", {event});
    CHECK(process.found == Found{"use-after-context"});
  }
  SECTION("a new object has the handle") {
    process.see("cuCtxDestroy_v2", {context});
    process.see("cuEventDestroy_v2", {event}, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    process.see("cuEventCreate", {event, 2});
    process.see("cuEventQuery", {event});
    CHECK(process.found.empty());
  }
}

TEST_CASE("contexts of one device end one by one", "[watch][rules]") {
  Process process;
  process.see("cuDevicePrimaryCtxRetain", {context, 0});
  process.see("cuEventCreate", {event, 2});
  process.see("cuCtxCreate_v2", {0x500, 0, 0}); // on the same device
  process.see("cuDevicePrimaryCtxRetain", {0x600, 1});
  process.see("cuDevicePrimaryCtxRelease_v2", {1});
  process.see("cuEventQuery", {event});
  CHECK(process.found.empty());
}

TEST_CASE("a graph that waits for an event does not record it", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  SECTION("a wait node") {
    process.see("cuGraphAddEventWaitNode", {0x800, 0x600, event});
    process.see("cuStreamWaitEvent", {stream, event, 0});
    CHECK(process.end() == Found{"wait-never-recorded"});
  }
  SECTION("a wait node by the general function") {
    process.see("cuGraphAddNode", {0x800, 0x600, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT});
    process.see("cuStreamWaitEvent", {stream, event, 0});
    CHECK(process.end() == Found{"wait-never-recorded"});
  }
  SECTION("a record node") {
    process.see("cuGraphAddNode", {0x800, 0x600, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD});
    process.see("cuStreamWaitEvent", {stream, event, 0});
    CHECK(process.end().empty());
  }
  SECTION("it still has to outlive the executable graph") {
    process.see("cuGraphAddEventWaitNode", {0x800, 0x600, event});
    process.see_graph_event(0x600, 0x800, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
    process.see("cuEventDestroy_v2", {event});
    process.see("cuGraphLaunch", {0x700, stream, 1});
    CHECK(process.found == Found{"destroyed-in-graph"});
  }
}

TEST_CASE("a late record is found although other calls come before it", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventCreate", {0x101, 2});
  process.see("cuEventRecord", {event, stream});
  const auto step = [&](auto between) {
    process.see("cuMemsetD8Async", {stream});
    process.see("cuStreamWaitEvent", {other_stream, event, 0});
    between();
    process.see("cuEventRecord", {event, stream}, CUDA_SUCCESS, 2);
  };
  SECTION("a query, a launch elsewhere, and the record by another thread") {
    for (int i = 0; i < 3; ++i)
      step([&] {
        process.see("cuEventQuery", {0x101});
        process.see("cuMemsetD8Async", {0x999});
      });
    CHECK(process.found == Found{"wait-before-record", "wait-before-record"});
  }
  SECTION("a pipeline that lags by one: its first wait is for work") {
    process.see("cuMemsetD8Async", {stream});
    process.see("cuEventRecord", {event, stream});
    for (int i = 0; i < 5; ++i)
      step([&] {});
    CHECK(process.found.empty());
  }
  SECTION("work of the waiting stream, and of the event's") {
    for (const Handle on : {other_stream, stream, other_stream})
      step([&] { process.see("cuMemsetD8Async", {on}); });
    CHECK(process.found == Found{"wait-before-record", "wait-before-record"});
  }
  SECTION("the record comes behind what the waiting stream did") {
    process.see("cuEventCreate", {0x102, 2});
    for (int i = 0; i < 3; ++i)
      step([&] {
        process.see("cuMemsetD8Async", {other_stream});
        process.see("cuEventRecord", {0x102, other_stream});
        process.see("cuStreamWaitEvent", {stream, 0x102, 0});
      });
    CHECK(process.found.empty());
  }
  SECTION("another event marks the work") {
    for (int i = 0; i < 3; ++i)
      step([&] { process.see("cuEventRecord", {0x101, stream}); });
    CHECK(process.found.empty());
  }
  SECTION("the end of the work") {
    for (int i = 0; i < 3; ++i)
      step([&] { process.see("cuStreamSynchronize", {stream}); });
    CHECK(process.found.empty());
  }
}

TEST_CASE("a primary context lives until its last release", "[watch][rules]") {
  Process process;
  process.see("cuDevicePrimaryCtxRetain", {context, 0});
  process.see("cuDevicePrimaryCtxRetain", {context, 0});
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventCreate", {0x101, 2});
  process.see("cuDevicePrimaryCtxRelease_v2", {0});
  process.see("cuStreamWaitEvent", {stream, event, 0});
  CHECK(process.found.empty());
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.see("cuDevicePrimaryCtxRelease_v2", {0});
  process.see("cuEventSynchronize", {0x101});
  process.see("cuEventQuery", {0x102}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 2);
  CHECK(process.end() == Found{"use-after-context", "wait-never-recorded"}); // and the capture ended
}

TEST_CASE("a synchronisation of a context harms the captures of that context only", "[watch][rules]") {
  Process process;
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  SECTION("the current one") {
    process.see("cuCtxSynchronize", {}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 2);
    CHECK(process.found == Found{"capture-invalidated"});
  }
  SECTION("one that is named") {
    process.see("cuCtxSynchronize_v2", {0x401}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 2);
    CHECK(process.found.empty());
  }
}

TEST_CASE("a call that invalidates two captures is reported for each", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventRecord", {event, 0x500});
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.see("cuStreamBeginCapture_v2", {other_stream, 0}, CUDA_SUCCESS, 2);
  process.see("cuEventQuery", {event}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 3);
  CHECK(process.found == Found{"capture-invalidated", "capture-invalidated"});
  process.see("cuStreamEndCapture", {stream, 0}, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(process.found.size() == 2); // the cause was told before
}

TEST_CASE("captures in relaxed mode and those of other threads in thread-local mode are not harmed",
          "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuStreamBeginCapture_v2", {stream, 2});
  process.see("cuStreamBeginCapture_v2", {other_stream, 1}, CUDA_SUCCESS, 2);
  process.see("cuEventQuery", {event}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 2);
  process.see("cuStreamEndCapture", {stream, 0x600});
  CHECK(process.found == Found{"capture-invalidated"});
}

TEST_CASE("a capture whose stream was destroyed is not harmed by later calls", "[watch][rules]") {
  Process process;
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.see("cuStreamDestroy_v2", {stream});
  process.see("cuEventQuery", {event}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 2);
  CHECK(process.found.empty());
}

TEST_CASE("a capture that an unwatched call invalidated is reported at its end", "[watch][rules]") {
  Process process;
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.see("cuStreamEndCapture", {stream, 0}, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(process.found == Found{"capture-invalidated"});
}

TEST_CASE("an event that a graph from a capture refers to must outlive its execs", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.see("cuEventRecordWithFlags", {event, stream, CU_EVENT_RECORD_EXTERNAL});
  process.see("cuStreamEndCapture", {stream, 0x600});
  process.see_graph_event(0x600, 0x800, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
  process.see("cuGraphDestroy", {0x600});
  SECTION("destroyed before the last launch") {
    process.see("cuEventDestroy_v2", {event});
    CHECK(process.found.empty());
    process.see("cuGraphLaunch", {0x700, stream, 1});
    CHECK(process.found == Found{"destroyed-in-graph"});
  }
  SECTION("destroyed while a launch is in flight") {
    process.see("cuGraphLaunch", {0x700, stream, 1});
    process.see("cuEventDestroy_v2", {event});
    CHECK(process.found == Found{"destroyed-in-graph"});
  }
  SECTION("destroyed before the exec, after all launches") {
    process.see("cuGraphLaunch", {0x700, stream, 1});
    process.see("cuStreamSynchronize", {stream});
    process.see("cuEventDestroy_v2", {event});
    process.see("cuGraphExecDestroy", {0x700});
    CHECK(process.end().empty());
  }
  SECTION("destroyed before the exec, and another event gets its handle") {
    process.see("cuEventDestroy_v2", {event});
    process.see("cuEventCreate", {event, 2});
    process.see("cuEventDestroy_v2", {event});
    process.see("cuGraphLaunch", {0x700, stream, 1});
    CHECK(process.found.size() == 1);
  }
  SECTION("destroyed after the exec") {
    process.see("cuGraphExecDestroy", {0x700});
    process.see("cuEventDestroy_v2", {event});
    CHECK(process.found.empty());
  }
  SECTION("replaced by another event in the exec") {
    process.see("cuEventCreate", {0x101, 2});
    process.see("cuGraphExecEventRecordNodeSetEvent", {0x700, 0x800, 0x101});
    process.see("cuEventDestroy_v2", {event});
    CHECK(process.found.empty());
  }
}

TEST_CASE("an executable graph refers to the events of its last update, at the places of its own nodes",
          "[watch][rules]") {
  Process process;
  for (const Handle one : {Handle{0x100}, Handle{0x101}, Handle{0x102}})
    process.see("cuEventCreate", {one, 2});
  process.see_graph_event(0x600, 0x800, 0x100, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
  process.see_graph_event(0x601, 0x801, 0x101, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  SECTION("the update succeeds") {
    process.see("cuGraphExecUpdate_v2", {0x700, 0x601});
    process.see("cuEventDestroy_v2", {0x100});
    CHECK(process.found.empty());
    process.see("cuGraphExecEventRecordNodeSetEvent", {0x700, 0x800, 0x102});
    process.see("cuEventDestroy_v2", {0x101});
    CHECK(process.found.empty());
    process.see("cuEventDestroy_v2", {0x102});
    process.see("cuGraphLaunch", {0x700, stream, 1});
    CHECK(process.found == Found{"destroyed-in-graph"});
  }
  SECTION("the update fails") {
    process.see("cuGraphExecUpdate_v2", {0x700, 0x601}, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    process.see("cuEventDestroy_v2", {0x101});
    CHECK(process.found.empty());
    process.see("cuEventDestroy_v2", {0x100});
    process.see("cuGraphLaunch", {0x700, stream, 1});
    CHECK(process.found == Found{"destroyed-in-graph", "use-after-error"});
  }
}

TEST_CASE("the instantiation of a graph whose event was destroyed need not return", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuGraphAddEventRecordNode", {0x800, 0x600, event});
  process.see("cuEventDestroy_v2", {event});
  process.see_graph_event(0x600, 0x800, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  SECTION("it does") { process.see("cuGraphInstantiateWithFlags", {0x700, 0x600}); }
  SECTION("it ends the process") { process.see_unfinished("cuGraphInstantiateWithFlags", {0, 0x600}); }
  CHECK(process.found == Found{"destroyed-in-graph"});
}

TEST_CASE("a graph that was destroyed is reported when a call refuses it", "[watch][rules]") {
  Process process;
  process.see("cuGraphCreate", {0x600, 0});
  process.see("cuGraphDestroy", {0x600});
  SECTION("instantiated") {
    process.see("cuGraphInstantiateWithFlags", {0, 0x600}, CUDA_ERROR_INVALID_VALUE);
    CHECK(process.found == Found{"use-after-destroy"});
  }
  SECTION("destroyed again") {
    process.see("cuGraphDestroy", {0x600}); // recorded before the call
    process.see("cuGraphDestroy", {0x600}, CUDA_ERROR_INVALID_VALUE);
    CHECK(process.found == Found{"use-after-destroy"});
  }
  SECTION("a child graph has the handle now") {
    process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
    CHECK(process.found.empty());
  }
  SECTION("another graph has the handle now") {
    process.see("cuStreamBeginCapture_v2", {stream, 0});
    process.see("cuStreamEndCapture", {stream, 0x600});
    process.see("cuGraphInstantiateWithFlags", {0, 0x600}, CUDA_ERROR_INVALID_VALUE);
    CHECK(process.found.empty());
  }
}

TEST_CASE("a failed record of a context or of a launch is a failed record", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  SECTION("of a context") {
    process.see("cuCtxRecordEvent", {context, event}, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    process.see("cuStreamWaitEvent", {stream, event, 0});
    CHECK(process.found == Found{"use-after-error"});
  }
  SECTION("of another context") {
    process.see("cuCtxRecordEvent", {0x401, event}, CUDA_ERROR_INVALID_HANDLE);
    CHECK(process.found == Found{"record-in-other-context"});
  }
  SECTION("of a launch") {
    process.see("cuLaunchKernelEx", {stream, 0x800, event}, CUDA_ERROR_NOT_SUPPORTED);
    process.see("cuStreamWaitEvent", {other_stream, event, 0});
    CHECK(process.found == Found{"use-after-error"});
  }
  SECTION("the next one succeeds") {
    process.see("cuLaunchKernelEx", {stream, 0x800, event}, CUDA_ERROR_NOT_SUPPORTED);
    process.see("cuLaunchKernelEx", {stream, 0x800, event});
    process.see("cuStreamWaitEvent", {other_stream, event, 0});
    CHECK(process.found.empty());
  }
}

TEST_CASE("questions about objects that are gone are uses of them", "[watch][rules]") {
  Process process;
  process.see("cuGraphCreate", {0x600, 0});
  process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
  process.see("cuStreamGetFlags", {stream});
  process.see("cuGraphAddEmptyNode", {0x800, 0x600});
  CHECK(process.found.empty());
  for (const auto& [destroy, handle] :
       {std::pair{"cuStreamDestroy_v2", stream}, {"cuGraphDestroy", 0x600}, {"cuGraphExecDestroy", 0x700}})
    process.see(destroy, {handle});
  process.see_unfinished("cuStreamGetFlags", {stream});
  process.see("cuGraphAddEmptyNode", {0, 0x600}, CUDA_ERROR_INVALID_VALUE);
  process.see_unfinished("cuGraphExecGetFlags", {0x700});
  CHECK(process.found == Found{"use-after-destroy", "use-after-destroy", "use-after-destroy"});
}

TEST_CASE("the first wait of a ring has nothing to wait for", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  const auto work = [&](Handle on) { process.see("cuMemsetD8Async", {on}); };
  const auto wait = [&] { process.see("cuStreamWaitEvent", {other_stream, event, 0}); };
  const auto record = [&] { process.see("cuEventRecord", {event, stream}); };
  SECTION("the record is for newer work, and waited for") {
    wait(), work(stream), record();
    CHECK(process.found.empty());
    process.see("cuEventSynchronize", {event});
    CHECK(process.end().empty());
  }
  SECTION("nothing waits for the record") {
    wait(), work(stream), record();
    CHECK(process.end() == Found{"wait-never-recorded"});
  }
  SECTION("the work of the record was there before the wait") {
    work(stream), wait(), record();
    CHECK(process.found == Found{"wait-never-recorded"});
  }
  SECTION("that work was marked by another event") {
    work(stream), process.see("cuEventRecord", {0x101, stream});
    wait(), work(stream), record(), wait();
    CHECK(process.end().empty());
  }
  SECTION("the ring makes no second turn, or does not use a slot") {
    process.stack = 5;
    for (const Handle slot : {Handle{0x111}, Handle{0x112}}) {
      process.see("cuEventCreate", {slot, 2});
      process.see("cuStreamWaitEvent", {other_stream, slot, 0});
      process.see("cuEventRecord", {slot, stream});
    }
    process.see("cuEventSynchronize", {event});
    CHECK(process.end().empty());
  }
  SECTION("the event is destroyed") {
    wait(), process.see("cuEventDestroy_v2", {event});
    CHECK(process.found == Found{"wait-never-recorded"});
  }
  SECTION("other processes will record it") {
    wait(), process.see("cuIpcGetEventHandle", {event});
    CHECK(process.end().empty());
  }
  SECTION("a graph waits") {
    process.see("cuGraphAddEventWaitNode", {0x800, 0x600, event});
    process.see_graph_event(0x600, 0x800, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
    process.see("cuGraphLaunch", {0x700, stream});
    process.see("cuGraphLaunch", {0x700, stream});
    CHECK(process.end() == Found{"wait-never-recorded"});
  }
}

TEST_CASE("a record that replaces another one loses its work", "[watch][rules]") {
  Process process;
  std::uint64_t flags = CU_EVENT_DISABLE_TIMING;
  bool waits_between = false, works = true, measures = false;
  std::size_t count = 3, found = 0;
  SECTION("twice") { found = 1; }
  SECTION("once, which may be chance") { count = 2; }
  SECTION("of an event that could measure the time") { flags = CU_EVENT_DEFAULT, found = 1; }
  SECTION("of an event that measures the time") { flags = CU_EVENT_DEFAULT, measures = true; }
  SECTION("after a wait for something") { waits_between = true; }
  SECTION("without work") { works = false; }
  process.see("cuStreamCreate", {0x201, CU_STREAM_NON_BLOCKING});
  process.see("cuEventCreate", {event, flags});
  const Handle streams[] = {stream, other_stream, 0x201};
  for (std::size_t i = 0; i < count; ++i) {
    if (works) process.see("cuMemsetD8Async", {streams[i]});
    process.see("cuEventRecord", {event, streams[i]});
    if (waits_between) process.see("cuStreamQuery", {stream}, CUDA_SUCCESS, 2);
  }
  CHECK(process.found.empty());
  process.see("cuEventSynchronize", {event});
  if (measures) process.see("cuEventElapsedTime", {0x999, event});
  CHECK(process.end() == Found(found, "record-replaced"));
}

TEST_CASE("times that mean nothing are reported", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 0});
  process.see("cuEventCreate", {0x101, 0});
  process.see("cuEventRecord", {event, stream});
  process.see("cuMemsetD8Async", {other_stream});
  SECTION("of a stream without work") {
    std::size_t found = 0;
    SECTION("other streams have it") { found = 1; }
    SECTION("the stream waits") { process.see("cuStreamWaitEvent", {stream, 0x102, 0}, CUDA_SUCCESS, 2); }
    SECTION("a copy without a stream") {
      process.see("cuMemcpyDtoH_v2", {});
      process.see("cuEventCreate", {0x102, 2});
      process.see("cuEventRecord", {0x102, other_stream}); // something else will wait for the other stream
    }
    process.see("cuEventRecord", {0x101, stream});
    process.see("cuEventElapsedTime", {event, 0x101});
    CHECK(process.end() == Found(found, "elapsed-without-work"));
  }
  SECTION("of a part of the work") {
    std::size_t found = 1;
    process.see("cuMemsetD8Async", {stream});
    process.see("cuEventRecord", {0x101, stream});
    process.see("cuEventElapsedTime", {event, 0x101});
    SECTION("that nothing waits for") {}
    SECTION("and the program waits for all of it") { process.see("cuCtxSynchronize", {0x1}); }
    SECTION("and the program waits for the other stream") {
      found = 0;
      process.see("cuStreamSynchronize", {other_stream});
    }
    SECTION("and the program waits for the other stream by an event") {
      found = 0;
      process.see("cuEventCreate", {0x102, 2});
      process.see("cuEventRecord", {0x102, other_stream});
      process.see("cuStreamWaitEvent", {stream, 0x102, 0});
    }
    CHECK(process.end() == Found(found, "elapsed-without-work"));
  }
  SECTION("in the wrong order") {
    process.see("cuMemsetD8Async", {stream});
    process.see("cuEventRecord", {0x101, stream});
    process.see("cuEventElapsedTime", {0x101, event});
    CHECK(process.end() == Found{"elapsed-reversed"});
  }
  SECTION("too early") {
    process.see("cuMemsetD8Async", {stream});
    process.see("cuEventRecord", {0x101, stream});
    process.see("cuEventElapsedTime", {event, 0x101}, CUDA_ERROR_NOT_READY);
    SECTION("once") {
      process.see("cuEventRecord", {0x101, stream});
      CHECK(process.end() == Found{"elapsed-too-early"});
    }
    SECTION("once, and the program waits for the work") {
      process.see("cuCtxSynchronize", {});
      process.see("cuEventRecord", {0x101, stream});
      process.see("cuStreamSynchronize", {other_stream});
      CHECK(process.end().empty());
    }
    SECTION("again") {
      process.see("cuEventElapsedTime", {event, 0x101}, CUDA_ERROR_NOT_READY);
      CHECK(process.end().empty());
    }
    SECTION("by a program that reads other times") {
      process.see("cuEventRecord", {event, stream});
      process.see("cuEventElapsedTime", {event, 0x101});
      process.see("cuEventElapsedTime", {event, 0x101}, CUDA_ERROR_NOT_READY);
      CHECK(process.end().empty());
    }
    SECTION("and then with success") {
      process.see("cuEventElapsedTime", {event, 0x101});
      process.see("cuStreamSynchronize", {other_stream});
      CHECK(process.end().empty());
    }
  }
  SECTION("of events that only a graph records") {
    process.see("cuGraphAddEventRecordNode", {0x800, 0x600, 0x101});
    process.see("cuEventElapsedTime", {event, 0x101}, CUDA_ERROR_INVALID_HANDLE);
    CHECK(process.end() == Found{"elapsed-never-recorded"});
  }
}

TEST_CASE("a time is of the work that the order puts into it", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 0});
  process.see("cuEventCreate", {0x101, 0});
  process.see("cuEventCreate", {0x102, 2});
  std::uint64_t end = stream;
  std::size_t found = 1;
  SECTION("work that was begun before the start") {
    process.see("cuMemsetD8Async", {other_stream});
    SECTION("and is not done") {}
    SECTION("and is done") {
      found = 0;
      process.see("cuStreamSynchronize", {other_stream});
    }
    process.see("cuEventRecord", {event, stream});
  }
  SECTION("between the records") {
    process.see("cuEventRecord", {event, stream});
    SECTION("of another thread") { process.see("cuMemsetD8Async", {other_stream}, CUDA_SUCCESS, 2); }
    SECTION("of another thread, and the time is of other work") {
      found = 0;
      process.see("cuMemsetD8Async", {other_stream}, CUDA_SUCCESS, 2);
      process.see("cuMemsetD8Async", {stream});
    }
    SECTION("of a stream that only waits for the start") {
      process.see("cuEventRecord", {0x102, stream});
      process.see("cuStreamWaitEvent", {other_stream, 0x102, 0});
      process.see("cuMemsetD8Async", {other_stream});
      process.see("cuMemsetD8Async", {stream});
    }
    SECTION("of a stream that nobody knows") {
      found = 0;
      process.see("cuMemsetD8Async", {0x999});
    }
    SECTION("of the stream of the start, and the end is on another one") {
      process.see("cuMemsetD8Async", {other_stream});
      process.see("cuMemsetD8Async", {stream});
      end = other_stream;
    }
    SECTION("that the host waits for before the end") {
      found = 0;
      process.see("cuMemsetD8Async", {other_stream});
      SECTION("by its stream") { process.see("cuStreamSynchronize", {other_stream}); }
      SECTION("by a query") { process.see("cuStreamQuery", {other_stream}); }
      SECTION("by the context") { process.see("cuCtxSynchronize", {}); }
    }
  }
  process.see("cuEventRecord", {0x101, end});
  process.see("cuEventElapsedTime", {event, 0x101});
  CHECK(process.end() == Found(found, "elapsed-without-work"));
}

TEST_CASE("each call that needs a context, and null handles, are reported if they are refused",
          "[watch][rules]") {
  Process process;
  const char* const calls[] = {"cuMemAlloc_v2", "cuCtxSynchronize", "cuModuleLoadData", "cuEventCreate"};
  process.current = 0;
  for (const char* const symbol : calls)
    process.see(symbol, {}, CUDA_ERROR_INVALID_CONTEXT);
  process.current = context;
  process.null_handle = HandleKind::event;
  process.see("cuEventQuery", {0}, CUDA_ERROR_INVALID_HANDLE);
  process.see("cuEventDestroy_v2", {0}, CUDA_ERROR_INVALID_HANDLE); // many programs ignore that
  process.null_handle = HandleKind::exec;
  process.see("cuGraphLaunch", {0, stream}, CUDA_ERROR_INVALID_VALUE);
  process.null_handle = HandleKind::none;
  CHECK(process.found == Found(6, "refused-call"));
  process.see("cuEventQuery", {event}, CUDA_ERROR_INVALID_HANDLE);
  constexpr std::uint64_t conditional = 13; // CU_GRAPH_NODE_TYPE_CONDITIONAL, in newer headers
  for (const std::uint64_t type :
       {std::uint64_t{CU_GRAPH_NODE_TYPE_KERNEL}, conditional}) { // without an event
    process.see("cuGraphAddNode_v2", {0, 0x600, 0, type}, CUDA_ERROR_INVALID_VALUE);
    process.see("cuGraphExecNodeSetParams", {0x700, 0x800, 0, type}, CUDA_ERROR_INVALID_VALUE);
  }
  process.see("cuLaunchKernelEx", {stream, 0x900, 0, 0}, CUDA_ERROR_INVALID_VALUE);
  CHECK(process.found.size() == 6);
  process.see("cuGraphAddNode_v2", {0, 0x600, 0, CU_GRAPH_NODE_TYPE_WAIT_EVENT}, CUDA_ERROR_INVALID_VALUE);
  CHECK(process.found == Found(7, "refused-call"));
}

TEST_CASE("a null handle is named by its kind", "[watch][rules]") {
  const struct {
    const char* symbol;
    HandleKind kind;
    CUresult result;
    Handle current;
    const char* sentence; // null: nothing is certain
  } calls[] = {
      {"cuModuleGetFunction", HandleKind::module, CUDA_ERROR_INVALID_HANDLE, context, "the module is null"},
      {"cuLaunchKernel", HandleKind::function, CUDA_ERROR_INVALID_HANDLE, context, "the function is null"},
      {"cuMemPoolTrimTo", HandleKind::pool, CUDA_ERROR_INVALID_VALUE, context, "the memory pool is null"},
      {"cuCtxRecordEvent", HandleKind::context, CUDA_ERROR_INVALID_CONTEXT, context, "the context is null"},
      {"cuGreenCtxWaitEvent", HandleKind::green_context, CUDA_ERROR_INVALID_CONTEXT, 0,
       "the green context is null"},
      // Null is the current context, which is missing.
      {"cuCtxSynchronize_v2", HandleKind::context, CUDA_ERROR_INVALID_CONTEXT, 0, "no context is current"},
      {"cuGraphAddMemsetNode", HandleKind::context, CUDA_ERROR_INVALID_VALUE, context, nullptr},
      {"cuModuleUnload", HandleKind::module, CUDA_ERROR_INVALID_HANDLE, context, nullptr},
      {"cuModuleGetFunction", HandleKind::module, CUDA_ERROR_OUT_OF_MEMORY, context, nullptr},
  };
  for (const auto& each : calls) {
    INFO(each.symbol);
    Process process;
    process.null_handle = each.kind;
    process.current = each.current;
    process.see(each.symbol, {}, each.result);
    REQUIRE(process.sentences.size() == (each.sentence != nullptr ? 1 : 0));
    if (each.sentence != nullptr) CHECK(process.sentences[0].find(each.sentence) != std::string::npos);
  }
}

TEST_CASE("a release of a primary context that is not retained is no lack of a context", "[watch][rules]") {
  Process process;
  process.current = 0;
  process.see("cuDevicePrimaryCtxRelease_v2", {0}, CUDA_ERROR_INVALID_CONTEXT);
  CHECK(process.found.empty());
}

TEST_CASE("a question whether a context is current is a mistake if the thread goes on", "[watch][rules]") {
  Process process;
  process.current = 0;
  process.see("cuCtxGetDevice", {}, CUDA_ERROR_INVALID_CONTEXT);
  process.see("cuCtxGetDevice_v2", {0}, CUDA_ERROR_INVALID_CONTEXT); // as CUDA's runtime asks
  process.see("cuCtxPopCurrent_v2", {}, CUDA_ERROR_INVALID_CONTEXT);
  CHECK(process.found.empty());
  SECTION("another call is refused too") {
    process.see("cuMemAlloc_v2", {}, CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(process.found == Found(2, "refused-call"));
    CHECK(process.sentences[0] == "cuCtxGetDevice fails: no context is current on this thread");
  }
  SECTION("another thread has made no context current") {
    process.see("cuMemAlloc_v2", {}, CUDA_ERROR_INVALID_CONTEXT, 2);
    CHECK(process.found == Found(1, "refused-call"));
  }
}

TEST_CASE("a wait that is refused is reported if the program goes on without it", "[watch][rules]") {
  const std::vector<std::uint64_t> wait = {stream, event, 64};
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventRecord", {event, other_stream});
  SECTION("on the stream") {
    process.see("cuStreamWaitEvent", wait, CUDA_ERROR_INVALID_VALUE);
    process.see("cuMemsetD8Async", {other_stream}); // which was not to wait
    CHECK(process.found.empty());
    process.see("cuMemsetD8Async", {stream});
    REQUIRE(process.found == Found{"refused-call"});
    CHECK(process.sentences[0] == "cuStreamWaitEvent fails, and the stream goes on without the wait");
  }
  SECTION("of the host") {
    process.see("cuStreamSynchronize", {stream}, CUDA_ERROR_INVALID_VALUE);
    process.see("cuMemsetD8Async", {other_stream});
    CHECK(process.found == Found{"refused-call"});
  }
  SECTION("not if it waits in another way") {
    for (const char* const instead : {"cuEventSynchronize", "cuEventQuery"}) {
      process.see("cuStreamWaitEvent", wait, CUDA_ERROR_INVALID_VALUE);
      process.see(instead, {event});
      process.see("cuMemsetD8Async", {stream});
    }
    process.see("cuStreamWaitEvent", wait, CUDA_ERROR_INVALID_VALUE);
    process.see("cuStreamWaitEvent", {stream, event, 0});
    process.see("cuMemsetD8Async", {stream});
    CHECK(process.found.empty());
  }
  SECTION("not if it ends there, or another thread goes on") {
    process.see("cuStreamWaitEvent", wait, CUDA_ERROR_INVALID_VALUE);
    process.see("cuMemsetD8Async", {stream}, CUDA_SUCCESS, 2);
    CHECK(process.end().empty());
  }
  SECTION("a function that is not supported may be tried once") {
    for (const std::size_t found : {0U, 1U}) {
      process.see("cuStreamWaitValue32", {stream, 0x1000, 1, 0}, CUDA_ERROR_NOT_SUPPORTED);
      process.see("cuMemsetD8Async", {stream});
      CHECK(process.found.size() == found);
    }
  }
}

TEST_CASE("a call that is refused is reported with its reason", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuStreamBeginCapture_v2", {stream, 2});
  process.see("cuStreamBeginCapture_v2", {other_stream, 2});
  process.see("cuStreamEndCapture", {other_stream, 0x600});
  const struct {
    const char* symbol;
    std::vector<std::uint64_t> words;
    CUresult result;
    const char* reason;
  } calls[] = {
      {"cuEventCreate", {0, 4}, CUDA_ERROR_INVALID_VALUE, "cuEventCreate fails: CU_EVENT_INTERPROCESS needs"},
      {"cuEventCreate", {0, 64}, CUDA_ERROR_INVALID_VALUE, nullptr}, // the flags are unknown
      {"cuIpcGetEventHandle", {event}, CUDA_ERROR_INVALID_HANDLE, "event 0x100 was created without"},
      {"cuEventRecord", {0, stream}, CUDA_ERROR_INVALID_HANDLE, "the event is null"},
      {"cuEventDestroy_v2", {0}, CUDA_ERROR_INVALID_HANDLE, nullptr},
      {"cuStreamBeginCapture_v2", {stream, 0}, CUDA_ERROR_ILLEGAL_STATE, "is being captured already"},
      {"cuStreamBeginCapture_v2", {1, 0}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cannot be captured"},
      {"cuStreamEndCapture", {other_stream, 0}, CUDA_ERROR_ILLEGAL_STATE, "is not being captured any more"},
      {"cuStreamEndCapture", {0x999, 0}, CUDA_ERROR_ILLEGAL_STATE, nullptr},
      {"cuIpcOpenEventHandle", {0}, CUDA_ERROR_INVALID_CONTEXT, nullptr}, // nothing was exported
  };
  for (const auto& [symbol, words, result, reason] : calls) {
    const std::size_t before = process.found.size();
    const bool takes_event = std::strcmp(symbol, "cuEventCreate") != 0; // which makes one
    process.null_handle = takes_event && words[0] == 0 ? HandleKind::event : HandleKind::none;
    process.see(symbol, words, result);
    INFO(symbol);
    CHECK(process.found.size() == before + (reason != nullptr));
    if (reason != nullptr) CHECK(process.sentences.back().find(reason) != std::string::npos);
  }
}

TEST_CASE("an executable graph whose update failed is reported when it is launched", "[watch][rules]") {
  Process process;
  process.see("cuGraphInstantiateWithFlags", {0x700, 0x600});
  process.see("cuGraphExecUpdate_v2", {0x700, 0x601}, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  SECTION("as it is") {
    process.see("cuGraphLaunch", {0x700, stream});
    CHECK(process.found == Found{"use-after-error"});
  }
  SECTION("after another update") {
    process.see("cuGraphExecUpdate_v2", {0x700, 0x602});
    process.see("cuGraphLaunch", {0x700, stream});
    CHECK(process.found.empty());
  }
  SECTION("instantiated anew") {
    process.see("cuGraphExecDestroy", {0x700});
    process.see("cuGraphInstantiateWithFlags", {0x700, 0x601});
    process.see("cuGraphLaunch", {0x700, stream});
    CHECK(process.found.empty());
  }
}

TEST_CASE("a forked child has no objects of its parent", "[watch][rules]") {
  for (const bool forked : {true, false}) {
    Process process({false, false, {forked ? had_initialized : not_forked, 7}});
    process.see("cuEventCreate", {0x101, 2});
    process.see("cuEventRecord", {0x101, 1});
    CHECK(process.found.empty());
    process.see("cuEventQuery", {event});
    process.see("cuStreamSynchronize", {0x999}); // the same cause
    CHECK(process.found == Found(forked ? 1 : 0, "used-after-fork"));
  }
}

TEST_CASE("a forked child cannot begin to use the driver that its parent has used", "[watch][rules]") {
  for (const bool forked : {true, false}) {
    Process process({false, false, {forked ? had_initialized : not_forked, 7}});
    for (const char* const symbol : {"cuInit", "cuEventCreate", "cuMemAlloc_v2"})
      process.see(symbol, {}, CUDA_ERROR_NOT_INITIALIZED);
    CHECK(process.found == Found(forked ? 1 : 0, "used-after-fork"));
    if (forked) CHECK(process.sentences[0].find("its parent, process 7, had used") != std::string::npos);
  }
}

TEST_CASE("a child may begin to use a driver that its parent has only loaded", "[watch][rules]") {
  Process process({false, false, {had_loaded, 7}});
  process.see("cuCtxGetCurrent", {}, CUDA_ERROR_NOT_INITIALIZED);
  CHECK(process.found.empty());
  process.see("cuInit", {}, CUDA_ERROR_NOT_INITIALIZED); // it was used in a way that nobody has seen
  CHECK(process.found == Found{"used-after-fork"});
}

TEST_CASE("a capture that nobody ends is reported at the end of the process", "[watch][rules]") {
  Process process;
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  SECTION("it goes on") { CHECK(process.end() == Found{"capture-never-ended"}); }
  SECTION("it is invalid, which was reported") {
    process.see("cuStreamSynchronize", {stream}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(process.end() == Found{"capture-invalidated"});
  }
}

TEST_CASE("an unjoined capture is reported although its branch was not watched", "[watch][rules]") {
  Process process;
  process.see("cuStreamBeginCapture_v2", {stream, 0});
  process.see("cuStreamEndCapture", {stream, 0}, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK(process.found == Found{"capture-unjoined"});
}

TEST_CASE("a call that never returned is reported if its object was destroyed", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuEventDestroy_v2", {event});
  process.see_unfinished("cuEventQuery", {event});
  REQUIRE(process.found == Found{"use-after-destroy"});
  CHECK(process.sentences[0].find("the process ended in this call") != std::string::npos);
}

TEST_CASE("after a device fault one cause is reported", "[watch][rules]") {
  Process process;
  process.see("cuEventCreate", {event, 2});
  process.see("cuStreamSynchronize", {stream}, CUDA_ERROR_ILLEGAL_ADDRESS);
  for (int i = 0; i < 3; ++i) {
    process.see("cuEventRecord", {event, stream}, CUDA_ERROR_ILLEGAL_ADDRESS);
    process.see("cuEventQuery", {event}, CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  CHECK(process.found == Found{"device-fault"});
}

TEST_CASE("the pages are in the order of the rules", "[watch][rules]") {
  for (const RulePage& page : rule_pages())
    CHECK(&page_of(page.rule) == &page);
}
