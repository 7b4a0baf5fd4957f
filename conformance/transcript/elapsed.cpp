// SPDX-License-Identifier: MIT
// Elapsed times, with both versions of the call: which pairs have a time, and which error wins.

#include "lab.hpp"

namespace transcript {
namespace {

using Elapsed = PFN_cuEventElapsedTime_v2000; // both versions have this signature

void pairs(Lab& lab, Elapsed elapsed) {
  const Api& cu = lab.cu;
  lab.second_context();
  Stream stream(lab), held(lab);
  Event start(lab, CU_EVENT_DEFAULT), end(lab, CU_EVENT_BLOCKING_SYNC), untimed(lab);
  Event never(lab, CU_EVENT_DEFAULT), never_untimed(lab), pending(lab, CU_EVENT_DEFAULT);
  Event pending_untimed(lab);
  const CUfunction nothing = lab.kernel("step");
  cu.EventRecord(start, stream);
  for (int i = 0; i < 100; ++i)
    cu.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  cu.EventRecord(end, stream);
  cu.EventRecord(untimed, stream);
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const Gate gate(lab, held);
  cu.EventRecord(pending, held);
  cu.EventRecord(pending_untimed, held);

  float ms = 0;
  lab.is("done_done", elapsed(&ms, start, end));
  lab.shows("done_done.is_positive", ms > 0);
  lab.is("reversed", elapsed(&ms, end, start));
  lab.shows("reversed.is_negative", ms < 0);
  lab.is("itself", elapsed(&ms, start, start));
  lab.shows("itself.is_zero", ms == 0);
  struct Case {
    const char* name;
    CUevent start, end;
  };
  for (const auto& [name, first, second] : {Case{"done_untimed", start, untimed},
                                            {"untimed_done", untimed, end},
                                            {"untimed_untimed", untimed, untimed},
                                            {"done_never", start, never},
                                            {"never_done", never, end},
                                            {"never_never", never, never},
                                            {"never_untimed", never, never_untimed},
                                            {"done_pending", start, pending},
                                            {"pending_done", pending, end},
                                            {"pending_itself", pending, pending},
                                            {"pending_untimed", pending, untimed},
                                            {"pending_never", pending, never},
                                            {"never_pending", never, pending},
                                            {"done_pending_untimed", start, pending_untimed},
                                            {"pending_null", pending, nullptr}}) {
    lab.is(name, elapsed(&ms, first, second));
  }
  const Current guard(lab, lab.second_context());
  Stream their_stream(lab);
  Event theirs(lab, CU_EVENT_DEFAULT), their_never(lab, CU_EVENT_DEFAULT);
  cu.EventRecord(theirs, their_stream);
  lab.must(cu.StreamSynchronize(their_stream), "synchronize");
  lab.is("done_of_another_context", elapsed(&ms, start, theirs));
  lab.is("pending_of_another_context", elapsed(&ms, pending, theirs));
  lab.is("never_of_another_context", elapsed(&ms, start, their_never));
}

void version_1(Lab& lab) { pairs(lab, lab.cu.EventElapsedTime); }

void version_2(Lab& lab) {
#if CUDA_VERSION >= 12080
  if (lab.cu.EventElapsedTimeV2 != nullptr) pairs(lab, lab.cu.EventElapsedTimeV2);
#else
  (void)lab;
#endif
}

// Without a place for the time: which check comes first.
void nowhere(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab), held(lab), origin(lab);
  Event done(lab, CU_EVENT_DEFAULT), untimed(lab), never(lab, CU_EVENT_DEFAULT),
      pending(lab, CU_EVENT_DEFAULT), captured(lab, CU_EVENT_DEFAULT), over(lab, CU_EVENT_DEFAULT);
  lab.must(cu.EventRecord(done, stream), "record");
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.must(cu.EventRecord(over, stream), "record");
  lab.must(end_capture(lab, stream), "end");
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const Gate gate(lab, held);
  lab.must(cu.EventRecord(pending, held), "record");
  lab.must(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.must(cu.EventRecord(captured, origin), "record");
  struct Named {
    const char* name;
    CUevent event;
  };
  const Named events[] = {{"null", nullptr},         {"done", done},       {"untimed", untimed},
                          {"never", never},          {"pending", pending}, {"captured", captured},
                          {"finished_capture", over}};
  for (const Named& start : events)
    for (const Named& end : events)
      lab.is(std::string(start.name) + "." + end.name, cu.EventElapsedTime(nullptr, start.event, end.event));
  lab.shows("then_capture", capture_state(lab, origin));
  end_capture(lab, origin);
}

} // namespace

std::vector<Scenario> elapsed_scenarios() {
  return {{"elapsed.v1", version_1}, {"elapsed.v2", version_2}, {"elapsed.nowhere", nowhere, Place::child}};
}

} // namespace transcript
