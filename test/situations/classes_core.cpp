// SPDX-License-Identifier: MIT
// The classes of the kit core.
#include "situations.hpp"

#include <cuevent/event_ref.hpp>
#include <cuevent/ipc.hpp>
#include <cuevent/retired_events.hpp>

#include <chrono>

namespace situations {

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

/// The primary context is active already, so retaining it asks no device, and the fault stays unknown.
constexpr const char* fault_not_noticed = "the driver notices the fault in a later call";

struct OfDriver {
  World& w;
  Driver driver = w.context.driver();

  Driver& object() { return driver; }
  std::vector<Operation> operations() {
    return {
        {"version", Does::nothing,
         [this] { return driver.version() < 0 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS; }},
        Operation("table", Does::asks,
                  [this] {
                    CUcontext current = nullptr;
                    return driver.table().cuCtxGetCurrent_v4000(&current);
                  })
            .works(In::lost, In::faulted),
        Operation("entry_point", Does::asks, {},
                  [this] { driver.entry_point<PFN_cuInit_v2000>("cuInit", 2000); })
            .but(In::empty, CUDA_ERROR_NOT_SUPPORTED)
            .works(In::lost, In::faulted),
    };
  }
};

struct OfContext {
  World& w;
  Context context = w.context;

  Context& object() { return context; }
  std::vector<Operation> operations() {
    const Driver& driver = w.context.driver();
    return {
        Operation("status", Does::asks, [this] { return context.status(); })
            .but(In::lost, CUDA_ERROR_CONTEXT_IS_DESTROYED)
            .but(In::faulted, CUDA_SUCCESS),
        Operation("device", Does::asks, {}, [this] { context.device(); })
            .but(In::empty, CUDA_ERROR_INVALID_CONTEXT)
            .but(In::lost, CUDA_ERROR_CONTEXT_IS_DESTROYED)
            .but(In::faulted, CUDA_SUCCESS),
        Operation(
            "primary", Does::asks,
            [&driver] {
              Context made;
              return Context::try_primary(made, 0, driver);
            },
            [&driver] { static_cast<void>(Context::primary(0, driver)); })
            .not_called(In::empty, "it is static")
            .not_called(In::lost, "it makes another context")
            .not_called(In::faulted, fault_not_noticed),
        Operation(
            "borrow", Does::asks,
            [this] {
              Context made;
              return Context::try_borrow(made, w.context.native_handle(), w.context.driver());
            },
            [this] { static_cast<void>(Context::borrow(w.context.native_handle(), w.context.driver())); })
            .not_called(In::empty, "it is static")
            .not_called(In::lost, "the handle may name a later context")
            .but(In::faulted, CUDA_SUCCESS),
    };
  }
};

struct OfContextGuard {
  World& w;
  std::optional<ContextGuard> guard{std::in_place, w.context};

  ContextGuard& object() { return *guard; }
  void end_scope() { guard.reset(); }
  std::vector<Operation> operations() {
    return {Operation(
                "ContextGuard", Does::asks,
                [this] {
                  CUresult entered = CUDA_SUCCESS;
                  const ContextGuard made(w.context, entered);
                  return entered;
                },
                [this] { const ContextGuard made(w.context); })
                .but(In::lost, CUDA_ERROR_CONTEXT_IS_DESTROYED)
                .but(In::faulted, CUDA_SUCCESS)};
  }
};

constexpr const char* event_is_gone = "the event has ended with its context: docs/lifetime.md";

/// The members that a DriverEvent, an EventRef and a lease have in common.
template <class Event>
std::vector<Operation> uses_of(World& w, Event& event, const DriverEvent& start) {
  return {
      BOTH(Does::submits, event, record, w.given())
          .named()
          .not_called(In::lost, event_is_gone)
          .but(In::captured, CUDA_SUCCESS),
      BOTH(Does::submits, event, wait, w.given())
          .works(In::misnamed)
          .not_called(In::lost, event_is_gone)
          .but(In::other_device, CUDA_SUCCESS)
          .but(In::captured, {.result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION, .breaks_capture = true}),
      BOTH(Does::asks, event, query)
          .not_called(In::lost, event_is_gone)
          .but(In::captured, breaks_capture)
          .but(In::capturing, breaks_capture),
      BOTH(Does::asks, event, query_relaxed).not_called(In::lost, event_is_gone),
      BOTH(Does::asks, event, synchronize)
          .not_called(In::lost, event_is_gone)
          .but(In::captured, breaks_capture)
          .but(In::capturing, breaks_capture),
      BOTH(Does::asks, event, synchronize_for, 1ms).not_called(In::lost, event_is_gone),
      Operation(
          "elapsed_time", Does::asks,
          [&event, &start] {
            DriverEvent::Milliseconds time{};
            return EventRef(start).try_elapsed_time(time, event);
          },
          [&event, &start] { EventRef(start).elapsed_time(event); })
          .not_called(In::empty, "the other event is not empty")
          .not_called(In::lost, event_is_gone),
  };
}

/// An event that has completed.
DriverEvent recorded(World& w) {
  DriverEvent event(w.context, EventFlags::timing);
  event.record(w.stream);
  w.synchronize();
  return event;
}

struct OfDriverEvent {
  World& w;
  DriverEvent start = recorded(w), event = recorded(w);

  DriverEvent& object() { return event; }
  std::vector<Operation> operations() {
    std::vector<Operation> all = uses_of(w, event, start);
    all.push_back(CREATES(Does::makes, DriverEvent, w.context));
    return all;
  }
};

struct OfEventRef {
  World& w;
  DriverEvent start = recorded(w), event = recorded(w);
  EventRef reference = event;

  EventRef& object() { return reference; }
  std::vector<Operation> operations() { return uses_of(w, reference, start); }
};

struct OfIpcHandle {
  World& w;
  DriverEvent event{w.context, EventFlags::interprocess};
  IpcHandle handle = event.ipc_handle();

  DriverEvent& object() { return event; }
  std::vector<Operation> operations() {
    return {
        GIVES(Does::asks, IpcHandle, event, ipc_handle).not_called(In::lost, event_is_gone),
        Operation(
            "from_ipc_handle", Does::makes,
            [this] {
              DriverEvent made;
              return DriverEvent::try_from_ipc_handle(made, w.context, handle);
            },
            [this] { static_cast<void>(DriverEvent::from_ipc_handle(w.context, handle)); })
            .but(In::working, CUDA_ERROR_INVALID_CONTEXT) // in the process that exported it
            .not_called(In::captured, "the simulated drop-in opens no handle of its own process")
            .not_called(In::capturing, "the simulated drop-in opens no handle of its own process"),
        Operation(
            "parse", Does::nothing,
            [this] {
              IpcHandle read;
              return IpcHandle::try_parse(read, handle.to_string());
            },
            [this] { static_cast<void>(IpcHandle::parse(handle.to_string())); }),
    };
  }
};

struct OfRetiredEvents {
  World& w;
  DriverEvent event{w.context, EventFlags::retire};

  DriverEvent& object() { return event; }
  std::vector<Operation> operations() {
    return {Operation("retire", Does::nothing, {}, [this] { retire(std::move(event)); }),
            Operation("destroy_retired", Does::nothing, {}, [] {
              destroy_retired();
            }).not_called(In::full_queue, "it can wait, as ~DriverEvent")};
  }
};

} // namespace

std::vector<Class> core_classes() {
  return {
      {.name = "Driver", .make = make<OfDriver>, .concurrent = true},
      {.name = "Context", .make = make<OfContext>, .concurrent = true},
      {.name = "ContextGuard", .make = make<OfContextGuard>, .scoped = true},
      {.name = "DriverEvent", .make = make<OfDriverEvent>},
      {.name = "EventRef", .make = make<OfEventRef>},
      {.name = "IpcHandle", .make = make<OfIpcHandle>},
      {.name = "retire", .make = make<OfRetiredEvents>},
  };
}

} // namespace situations
