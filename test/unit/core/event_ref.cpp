// SPDX-License-Identifier: MIT
#include <cuevent/event_ref.hpp>

#include <cuevent/event_pool.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/launch_attribute.hpp>

#include "overloads.hpp"
#include "recording_fixture.hpp"

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

using namespace cuevent;
using namespace test;

static_assert(sizeof(EventRef) == 2 * sizeof(void*));
static_assert(std::is_trivially_copyable_v<EventRef> && std::is_nothrow_default_constructible_v<EventRef>);
static_assert(std::is_convertible_v<const DriverEvent&, EventRef> &&
              std::is_convertible_v<PooledEvent&, EventRef> && std::is_convertible_v<SharedEvent&, EventRef>);
// A lease cannot be changed through a reference: only its own assignment ends the former lease.
static_assert(!std::is_convertible_v<PooledEvent&, EventRef&> &&
              !std::is_convertible_v<SharedEvent&, EventRef&> && !std::is_copy_assignable_v<EventAccess>);
static_assert(std::is_constructible_v<EventRef, CUevent, const Driver&> &&
              !std::is_convertible_v<CUevent, EventRef>);

namespace {

/// Every call through a reference, without flags.
void use(EventRef event, EventRef end, CUstream stream) {
  event.record(stream);
  end.record(stream);
  event.wait(stream);
  CHECK(event.query());
  CHECK(event.query_relaxed());
  event.synchronize();
  CHECK(event.synchronize_for(1ns));
  CHECK(event.elapsed_time(end).count() == 2.5F);
}

std::vector<CUresult> results(EventRef event, EventRef end, CUstream stream) {
  EventRef::Milliseconds time{};
  return {event.try_wait(stream),
          event.try_query(),
          event.try_query_relaxed(),
          event.try_synchronize(),
          event.try_synchronize_for(1ns),
          event.try_synchronize_until({}),
          event.try_elapsed_time(time, end),
          end.try_elapsed_time(time, event)};
}

} // namespace

TEST_CASE_METHOD(RecordingFixture, "a reference makes the driver calls of the event") {
  const DriverEvent event(context, EventFlags::timing), end(context, EventFlags::timing);
  EventPool pool(context, EventFlags::timing);
  PooledEvent lease = pool.acquire(), lease_end = pool.acquire();
  const SharedEvent shared = pool.acquire().share(), shared_end = pool.acquire().share();
  const EventRef plain(event.native_handle(), driver), plain_end(end.native_handle(), driver);
  recording.calls();
  const Names expected{"cuEventRecord",
                       "cuEventRecord",
                       "cuStreamWaitEvent",
                       "cuEventQuery",
                       "cuThreadExchangeStreamCaptureMode",
                       "cuEventQuery",
                       "cuThreadExchangeStreamCaptureMode",
                       "cuEventSynchronize",
                       "cuThreadExchangeStreamCaptureMode",
                       "cuEventQuery",
                       "cuThreadExchangeStreamCaptureMode",
                       "cuEventElapsedTime"};
  for (const auto& [first, last] : {std::pair<EventRef, EventRef>{event, end},
                                    {lease, lease_end},
                                    {shared, shared_end},
                                    {plain, plain_end},
                                    {plain, lease_end}}) {
    use(first, last, stream);
    CHECK(recording.calls() == expected);
    CHECK(first.driver() == driver);
    CHECK((first == EventRef(first.native_handle(), driver) && first != last));
  }
  CHECK((EventRef(lease).leased() && EventRef(shared).leased() && !EventRef(event).leased() &&
         !plain.leased()));
  CHECK((EventRef(event).flags() == EventFlags::timing && plain.flags() == EventFlags::none));
}

TEST_CASE_METHOD(RecordingFixture, "a reference writes nothing into an event") {
  for (const EventFlags flags : {EventFlags::none, EventFlags::interprocess}) {
    const DriverEvent event(context, flags);
    std::array<std::byte, sizeof event> before{}, after{};
    std::memcpy(before.data(), static_cast<const void*>(&event), before.size());
    const EventRef ref = event;
    ref.record(stream);
    ref.wait(stream);
    CHECK(ref.query());
    std::memcpy(after.data(), static_cast<const void*>(&event), after.size());
    CHECK(before == after);
  }
}

TEST_CASE_METHOD(RecordingFixture, "a reference checks waits for an interprocess event, also after a move") {
  DriverEvent first(context, EventFlags::interprocess), second(context);
  const EventRef to_first = first, to_second = second;
  recording.calls();
  const auto is_checked = [&](EventRef ref) {
    ref.wait(stream);
    return recording.calls().size() > 1;
  };
  CHECK(is_checked(to_first));
  CHECK_FALSE(is_checked(to_second));
  first.swap(second);
  CHECK_FALSE(is_checked(first));
  CHECK(is_checked(second));
  first = std::move(second);
  recording.calls();
  CHECK(is_checked(first));
}

TEST_CASE_METHOD(RecordingFixture, "a reference to no event refuses every call") {
  const DriverEvent empty;
  const PooledEvent no_lease;
  const SharedEvent no_share;
  const DriverEvent event(context);
  recording.calls();
  for (const EventRef none : {EventRef(), EventRef(empty), EventRef(no_lease), EventRef(no_share),
                              EventRef(nullptr, driver), EventRef(event.native_handle(), Driver())}) {
    CHECK(!none);
    CHECK(none.native_handle() == nullptr);
    CHECK(none.try_record(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(none.try_record(nullptr) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(none.try_record({context, nullptr}) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(none.try_wait({context, nullptr}) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(results(none, none, stream) == std::vector(8, CUDA_ERROR_INVALID_HANDLE));
    refusal<EmptyEvent>([&] { none.record(stream); });
    refusal<EmptyEvent>([&] { none.record({context, stream}); });
    refusal<EmptyEvent>([&] { none.wait(stream); });
    refusal<EmptyEvent>([&] { none.wait({context, stream}); });
    refusal<EmptyEvent>([&] { return none.query(); });
    refusal<EmptyEvent>([&] { return none.query_relaxed(); });
    refusal<EmptyEvent>([&] { none.synchronize(); });
    refusal<EmptyEvent>([&] { return none.synchronize_for(1ns); });
    refusal<EmptyEvent>([&] { static_cast<void>(none.elapsed_time(event)); });
    refusal<EmptyEvent>([&] { programmatic_event(none); });
  }
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "a lease says NeverRecorded through every reference until one records") {
  EventPool pool(context, EventFlags::timing);
  PooledEvent lease = pool.acquire(), end = pool.acquire();
  const EventRef first = lease, second = first;
  end.record(stream);
  recording.calls();
  CHECK(results(first, end, stream) == std::vector(8, CUDA_ERROR_INVALID_HANDLE));
  CHECK(first.try_wait(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(first.try_wait({context, stream}) == CUDA_ERROR_INVALID_HANDLE);
  refusal<NeverRecorded>([&] { return first.query(); });
  refusal<NeverRecorded>([&] { first.wait(stream); });
  refusal<NeverRecorded>([&] { return first.synchronize_until({}); });
  CHECK_THAT(refusal<NeverRecorded>([&] { static_cast<void>(end.elapsed_time(first)); }),
             ContainsSubstring("the end event"));
  CHECK(recording.calls().empty());

  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  CHECK(first.try_record(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_FALSE(lease.recorded());
  const PooledEvent moved = std::move(lease); // the references stay valid
  first.record(stream);
  CHECK(moved.recorded());
  CHECK(second.query());
}

TEST_CASE_METHOD(RecordingFixture, "a lease refuses external records and waits") {
  EventPool pool(context);
  PooledEvent lease = pool.acquire();
  const auto refuse = [&](RecordFlags record, WaitFlags wait) {
    CHECK(lease.try_record(stream, record) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(lease.try_wait(stream, wait) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(lease.try_record({context, stream}, record) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(lease.try_wait({context, stream}, wait) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK_THAT(refusal<NotSupported>([&] { lease.record(stream, record); }), ContainsSubstring("detach()"));
    CHECK_THAT(refusal<NotSupported>([&] { lease.wait(stream, wait); }), ContainsSubstring("detach()"));
  };
  lease.record(stream);
  refuse(RecordFlags::external, WaitFlags::external);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  refuse(RecordFlags::external_in_capture, WaitFlags::external_in_capture);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  recording.calls();
  lease.record(stream, RecordFlags::external_in_capture);
  lease.wait(stream, WaitFlags::external_in_capture);
  CHECK(recording.calls() ==
        Names{"cuStreamIsCapturing", "cuEventRecord", "cuStreamIsCapturing", "cuStreamWaitEvent"});
  // The driver's own refusal does not blame a lease.
  recording.fail_always("cuStreamWaitEvent", CUDA_ERROR_NOT_SUPPORTED);
  DriverEvent event(context);
  for (const EventRef each : {EventRef(lease), EventRef(event)})
    CHECK_THAT(refusal<NotSupported>([&] { each.wait(stream); }), !ContainsSubstring("lease"));
}

TEST_CASE_METHOD(RecordingFixture, "a default stream is one of the event's context, or the current one's") {
  const Context other = Context::borrow(context_handle(2), driver);
  DriverEvent event(other);
  EventPool pool(other);
  PooledEvent lease = pool.acquire();
  const EventRef plain(event.native_handle(), driver);
  recording.calls();
  const ContextGuard current(context);
  const auto current_in = [&](std::string_view name) {
    for (const Call& call : recording.calls_with_contexts())
      if (call.name == name) return call.current;
    return CUcontext{};
  };
  for (const EventRef owned : {EventRef(event), EventRef(lease)}) {
    owned.record(nullptr);
    CHECK(current_in("cuEventRecord") == context_handle(2));
    owned.wait(CU_STREAM_PER_THREAD);
    CHECK(current_in("cuStreamWaitEvent") == context_handle(2));
    owned.wait({context, nullptr});
    CHECK(current_in("cuStreamWaitEvent") == context_handle(1));
    refusal<ContextMismatch>([&] { owned.record({context, nullptr}); });
    recording.calls();
  }
  plain.record(nullptr);
  CHECK(current_in("cuEventRecord") == context_handle(1));
  plain.record({other, nullptr});
  CHECK(current_in("cuEventRecord") == context_handle(2));
  plain.record(nullptr, RecordFlags::external_in_capture);
  CHECK(current_in("cuEventRecord") == context_handle(1));
  plain.wait(nullptr);
  CHECK(current_in("cuStreamWaitEvent") == context_handle(1));
  plain.wait({other, CU_STREAM_LEGACY});
  CHECK(current_in("cuStreamWaitEvent") == context_handle(2));
  CHECK(plain.try_record({Context(), nullptr}) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(plain.try_wait({Context(), nullptr}) == CUDA_ERROR_INVALID_CONTEXT);
  refusal<InvalidContext>([&] { plain.record({Context(), nullptr}); });
  refusal<InvalidContext>([&] { plain.wait({Context(), nullptr}); });
  const Context foreign = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  CHECK(plain.try_record({foreign, nullptr}) == CUDA_ERROR_INVALID_HANDLE);
  refusal<ContextMismatch>([&] { plain.wait({foreign, nullptr}); });
}

TEST_CASE_METHOD(RecordingFixture, "the two overloads of a reference agree") {
  const DriverEvent event(context, EventFlags::timing), end(context, EventFlags::timing);
  EventPool pool(context, EventFlags::timing);
  PooledEvent lease = pool.acquire(), lease_end = pool.acquire(), unrecorded = pool.acquire();
  const EventRef plain(event.native_handle(), driver), plain_end(end.native_handle(), driver);
  for (const auto& both :
       {std::pair<EventRef, EventRef>{event, end}, {lease, lease_end}, {plain, plain_end}}) {
    const EventRef ref = both.first, last = both.second;
    last.record(stream);
    CHECK(BOTH(ref, record, stream) == CUDA_SUCCESS);
    BOTH(ref, record, {context, nullptr});
  }
  for (const auto& both : {std::pair<EventRef, EventRef>{event, end},
                           {lease, lease_end},
                           {plain, plain_end},
                           {unrecorded, lease_end},
                           {EventRef(), end}}) {
    const EventRef ref = both.first, last = both.second; // clang 14 captures no structured bindings
    EventRef::Milliseconds time{};
    BOTH(ref, wait, stream);
    BOTH(ref, wait, {context, nullptr});
    BOTH(ref, wait, stream, WaitFlags::external);
    BOTH(ref, query);
    BOTH(ref, query_relaxed);
    BOTH(ref, synchronize);
    BOTH(ref, synchronize_for, 1ns);
    GIVES(ref, elapsed_time, time, last);
    GIVES(last, elapsed_time, time, ref);
  }
}

TEST_CASE_METHOD(RecordingFixture, "errors of a CUevent do not guess what is unknown") {
  const DriverEvent event(context);
  const EventRef plain(event.native_handle(), driver);
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<InvalidHandle>([&] { static_cast<void>(plain.elapsed_time(plain)); }),
             ContainsSubstring("never recorded, or was made without timing"));
  recording.fail_nothing();
  recording.fail_next("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE);
  refusal<ContextMismatch>([&] { static_cast<void>(plain.elapsed_time(plain)); });
  recording.stream_context(context_handle(2));
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<ContextMismatch>([&] { plain.record(stream); }), ContainsSubstring("another context"));
}

TEST_CASE_METHOD(RecordingFixture, "graphs and launches take references") {
  const DriverEvent event(context);
  const EventRef plain(event.native_handle(), driver);
  Graph graph(context);
  graph.add_record(plain);
  graph.add_wait(event);
  CHECK(programmatic_event(plain).value.programmaticEvent.event == event.native_handle());
  CHECK_THAT(refusal<ContextMismatch>(
                 [&] { graph.add_record(EventRef(event.native_handle(), RecordingDriver::driver(12000))); }),
             ContainsSubstring("different drivers"));
}

namespace {

/// Whether the operations on two events compile, whatever kinds of holder they are.
template <class First, class Second>
concept AreEvents = requires(const First& first, const Second& second, DriverEvent::Milliseconds& time) {
  { first.elapsed_time(second) } -> std::same_as<DriverEvent::Milliseconds>;
  { first.try_elapsed_time(time, second) } -> std::same_as<CUresult>;
  { first == second } -> std::same_as<bool>;
  { first != second } -> std::same_as<bool>;
};
template <class First>
constexpr bool with_all = AreEvents<First, DriverEvent>&& AreEvents<First, EventRef>&&
    AreEvents<First, PooledEvent>&& AreEvents<First, SharedEvent>;
static_assert(with_all<DriverEvent> && with_all<EventRef> && with_all<PooledEvent> && with_all<SharedEvent>);

} // namespace

TEST_CASE_METHOD(RecordingFixture,
                 "an event is timed up to a lease, and the lease is asked whether it was recorded") {
  EventPool pool(context, EventFlags::timing);
  const DriverEvent start = timed();
  const PooledEvent end = pool.acquire();
  CHECK_THAT(refusal<NeverRecorded>([&] { static_cast<void>(start.elapsed_time(end)); }),
             ContainsSubstring("the end event"));
  DriverEvent::Milliseconds time{};
  CHECK(start.try_elapsed_time(time, end) == CUDA_ERROR_INVALID_HANDLE);
  end.record(stream_handle(1));
  recording.calls();
  CHECK(start.try_elapsed_time(time, end) == CUDA_SUCCESS);
  CHECK(start.try_elapsed_time(time, EventRef(end)) == CUDA_SUCCESS);
  CHECK(recording.calls().size() == 2);
}
