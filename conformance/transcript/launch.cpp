// SPDX-License-Identifier: MIT
// Kernel launches that record an event.

#include "lab.hpp"

namespace transcript {
namespace {

#if CUDA_VERSION >= 12030
struct Recording {
  const char* name;
  CUlaunchAttribute (*of)(CUevent event, int flags);
};
const Recording recordings[] = {
    {"programmatic",
     [](CUevent event, int flags) {
       CUlaunchAttribute attribute{};
       attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
       attribute.value.programmaticEvent.event = event;
       attribute.value.programmaticEvent.flags = flags;
       return attribute;
     }},
    {"completion",
     [](CUevent event, int flags) {
       CUlaunchAttribute attribute{};
       attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
       attribute.value.launchCompletionEvent.event = event;
       attribute.value.launchCompletionEvent.flags = flags;
       return attribute;
     }},
};

CUresult launch(Lab& lab, CUfunction kernel, CUstream stream, CUlaunchAttribute attribute, unsigned* word) {
  CUdeviceptr where = Lab::address(word);
  void* arguments[] = {&where};
  return lab.launch(kernel, stream, attribute, arguments);
}

void events(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction touch = lab.kernel("touch");
  struct Case {
    const char* name;
    unsigned event_flags;
    int record_flags;
  };
  for (const auto& [recording, attribute] : recordings) {
    for (const auto& [kind, event_flags, record_flags] :
         {Case{"untimed", CU_EVENT_DISABLE_TIMING, 0}, Case{"blocking_sync", 3, 0}, Case{"timed", 0, 0},
          Case{"interprocess", 6, 0}, Case{"external", 2, 1}, Case{"unknown_flags", 2, 0x100}}) {
      Stream stream(lab);
      Event event(lab, event_flags);
      unsigned* const word = lab.word();
      const std::string name = std::string(recording) + "." + kind;
      lab.is(name, launch(lab, touch, stream, attribute(event, record_flags), word));
      lab.is(name + ".synchronize", cu.StreamSynchronize(stream));
      lab.shows(name + ".kernel_ran", *word == 1);
      lab.is(name + ".query", eventually([&] { return cu.EventQuery(event); }));
    }
    const std::string prefix = std::string(recording) + ".";
    Stream stream(lab);
    Event event(lab);
    unsigned* const word = lab.word();
    lab.is(prefix + "null_event", launch(lab, touch, stream, attribute(nullptr, 0), word));
    lab.must(cu.StreamSynchronize(stream), "synchronize");
    {
      Gate gate(lab, stream);
      lab.is(prefix + "held", launch(lab, touch, stream, attribute(event, 0), word));
      lab.is(prefix + "held.query", cu.EventQuery(event));
      gate.open();
      lab.is(prefix + "held.synchronize", cu.EventSynchronize(event));
    }
    lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin");
    lab.is(prefix + "in_capture", launch(lab, touch, stream, attribute(event, 0), word));
    Stream fork(lab);
    lab.is(prefix + "in_capture.wait", cu.StreamWaitEvent(fork, event, 0));
    lab.shows(prefix + "in_capture.fork", capture_state(lab, fork));
    lab.is(prefix + "in_capture.end", end_capture(lab, stream));
    lab.is(prefix + "in_capture.query_afterwards", cu.EventQuery(event));
    Event timed(lab, CU_EVENT_DEFAULT);
    lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin");
    lab.is(prefix + "in_capture.timed", launch(lab, touch, stream, attribute(timed, 0), word));
    lab.shows(prefix + "in_capture.timed.then_capture", capture_state(lab, stream));
    lab.is(prefix + "in_capture.timed.end", end_capture(lab, stream));
    lab.must(cu.CtxSynchronize(), "synchronize");
    const Current guard(lab, lab.second_context());
    Event theirs(lab);
    lab.is(prefix + "event_of_another_context", launch(lab, touch, stream, attribute(theirs, 0), word));
  }
}
#else
void events(Lab&) {}
#endif

} // namespace

std::vector<Scenario> launch_scenarios() { return {{"launch.events", events}}; }

} // namespace transcript
