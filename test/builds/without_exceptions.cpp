// SPDX-License-Identifier: MIT
// Every try_ call in a program that is built without exceptions and RTTI. The library is built with both, and
// in another test as a copy in one file, without both.
#include "every_header.hpp"
#include <cuevent/graph_exec.hpp>
#include <cuevent/sim.hpp>

#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this program is to be compiled with -fno-exceptions -fno-rtti"
#endif

using namespace std::chrono_literals;
using namespace cuevent;

namespace {

int checks = 0;
int failures = 0;

void expect(CUresult wanted, CUresult got, const char* call, int line) {
  ++checks;
  if (got == wanted) return;
  ++failures;
  std::fprintf(stderr, "line %d: %s: %d and not %d\n", line, call, int(got), int(wanted));
}
// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the call's own text is its name
#ifdef DISCARD // check-headers counts the warnings
#define EXPECT(wanted, call) call
#else
#define EXPECT(wanted, call) expect(wanted, call, #call, __LINE__)
#endif
#define EXPECT_TRUE(condition)                                                                               \
  expect(CUDA_SUCCESS, (condition) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, #condition, __LINE__)

CUresult stub_library(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
  return CUDA_ERROR_STUB_LIBRARY;
}

bool no_memory = false; // for allocations that cannot throw

} // namespace

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return no_memory ? nullptr : ::operator new(size);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return no_memory ? nullptr : ::operator new(size, alignment);
}

namespace {

/// What the program prints when a call that throws fails. The call ends the program.
std::string last_words_of_a_failure() {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    dup2(ends[1], STDERR_FILENO);
    DriverEvent().record(CU_STREAM_LEGACY);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char some[256];
  for (ssize_t size = 0; (size = read(ends[0], some, sizeof some)) > 0;)
    text.append(some, static_cast<std::size_t>(size));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? text : "";
}

void failures_without_try() {
  EXPECT_TRUE(last_words_of_a_failure().find("cuEventRecord: CUDA_ERROR_INVALID_HANDLE (400): ") !=
              std::string::npos);
}

void explanations() {
  const auto is_in = [](const char* wanted, const std::string& text) {
    return text.find(wanted) != std::string::npos;
  };
  const char* const library = "/nowhere/libcuda.so.1";
  Driver driver;
  EXPECT_TRUE(is_in(library, explain_load(Driver::try_load(driver, library), library)));
  EXPECT_TRUE(is_in("cuGetProcAddress: CUDA_ERROR_STUB_LIBRARY (34): ",
                    explain_load(Driver::try_load(driver, stub_library), stub_library)));
  EXPECT_TRUE(is_in("cuEventQuery: CUDA_ERROR_INVALID_HANDLE (400): ",
                    explain_query(DriverEvent().try_query(), DriverEvent())));
}

void out_of_memory(const Context& context) {
  Driver driver;
  Context same;
  EventPool none, pool;
  PooledEvent lease;
  EXPECT(CUDA_SUCCESS, EventPool::try_create(pool, context));
  no_memory = true;
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, Driver::try_load(driver, sim::get_proc_address));
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, Context::try_primary(same, 0, context.driver()));
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, EventPool::try_create(none, context));
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, pool.try_acquire(lease));
  no_memory = false;
  EXPECT_TRUE(!driver && !same && !none && !lease);
  EXPECT(CUDA_SUCCESS, pool.try_acquire(lease));
}

CUstream make_stream(const Driver& driver) {
  CUstream stream = nullptr;
  PFN_cuStreamCreate_v2000 create = nullptr;
  EXPECT(CUDA_ERROR_NOT_FOUND, driver.try_entry_point(create, "cuNothing", 2000));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, driver.try_entry_point(create, "cuStreamCreate", 99000));
  EXPECT_TRUE(create == nullptr);
  EXPECT(CUDA_SUCCESS, driver.try_entry_point(create, "cuStreamCreate", 2000));
  EXPECT(CUDA_SUCCESS, create(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

void drivers(Driver& driver) {
  EXPECT(CUDA_ERROR_STUB_LIBRARY, Driver::try_load(driver, stub_library));
  EXPECT(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, Driver::try_load(driver, "/nowhere/libcuda.so.1"));
  EXPECT_TRUE(!driver);
  EXPECT_TRUE(make_error_code(Driver::try_load(driver, stub_library)) == ErrorKind::driver_unavailable);
  EXPECT(CUDA_SUCCESS, Driver::try_load(driver, sim::get_proc_address));
  EXPECT_TRUE(driver && driver.version() == sim::usual_driver_version);

  Driver machine; // the driver of this machine
  EXPECT_TRUE((Driver::try_load(machine) == CUDA_SUCCESS) == bool(machine));
}

void contexts(const Driver& driver, Context& primary) {
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, Context::try_current(primary, driver));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, Context::try_borrow(primary, nullptr, driver));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, Context::try_primary(primary, 7, driver));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, Context::try_primary(primary, 0, Driver()));
  EXPECT_TRUE(!primary);
  EXPECT(CUDA_SUCCESS, Context::try_primary(primary, 0, driver));
  EXPECT_TRUE(bool(primary));

  Context created;
  EXPECT(CUDA_ERROR_INVALID_DEVICE, Context::try_create(created, 7, driver));
  EXPECT(CUDA_SUCCESS, Context::try_create(created, 0, driver));
  EXPECT_TRUE(created && !(created == primary));

  CUresult entered = CUDA_SUCCESS;
  const ContextGuard nothing(Context(), entered);
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, entered);
  const ContextGuard guard(created, entered);
  EXPECT(CUDA_SUCCESS, entered);
  Context current;
  EXPECT(CUDA_SUCCESS, Context::try_current(current, driver));
  EXPECT_TRUE(current == created);
}

void a_pending_event(const Context& context, CUstream stream) {
  DriverEvent event;
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(event, context));
  sim::hold(stream);
  EXPECT(CUDA_SUCCESS, event.try_record({context, CU_STREAM_PER_THREAD}));
  EXPECT(CUDA_SUCCESS, event.try_record(stream));
  EXPECT(CUDA_SUCCESS, event.try_wait(CU_STREAM_PER_THREAD));
  EXPECT(CUDA_ERROR_NOT_READY, event.try_query());
  EXPECT(CUDA_ERROR_NOT_READY, event.try_synchronize_until({}));
  sim::release(stream);
  EXPECT(CUDA_SUCCESS, event.try_synchronize());
  EXPECT(CUDA_SUCCESS, event.try_query());
  EXPECT(CUDA_SUCCESS, event.try_query_relaxed());
  const auto since = [&](int version, CUresult result) {
    return context.driver().version() >= version ? result : CUDA_ERROR_NOT_SUPPORTED;
  };
  EXPECT(since(12050, CUDA_SUCCESS), event.try_record_context(context));
  EXPECT(since(12040, CUDA_ERROR_INVALID_CONTEXT), event.try_record_context(CUgreenCtx{}));
  EXPECT(since(12050, CUDA_SUCCESS), event.try_wait_context(context));
  EXPECT(since(12040, CUDA_ERROR_INVALID_CONTEXT), event.try_wait_context(CUgreenCtx{}));
  EXPECT(CUDA_SUCCESS, event.try_close());
  EXPECT_TRUE(!event);
}

void elapsed_time(const Context& context, CUstream stream) {
  DriverEvent begin, end;
  DriverEvent::Milliseconds time{};
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(begin, context, EventFlags::timing));
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(end, context, EventFlags::timing));
  EXPECT(CUDA_SUCCESS, begin.try_record(stream));
  EXPECT(CUDA_SUCCESS, begin.try_synchronize());
  sim::advance(2ms);
  EXPECT(CUDA_SUCCESS, end.try_record(stream));
  EXPECT(CUDA_SUCCESS, end.try_synchronize());
  EXPECT(CUDA_SUCCESS, begin.try_elapsed_time(time, end));
  EXPECT_TRUE(time >= 2ms && time < 3ms);
}

void between_processes(const Context& context, CUstream stream) {
  DriverEvent exported, imported;
  IpcHandle handle, printed;
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(exported, context, EventFlags::interprocess));
  EXPECT(CUDA_SUCCESS, exported.try_ipc_handle(handle));
  EXPECT(CUDA_SUCCESS, IpcHandle::try_parse(printed, handle.to_string()));
  EXPECT_TRUE(printed == handle);
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, DriverEvent::try_from_ipc_handle(imported, context, handle));
  EXPECT_TRUE(!imported);

  Driver other;
  Context of_other;
  EXPECT(CUDA_SUCCESS, Driver::try_load(other, sim::get_proc_address_of(1)));
  EXPECT(CUDA_SUCCESS, Context::try_primary(of_other, 0, other));
  EXPECT(CUDA_ERROR_MAP_FAILED, DriverEvent::try_from_ipc_handle(imported, of_other, IpcHandle{}));
  EXPECT(CUDA_SUCCESS, DriverEvent::try_from_ipc_handle(imported, of_other, handle));
  sim::hold(stream);
  EXPECT(CUDA_SUCCESS, exported.try_record(stream));
  EXPECT(CUDA_ERROR_NOT_READY, imported.try_query());
  sim::release(stream);
  EXPECT(CUDA_SUCCESS, imported.try_synchronize());
}

void pools(const Context& context, CUstream stream, CUstream other) {
  EventPool pool;
  PooledEvent lease, end;
  DriverEvent::Milliseconds time{};
  EXPECT(CUDA_SUCCESS, EventPool::try_create(pool, context, EventFlags::timing));
  EXPECT(CUDA_SUCCESS, pool.try_reserve(2));
  EXPECT(CUDA_SUCCESS, pool.try_acquire(lease));
  EXPECT(CUDA_SUCCESS, pool.try_acquire(end));
  EXPECT(CUDA_SUCCESS, lease.try_record(stream));
  EXPECT(CUDA_SUCCESS, lease.try_record({context, stream}));
  EXPECT(CUDA_SUCCESS, lease.try_wait({context, other}));
  EXPECT(CUDA_SUCCESS, pool.try_wait_stream(other, stream));
  EXPECT(CUDA_SUCCESS, pool.try_wait_stream({context, other}, {context, stream}));
  EXPECT(CUDA_SUCCESS, end.try_record(other));
  EXPECT(CUDA_SUCCESS, end.try_synchronize());
  EXPECT(CUDA_SUCCESS, lease.try_elapsed_time(time, end));
  EXPECT_TRUE(std::move(lease).detach() && !lease);
  pool.trim();
  EXPECT_TRUE(pool.counters().created == 3 && pool.counters().idle == 0);
}

void references(const Context& context, CUstream stream, CUstream other) {
  EventPools pools;
  PooledEvent lease, end;
  DriverEvent::Milliseconds time{};
  EXPECT(CUDA_SUCCESS, EventPools::try_create(pools, context.driver(), EventFlags::timing));
  EXPECT(CUDA_SUCCESS, pools.try_reserve(context, 2));
  EXPECT(CUDA_SUCCESS, pools.try_acquire(lease, stream));
  EXPECT(CUDA_SUCCESS, pools.try_acquire(end, {context, stream}));
  EXPECT(CUDA_SUCCESS, pools.try_acquire_current(end));
  void* const word = static_cast<PooledEvent&&>(end).release();
  EXPECT(CUDA_SUCCESS, PooledEvent::borrow(word).try_record(CU_STREAM_LEGACY));
  end = PooledEvent::adopt(word);
  EXPECT_TRUE(end.recorded() && pools.counters(context.native_handle()).created == 3);
  EXPECT(CUDA_SUCCESS, pools.try_wait_stream(other, stream));
  EXPECT(CUDA_SUCCESS, pools.try_wait_stream({context, other}, {context, stream}));
  const SharedEvent shared = std::move(lease).share();
  const EventRef ref = shared, plain(end.native_handle(), context.driver()), none;
  EXPECT(CUDA_SUCCESS, ref.try_record(stream));
  EXPECT(CUDA_SUCCESS, ref.try_record({context, stream}));
  EXPECT(CUDA_SUCCESS, ref.try_wait(other));
  EXPECT(CUDA_SUCCESS, ref.try_wait({context, other}));
  EXPECT(CUDA_SUCCESS, plain.try_record(other));
  EXPECT(CUDA_SUCCESS, plain.try_synchronize());
  EXPECT(CUDA_SUCCESS, ref.try_query_relaxed());
  EXPECT(CUDA_SUCCESS, ref.try_synchronize_for(1ms));
  EXPECT(CUDA_SUCCESS, ref.try_synchronize_until({}));
  EXPECT(CUDA_SUCCESS, ref.try_elapsed_time(time, plain));
}

void fences(const Context& context, CUstream stream) {
  TimelineFence fence;
  std::uint64_t ticket = 0;
  EXPECT(CUDA_SUCCESS, TimelineFence::try_create(fence, context, stream));
  sim::hold(stream);
  EXPECT(CUDA_SUCCESS, fence.try_signal(ticket));
  EXPECT(CUDA_SUCCESS, fence.try_wait(CU_STREAM_PER_THREAD, ticket));
  EXPECT(CUDA_ERROR_NOT_READY, fence.try_wait_for(ticket, 1ms));
  EXPECT(CUDA_SUCCESS, fence.status());
  sim::release(stream);
  EXPECT(CUDA_SUCCESS, fence.try_wait_for(ticket, 1s));
  EXPECT_TRUE(fence.reached(ticket) && fence.completed() == ticket);
}

void captures(const Context& context, CUstream stream) {
  CaptureInfo info;
  EXPECT(CUDA_SUCCESS, try_capture_info(info, context, stream));
  EXPECT_TRUE(info.status() == CaptureStatus::none && info.frontier().empty());
  StreamCapture capture;
  Graph graph;
  CaptureStatus status{};
  EXPECT(CUDA_ERROR_ILLEGAL_STATE, capture.try_end(graph));
  EXPECT(CUDA_SUCCESS, capture.try_begin(context, stream));
  EXPECT(CUDA_SUCCESS, try_capture_status(status, context, stream));
  EXPECT_TRUE(status == CaptureStatus::active);
  EXPECT(CUDA_SUCCESS, try_capture_info(info, context, stream));
  EXPECT_TRUE(info.status() == CaptureStatus::active && info.id() != 0);
  EXPECT(CUDA_ERROR_INVALID_VALUE, try_add_capture_dependencies(context, stream, {nullptr}));
  EXPECT(CUDA_SUCCESS, try_set_capture_dependencies(context, stream, {}));
  DriverEvent event, recorded;
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(event, context));
  EXPECT(CUDA_SUCCESS, capture.try_record(recorded, std::move(event), stream));
  EXPECT_TRUE(!event && recorded);
  bool ended = false;
  Graph borrowed = info.graph();
  EXPECT(CUDA_SUCCESS, borrowed.try_retain(std::vector<int>(2)));
  EXPECT(CUDA_SUCCESS, borrowed.try_when_destroyed([&ended] { ended = true; }));
  EndNotice notice;
  EXPECT(CUDA_SUCCESS, borrowed.try_end_notice(notice));
  EXPECT(CUDA_SUCCESS, capture.try_end(graph));
  EXPECT_TRUE(borrowed.native_handle() == graph.native_handle() && !ended && !notice.ended());
  graph = Graph();
  sim::run_until_idle();
  while (!ended || !notice.ended())
    destroy_retired();
}

void graphs(const Context& context, CUstream stream) {
  Graph graph;
  GraphExec exec;
  EventRecordNode record, found;
  EventWaitNode wait, other;
  CUevent handle = nullptr;
  Graph::EventNodes nodes;
  DriverEvent event, second, before;
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(event, context));
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(second, context));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, graph.try_add_record(record, event));
  EXPECT(CUDA_SUCCESS, Graph::try_create(graph, context));
  EXPECT(CUDA_SUCCESS, graph.try_add_record(record, event));
  CUgraphNode const after[] = {record.native_handle()};
  EXPECT(CUDA_SUCCESS, graph.try_add_wait(wait, event, after));
  EXPECT(CUDA_SUCCESS, graph.try_event(handle, record));
  EXPECT(CUDA_SUCCESS, graph.try_event(handle, wait));
  EXPECT_TRUE(handle == event.native_handle());
  EXPECT(CUDA_SUCCESS, graph.try_event_nodes(nodes));
  EXPECT_TRUE(nodes.records.size() == 1 && nodes.waits.size() == 1);
  EXPECT(CUDA_ERROR_NOT_FOUND, graph.try_record_node(found, second));
  EXPECT(CUDA_SUCCESS, graph.try_record_node(found, event));
  EXPECT(CUDA_SUCCESS, graph.try_wait_node(other, event));
  EXPECT_TRUE(found == record && other == wait);
  EXPECT(CUDA_SUCCESS, graph.try_set_event(record, second));
  EXPECT(CUDA_SUCCESS, graph.try_set_event(wait, second));
  EXPECT(CUDA_SUCCESS, graph.try_instantiate(exec));
  EXPECT(CUDA_SUCCESS, exec.try_set_event(record, event));
  EXPECT(CUDA_SUCCESS, exec.try_set_event(wait, event));
  EXPECT(CUDA_SUCCESS, exec.try_set_event(before, record, std::move(event)));
  EXPECT_TRUE(!event && !before);
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(event, context));
  EXPECT(CUDA_SUCCESS, exec.try_set_event(before, wait, std::move(event)));
  EXPECT(CUDA_SUCCESS, graph.try_retain(std::move(second)));
  EXPECT(CUDA_SUCCESS, exec.try_launch(stream));
  sim::run_until_idle();

  StreamCapture capture;
  Graph same;
#if CUDA_VERSION >= 12030 // later than the oldest headers
  EXPECT(CUDA_SUCCESS, capture.try_begin(context, stream, graph));
  EXPECT(CUDA_SUCCESS, capture.try_end(same));
  EXPECT_TRUE(same.native_handle() == graph.native_handle());
#endif

  CUresult entered = CUDA_ERROR_UNKNOWN;
  const CaptureModeGuard relaxed(context.driver(), entered);
  EXPECT(CUDA_SUCCESS, entered);
}

void semaphores(const Context& context, CUstream stream) {
  TimelineSemaphore semaphore, joined;
  int handle = -1;
  EXPECT(CUDA_ERROR_INVALID_HANDLE, semaphore.try_signal(1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, TimelineSemaphore::try_import(joined, context, -1));
  EXPECT(CUDA_SUCCESS, TimelineSemaphore::try_create(semaphore, context, 1));
  EXPECT(CUDA_SUCCESS, semaphore.try_export_handle(handle));
  EXPECT(CUDA_SUCCESS, TimelineSemaphore::try_import(joined, context, handle));
  sim::hold(stream);
  EXPECT(CUDA_SUCCESS, semaphore.try_signal(stream, 2));
  EXPECT(CUDA_ERROR_NOT_READY, semaphore.try_wait_for(2, 1ms));
  EXPECT(CUDA_SUCCESS, joined.try_wait(CU_STREAM_PER_THREAD, 2));
  EXPECT(CUDA_ERROR_NOT_READY, joined.try_wait_when_submitted(CU_STREAM_PER_THREAD, 3, 1ms));
  sim::release(stream);
  std::size_t index = 7;
  EXPECT(CUDA_SUCCESS, TimelineSemaphore::try_wait_any(index, {{semaphore, 2}, {joined, 3}}, 1s));
  EXPECT_TRUE(index == 0);
  EXPECT(CUDA_ERROR_NOT_READY, TimelineSemaphore::try_wait_all({{semaphore, 2}, {joined, 3}}, 1ms));
  EXPECT(CUDA_SUCCESS, semaphore.try_signal(3));
  EXPECT(CUDA_SUCCESS, semaphore.try_abandon_on_death());
  EXPECT_TRUE(joined.value() == 3 && joined.status() == TimelineStatus::active);
  semaphore.abandon();
  EXPECT(CUDA_ERROR_ILLEGAL_STATE, joined.try_signal(4));
  EXPECT(CUDA_SUCCESS, joined.try_close());
}

void measurements(const Context& context, CUstream stream) {
  MeasureOptions options;
  options.precision = 0.9;
  options.least_samples = options.most_samples = 3;
  const auto nothing = [] {};
  Measurement found;
  EXPECT(CUDA_SUCCESS, try_measure(found, context, stream, nothing, options));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, try_measure(found, Context(), stream, nothing, options));
  Comparison compared;
  EXPECT(CUDA_SUCCESS, try_compare(compared, context, stream, nothing, nothing, options));
}

void stages(const Context& context, CUstream stream) {
  StageTimer timer;
  std::size_t spans = 0;
  EXPECT(CUDA_SUCCESS, StageTimer::try_create(timer, context));
  const StageId first = timer.stage("first"), second = timer.stage("second");
  DriverEvent event;
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(event, context));
  EXPECT(CUDA_ERROR_ILLEGAL_STATE, timer.try_close(stream)); // nothing is open
  EXPECT(CUDA_SUCCESS, timer.try_open(stream, first));
  EXPECT(CUDA_SUCCESS, timer.try_next(stream, second));
  EXPECT(CUDA_SUCCESS, timer.try_close(stream));
  EXPECT(CUDA_SUCCESS, timer.try_record(event, stream));
  EXPECT(CUDA_SUCCESS, timer.try_wait(event, CU_STREAM_PER_THREAD));
  EXPECT(CUDA_SUCCESS, timer.try_poll(spans));
  EXPECT(CUDA_SUCCESS, timer.try_collect(spans));
  EXPECT(CUDA_SUCCESS, timer.try_calibrate());
  EXPECT_TRUE(timer.report().spans.size() == 2);

  StreamCapture capture;
  Graph graph;
  TimedGraph timed;
  EXPECT(CUDA_SUCCESS, capture.try_begin(context, stream));
  EXPECT(CUDA_SUCCESS, timer.try_open(stream, first));
  EXPECT(CUDA_SUCCESS, timer.try_close(stream));
  EXPECT(CUDA_SUCCESS, capture.try_end(graph));
  EXPECT(CUDA_SUCCESS, timer.try_instantiate(timed, std::move(graph)));
  EXPECT(CUDA_SUCCESS, timed.try_launch(stream));
  EXPECT(CUDA_SUCCESS, timer.try_collect(spans));
  EXPECT_TRUE(spans == 1);
}

void completions(const Context& context, CUstream stream) {
  CompletionQueue queue;
  int called = 0;
  const auto callback = [&called](CUresult result) { called += result == CUDA_SUCCESS ? 1 : 100; };
  EXPECT(CUDA_SUCCESS, CompletionQueue::try_create(queue, context));
  EXPECT(CUDA_SUCCESS, queue.try_reserve(2));
  sim::hold(stream);
  EXPECT(CUDA_SUCCESS, queue.try_when_complete(stream, callback));
  EXPECT(CUDA_SUCCESS, queue.try_when_complete({context, nullptr}, callback));
  while (called == 0)
    queue.poll();
  CompletionQueue::Lane lane;
  EXPECT(CUDA_SUCCESS, queue.try_lane(lane, {context, nullptr}));
  EXPECT(CUDA_SUCCESS, queue.try_lane(lane, stream));
  CompletionToken token;
  EXPECT(CUDA_SUCCESS, lane.try_when_complete([](CUresult) {}, &token));
  EXPECT_TRUE(token.cancel() && !token.cancel() && queue.poll(PollLimit{1}) == 1);
  EXPECT_TRUE(called == 1 && queue.poll() == 0 && queue.pending() == 1);
  int descriptor = -1;
  EXPECT(CUDA_SUCCESS, queue.try_native_handle(descriptor));
  EXPECT_TRUE(descriptor >= 0);
  EXPECT(CUDA_SUCCESS, queue.try_arm());
  sim::release(stream);
  while (queue.pending() != 0)
    queue.poll();
  EXPECT_TRUE(called == 2);
}

void flights(const Context& context, CUstream stream) {
  FlightRecorder recorder;
  FlightReport report;
  EXPECT(CUDA_SUCCESS, FlightRecorder::try_create(recorder, context));
  EXPECT(CUDA_SUCCESS, recorder.try_add_stream(stream, "stream"));
  EXPECT(CUDA_SUCCESS, recorder.try_add_stream({context, stream}, "stream"));
  DriverEvent event;
  EXPECT(CUDA_SUCCESS, DriverEvent::try_create(event, context));
  EXPECT(CUDA_SUCCESS, recorder.try_record(event, stream));
  EXPECT(CUDA_SUCCESS, recorder.try_wait(event, stream));
  EXPECT(CUDA_SUCCESS, recorder.try_note_wait(stream, &event, 1, "value"));
  EXPECT(CUDA_SUCCESS, recorder.try_note_signal(stream, &event, 1));
  EXPECT(CUDA_SUCCESS, recorder.try_mark(stream, "mark"));
  FlightGraph graph{};
  EXPECT(CUDA_ERROR_ILLEGAL_STATE, recorder.try_name_capture(graph, stream, "graph"));
  EXPECT(CUDA_ERROR_INVALID_VALUE, recorder.try_launched(stream, graph));
  EXPECT(CUDA_SUCCESS, recorder.try_report(report));
  EXPECT_TRUE(report.streams.size() == 1 && report.streams[0].name == "stream");
}

} // namespace

int main() {
  failures_without_try();
  const sim::Machine machine;
  Driver driver;
  explanations();
  drivers(driver);
  {
    Context context;
    contexts(driver, context);
    CUresult entered = CUDA_SUCCESS;
    const ContextGuard current(context, entered);
    EXPECT(CUDA_SUCCESS, entered);
    CUstream const stream = make_stream(driver);
    a_pending_event(context, stream);
    out_of_memory(context);
    elapsed_time(context, stream);
    between_processes(context, stream);
    pools(context, stream, CU_STREAM_PER_THREAD);
    references(context, stream, CU_STREAM_PER_THREAD);
    fences(context, stream);
    semaphores(context, stream);
    completions(context, stream);
    captures(context, stream);
    graphs(context, stream);
    stages(context, stream);
    measurements(context, stream);
    flights(context, stream);
  }
  EXPECT_TRUE(sim::live_handles().events == 0);
  EXPECT_TRUE(sim::live_handles().contexts == 0);
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
