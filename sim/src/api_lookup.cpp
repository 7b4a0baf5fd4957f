// SPDX-License-Identifier: MIT
#include "api.hpp"

namespace cuevent::sim {

std::string Api::history(const Context* where) const {
  std::string text =
      std::string("made by ") + call_under_way.name + " in call #" + std::to_string(call_under_way.number);
  if (where != nullptr) text += " in context #" + std::to_string(where->number);
  return text;
}

std::string Api::ending() const {
  return std::string("destroyed by ") + call_under_way.name + " in call #" +
         std::to_string(call_under_way.number);
}

int Api::device(CUdevice device) {
  refuse_if(device < 0 || device >= computer_.devices(), CUDA_ERROR_INVALID_DEVICE);
  return device;
}

std::shared_ptr<Context> Api::context_even_dead(CUcontext handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return computer_.handles.find<Context>(handle, Kind::context, process_);
}

std::shared_ptr<Context> Api::context(CUcontext handle) {
  auto found = context_even_dead(handle);
  refuse_if(!found->active, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return found;
}

std::shared_ptr<Context> Api::current_context() {
  auto& stack = thread().contexts;
  refuse_if(stack.empty(), CUDA_ERROR_INVALID_CONTEXT, reasons::no_context);
  auto current = stack.back();
  if (current->active) return current;
  refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

std::shared_ptr<Context> Api::context_to_create_in() {
  auto& stack = thread().contexts;
  if (!stack.empty() && !stack.back()->active && stack.back()->type != Context::Type::primary)
    undefined("an object is created in the current context, which is dead: " +
              computer_.handles.describe(*stack.back()));
  auto current = current_context();
  meet_fault(process_, FaultNews::of_a_submission);
  return current;
}

void Api::require_alive(const Birthplace& home, const Object& object) {
  if (home.alive()) return;
  if (home.context->detached) { // measured with a query of a stream
    const auto report = object.kind == Kind::stream ? crash : undefined;
    report("the object outlived its context, which cuCtxDetach ended: " + computer_.handles.describe(object));
  }
  if (home.context->active)
    undefined("the object outlived a reset of its primary context, which is active again: " +
              computer_.handles.describe(object));
  refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

std::shared_ptr<Stream> Api::default_stream(bool per_thread) {
  auto home = current_context();
  meet_fault(process_, FaultNews::of_a_submission);
  if (!per_thread) return home->legacy;
  refuse_if(home->type == Context::Type::green, CUDA_ERROR_INVALID_HANDLE);
  auto& own = home->per_thread[Computer::this_thread_id()];
  if (!own) own = new_default_stream(home, Stream::Type::per_thread);
  return own;
}

std::shared_ptr<Stream> Api::stream(CUstream handle) {
  if (handle == nullptr) return default_stream(per_thread_default_);
  if (handle == CU_STREAM_LEGACY) return default_stream(false);
  if (handle == CU_STREAM_PER_THREAD) return default_stream(true);
  auto found = computer_.handles.find<Stream>(handle, Kind::stream, process_);
  require_alive(found->home, *found);
  meet_fault(process_, FaultNews::of_a_submission);
  return found;
}

std::shared_ptr<Event> Api::event(CUevent handle, const char* reason_if_null) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE, reason_if_null);
  auto found = find<Event>(handle, Kind::event);
  require_alive(found->home, *found);
  meet_fault(process_, FaultNews::of_an_event);
  return found;
}

std::shared_ptr<Graph> Api::graph(CUgraph handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  return find<Graph>(handle, Kind::graph);
}

std::shared_ptr<Node> Api::node(CUgraphNode handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  return find<Node>(handle, Kind::node);
}

/// A device finds another graph in a node that has ended.
std::shared_ptr<Node> Api::node_of(const Graph& graph, CUgraphNode handle) {
  refuse_if(has_ended(handle), CUDA_ERROR_INVALID_VALUE);
  auto found = node(handle);
  refuse_if(found->graph != &graph, CUDA_ERROR_INVALID_VALUE);
  return found;
}

/// A device takes a node that has ended for a kernel, and reads freed memory then.
std::shared_ptr<Node> Api::node(CUgraphNode handle, CUgraphNodeType type, const char* reason_if_other) {
  refuse_if(type != CU_GRAPH_NODE_TYPE_KERNEL && has_ended(handle), CUDA_ERROR_INVALID_VALUE);
  auto found = node(handle);
  refuse_if(found->work.type != type, CUDA_ERROR_INVALID_VALUE, reason_if_other);
  return found;
}

/// For calls in which a device crashes after the end of the node.
std::shared_ptr<Node> Api::node_or_crash(CUgraphNode handle) {
  if (has_ended(handle)) crash("the call uses a dead graph node: " + computer_.handles.describe(handle));
  return node(handle);
}

bool Api::has_ended(CUgraphNode handle) const { return computer_.handles.has_ended(handle, Kind::node); }

std::shared_ptr<Exec> Api::exec(CUgraphExec handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE, "Graph is not a valid executable graph");
  return find<Exec>(handle, Kind::exec);
}

} // namespace cuevent::sim
