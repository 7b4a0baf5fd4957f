// SPDX-License-Identifier: MIT
#include <cuevent/timeline_fence.hpp>

#include "on_threads.hpp"
#include "overloads.hpp"
#include "recording_fixture.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(!std::is_copy_constructible_v<TimelineFence> && !std::is_copy_assignable_v<TimelineFence>);
static_assert(std::is_nothrow_move_constructible_v<TimelineFence> &&
              std::is_nothrow_move_assignable_v<TimelineFence>);
static_assert(std::is_nothrow_default_constructible_v<TimelineFence> &&
              std::is_nothrow_swappable_v<TimelineFence> && !std::is_convertible_v<TimelineFence, bool>);
static_assert(noexcept(std::declval<const TimelineFence&>().reached(1)) && noexcept(
    std::declval<const TimelineFence&>().status()));
static_assert(sizeof(TimelineFence) <= 64);

namespace {

/// The stubs write nothing, so the test writes what the device would.
void complete(const MemoryOperation& write, std::uint64_t value, bool narrow = false) {
  void* const memory = reinterpret_cast<void*>(write.address);
  if (narrow)
    __atomic_store_n(static_cast<std::uint32_t*>(memory), static_cast<std::uint32_t>(value),
                     __ATOMIC_RELEASE);
  else
    __atomic_store_n(static_cast<std::uint64_t*>(memory), value, __ATOMIC_RELEASE);
}

std::atomic<std::uintptr_t> next_context{0x10000};

struct FenceFixture : RecordingFixture {
  // A separate context for each test, so that its page is new.
  FenceFixture() {
    borrow_next();
    recording.calls();
  }
  void borrow_next() {
    context = Context::borrow(context_handle(next_context += 0x100), driver);
    recording.stream_context(context.native_handle());
  }

  std::uint64_t signal_and_complete(TimelineFence& fence, bool narrow = false) {
    const std::uint64_t ticket = fence.signal();
    complete(recording.memory_operation(), ticket, narrow);
    return ticket;
  }
};

const Names page_made{"cuCtxGetId",
                      "cuStreamGetCtx",
                      "cuCtxGetId",
                      "cuCtxGetCurrent",
                      "cuCtxGetId",
                      "cuCtxPushCurrent",
                      "cuThreadExchangeStreamCaptureMode",
                      "cuCtxGetDevice",
                      "cuDeviceGetAttribute",
                      "cuMemHostAlloc",
                      "cuThreadExchangeStreamCaptureMode",
                      "cuCtxPopCurrent"};

} // namespace

TEST_CASE_METHOD(FenceFixture,
                 "the first fence of a context allocates a page in relaxed mode, and later fences reuse it") {
  recording.capture_mode() = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const TimelineFence first(context, stream);
  const std::vector<Call> calls = recording.calls_with_contexts();
  Names names;
  for (const Call& call : calls)
    names.push_back(call.name);
  CHECK(names == page_made);
  CHECK(calls[9] == Call{"cuMemHostAlloc", context.native_handle()});
  // All contexts use the page, at the address that the host uses.
  CHECK(recording.host_memory_flags() == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  const TimelineFence second(context, stream);
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuStreamGetCtx", "cuCtxGetId"});
}

TEST_CASE_METHOD(FenceFixture,
                 "a fence belongs to the context of its stream, and a refused one leaves nothing") {
  recording.stream_context(context_handle(1));
  CHECK_THAT(refusal<ContextMismatch>([&] { TimelineFence(context, stream); }),
             ContainsSubstring("does not belong to the context"));
  TimelineFence fence;
  CHECK(TimelineFence::try_create(fence, context, stream) == CUDA_ERROR_INVALID_HANDLE);
  recording.stream_context(context.native_handle());
  recording.calls();
  fence = TimelineFence(context, stream);
  CHECK(recording.calls() == page_made); // the refused ones have made no page
  for (CUstream const standard : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    const TimelineFence of_default(context, standard); // the context says which stream this is
    CHECK(recording.calls() == Names{"cuCtxGetId"});
  }
}

TEST_CASE_METHOD(FenceFixture, "a signal checks the capture status and submits the next ticket") {
  TimelineFence fence(context, stream);
  recording.calls();
  const std::uint64_t ticket = fence.signal();
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuStreamIsCapturing", nullptr},
                                                             {"cuStreamGetId", nullptr},
                                                             {"cuStreamWriteValue64", nullptr}});
  const MemoryOperation write = recording.memory_operation();
  CHECK(write.stream == stream);
  CHECK(write.value == ticket);
  CHECK(write.address % 64 == 0);
  CHECK(write.flags == CU_STREAM_WRITE_VALUE_DEFAULT);
  for (std::uint64_t later = 1; later < 4; ++later) {
    CHECK(fence.signal() == ticket + later); // later signals do not query the stream's id
    CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamWriteValue64"});
    CHECK(recording.memory_operation().address == write.address);
    CHECK(fence.signalled() == ticket + later);
  }
}

TEST_CASE_METHOD(FenceFixture, "reading the progress of a stream makes no driver call") {
  TimelineFence fence(context, stream);
  CHECK(fence.reached(0));
  const std::uint64_t first = fence.signal(), second = fence.signal();
  const MemoryOperation write = recording.memory_operation();
  recording.calls();
  CHECK_FALSE(fence.reached(first));
  CHECK(fence.completed() == first - 1);
  complete(write, first);
  CHECK(fence.reached(first));
  CHECK_FALSE(fence.reached(second));
  CHECK(fence.completed() == first);
  complete(write, second);
  CHECK(fence.reached(first)); // when a ticket is reached, so are all earlier ones
  CHECK(fence.reached(second));
  CHECK_FALSE(fence.reached(second + 1));
  CHECK(fence.wait_for(second, 0ns));
  CHECK(fence.signalled() == second);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(FenceFixture, "another stream can wait for a signalled ticket") {
  TimelineFence fence(context, stream);
  const std::uint64_t ticket = fence.signal();
  const MemoryOperation write = recording.memory_operation();
  recording.calls();
  fence.wait(stream_handle(2), ticket);
  CHECK(recording.calls_with_contexts() ==
        std::vector<Call>{{"cuStreamIsCapturing", nullptr}, {"cuStreamWaitValue64", nullptr}});
  const MemoryOperation wait = recording.memory_operation();
  CHECK(wait.stream == stream_handle(2));
  CHECK(wait.address == write.address);
  CHECK(wait.value == ticket);
  CHECK(wait.flags == CU_STREAM_WAIT_VALUE_GEQ);

  fence.wait(stream, ticket); // its own stream is ordered already
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamGetId"});
  fence.wait(stream_handle(2), 0);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing"});
  complete(write, ticket);
  fence.wait(stream_handle(2), ticket);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing"});
}

TEST_CASE_METHOD(FenceFixture, "a later stream with the handle of the fence's stream waits for a ticket") {
  TimelineFence fence(context, stream);
  const std::uint64_t ticket = fence.signal();
  const MemoryOperation write = recording.memory_operation();
  recording.reuse_streams(); // the fence's stream is destroyed, and another stream gets its handle
  recording.calls();
  fence.wait(stream, ticket);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamGetId", "cuStreamWaitValue64"});
  CHECK(recording.memory_operation().stream == stream);
  CHECK(recording.memory_operation().address == write.address);
  recording.fail_next("cuStreamGetId", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(fence.try_wait(stream, ticket) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE_METHOD(FenceFixture, "a wait on a capturing stream does not ask for the stream's id") {
  TimelineFence fence(context, stream);
  const std::uint64_t ticket = fence.signal();
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE); // a query would invalidate the capture
  recording.calls();
  CHECK(fence.try_wait(stream, ticket) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  TimelineFence never_signalled(context, stream);
  recording.calls();
  std::uint64_t out = 0;
  CHECK(never_signalled.try_signal(out) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing"});
}

TEST_CASE_METHOD(FenceFixture, "the legacy stream is recognized by its handle, without a query of its id") {
  for (CUstream const legacy : {CUstream(nullptr), CU_STREAM_LEGACY}) {
    TimelineFence fence(context, legacy);
    recording.calls();
    const std::uint64_t ticket = fence.signal();
    fence.wait(nullptr, ticket);
    fence.wait(CU_STREAM_LEGACY, ticket);
    for (const std::string_view call : recording.calls()) {
      CHECK(call != "cuStreamGetId");
      CHECK(call != "cuStreamWaitValue64");
    }
  }
}

TEST_CASE_METHOD(FenceFixture, "a wait for a ticket that is not yet signalled is refused") {
  TimelineFence fence(context, stream);
  const std::uint64_t ticket = fence.signal();
  recording.calls();
  CHECK_THAT(refusal<InvalidValue>([&] { fence.wait(stream_handle(2), ticket + 1); }),
             ContainsSubstring("signal() has not returned this ticket yet"));
  CHECK(fence.try_wait(stream_handle(2), ticket + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(FenceFixture, "a default stream means the one of the fence's own context") {
  const Context other = Context::borrow(context_handle(2), driver);
  const ContextGuard guard(other);
  for (CUstream const handle : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    TimelineFence fence(context, handle);
    recording.calls();
    const std::uint64_t ticket = fence.signal();
    fence.wait(handle, ticket);
    CHECK(fence.status() == CUDA_SUCCESS);
    for (const Call& call : recording.calls_with_contexts()) {
      CHECK(call.name != "cuStreamWaitValue64");
      if (call.name.starts_with("cuStream")) CHECK(call.current == context.native_handle());
    }
    fence.wait(stream, ticket);
    CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuStreamIsCapturing", context_handle(2)},
                                                               {"cuStreamWaitValue64", context_handle(2)}});
  }
  TimelineFence fence(context, nullptr);
  const std::uint64_t ticket = fence.signal();
  recording.calls();
  fence.wait(CU_STREAM_LEGACY, ticket); // the same stream with another name
  fence.wait(CU_STREAM_PER_THREAD, ticket);
  int waits = 0;
  for (const std::string_view call : recording.calls())
    waits += call == "cuStreamWaitValue64";
  CHECK(waits == 1);
  CHECK(recording.context_stack() == std::vector{context_handle(2)});
}

TEST_CASE_METHOD(FenceFixture,
                 "a fence of the per-thread stream belongs to the first thread that signals it") {
  TimelineFence fence(context, CU_STREAM_PER_THREAD);
  const std::uint64_t ticket = fence.signal();
  std::thread([&] {
    CHECK_THAT(refusal<InvalidHandle>([&] { fence.signal(); }),
               ContainsSubstring("another stream on each thread"));
    CHECK(fence.signalled() == ticket);
    recording.calls();
    fence.wait(CU_STREAM_PER_THREAD, ticket); // not the fence's own stream
    CHECK(recording.memory_operation().value == ticket);
    CHECK(fence.status() == CUDA_SUCCESS);
  }).join();
  CHECK(fence.signal() == ticket + 1);
}

TEST_CASE_METHOD(FenceFixture, "a signal that fails does not bind a fence of the per-thread stream") {
  TimelineFence fence(context, CU_STREAM_PER_THREAD);
  for (const char* call : {"cuStreamIsCapturing", "cuStreamGetId", "cuStreamWriteValue64"}) {
    recording.fail_next(call, CUDA_ERROR_INVALID_VALUE);
    CHECK_THROWS_AS(fence.signal(), InvalidValue);
  }
  std::uint64_t ticket = 0;
  std::thread([&] { ticket = fence.signal(); }).join();
  CHECK(fence.signalled() == ticket);
  CHECK_THROWS_AS(fence.signal(), InvalidHandle); // the fence now belongs to the other thread
}

TEST_CASE_METHOD(FenceFixture, "signal and wait refuse a capturing stream and do nothing") {
  TimelineFence fence(context, stream);
  const std::uint64_t ticket = fence.signal(), before = fence.signalled();
  for (const CUstreamCaptureStatus status :
       {CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_INVALIDATED}) {
    recording.capture_status(status);
    recording.calls();
    CHECK_THAT(refusal<StreamCaptureUnsupported>([&] { fence.signal(); }),
               ContainsSubstring("RecordFlags::external"));
    for (CUstream const waiting : {stream_handle(2), stream})
      CHECK_THAT(refusal<StreamCaptureUnsupported>([&] { fence.wait(waiting, ticket); }),
                 ContainsSubstring("WaitFlags::external"));
    // Even if the ticket is reached.
    CHECK(fence.try_wait(stream_handle(2), 0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(recording.calls() == Names(4, "cuStreamIsCapturing"));
    CHECK(fence.status() == CUDA_SUCCESS);
    CHECK(fence.signalled() == before);
  }
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(fence.signal() == before + 1);
}

TEST_CASE_METHOD(FenceFixture, "a signal that the driver refuses consumes no ticket") {
  TimelineFence fence(context, stream);
  const std::uint64_t ticket = fence.signal();
  for (const char* call : {"cuStreamIsCapturing", "cuStreamWriteValue64"}) {
    recording.fail_next(call, CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_THROWS_AS(fence.signal(), IllegalAddress);
    std::uint64_t out = 77;
    recording.fail_next(call, CUDA_ERROR_INVALID_VALUE);
    CHECK(fence.try_signal(out) == CUDA_ERROR_INVALID_VALUE);
    CHECK(out == 77);
  }
  recording.fail_next("cuStreamWriteValue64", CUDA_ERROR_NOT_SUPPORTED);
  CHECK_THAT(refusal<NotSupported>([&] { fence.signal(); }), ContainsSubstring("use a DriverEvent"));
  CHECK(fence.signalled() == ticket);
  CHECK(fence.signal() == ticket + 1);
  recording.fail_next("cuStreamWaitValue64", CUDA_ERROR_NOT_SUPPORTED);
  CHECK_THAT(refusal<NotSupported>([&] { fence.wait(stream_handle(2), ticket); }),
             ContainsSubstring("use a DriverEvent"));
}

TEST_CASE_METHOD(FenceFixture, "status reports a fault and a lost context, and a capture is neither") {
  TimelineFence fence(context, stream);
  recording.calls();
  CHECK(fence.status() == CUDA_SUCCESS);
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuStreamIsCapturing"});
  recording.fail_next("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(fence.status() == CUDA_SUCCESS);
  recording.fail_next("cuStreamIsCapturing", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(fence.status() == CUDA_ERROR_ILLEGAL_ADDRESS);
  recording.fail_next("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  recording.calls();
  CHECK(fence.status() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(recording.calls() == Names{"cuCtxGetId"}); // the driver would look for the stream in freed memory
}

TEST_CASE_METHOD(FenceFixture,
                 "wait_for ends when the ticket is reached, the time is over or a fault is noticed") {
  TimelineFence fence(context, stream);
  const std::uint64_t ticket = fence.signal();
  const MemoryOperation write = recording.memory_operation();
  recording.calls();
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(fence.wait_for(ticket, 5ms));
  CHECK(std::chrono::steady_clock::now() - start >= 5ms);
  const Names asked = recording.calls();
  CHECK(asked.size() >= 2);
  CHECK(asked.size() <= 2 * 6); // at most every millisecond, and once at the end
  CHECK(fence.try_wait_for(ticket, 0ns) == CUDA_ERROR_NOT_READY);
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuStreamIsCapturing"});
  CHECK(fence.try_wait_for(ticket, std::chrono::nanoseconds::min()) == CUDA_ERROR_NOT_READY);

  recording.fail_always("cuStreamIsCapturing", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THROWS_AS(fence.wait_for(ticket, std::chrono::nanoseconds::max()), IllegalAddress);
  CHECK(fence.try_wait_for(ticket, 0ns) == CUDA_ERROR_ILLEGAL_ADDRESS);
  complete(write, ticket);
  CHECK(fence.wait_for(ticket, 0ns)); // the ticket was reached before the fault
  recording.fail_nothing();

  const std::uint64_t next = fence.signal();
  std::thread device([&] {
    std::this_thread::sleep_for(3ms);
    complete(write, next);
  });
  CHECK(fence.wait_for(next, std::chrono::nanoseconds::max()));
  device.join();
}

TEST_CASE_METHOD(FenceFixture, "pages of other contexts do not slow down creating a fence") {
  using Clock = std::chrono::steady_clock;
  const auto fastest = [&] {
    Clock::duration least = 1h;
    const TimelineFence keeps_the_page(context, stream);
    for (int i = 0; i < 200; ++i) {
      const Clock::time_point start = Clock::now();
      const TimelineFence fence(context, stream);
      least = std::min(least, Clock::now() - start);
    }
    recording.calls();
    return least;
  };
  const Clock::duration alone = fastest();
  for (int i = 0; i < 6'000; ++i) {
    const Context passing = Context::borrow(context_handle(next_context += 0x100), driver);
    recording.stream_context(passing.native_handle());
    const TimelineFence fence(passing, stream);
    recording.calls();
  }
  recording.stream_context(context.native_handle());
  CHECK(fastest() < 10 * alone + 10us); // looking at each page would take longer
}

TEST_CASE_METHOD(FenceFixture, "an empty fence never reaches the driver") {
  TimelineFence fence(context, stream);
  const std::uint64_t ticket = signal_and_complete(fence);
  TimelineFence moved = std::move(fence), empty;
  CHECK(moved.reached(ticket));
  CHECK(moved.stream() == stream);
  CHECK(moved.context() == context);
  recording.calls();
  for (TimelineFence* const none : {&fence, &empty}) { // NOLINT(bugprone-use-after-move)
    CHECK_FALSE(*none);
    CHECK(none->reached(0));
    CHECK_FALSE(none->reached(1));
    CHECK(none->signalled() == 0);
    CHECK(none->status() == CUDA_ERROR_INVALID_HANDLE);
    CHECK_THAT(refusal<InvalidHandle>([&] { none->signal(); }), ContainsSubstring("empty"));
    CHECK_THAT(refusal<InvalidHandle>([&] { none->wait(stream, 0); }), ContainsSubstring("empty"));
    for (const std::uint64_t any : {0U, 1U})
      CHECK_THAT(refusal<InvalidHandle>([&] { return none->wait_for(any, 1s); }), ContainsSubstring("empty"));
  }
  CHECK(recording.calls().empty());
  fence = std::move(moved);
  CHECK(fence.signal() == ticket + 1);
}

TEST_CASE_METHOD(FenceFixture,
                 "destroying a fence makes no driver call, and its counter is reused once free") {
  std::optional<TimelineFence> first(std::in_place, context, stream);
  const std::uint64_t ticket = first->signal();
  const MemoryOperation write = recording.memory_operation();
  recording.calls();
  first.reset();
  CHECK(recording.calls().empty());

  TimelineFence second(context, stream); // while the ticket is pending
  second.signal();
  CHECK(recording.memory_operation().address != write.address);
  complete(write, ticket);
  TimelineFence third(context, stream);
  // Numbers continue, because a stream may still have to wait for the old ticket.
  CHECK(third.completed() == ticket);
  CHECK(third.signal() == ticket + 1);
  CHECK(recording.memory_operation().address == write.address);
}

TEST_CASE_METHOD(FenceFixture, "each fence has its own counter, even if they need several pages") {
  std::vector<TimelineFence> fences;
  std::vector<CUdeviceptr> lines;
  recording.calls();
  for (int i = 0; i < 200; ++i) {
    fences.emplace_back(context, stream);
    fences.back().signal();
    lines.push_back(recording.memory_operation().address / 64);
  }
  std::sort(lines.begin(), lines.end());
  CHECK(std::adjacent_find(lines.begin(), lines.end()) == lines.end());
  const auto allocations = [&] {
    const Names calls = recording.calls();
    return std::count(calls.begin(), calls.end(), "cuMemHostAlloc");
  };
  CHECK(allocations() == 4);
  for (TimelineFence& fence : fences) {
    fence.signal();
    complete(recording.memory_operation(), fence.signalled());
  }
  fences.clear();
  for (int i = 0; i < 200; ++i)
    fences.emplace_back(context, stream);
  CHECK(allocations() == 0);
}

TEST_CASE_METHOD(FenceFixture, "the memory of a context that is gone is not touched again") {
  CUdeviceptr gone = 0;
  {
    TimelineFence outliving(context, stream);
    outliving.signal();
    gone = recording.memory_operation().address;
    // From now on another context has the handle, as after a reset of a primary context.
    recording.reset_contexts();
    CHECK_THROWS_AS(TimelineFence(context, stream), ContextIsDestroyed);
    context = Context::borrow(context.native_handle(), driver);
    TimelineFence fence(context, stream);
    recording.calls();
    fence.signal();
    CHECK(recording.memory_operation().address / 4096 != gone / 4096);
  }
  TimelineFence again(context, stream);
  again.signal();
  CHECK(recording.memory_operation().address / 4096 != gone / 4096);
  recording.fail_always("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_THROWS_AS(TimelineFence(context, stream), ContextIsDestroyed);
}

TEST_CASE_METHOD(FenceFixture, "creating a fence in an empty context throws") {
  CHECK_THAT(refusal<InvalidContext>([&] { TimelineFence(Context(), stream); }),
             ContainsSubstring("primary()"));
  TimelineFence fence;
  CHECK(TimelineFence::try_create(fence, Context(), stream) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_FALSE(fence);
  CHECK(TimelineFence::try_create(fence, context, stream) == CUDA_SUCCESS);
  CHECK(fence);
}

TEST_CASE_METHOD(FenceFixture, "the non-throwing overloads of fences return what the others throw") {
  const Context own = context, none;
  for (const Context* each : {&own, &none})
    CREATES(TimelineFence, *each, stream);
  TimelineFence fence(context, stream), of_default(context, nullptr),
      of_thread(context, CU_STREAM_PER_THREAD), of_other_thread(context, CU_STREAM_PER_THREAD), empty;
  std::thread([&] { of_other_thread.signal(); }).join();
  for (const CUstreamCaptureStatus status :
       {CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE}) {
    recording.capture_status(status);
    for (TimelineFence* each : {&fence, &of_default, &of_thread, &of_other_thread, &empty}) {
      std::uint64_t out = 0;
      GIVES(*each, signal, out);
      for (const std::uint64_t ticket : {std::uint64_t{0}, each->signalled(), each->signalled() + 1000}) {
        for (CUstream any : {stream, stream_handle(2), CUstream(nullptr), CU_STREAM_PER_THREAD})
          BOTH(*each, wait, any, ticket);
        BOTH(*each, wait_for, ticket, 0s);
      }
    }
  }
}

TEST_CASE_METHOD(FenceFixture,
                 "tickets have 64 bits and survive an overflow on a device that writes 32 bits") {
  recording.memory_operations_64_bit(false);
  TimelineFence fence(context, stream);
  recording.calls();
  std::uint64_t ticket = fence.signal();
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamGetId", "cuStreamWriteValue32"});
  fence.wait(stream_handle(2), ticket);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamWaitValue32"});
  CHECK(recording.memory_operation().flags == CU_STREAM_WAIT_VALUE_GEQ);
  complete(recording.memory_operation(), ticket, true);

  constexpr std::uint64_t overflow = std::uint64_t{1} << 32;
  REQUIRE(ticket < overflow);
  REQUIRE(overflow - ticket <= 1000); // starts close to the overflow, so that every program reaches it
  while (ticket < overflow + 300) {
    // Two tickets are pending, then complete one by one. Every reading is right, and none goes backwards.
    const std::uint64_t first = fence.signal(), second = fence.signal();
    REQUIRE(first == ticket + 1);
    REQUIRE(second == ticket + 2);
    const MemoryOperation write = recording.memory_operation();
    CHECK(write.value == (second & 0xffff'ffff));
    CHECK(fence.completed() == ticket);
    CHECK(fence.reached(ticket));
    CHECK_FALSE(fence.reached(first));
    complete(write, first, true);
    CHECK(fence.completed() == first);
    CHECK_FALSE(fence.reached(second));
    complete(write, second, true);
    CHECK(fence.completed() == second);
    CHECK(fence.wait_for(second, 0ns));
    ticket = second;
  }
  fence = TimelineFence();
  TimelineFence next({context, stream}); // has the counter and the numbers of the previous fence
  CHECK(next.completed() == ticket);
}

TEST_CASE_METHOD(FenceFixture, "threads make fences of new contexts concurrently, each with its counter",
                 "[threads]") {
  constexpr std::size_t threads = 4, fences = 100;
  std::vector<Context> own; // every second fence is in a context that only one thread uses
  for (std::size_t i = 0; i < threads * fences; ++i) {
    borrow_next();
    own.push_back(context);
  }
  std::vector<CUdeviceptr> counters(threads * fences);
  std::vector<std::vector<TimelineFence>> kept(threads);
  on_threads(threads, [&](std::size_t t) {
    for (std::size_t i = t * fences; i < (t + 1) * fences; ++i) {
      const Context& its = i % 2 == 0 ? own[i] : context;
      recording.stream_context(its.native_handle()); // of this thread's calls
      kept[t].emplace_back(its, stream);
      kept[t].back().signal();
      counters[i] = recording.memory_operation().address;
    }
  });
  std::sort(counters.begin(), counters.end());
  CHECK(std::adjacent_find(counters.begin(), counters.end()) == counters.end());
}

TEST_CASE_METHOD(FenceFixture, "eight threads never see a fence go backwards, with 64 bits and with 32",
                 "[threads]") {
  const bool narrow = GENERATE(false, true);
  recording.memory_operations_64_bit(!narrow);
  borrow_next();
  TimelineFence fence(context, stream);
  constexpr std::uint64_t signals = 2000;
  const std::uint64_t last = fence.signalled() + signals;
  std::uint64_t written = 0; // written together with the counter, as the work of the stream would be
  std::atomic<int> wrong{0};
  std::barrier begin(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 7; ++i)
    threads.emplace_back([&, i] {
      recording.stream_context(context.native_handle()); // of this thread's calls
      begin.arrive_and_wait();
      std::uint64_t before = 0;
      while (before < last) {
        const std::uint64_t now = fence.completed();
        if (now < before || (i % 2 == 0 && now < fence.signalled() && fence.signalled() - now > signals))
          ++wrong;
        if (now == last && written != last) ++wrong;
        before = now;
        if (i == 1 && fence.status() != CUDA_SUCCESS) ++wrong;
        if (i == 2 && fence.try_wait(stream_handle(3), fence.signalled()) != CUDA_SUCCESS) ++wrong;
        if (i == 3 && fence.try_wait_for(fence.signalled(), 10us) == CUDA_ERROR_INVALID_HANDLE) ++wrong;
        if (i == 4) { // other fences are created and destroyed
          TimelineFence passing(context, stream_handle(4));
          const std::uint64_t ticket = passing.signal();
          complete(recording.memory_operation(), ticket, narrow);
        }
      }
    });
  begin.arrive_and_wait();
  while (fence.signalled() < last) {
    const std::uint64_t ticket = fence.signal();
    if (ticket == last) written = ticket;
    complete(recording.memory_operation(), ticket, narrow);
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

TEST_CASE_METHOD(FenceFixture, "a ticket that the device reaches before signal() returns is signalled") {
  const bool narrow = GENERATE(false, true);
  recording.memory_operations_64_bit(!narrow);
  TimelineFence fence(context, stream);
  const std::uint64_t first = fence.signal(), next = first + 1;
  const MemoryOperation write = recording.memory_operation();
  complete(write, next, narrow); // a thread is in signal(), and the device was faster
  CHECK(fence.completed() == next);
  CHECK(fence.signalled() == next);
  recording.calls();
  CHECK(fence.try_wait(stream_handle(2), next) == CUDA_SUCCESS);
  CHECK(recording.calls().back() != "cuStreamWaitValue64");
  CHECK(fence.try_wait(stream_handle(2), next + 1) == CUDA_ERROR_INVALID_VALUE);
}
