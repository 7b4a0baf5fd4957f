// SPDX-License-Identifier: MIT
// What cuStreamGetCaptureInfo says about a capture, to whom, and what the question harms.

#include "scene.hpp"

#include <algorithm>
#include <vector>

namespace transcript {
namespace {

// The answers before a call, to see which of them the call sets.
struct Info {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  cuuint64_t id = 7;
  CUgraph graph = reinterpret_cast<CUgraph>(std::uintptr_t{7});
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 7;
};

CUresult ask(const Api& cu, CUstream stream, Info& info) {
  return cu.StreamGetCaptureInfo(stream, &info.status, &info.id, &info.graph, &info.nodes, &info.count);
}

// The answers about a stream that has no active capture.
CUresult show_untouched(Scene& s, const char* name, CUstream stream) {
  const Info before;
  Info info;
  const CUresult result = ask(s.cu, stream, info);
  const std::string prefix = name;
  s.lab.shows(prefix + ".status", static_cast<int>(info.status));
  s.lab.shows(prefix + ".sets_id", info.id != before.id);
  s.lab.shows(prefix + ".sets_graph", info.graph != before.graph);
  s.lab.shows(prefix + ".sets_count", info.count != before.count);
  return result;
}

const Probe probes[] = {
    {"origin",
     [](Scene& s) {
       Info info;
       return ask(s.cu, s.origin, info);
     }},
    {"origin.thread_global",
     [](Scene& s) {
       Info info;
       return in_mode(s.lab, CU_STREAM_CAPTURE_MODE_GLOBAL, [&] { return ask(s.cu, s.origin, info); });
     }},
    {"other_thread",
     [](Scene& s) {
       return on_other_thread(s.lab, [&] {
         Info info;
         return ask(s.cu, s.origin, info);
       });
     }},
    {"fork",
     [](Scene& s) {
       s.branch(false);
       Info origin, fork;
       ask(s.cu, s.origin, origin);
       const CUresult result = ask(s.cu, s.fork, fork);
       s.lab.shows("fork.same_id", fork.id == origin.id);
       s.lab.shows("fork.same_graph", fork.graph == origin.graph);
       s.lab.shows("fork.count", fork.count);
       return result;
     }},
    {"bystander", [](Scene& s) { return show_untouched(s, "bystander", s.bystander); }},
    {"per_thread", [](Scene& s) { return show_untouched(s, "per_thread", CU_STREAM_PER_THREAD); }},
    {"no_status",
     [](Scene& s) {
       return s.cu.StreamGetCaptureInfo(s.origin, nullptr, nullptr, nullptr, nullptr, nullptr);
     }},
    {"nodes_without_count",
     [](Scene& s) {
       Info info;
       return s.cu.StreamGetCaptureInfo(s.origin, &info.status, nullptr, nullptr, &info.nodes, nullptr);
     }},
#if CUDA_VERSION >= 12030
    {"with_edges",
     [](Scene& s) {
       Info info;
       const CUgraphEdgeData* edges = nullptr;
       const CUresult result = s.cu.StreamGetCaptureInfoV3(s.origin, &info.status, &info.id, &info.graph,
                                                           &info.nodes, &edges, &info.count);
       s.lab.shows("with_edges.count", info.count);
       s.lab.shows("with_edges.edges_are_null", edges == nullptr);
       s.lab.shows("with_edges.edges_are_plain", edges == nullptr || edges->type == 0);
       return result;
     }},
    {"with_edges.nodes_only",
     [](Scene& s) {
       Info info;
       return s.cu.StreamGetCaptureInfoV3(s.origin, &info.status, nullptr, nullptr, &info.nodes, nullptr,
                                          &info.count);
     }},
    {"with_edges.edges_only",
     [](Scene& s) {
       Info info;
       const CUgraphEdgeData* edges = nullptr;
       return s.cu.StreamGetCaptureInfoV3(s.origin, &info.status, nullptr, nullptr, nullptr, &edges,
                                          &info.count);
     }},
#endif
};

template <std::size_t mode>
void in_capture(Lab& lab) {
  for (const Probe& item : probes)
    probe(lab, item.name, capture_modes[mode].value, item.call);
  probe(lab, "invalidated", capture_modes[mode].value, [](Scene& s) {
    s.cu.EventQuery(s.captured);
    return show_untouched(s, "invalidated", s.origin);
  });
  for (const unsigned flags : {unsigned{CU_STREAM_DEFAULT}, unsigned{CU_STREAM_NON_BLOCKING}}) {
    const std::string beside = flags == CU_STREAM_DEFAULT ? "beside_blocking." : "beside_non_blocking.";
    probe(
        lab, beside + "legacy", capture_modes[mode].value,
        [&](Scene& s) { return show_untouched(s, (beside + "legacy").c_str(), CU_STREAM_LEGACY); }, flags);
    probe(
        lab, beside + "stream_0", capture_modes[mode].value,
        [&](Scene& s) { return show_untouched(s, (beside + "stream_0").c_str(), nullptr); }, flags);
    probe(
        lab, beside + "per_thread", capture_modes[mode].value,
        [&](Scene& s) { return show_untouched(s, (beside + "per_thread").c_str(), CU_STREAM_PER_THREAD); },
        flags);
  }
}

// With no context current, and with another context current.
void contexts(Lab& lab) {
  Scene s(lab, CU_STREAM_CAPTURE_MODE_GLOBAL);
  for (const bool none : {true, false}) {
    const std::string prefix = none ? "no_context." : "another_context.";
    const Current guard(lab, none ? nullptr : lab.second_context());
    Info info;
    lab.is(prefix + "origin", ask(lab.cu, s.origin, info));
    lab.is(prefix + "legacy", ask(lab.cu, CU_STREAM_LEGACY, info));
    lab.is(prefix + "per_thread", ask(lab.cu, CU_STREAM_PER_THREAD, info));
  }
  show_end(s, "contexts");
}

// Which nodes are in the frontier of a stream, in which order, after what the stream has done.
void frontier(Lab& lab) {
  Scene s(lab, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::vector<CUgraphNode> seen; // all nodes, numbered in the order in which they are seen
  const auto show = [&](const char* name, CUstream stream) {
    Info info;
    lab.is(name, ask(lab.cu, stream, info));
    std::string numbers;
    for (std::size_t i = 0; i < info.count; ++i) {
      auto place = std::find(seen.begin(), seen.end(), info.nodes[i]);
      if (place == seen.end()) place = seen.insert(seen.end(), info.nodes[i]);
      numbers += (numbers.empty() ? "" : " ") + std::to_string(place - seen.begin());
    }
    lab.shows(std::string(name) + ".nodes", numbers.empty() ? "none" : numbers);
  };
  Event joined(lab);
  show("at_first", s.origin); // node 0, the external record
  s.branch(false);
  show("fork", s.fork);
  s.launch(s.fork); // node 1
  show("fork.work", s.fork);
  lab.cu.EventRecord(joined, s.fork);
  lab.cu.StreamWaitEvent(s.origin, joined, 0);
  show("joined_without_work", s.origin);
  lab.cu.StreamWaitEvent(s.origin, joined, 0);
  show("joined_twice", s.origin);
  s.launch(s.origin); // node 2
  show("work_after_join", s.origin);
  lab.cu.StreamWaitEvent(s.origin, joined, 0);
  show("joined_again_after_work", s.origin);
  lab.cu.EventRecord(s.captured, s.origin);
  lab.cu.StreamWaitEvent(s.origin, s.captured, 0);
  show("waited_for_itself", s.origin);
  show_end(s, "frontier");
}

} // namespace

std::vector<Scenario> capture_info_scenarios() {
  return {{"capture_info.global", in_capture<0>, Place::child},
          {"capture_info.thread_local", in_capture<1>, Place::child},
          {"capture_info.relaxed", in_capture<2>, Place::child},
          {"capture_info.contexts", contexts, Place::child},
          {"capture_info.frontier", frontier, Place::child}};
}

} // namespace transcript
