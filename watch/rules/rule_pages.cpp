// SPDX-License-Identifier: MIT
#include "rules/rule_pages.hpp"

#include <algorithm>

namespace watch {

const std::vector<RulePage>& rule_pages() {
  static const std::vector<RulePage> pages = {
      {Rule::wait_never_recorded, "wait-never-recorded", "waits for an event that was never recorded",
       "The wait succeeds and has no effect. The stream, or the thread, does not wait for anything.",
       "Record the event before the wait, on the stream whose work the wait is for. If two threads share "
       "the event, make sure that the record has returned before the other thread waits.",
       "Call event.record() on the stream with the work before the wait. consumer.wait_stream(producer) "
       "does both."},
      {Rule::wait_before_record, "wait-before-record",
       "waits for an event, and records it for the same work only after that",
       "A wait refers to the last record before it. Here this is an older record, so the stream does not "
       "wait for the work submitted since then.",
       "Swap the two calls: record the event after the work, and then let the other stream wait for it.",
       "Swap the two calls: event.record(producer) after the work, and then consumer.wait_event(event). "
       "consumer.wait_stream(producer) does both."},
      {Rule::recorded_in_capture_only, "recorded-in-capture-only",
       "uses an event whose last record is part of a finished capture",
       "An event recorded in a capture marks a place in that graph. After the capture, query, synchronize, "
       "wait and elapsed time return CUDA_ERROR_INVALID_VALUE until the event is recorded outside a "
       "capture.",
       "Use another event outside the capture. To learn when a launch of the graph reaches that place, "
       "record the event in the capture with CU_EVENT_RECORD_EXTERNAL.",
       "Use another torch.cuda.Event outside the graph. To learn when a replay reaches that place, create "
       "the event with torch.cuda.Event(external=True)."},
      {Rule::record_in_other_context, "record-in-other-context",
       "records an event on a stream of another context or device",
       "cuEventRecord returns CUDA_ERROR_INVALID_HANDLE, and the event keeps its earlier state. So does a "
       "launch that records the event. Waits for an event work between contexts and devices, records do not.",
       "Create the event while the context of the stream is current. For default streams, make the context "
       "of the event current before the record.",
       "A torch.cuda.Event belongs to the device of its first record. Use one event for each device."},
      {Rule::use_after_destroy, "use-after-destroy", "uses a handle after it was destroyed",
       "The driver does not check handles. It crashes, or uses the object that has taken the place of the "
       "old one.",
       "Destroy the object after its last use on all threads. Work that was submitted earlier may still be "
       "pending when an event or a stream is destroyed."},
      {Rule::use_after_context, "use-after-context",
       "uses an event or a stream after its context was destroyed or reset",
       "Calls with such an event, also its destruction, read memory that the driver has freed. They return "
       "CUDA_ERROR_CONTEXT_IS_DESTROYED, or crash if that memory was used again, as after a primary context "
       "was released and retained again. A late destruction is not reported if the process only ends after "
       "it.",
       "Let go of the events and streams of a context before the context ends. A new context may have the "
       "handle of an old one, so a pool that finds its events by this handle hands out old ones: clear it "
       "when the context ends, or compare the number that cuCtxGetId returns."},
      {Rule::interprocess_wait, "interprocess-wait", "waits for an interprocess event in another context",
       "The driver crashes in this call. So `cuevent watch` did not make the call, and returned "
       "CUDA_ERROR_INVALID_HANDLE instead.",
       "Wait on a stream of the context in which the event was created or opened, record an ordinary event "
       "on that stream, and wait for the ordinary event in the other context."},
      {Rule::destroyed_in_graph, "destroyed-in-graph",
       "destroys an event that a launch of an executable graph still uses",
       "cuEventDestroy returns CUDA_SUCCESS, and so does the next launch of the graph. What follows is "
       "undefined: on a device, the stream of the launch hung in four of five tries. The instantiation of a "
       "graph whose event is gone ended the process.",
       "Destroy the event after all executable graphs that refer to it. A user object of the graph can tell "
       "when that is, but its destructor must not call the driver: let it note the event, and destroy the "
       "event later from a thread of the program.",
       "Keep the torch.cuda.Event as long as the torch.cuda.CUDAGraph in which it was recorded."},
      {Rule::elapsed_without_timing, "elapsed-without-timing",
       "asks for the time between two events, and one does not measure time",
       "cuEventElapsedTime returns CUDA_ERROR_INVALID_HANDLE if one of the events was created with "
       "CU_EVENT_DISABLE_TIMING.",
       "Create both events without CU_EVENT_DISABLE_TIMING.",
       "Create both events with torch.cuda.Event(enable_timing=True)."},
      {Rule::elapsed_never_recorded, "elapsed-never-recorded",
       "asks for the time between two events, and one was never recorded",
       "cuEventElapsedTime returns CUDA_ERROR_INVALID_HANDLE if one of the events was never recorded.",
       "Record both events before the call.",
       "Call start.record() and end.record() before start.elapsed_time(end)."},
      {Rule::elapsed_two_contexts, "elapsed-two-contexts", "asks for the time between events of two contexts",
       "cuEventElapsedTime returns CUDA_ERROR_INVALID_HANDLE for events of two contexts or devices.",
       "Measure each device with two events of its own.",
       "Measure each device with two torch.cuda.Event of its own."},
      {Rule::elapsed_too_early, "elapsed-too-early",
       "asks for a time before the work is complete, and never again",
       "cuEventElapsedTime returns CUDA_ERROR_NOT_READY, and there is no time.",
       "Call cuEventSynchronize for the end event first, and check the result of cuEventElapsedTime. To do "
       "without times that are not ready, ask again later, or for older events: this place never gets a "
       "time.",
       "Call end.synchronize() before start.elapsed_time(end)."},
      {Rule::elapsed_reversed, "elapsed-reversed", "gives the two events of a time in the wrong order",
       "cuEventElapsedTime succeeds, and the time is negative.",
       "Pass the event that was recorded first as the start."},
      {Rule::elapsed_without_work, "elapsed-without-work",
       "measures a time that leaves out work which was submitted between the two records",
       "An event marks a place of its own stream. Work on another stream is in the time only if the end "
       "comes "
       "after it: by an event that the timed stream waits for, or by a wait of the host before the end is "
       "recorded. Streams whose work the program waits for in another way are not reported.",
       "Record both events on the stream that gets the work, or let that stream wait for the other ones "
       "before "
       "the end is recorded.",
       "Pass the stream to event.record(stream), or record inside of `with torch.cuda.stream(stream):`."},
      {Rule::record_replaced, "record-replaced",
       "records an event for a second stream although somebody still relies on the first record",
       "An event has one record, the last. Waits order the waiter behind the work of the last stream only.",
       "Use an event for each stream, or let the second stream wait for the event before it records the "
       "event "
       "again."},
      {Rule::use_after_error, "use-after-error",
       "uses an event whose last record failed, or an executable graph whose last update failed",
       "The failed call changed nothing. A wait refers to an earlier record, or to no record. A launch runs "
       "the graph as it was.",
       "Check the result of the record or the update. After an update that failed, instantiate the graph "
       "again."},
      {Rule::refused_call, "refused-call", "makes a call that the driver refuses for a certain reason",
       "The call returns an error and does nothing. The finding says why.",
       "Remove the reason that the finding names, and check the results of such calls."},
      {Rule::used_after_fork, "used-after-fork",
       "uses the driver, or an event or a stream of the parent, in a forked child",
       "The driver does not work in a child that was forked after the parent had used it: cuInit fails "
       "there. On a device, a "
       "query "
       "of the parent's event returned CUDA_SUCCESS whether the work was complete or not.",
       "Start the child before the first use of the driver, or let it execute a program: "
       "posix_spawn, or in Python multiprocessing.set_start_method('spawn'). Share events by "
       "cuIpcGetEventHandle."},
      {Rule::device_fault, "device-fault", "runs device work that fails",
       "The work of all streams ends. From the first call that tells, nearly every call of the process "
       "returns this error, in all contexts, whatever it is about. So no later failure is reported.",
       "Find the work that fails: compute-sanitizer names the kernel and the access. With "
       "CUDA_LAUNCH_BLOCKING=1 the launch itself returns the error. Only a new process can use the device "
       "again."},
      {Rule::capture_invalidated, "capture-invalidated", "makes a call that invalidates a stream capture",
       "The call fails, and the capture is lost: further calls on its streams and the end of the capture "
       "return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED. A capture in global mode is invalidated by calls of "
       "any thread.",
       "Make the call before or after the capture. A thread that must poll during the captures of others "
       "calls cuThreadExchangeStreamCaptureMode(CU_STREAM_CAPTURE_MODE_RELAXED) around its calls. Begin "
       "captures with CU_STREAM_CAPTURE_MODE_THREAD_LOCAL if other threads call the driver.",
       "Make the call before or after the capture. If other threads call CUDA meanwhile, as a watchdog or "
       "a loader with pinned memory does, capture with torch.cuda.graph(graph, "
       "capture_error_mode=\"thread_local\")."},
      {Rule::capture_unjoined, "capture-unjoined", "ends a capture while a branch of it has not been joined",
       "cuStreamEndCapture returns CUDA_ERROR_STREAM_CAPTURE_UNJOINED, and there is no graph.",
       "After the last work of the branch, record an event on its stream, and let the stream that began "
       "the capture wait for this event.",
       "At the end of the torch.cuda.graph block, call torch.cuda.current_stream().wait_stream(side) for "
       "each side stream that got work in it."},
      {Rule::capture_never_ended, "capture-never-ended", "begins a capture and never ends it",
       "All later work of the stream becomes part of the capture, and never runs.",
       "End the capture on every way out, also if an exception is thrown or the thread ends. "
       "cuevent::StreamCapture does."},
      {Rule::legacy_during_capture, "legacy-during-capture",
       "uses the legacy default stream while a blocking stream is capturing",
       "The legacy stream would wait for the capturing stream. The call returns "
       "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and the capture is invalidated.",
       "Use a stream of your own instead of the default stream, or capture on a stream created with "
       "CU_STREAM_NON_BLOCKING.",
       "While a graph is captured, give other work a torch.cuda.Stream() of its own instead of "
       "torch.cuda.default_stream()."},
      {Rule::external_outside_capture, "external-outside-capture",
       "passes an external flag to a call outside a capture",
       "CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL make nodes of a graph. Outside a capture the "
       "call returns CUDA_ERROR_ILLEGAL_STATE and does nothing.",
       "Pass the flag only while the stream is capturing: cuStreamIsCapturing tells whether it is."},
      {Rule::timed_never_read, "timed-never-read", "records events that measure the time, and never reads it",
       "A record of an event that measures the time takes 7 to 10 times as long as another record, on the "
       "host and on the device.",
       "Create the events with CU_EVENT_DISABLE_TIMING (cudaEventDisableTiming, disable_timing=True in "
       "CuPy, enable_timing=False in PyTorch).",
       "Create the events with torch.cuda.Event(), without enable_timing=True."},
      {Rule::created_in_a_loop, "created-in-a-loop",
       "creates events, streams or executable graphs in a loop and destroys them soon after",
       "cuEventCreate and cuEventDestroy together take longer than a record, many times longer if several "
       "threads call them. Creations do not return while another thread is blocked on a full launch queue.",
       "Keep the events and record them again: a pool does this, for example cuevent::EventPool. Keep "
       "streams. "
       "Launch an executable graph again, after cuGraphExecUpdate if its graph has changed.",
       "Create the torch.cuda.Event before the loop, and record it again in each step. "
       "stream.record_event() without an event makes a new one each time."},
      {Rule::blocking_in_a_loop, "blocking-in-a-loop", "waits for the device again and again",
       "While the thread waits, it submits nothing, so the device may run out of work.",
       "Wait less often, or later: submit the next work before the wait for earlier work. Let streams wait "
       "for each other with cuStreamWaitEvent, and copy with cuMemcpyAsync and pinned memory. If the "
       "program needs the wait, for example to read a loss, wait only every few steps.",
       "Wait less often, or later: .item(), .cpu(), .tolist() and torch.cuda.synchronize() wait for the "
       "device. Keep losses on the device and read them every few steps. Copy with non_blocking=True from "
       "pinned memory."},
      {Rule::pageable_copy, "pageable-copy", "copies pageable memory on a stream, and the call waits",
       "A copy on a stream returns at once only if the driver may access the memory of the host by itself. "
       "Memory "
       "of malloc or new is pageable: the call waits for the work of the stream before the copy, or until "
       "all of "
       "the memory is copied into a buffer of the driver.",
       "Allocate the memory with cuMemHostAlloc (cudaMallocHost), or pin it once with cuMemHostRegister.",
       "Use tensors of pinned memory: tensor.pin_memory(), or DataLoader(pin_memory=True)."},
      {Rule::allocated_in_a_loop, "allocated-in-a-loop",
       "allocates memory in a loop, and frees it soon after",
       "cuMemFree, cuMemFreeHost and cuMemHostUnregister wait for the work of the device. Allocations take "
       "locks "
       "that other threads wait for.",
       "Allocate the memory once, and use it again in each step; or use cuMemAllocAsync and cuMemFreeAsync, "
       "which "
       "keep memory in a pool and wait for nothing.",
       "Leave the memory to PyTorch's allocator: do not call torch.cuda.empty_cache() in a loop."},
      {Rule::serial_host_functions, "serial-host-functions",
       "submits functions to several streams that take long, and run one after another",
       "The functions of these streams ran on one thread. While the function of one stream runs, the other "
       "streams "
       "wait.",
       "Let the function wake a thread of the program, which does the work, and return at once. If later "
       "work of "
       "the stream needs the result, let the stream wait for a value that this thread writes "
       "(cuStreamWaitValue32)."},
      {Rule::query_of_completed, "query-of-completed",
       "queries an event again and again although it is known to be complete",
       "Each query is a call of the driver. A completed event stays complete until its next record, so the "
       "answer is always the same.",
       "Remember that a query has returned CUDA_SUCCESS, and query the event again only after its next "
       "record."},
      {Rule::legacy_between_streams, "legacy-between-streams",
       "submits work to the legacy default stream between the work of blocking streams",
       "Work on the legacy default stream waits for all earlier work on the blocking streams of the "
       "context, and their later work waits for it. So these streams do not run at the same time.",
       "Create the streams with CU_STREAM_NON_BLOCKING (non_blocking=True in CuPy), and order them with "
       "events where they depend on each other; or submit the work to a stream of your own. `--stacks all` "
       "shows where the work is submitted."},
      {Rule::wait_for_own_stream, "wait-for-own-stream", "lets a stream wait for its own work",
       "A stream runs its work in order, so the wait has no effect. It costs a call, as does the record.",
       "Leave out the record and the wait if both streams are the same."},
      {Rule::leaked, "leaked", "never destroys an object that it created",
       "The driver keeps the object, and the memory that it takes, until its context or the process ends.",
       "Destroy the object after its last use. If it has to live until the end of the program, destroy it "
       "before main returns, or suppress the finding."},
      {Rule::freed_while_used, "freed-while-used",
       "frees memory while another stream uses it, or uses memory that it has freed",
       "cuMemFreeAsync waits for the work of its own stream only, and cuMemFree waits for nothing if the "
       "memory is of "
       "a pool. As soon as the free is done, the memory may "
       "belong to "
       "the next allocation, which overwrites what the other stream still reads, or is overwritten by it. "
       "A graph keeps the addresses of its nodes, and not their memory.",
       "Let the stream that frees wait for an event that the other stream records after the last use, or "
       "free the "
       "memory on the stream that used it last. Free the memory of a graph after its last launch, or set "
       "other memory in its nodes.",
       "Call tensor.record_stream(stream) for each stream that uses the tensor in addition to the one that "
       "made it, or let "
       "its own stream wait for the other one before the last reference to the tensor goes away."},
      {Rule::unordered_copies, "unordered-copies",
       "copies or sets memory on two streams, and nothing orders the two",
       "The driver may run the two in either order, or at the same time. Which of the values is read or "
       "stays "
       "depends on the timing.",
       "Record an event after the first one, and let the stream of the other one wait for this event. If the "
       "memory "
       "is a buffer that is used again, the wait belongs before its next use."},
      {Rule::unordered_kernel, "unordered-kernel",
       "uses memory in a kernel, or may use it, while another stream copies or sets it",
       "The kernel has a pointer to the memory. Whether it uses all of it, and whether it writes, is not "
       "known. If it "
       "does, the driver may run the two in either order, or at the same time. A copy over a whole tensor "
       "meets whatever the kernel uses.",
       "Check what the kernel does. If it uses what the other stream copies, order the two with an event."},
      {Rule::source_changed, "source-changed", "changes the source of a copy before the copy has begun",
       "The driver reads pinned memory when the copy runs, which may be long after the call. It copies what "
       "is "
       "there then: the new bytes, or some of them.",
       "Record an event behind the copy, and wait for it before the host writes to the source again. Or use "
       "another buffer for the next copy."},
      {Rule::used_before_copied, "used-before-copied", "uses the target of a copy before the copy is done",
       "A copy to pinned memory returns at once. Until the copy is done, its target has the old bytes, or "
       "some "
       "of the new ones, and what the host writes there is lost.",
       "Wait for the stream, or for an event that was recorded behind the copy, before the host uses the "
       "target."},
  };
  return pages;
}

const RulePage& page_of(Rule rule) { return rule_pages()[static_cast<std::size_t>(rule)]; }

const RulePage* page_named(const std::string& name) {
  const auto& pages = rule_pages();
  const auto found =
      std::find_if(pages.begin(), pages.end(), [&](const RulePage& page) { return page.name == name; });
  return found == pages.end() ? nullptr : &*found;
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const RulePage& page : rule_pages())
    names.emplace_back(page.name);
  return names;
}

} // namespace watch
