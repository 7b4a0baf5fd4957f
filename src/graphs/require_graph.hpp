// SPDX-License-Identifier: MIT
// What Graph and GraphExec check before a driver call. Internal to the library.
#pragma once

#include "core/event_errors.hpp"
#include "core/failure.hpp"

#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// What require_not_empty() and require_event() find, without the exception.
template <class Object>
CUresult check_not_empty(const Object& object) noexcept {
  return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
template <class Object>
CUresult check_event(const Object& object, EventRef event) noexcept {
  const Context& context = object.context();
  const bool fits = object && event && (!context || event.driver() == context.driver());
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
/// The same for require_lasting_event().
template <class Object>
CUresult check_lasting_event(const Object& object, EventRef event) noexcept {
  const CUresult refused = check_event(object, event);
  return refused == CUDA_SUCCESS && event.leased() ? CUDA_ERROR_NOT_SUPPORTED : refused;
}

inline void require_event(const Context& context, EventRef event, const char* call) {
  if (!event)
    throw_error(ErrorCause::empty_event, call,
                "the event is empty: give the graph an event that lives as long as the graph");
  if (context && event.driver() != context.driver())
    throw_error(
        ErrorCause::context_mismatch, call,
        "the event and the graph belong to different drivers: make the event with the graph's driver");
}

/// For an event that a node will refer to.
inline void require_lasting_event(const Context& context, EventRef event, const char* call) {
  require_event(context, event, call);
  if (event.leased()) fail_lease(call);
}

inline void require_not_empty(const Graph& graph, const char* call) {
  if (!graph)
    throw_error(CUDA_ERROR_INVALID_HANDLE, call,
                "the graph is empty, because it was moved from or released: use the object that has it now");
}

inline void require_not_empty(const GraphExec& exec, const char* call) {
  if (!exec)
    throw_error(
        CUDA_ERROR_INVALID_HANDLE, call,
        "the GraphExec is empty, because it was moved from or released: use the object that has it now");
}

template <class Handle>
void require_handle(Handle handle, const char* call) {
  if (handle == nullptr)
    throw_error(CUDA_ERROR_INVALID_HANDLE, call, "the handle is null: pass a live handle");
}

}} // namespace cuevent::CUEVENT_ABI
