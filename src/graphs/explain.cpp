// SPDX-License-Identifier: MIT
#include <cuevent/capture.hpp>
#include <cuevent/explain.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include "core/explanation.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "core/text_of.hpp"
#include "graphs/capture_reading.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

std::string explain_create_graph(CUresult result, const Context& context) {
  const char* const call = "cuGraphCreate";
  return text_of(result, call, [&] { context.driver().fail(result, call); });
}

std::string explain_add_record(CUresult result, const Graph& graph, EventRef event) {
  const char* const call = "cuGraphAddEventRecordNode";
  return text_of(result, call, [&] { Explanation::fail(graph, result, call, event); });
}

std::string explain_add_wait(CUresult result, const Graph& graph, EventRef event) {
  const char* const call = "cuGraphAddEventWaitNode";
  return text_of(result, call, [&] { Explanation::fail(graph, result, call, event); });
}

std::string explain_event(CUresult result, const Graph& graph, EventRecordNode) {
  const char* const call = "cuGraphEventRecordNodeGetEvent";
  return text_of(result, call, [&] { Explanation::fail(graph, result, call); });
}

std::string explain_event(CUresult result, const Graph& graph, EventWaitNode) {
  const char* const call = "cuGraphEventWaitNodeGetEvent";
  return text_of(result, call, [&] { Explanation::fail(graph, result, call); });
}

std::string explain_set_event(CUresult result, const Graph& graph, EventRecordNode, EventRef event) {
  const char* const call = "cuGraphEventRecordNodeSetEvent";
  return text_of(result, call, [&] { Explanation::fail(graph, result, call, event); });
}

std::string explain_set_event(CUresult result, const Graph& graph, EventWaitNode, EventRef event) {
  const char* const call = "cuGraphEventWaitNodeSetEvent";
  return text_of(result, call, [&] { Explanation::fail(graph, result, call, event); });
}

std::string explain_set_event(CUresult result, const GraphExec& exec, EventRecordNode node, EventRef event) {
  return text_of(result, "cuGraphExecEventRecordNodeSetEvent",
                 [&] { Explanation::fail_set_event(exec, result, node, event); });
}

std::string explain_set_event(CUresult result, const GraphExec& exec, EventWaitNode node, EventRef event) {
  return text_of(result, "cuGraphExecEventWaitNodeSetEvent",
                 [&] { Explanation::fail_set_event(exec, result, node, event); });
}

std::string explain_event_nodes(CUresult result, const Graph& graph) {
  const char* const get_nodes = "cuGraphGetNodes";
  const char* const call = graph ? refused_call(&graph, result, get_nodes) : get_nodes;
  return text_of(result, call, [&] { Explanation::fail(graph, result, call); });
}

std::string explain_record_node(CUresult result, const Graph& graph, EventRef event) {
  const char* const call = "Graph::record_node";
  return text_of(result, call, [&] { Explanation::fail_find(graph, result, call, event); });
}

std::string explain_wait_node(CUresult result, const Graph& graph, EventRef event) {
  const char* const call = "Graph::wait_node";
  return text_of(result, call, [&] { Explanation::fail_find(graph, result, call, event); });
}

std::string explain_retain(CUresult result, const Graph& graph, EventRef event) {
  return text_of(result, "cuUserObjectCreate", [&] { Explanation::fail_retain(graph, result, event); });
}

std::string explain_retain(CUresult result, const Graph& graph) {
  return text_of(result, "cuUserObjectCreate", [&] { Explanation::fail_retain(graph, result); });
}

std::string explain_instantiate(CUresult result, const Graph& graph) {
  return text_of(result, "cuGraphInstantiateWithFlags",
                 [&] { Explanation::fail_instantiate(graph, result); });
}

std::string explain_launch(CUresult result, const GraphExec& exec) {
  return text_of(result, "cuGraphLaunch", [&] { Explanation::fail_launch(exec, result); });
}

std::string explain_begin(CUresult result, const StreamCapture& capture, const Context& context) {
  return text_of(result, "cuStreamBeginCapture", [&] { Explanation::fail_begin(capture, result, context); });
}

std::string explain_begin(CUresult result, const StreamCapture& capture, const Context& context,
                          const Graph& graph) {
  return text_of(result, "cuStreamBeginCaptureToGraph",
                 [&] { Explanation::fail_begin(capture, result, context, graph); });
}

std::string explain_record(CUresult result, const StreamCapture& capture, EventRef event, CUstream stream) {
  return text_of(result, "cuEventRecordWithFlags",
                 [&] { Explanation::fail_record(capture, result, event, stream); });
}

std::string explain_end(CUresult result, const StreamCapture& capture) {
  return text_of(result, "cuStreamEndCapture", [&] { Explanation::fail_end(capture, result); });
}

std::string explain_capture_status(CUresult result, const Context& context) {
  const char* const call = "cuStreamIsCapturing";
  return text_of(result, call, [&] { context.driver().fail(result, call); });
}

std::string explain_capture_info(CUresult result, const Context& context) {
  const char* const call = "cuStreamGetCaptureInfo";
  return text_of(result, call, [&] {
    require_context(context, call);
    context.driver().fail(result, call);
  });
}

std::string explain_capture_dependencies(CUresult result, const Context& context) {
  const char* const call = "cuStreamUpdateCaptureDependencies";
  return text_of(result, call, [&] { fail_update(context, result); });
}

}} // namespace cuevent::CUEVENT_ABI
