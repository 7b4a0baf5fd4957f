// SPDX-License-Identifier: MIT
#include "rules/explanation.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr Handle legacy_handle = 1;

/// Findings of one rule that need other words than its page has.
struct Case {
  Rule rule;
  bool (*fits)(const Finding&);
  const char* driver; // null: as on the page; the same for the others
  const char* fix;
  const char* torch = nullptr;
};

bool is_about_graphs(const Finding& finding) { return finding.call.verb() == Verb::graph_instantiate; }
bool is_about_streams(const Finding& finding) { return finding.call.verb() == Verb::stream_create; }

bool was_a_graph(const Finding& finding) {
  return std::any_of(finding.earlier.begin(), finding.earlier.end(), [](const Earlier& earlier) {
    return earlier.call.verb() == Verb::graph_destroy || earlier.call.verb() == Verb::exec_destroy;
  });
}

/// The first of two calls has no stream, and so it uses the default stream.
template <Work work>
bool follows_early_return(const Finding& finding) {
  return !finding.earlier.empty() && finding.earlier.front().call.verb() == Verb::copy &&
         finding.earlier.front().call.work() == work;
}

bool is_on_legacy_stream(const Call& call) {
  return call.stream_handle == legacy_handle || (call.verb() == Verb::copy && (call.marks & per_thread) == 0);
}

/// One of the two calls that nothing orders.
bool uses_legacy_stream(const Finding& finding) {
  return is_on_legacy_stream(finding.call) ||
         (!finding.earlier.empty() && is_on_legacy_stream(finding.earlier.front().call));
}

bool records_on_legacy_stream(const Finding& finding) {
  return std::any_of(finding.earlier.begin(), finding.earlier.end(), [](const Earlier& earlier) {
    return earlier.call.verb() == Verb::event_record && is_on_legacy_stream(earlier.call);
  });
}

constexpr const char* pass_the_stream =
    "One of the two calls uses the legacy default stream, and the stream of the other call does not wait for "
    "it. "
    "Pass that stream to both calls: functions without a stream have a variant with one, such as "
    "cuMemcpyHtoDAsync.";
constexpr const char* pass_the_stream_in_torch =
    "One of the two runs on the default stream, and the other stream does not wait for it. Put both inside "
    "of "
    "`with torch.cuda.stream(stream):`, or call stream.wait_stream(torch.cuda.default_stream()) between "
    "them.";
constexpr const char* after_early_return =
    "Call the variant that takes a stream, and pass it the stream of the second call. Or wait between the "
    "two: "
    "cuStreamSynchronize(CU_STREAM_LEGACY) returns when the first one is done.";

// The first case that fits counts.
constexpr Case cases[] = {
    {Rule::created_in_a_loop, is_about_graphs,
     "Each instantiation and each destruction of an executable graph is work for the host. Neither returns "
     "while "
     "another thread is blocked on a full launch queue.",
     "Instantiate the graph before the loop, and launch the executable graph again. If the graph has "
     "changed, call "
     "cuGraphExecUpdate first.",
     "Keep the torch.cuda.CUDAGraph, and call replay() in each step."},
    {Rule::created_in_a_loop, is_about_streams,
     "Each creation and each destruction of a stream is work for the host. A creation does not return while "
     "another "
     "thread is blocked on a full launch queue.",
     "Create the streams before the loop, and use them again.",
     "Create the torch.cuda.Stream before the loop, and use it in each step."},
    {Rule::use_after_destroy, was_a_graph, nullptr,
     "Destroy the graph, or the executable graph, after its last use on all threads."},
    {Rule::unordered_copies, follows_early_return<Work::copy>,
     "This copy returns before the device has done it, and streams that were created with "
     "CU_STREAM_NON_BLOCKING "
     "do not wait for it. So the second call may run first, or at the same time.",
     after_early_return, pass_the_stream_in_torch},
    {Rule::unordered_copies, follows_early_return<Work::fill>,
     "This memset returns before the device has done it, and streams that were created with "
     "CU_STREAM_NON_BLOCKING do not wait for it. So the second call may run first, or at the same time.",
     after_early_return, pass_the_stream_in_torch},
    {Rule::unordered_copies, uses_legacy_stream, nullptr, pass_the_stream, pass_the_stream_in_torch},
    {Rule::unordered_kernel, uses_legacy_stream, nullptr, pass_the_stream, pass_the_stream_in_torch},
    {Rule::freed_while_used, uses_legacy_stream, nullptr,
     "One of the two calls uses the legacy default stream, and the stream of the other call does not wait "
     "for it. "
     "Pass the stream that used the memory last to cuMemFreeAsync, or let the stream that frees wait for an "
     "event "
     "of the other one.",
     "Call tensor.record_stream(stream) for the stream that uses the tensor in addition to the default "
     "stream."},
    {Rule::elapsed_without_work, records_on_legacy_stream, nullptr,
     "A record of one of the events is on the legacy default stream. Pass the stream that gets the work to "
     "both "
     "calls of cuEventRecord.",
     "Pass the stream to event.record(stream), or record inside of `with torch.cuda.stream(stream):`."},
};

} // namespace

Explanation explanation_of(const Finding& finding, Words words) {
  const RulePage& page = page_of(finding.rule);
  const auto found = std::find_if(std::begin(cases), std::end(cases), [&](const Case& each) {
    return each.rule == finding.rule && each.fits(finding);
  });
  const bool is_special = found != std::end(cases);
  const char* const torch = is_special ? found->torch : page.torch;
  return {is_special && found->driver != nullptr ? found->driver : page.driver,
          words == Words::torch && torch != nullptr ? torch
          : is_special                              ? found->fix
                                                    : page.fix};
}

} // namespace watch
