// SPDX-License-Identifier: MIT
/// \file
/// \brief Why a `try_` call failed: the text that the exception would have had.
///
/// Call a function on the same thread, right after the failure, with the result and the arguments of the
/// `try_` call that decide its text. The text names the cause if it can be found: several causes have one
/// CUresult. On another thread or later, a text can name another driver call of the operation.
///
///     const CUresult result = event.try_record(stream);
///     if (result != CUDA_SUCCESS) std::puts(explain_record(result, event, stream).c_str());
///
/// The texts are for people and can change in any version. They advise in terms of cuevent's classes. For
/// users who do not know these classes, `driver_category().message(result)` has no advice. A result that
/// does not fit the arguments gets the text of explain(). So does every result in a copy of the library that
/// is compiled without exceptions, except in explain_load().
///
/// Thread-safety: as the call that failed.
/// Context: leaves the caller's current context unchanged.
/// During capture: as the call that failed.
#pragma once

#include <cuevent/event_ref.hpp>
#include <cuevent/forward.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// The text for any failed call: the name of the call, the result, what it means and what to do. A null
/// `call` is an unknown call. No driver call.
std::string explain(CUresult result, const char* call);

/// \name As EventRef::record() and wait(), also of a DriverEvent or a lease
/// Driver functions: cuStreamGetCtx, cuCtxGetDevice.
/// @{
std::string explain_record(CUresult result, EventRef event, StreamRef stream,
                           RecordFlags flags = RecordFlags::none);
std::string explain_wait(CUresult result, EventRef event, StreamRef stream,
                         WaitFlags flags = WaitFlags::none);
/// @}

/// As query(), or as synchronize() with `call` "cuEventSynchronize". No driver call.
std::string explain_query(CUresult result, EventRef event, const char* call = "cuEventQuery");

/// As elapsed_time(). Driver functions: cuEventElapsedTime, cuCtxGetDevice.
std::string explain_elapsed_time(CUresult result, EventRef start, EventRef end);

/// As DriverEvent's constructor. No driver call.
std::string explain_create(CUresult result, const Context& context, EventFlags flags = EventFlags::none);

/// \name As Driver::instance() and the constructors of Driver
/// These try again to load the driver, because only the attempt says what is missing.
/// @{
std::string explain_load(CUresult result);
std::string explain_load(CUresult result, const char* library);
std::string explain_load(CUresult result, GetProcAddress get_proc_address);
/// @}

/// \name Pools: as the try_ functions of EventPool and EventPools
/// Driver functions of explain_wait_stream(): as EventPool::acquire(), and as explain_record() and
/// explain_wait(). The others make no driver call, except explain_acquire() with a named context: cuCtxGetId.
/// @{
std::string explain_create_pool(CUresult result, const Context& context, EventFlags flags = EventFlags::none);
std::string explain_acquire(CUresult result, const EventPool& pool);
std::string explain_acquire(CUresult result, const EventPools& pools, StreamRef stream);
std::string explain_reserve(CUresult result, const EventPool& pool, std::size_t count);
std::string explain_reserve(CUresult result, const EventPools& pools, const Context& context,
                            std::size_t count);
std::string explain_wait_stream(CUresult result, const EventPool& pool, StreamRef later, StreamRef earlier);
std::string explain_wait_stream(CUresult result, const EventPools& pools, StreamRef later, StreamRef earlier);
/// @}

/// \name Queues: as the try_ functions of CompletionQueue and CompletionLane
/// Driver functions of explain_when_complete(): cuCtxGetId, cuStreamGetCtx. The others make no driver call.
/// @{
std::string explain_create_queue(CUresult result, const Context& context);
std::string explain_reserve(CUresult result, const CompletionQueue& queue);
/// As try_when_complete() and try_lane().
std::string explain_when_complete(CUresult result, const CompletionQueue& queue, StreamRef stream);
std::string explain_when_complete(CUresult result, const CompletionLane& lane);
/// As try_arm() and try_native_handle().
std::string explain_arm(CUresult result, const CompletionQueue& queue);
/// @}

/// \name Fences: as the try_ functions of TimelineFence
/// No driver call.
/// @{
std::string explain_create_fence(CUresult result, const Context& context);
std::string explain_signal(CUresult result, const TimelineFence& fence);
std::string explain_wait(CUresult result, const TimelineFence& fence, std::uint64_t ticket);
std::string explain_wait_for(CUresult result, const TimelineFence& fence);
/// @}

/// \name Semaphores: as the try_ functions of TimelineSemaphore
/// No driver call.
/// @{
std::string explain_create_semaphore(CUresult result, const Context& context);
std::string explain_import_semaphore(CUresult result, const Context& context);
std::string explain_close(CUresult result, const TimelineSemaphore& semaphore);
std::string explain_signal(CUresult result, const TimelineSemaphore& semaphore, std::uint64_t value);
/// As try_wait() and try_wait_when_submitted().
std::string explain_wait(CUresult result, const TimelineSemaphore& semaphore, std::uint64_t value);
std::string explain_wait_for(CUresult result, const TimelineSemaphore& semaphore);
std::string explain_wait_all(CUresult result, ArrayView<TimelinePoint> points);
std::string explain_wait_any(CUresult result, ArrayView<TimelinePoint> points);
std::string explain_export_handle(CUresult result, const TimelineSemaphore& semaphore);
std::string explain_abandon_on_death(CUresult result, const TimelineSemaphore& semaphore);
/// @}

/// \name Graphs: as the try_ functions of Graph and GraphExec
/// No driver call.
/// @{
std::string explain_create_graph(CUresult result, const Context& context);
std::string explain_add_record(CUresult result, const Graph& graph, EventRef event);
std::string explain_add_wait(CUresult result, const Graph& graph, EventRef event);
std::string explain_event(CUresult result, const Graph& graph, EventRecordNode node);
std::string explain_event(CUresult result, const Graph& graph, EventWaitNode node);
std::string explain_set_event(CUresult result, const Graph& graph, EventRecordNode node, EventRef event);
std::string explain_set_event(CUresult result, const Graph& graph, EventWaitNode node, EventRef event);
std::string explain_set_event(CUresult result, const GraphExec& exec, EventRecordNode node, EventRef event);
std::string explain_set_event(CUresult result, const GraphExec& exec, EventWaitNode node, EventRef event);
std::string explain_event_nodes(CUresult result, const Graph& graph);
std::string explain_record_node(CUresult result, const Graph& graph, EventRef event);
std::string explain_wait_node(CUresult result, const Graph& graph, EventRef event);
std::string explain_retain(CUresult result, const Graph& graph, EventRef event);
/// As try_retain() of another object, and as try_when_destroyed().
std::string explain_retain(CUresult result, const Graph& graph);
std::string explain_instantiate(CUresult result, const Graph& graph);
std::string explain_launch(CUresult result, const GraphExec& exec);
/// @}

/// \name Captures: as the try_ functions of StreamCapture, and of the functions that ask about a capture
/// Driver functions of explain_record(): as explain_record() of an event. The others make no driver call.
/// @{
std::string explain_begin(CUresult result, const StreamCapture& capture, const Context& context);
/// As try_begin() into a graph.
std::string explain_begin(CUresult result, const StreamCapture& capture, const Context& context,
                          const Graph& graph);
std::string explain_record(CUresult result, const StreamCapture& capture, EventRef event, CUstream stream);
std::string explain_end(CUresult result, const StreamCapture& capture);
std::string explain_capture_status(CUresult result, const Context& context);
std::string explain_capture_info(CUresult result, const Context& context);
/// As try_add_capture_dependencies() and try_set_capture_dependencies().
std::string explain_capture_dependencies(CUresult result, const Context& context);
/// @}

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
