// SPDX-License-Identifier: MIT
#include "api.hpp"

#include <algorithm>

namespace cuevent::sim {

#if CUDA_VERSION >= 12030
namespace {

bool is_not_plain(const CUgraphEdgeData& edge) {
  return edge.from_port != 0 || edge.to_port != 0 || edge.type != 0;
}

} // namespace

bool Api::has_reserved_edge(const CUgraphEdgeData* edges, std::size_t count) {
  return edges != nullptr && std::any_of(edges, edges + count, [](const CUgraphEdgeData& edge) {
           return std::ranges::any_of(edge.reserved, [](auto each) { return each != 0; });
         });
}

/// Only edges from kernels can have data. A device looks for the nodes first.
void Api::must_be_plain(const Graph& in, const CUgraphNode* from, const CUgraphEdgeData* edges,
                        std::size_t count) {
  if (edges == nullptr || from == nullptr || std::none_of(edges, edges + count, is_not_plain)) return;
  for (std::size_t i = 0; i < count; ++i) {
    const auto node = node_of(in, from[i]);
    refuse_if(is_not_plain(edges[i]) && node->work.type != CU_GRAPH_NODE_TYPE_KERNEL,
              CUDA_ERROR_INVALID_VALUE);
  }
  not_modelled("edge data");
}
#endif

bool Api::capturing(const Stream& stream) {
  if (!stream.capture) return false;
  refuse_if(stream.capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return true;
}

/// The captures of streams that the legacy stream synchronises with. None for other streams.
std::vector<Capture*> Api::captures_beside(const Stream& stream) const {
  std::vector<Capture*> found;
  if (stream.type != Stream::Type::legacy) return found;
  for (auto& capture : process_.captures)
    if (std::any_of(capture->streams.begin(), capture->streams.end(), [&](const auto& other) {
          return other->blocking() && other->home.context == stream.home.context;
        }))
      found.push_back(capture.get());
  return found;
}

/// A node that is there already stays there once.
void Api::add_to_frontier(std::vector<Node*>& frontier, const Graph& graph, const CUgraphNode* nodes,
                          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto one = node(nodes[i]);
    refuse_if(one->graph != &graph, CUDA_ERROR_INVALID_VALUE);
    if (std::find(frontier.begin(), frontier.end(), one.get()) == frontier.end())
      frontier.push_back(one.get());
  }
}

void Api::implicit_check(const Stream& stream) {
  const auto harmed = captures_beside(stream);
  for (Capture* capture : harmed)
    capture->invalidated = true;
  refuse_if(!harmed.empty(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            "Call cannot be made against CU_STREAM_LEGACY while a blocking stream in the same context is "
            "capturing");
}

void Api::unsafe_call(const char* reason_if_own) {
  const auto mode = thread().capture_mode;
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  bool forbidden = false, any_own = false;
  for (auto& capture : process_.captures) {
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool own = capture->thread == Computer::this_thread_id();
    const bool global =
        mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (own || global) forbidden = capture->invalidated = true;
    any_own = any_own || own;
  }
  refuse_if(forbidden, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, any_own ? reason_if_own : nullptr);
}

void Api::refuse_in_capture(const Stream& stream) {
  if (!stream.capture) return;
  stream.capture->invalidated = true;
  refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void Api::refuse_captured(const Event& event, Harm harm) {
  const auto& capture = event.recording->capture;
  if (!capture) return;
  refuse_if(!capture->active(), CUDA_ERROR_INVALID_VALUE, reasons::capture_is_over);
  if (harm == Harm::the_capture) capture->invalidated = true;
  refuse(CUDA_ERROR_CAPTURED_EVENT, "Recorded event not allowed on stream");
}

Node& Api::add_captured_node(Stream& stream, Work work) {
  Graph& graph = *stream.capture->graph;
  auto added = make<Node>(Kind::node, nullptr);
  added->graph = &graph;
  added->work = std::move(work);
  added->after = stream.frontier;
  graph.nodes.push_back(added);
  stream.frontier = {added.get()};
  return *added;
}

void Api::join(const std::shared_ptr<Stream>& stream, const Recording& recording) {
  if (!stream->capture) {
    stream->capture = recording.capture;
    recording.capture->streams.push_back(stream);
  }
  if (stream->capture->origin == stream.get())
    stream->capture->joined.insert(stream->capture->joined.end(), recording.frontier.begin(),
                                   recording.frontier.end());
  for (Node* node : recording.frontier)
    if (std::find(stream->frontier.begin(), stream->frontier.end(), node) == stream->frontier.end())
      stream->frontier.push_back(node);
}

void Api::wait_in_capture(const std::shared_ptr<Stream>& who, const std::shared_ptr<Event>& what,
                          bool external) {
  Capture& capture = *who->capture;
  Recording& recording = *what->recording;
  auto break_with = [&](CUresult result) {
    capture.invalidated = true;
    refuse(result);
  };
  if (external) {
    if (recording.capture && !recording.capture->active()) break_with(CUDA_ERROR_INVALID_VALUE);
    Work work;
    work.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    work.text = "wait for event #" + std::to_string(what->number);
    work.event = what;
    add_captured_node(*who, std::move(work));
    return;
  }
  if (what->interprocess()) break_with(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (recording.capture) {
    if (!recording.capture->active()) break_with(CUDA_ERROR_INVALID_VALUE);
    if (recording.capture.get() != &capture) {
      recording.capture->invalidated = true;
      break_with(CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    join(who, recording);
    return;
  }
  if (recording.operation) break_with(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  // An event that was never recorded, or only by graph nodes: nothing to wait for, and nothing joins.
}

/// Ends a capture without a graph.
void Api::discard(Capture& capture) {
  const auto keep = capture.graph; // destroyed even if it existed before the capture
  forget(*keep, "destroyed with its capture, " + ending());
  keep->lost = keep->body; // whose node stays
  finish(capture);
  std::erase_if(process_.captures, [&](const auto& other) { return other.get() == &capture; });
}

/// The origin of a capture that may begin.
std::shared_ptr<Stream> Api::stream_to_capture(CUstream handle, CUstreamCaptureMode mode) {
  refuse_if(mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
                mode != CU_STREAM_CAPTURE_MODE_RELAXED,
            CUDA_ERROR_INVALID_VALUE);
  auto origin = stream(handle);
  implicit_check(*origin);
  refuse_if(origin->type == Stream::Type::legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  wait_while_queue_is_full(*origin->home.context);
  refuse_if(origin->capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  return origin;
}

Capture& Api::begin_capture(const std::shared_ptr<Stream>& origin, CUstreamCaptureMode mode,
                            std::shared_ptr<Graph> into) {
  auto capture = std::make_shared<Capture>();
  capture->id = ++computer_.capture_ids;
  capture->mode = mode;
  capture->thread = Computer::this_thread_id();
  capture->origin = origin.get();
  capture->streams = {origin};
  capture->graph = std::move(into);
  origin->capture = capture;
  process_.captures.push_back(capture);
  return *capture;
}

CUresult Api::cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  begin_capture(stream_to_capture(handle, mode), mode, make<Graph>(Kind::graph, nullptr));
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12030
CUresult Api::cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle, const CUgraphNode* after,
                                          const CUgraphEdgeData* edges, size_t count,
                                          CUstreamCaptureMode mode) {
  refuse_if(graph_handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto origin = stream_to_capture(handle, mode);
  const auto into = graph(graph_handle);
  refuse_if(after == nullptr && count != 0, CUDA_ERROR_INVALID_VALUE);
  must_be_plain(*into, after, edges, count);
  refuse_if(std::any_of(process_.captures.begin(), process_.captures.end(),
                        [&](const auto& other) { return other->graph == into; }),
            CUDA_ERROR_ILLEGAL_STATE);
  std::vector<Node*> frontier;
  add_to_frontier(frontier, *into, after, count);
  begin_capture(origin, mode, into);
  origin->frontier = std::move(frontier);
  return CUDA_SUCCESS;
}
#endif

CUresult Api::cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  auto asked = stream(handle);
  if (graph != nullptr) *graph = nullptr; // without a place for the graph, the capture ends as usual
  implicit_check(*asked);
  const auto capture = asked->capture;
  refuse_if(!capture, CUDA_ERROR_ILLEGAL_STATE, "Stream is not actively capturing");
  if (capture->origin != asked.get()) {
    capture->invalidated = true;
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "Capture was not initiated on hStream");
  }
  CUresult result = CUDA_SUCCESS;
  if (capture->invalidated) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    call_under_way.reason = "Capture was invalidated by a prior API call";
  } else if (unjoined(*capture)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    call_under_way.reason = "Capture sequence contains a fork that was not joined to the primary stream";
  } else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
             capture->thread != Computer::this_thread_id()) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    call_under_way.reason =
        "CU_STREAM_CAPTURE_MODE_RELAXED is required to begin and end the capture on different threads";
  }
  if (result != CUDA_SUCCESS) {
    discard(*capture);
    return result;
  }
  if (graph != nullptr) *graph = as<CUgraph>(*capture->graph);
  finish(*capture);
  std::erase(process_.captures, capture);
  return CUDA_SUCCESS;
}

CUresult Api::capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                           const CUgraphNode** dependencies, size_t* count) {
  refuse_if(status == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto asked = stream(handle);
  refuse_if(!captures_beside(*asked).empty(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT); // and no capture is harmed
  if (!asked->capture) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  const Capture& capture = *asked->capture;
  *status = capture.invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (capture.invalidated) return CUDA_SUCCESS;
  if (id != nullptr) *id = capture.id;
  if (graph != nullptr) *graph = as<CUgraph>(*capture.graph);
  asked->shown_frontier.clear();
  for (const Node* node : asked->frontier)
    asked->shown_frontier.push_back(as<CUgraphNode>(*node));
  if (dependencies != nullptr) *dependencies = asked->shown_frontier.data();
  if (count != nullptr) *count = asked->shown_frontier.size();
  return CUDA_SUCCESS;
}

CUresult Api::cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  refuse_if(status == nullptr, CUDA_ERROR_INVALID_VALUE); // before it looks for a context
  return capture_info(handle, status, nullptr, nullptr, nullptr, nullptr);
}

CUresult Api::cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return capture_info(handle, status, id, nullptr, nullptr, nullptr);
}

CUresult Api::cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                        CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  return capture_info(handle, status, id, graph, dependencies, count);
}

CUresult Api::cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* dependencies, size_t count,
                                                unsigned int flags) {
  auto asked = stream(handle);
  implicit_check(*asked);
  refuse_if(!capturing(*asked), CUDA_ERROR_ILLEGAL_STATE);
  refuse_if(flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (dependencies == nullptr && count != 0),
            CUDA_ERROR_INVALID_VALUE);
  std::vector<Node*> frontier;
  if (flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) frontier = asked->frontier;
  add_to_frontier(frontier, *asked->capture->graph, dependencies, count);
  asked->frontier = std::move(frontier);
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12030
CUresult Api::cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                        CUgraph* graph, const CUgraphNode** dependencies,
                                        const CUgraphEdgeData** edges, size_t* count) {
  if (status == nullptr || !stream(handle)->capture)
    return capture_info(handle, status, id, graph, dependencies, count);
  const bool refused = edges != nullptr && dependencies == nullptr;
  const CUresult result = capture_info(handle, status, id, graph, dependencies, refused ? nullptr : count);
  refuse_if(refused, CUDA_ERROR_INVALID_VALUE);
  if (edges == nullptr) return result;
  auto asked = stream(handle);
  asked->shown_edges.assign(asked->shown_frontier.size(), {}); // all edges are full dependencies
  *edges = asked->capture && asked->capture->active() ? asked->shown_edges.data() : nullptr;
  return result;
}

CUresult Api::cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* dependencies,
                                                   const CUgraphEdgeData* edges, size_t count,
                                                   unsigned int flags) {
  if (const auto asked = stream(handle); edges != nullptr && asked->capture && asked->capture->active()) {
    must_be_plain(*asked->capture->graph, dependencies, edges, count);
    refuse_if(has_reserved_edge(edges, count), CUDA_ERROR_INVALID_VALUE);
  }
  return cuStreamUpdateCaptureDependencies(handle, dependencies, count, flags);
}
#endif

CUresult Api::cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr) crash("the mode is a null pointer"); // any mode is accepted
  std::swap(thread().capture_mode, *mode);
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
