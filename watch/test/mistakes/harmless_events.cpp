// SPDX-License-Identifier: MIT
// What real programs do with events, and is right.
#include "../driver_calls.hpp"

namespace {

HARMLESS(pool_of_events, "events return to a pool once the host has waited for them", "--leaks") {
  std::vector<CUevent> pool = events(gpu, 4);
  for (int i = 0; i < 100; ++i) {
    CUevent taken = pool.back();
    pool.pop_back();
    gpu.work(gpu.a);
    record(taken, gpu.a);
    expect(cuEventSynchronize(taken));
    pool.push_back(taken);
  }
  clean(gpu, pool);
}

HARMLESS(ring_of_four,
         "each slot of a ring is waited for before it is written again, also in the first round") {
  const std::vector<CUevent> ring = events(gpu, 4);
  for (std::size_t i = 0; i < 24; ++i) { // from 30 waits on, a busy machine makes them long
    expect(cuEventSynchronize(ring[i % 4]));
    gpu.work(gpu.a);
    record(ring[i % 4], gpu.a);
  }
  clean(gpu, ring);
}

HARMLESS(ring_that_polls, "a slot is free if its event, perhaps never recorded, is done") {
  const std::vector<CUevent> ring = events(gpu, 4);
  for (std::size_t i = 0; i < 40;) {
    if (cuEventQuery(ring[i % 4]) != CUDA_SUCCESS) {
      usleep(100);
      continue;
    }
    gpu.work(gpu.a);
    record(ring[i++ % 4], gpu.a);
  }
  clean(gpu, ring);
}

HARMLESS(lags_by_one, "the consumer waits for the step before, so its first wait has nothing to wait for") {
  CUevent step = gpu.event();
  for (int i = 0; i < 20; ++i) {
    wait(gpu.b, step);
    gpu.work(gpu.b);
    gpu.work(gpu.a);
    record(step, gpu.a);
  }
  clean(gpu, {step});
}

HARMLESS(lags_by_three, "the same with a ring of three events") {
  const std::vector<CUevent> ring = events(gpu, 3);
  for (std::size_t i = 0; i < 30; ++i) {
    wait(gpu.b, ring[i % 3]); // recorded three steps ago
    gpu.work(gpu.b);
    gpu.work(gpu.a);
    record(ring[i % 3], gpu.a);
  }
  clean(gpu, ring);
}

HARMLESS(double_buffer_both_ways, "two streams wait for each other's event of the step before") {
  const std::vector<CUevent> full = events(gpu, 2), empty = events(gpu, 2);
  for (std::size_t i = 0; i < 20; ++i) {
    wait(gpu.a, empty[i % 2]); // nothing in the first two steps
    gpu.work(gpu.a);
    record(full[i % 2], gpu.a);
    wait(gpu.b, full[i % 2]);
    gpu.work(gpu.b);
    record(empty[i % 2], gpu.b);
  }
  clean(gpu, {full[0], full[1], empty[0], empty[1]});
}

HARMLESS(threads_that_lag, "a producer and a consumer thread, one step apart") {
  const std::vector<CUevent> ring = events(gpu, 2);
  for (std::size_t i = 0; i < 10; ++i) {
    on_another_thread([&] {
      wait(gpu.b, ring[i % 2]);
      gpu.work(gpu.b);
    });
    on_another_thread([&] {
      gpu.work(gpu.a);
      record(ring[i % 2], gpu.a);
    });
  }
  clean(gpu, ring);
}

HARMLESS(destroyed_while_pending, "an event is destroyed while its work and a wait for it are pending") {
  CUevent done = gpu.event();
  slow(gpu.a);
  order(gpu.a, done, gpu.b);
  destroy(done);
  gpu.work(gpu.b);
  clean(gpu);
}

HARMLESS(event_for_one_wait, "a framework's helper creates, records, waits and destroys", "--leaks") {
  for (int i = 0; i < 10; ++i) {
    CUevent once = gpu.event();
    order(gpu.a, once, gpu.b);
    destroy(once);
  }
  clean(gpu);
}

HARMLESS(recorded_again_after_the_wait, "one event carries every step from one stream to another") {
  CUevent carry = gpu.event();
  for (int i = 0; i < 20; ++i) {
    gpu.work(gpu.a);
    order(gpu.a, carry, gpu.b);
    gpu.work(gpu.b);
  }
  clean(gpu, {carry});
}

HARMLESS(marks_progress,
         "an event is recorded after each step on one stream, and only the last one is waited for") {
  CUevent progress = gpu.event();
  for (int i = 0; i < 10; ++i) {
    gpu.work(gpu.a);
    record(progress, gpu.a);
  }
  wait(gpu.b, progress);
  gpu.work(gpu.b);
  clean(gpu, {progress});
}

HARMLESS(token_from_stream_to_stream, "each stream waits for the event and then records it again") {
  CUevent token = gpu.event();
  CUstream third = gpu.stream();
  gpu.work(gpu.a);
  record(token, gpu.a);
  for (CUstream each : {gpu.b, third, gpu.a}) {
    wait(each, token);
    gpu.work(each);
    record(token, each);
  }
  finish(gpu.a);
  expect(cuStreamDestroy(third));
  clean(gpu, {token});
}

HARMLESS(fan_in_of_eight, "one stream waits for eight others") {
  std::vector<CUevent> done = events(gpu, 8);
  std::vector<CUstream> workers;
  for (CUevent each : done) {
    workers.push_back(gpu.stream());
    gpu.work(workers.back());
    record(each, workers.back());
    wait(gpu.a, each);
  }
  gpu.work(gpu.a);
  finish(gpu.a);
  for (CUstream each : workers)
    expect(cuStreamDestroy(each));
  clean(gpu, done);
}

HARMLESS(pairs_read_later, "pairs of timed events are read once all steps are complete") {
  const std::vector<CUevent> start = events(gpu, 10, 0), stop = events(gpu, 10, 0);
  for (std::size_t i = 0; i < 10; ++i) {
    record(start[i], gpu.a);
    gpu.work(gpu.a);
    record(stop[i], gpu.a);
  }
  expect(cuEventSynchronize(stop[9]));
  for (std::size_t i = 0; i < 10; ++i) {
    expect(time_between(start[i], stop[i]));
    destroy(start[i]), destroy(stop[i]);
  }
  clean(gpu);
}

HARMLESS(time_polled_until_ready, "a profiler reads the time again and again until it is there") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  record(start, gpu.a);
  slow(gpu.a);
  record(stop, gpu.a);
  float milliseconds = 0;
  while (cuEventElapsedTime(&milliseconds, start, stop) == CUDA_ERROR_NOT_READY)
    sleep_ms(1);
  clean(gpu, {start, stop});
}

HARMLESS(stream_destroyed_before_its_event, "the event of a destroyed stream completes as usual") {
  CUevent done = gpu.event();
  CUstream stream = gpu.stream();
  slow(stream);
  record(done, stream);
  expect(cuStreamDestroy(stream));
  expect(cuEventSynchronize(done));
  clean(gpu, {done});
}

HARMLESS(legacy_stream_joins, "a record on the legacy stream comes after the work of all blocking streams") {
  CUevent all = gpu.event();
  CUstream blocking = gpu.stream(CU_STREAM_DEFAULT);
  for (int i = 0; i < 3; ++i) {
    slow(blocking);
    record(all, CU_STREAM_LEGACY);
    expect(cuEventSynchronize(all));
  }
  expect(cuStreamDestroy(blocking));
  clean(gpu, {all});
}

HARMLESS(default_stream_feeds_another, "an event orders a non-blocking stream behind the default stream") {
  CUevent fed = gpu.event();
  gpu.work(nullptr);
  order(nullptr, fed, gpu.a);
  gpu.work(gpu.a);
  clean(gpu, {fed});
}

HARMLESS(wait_for_work_that_is_done, "a stream waits for an event that has completed long ago") {
  CUevent done = gpu.event();
  gpu.work(gpu.a);
  record(done, gpu.a);
  expect(cuEventSynchronize(done));
  for (int i = 0; i < 3; ++i) {
    wait(gpu.b, done);
    gpu.work(gpu.b);
  }
  clean(gpu, {done});
}

HARMLESS(records_that_nobody_asks_for, "a library records an event after each call for whom it may concern",
         "--leaks") {
  const std::vector<CUevent> done = events(gpu, 10);
  for (CUevent each : done) {
    gpu.work(gpu.a);
    record(each, gpu.a);
  }
  clean(gpu, done);
}

HARMLESS(generic_wait_for_itself, "generic code lets a stream wait for another, which is once the same") {
  CUevent done = gpu.event();
  for (CUstream from : {gpu.b, gpu.a}) {
    gpu.work(from);
    order(from, done, gpu.a);
    gpu.work(gpu.a);
  }
  clean(gpu, {done});
}

HARMLESS(two_hundred_events_at_once, "a pool is filled at the start") {
  const std::vector<CUevent> pool = events(gpu, 200);
  for (CUevent each : pool) {
    gpu.work(gpu.a);
    record(each, gpu.a);
  }
  finish(gpu.a);
  clean(gpu, pool);
}

HARMLESS(reads_a_result_each_step, "the host needs the result of each step, and waits for the stream") {
  unsigned result = 0;
  for (int i = 0; i < 20; ++i) {
    gpu.work(gpu.a);
    expect(cuMemcpyDtoHAsync(&result, gpu.memory, sizeof result, gpu.a));
    finish(gpu.a);
  }
  clean(gpu);
}

HARMLESS(two_threads_pass_an_event,
         "an event is created, recorded, waited for and destroyed by different threads") {
  CUevent passed = nullptr;
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    passed = gpu.event();
  });
  on_another_thread([&] {
    gpu.work(gpu.a);
    record(passed, gpu.a);
  });
  on_another_thread([&] { wait(gpu.b, passed); });
  on_another_thread([&] { destroy(passed); });
  clean(gpu);
}

HARMLESS(watcher_thread_polls,
         "a thread polls an event until it is done, and the main thread records it again") {
  CUevent done = gpu.event();
  for (int i = 0; i < 3; ++i) {
    slow(gpu.a);
    record(done, gpu.a);
    on_another_thread([&] {
      while (cuEventQuery(done) == CUDA_ERROR_NOT_READY)
        sleep_ms(1);
    });
  }
  clean(gpu, {done});
}

HARMLESS(marks_that_nobody_needs,
         "each task marks its end with an event of a pool, and the next one on the same stream needs no wait",
         "") {
  std::vector<CUevent> pool{gpu.event()};
  const auto task = [&](CUstream on) {
    gpu.work(on);
    const CUevent mark = pool.back();
    pool.pop_back();
    record(mark, on);
    return mark;
  };
  for (const CUstream on : {gpu.a, gpu.b, gpu.a}) {
    const CUevent mark = task(on);
    gpu.work(on);
    pool.push_back(mark);
  }
  wait(gpu.b, task(gpu.a));
  gpu.work(gpu.b);
}

HARMLESS(last_uses_of_new_buffers,
         "each buffer has an event of its last reader, and some buffers were not read yet", "") {
  const std::vector<CUevent> last = events(gpu, 4);
  for (const CUevent each : last) {
    wait(gpu.a, each);
    gpu.work(gpu.a);
  }
  gpu.work(gpu.b);
  record(last[0], gpu.b);
  wait(gpu.a, last[0]);
  gpu.work(gpu.a);
}

HARMLESS(profiler_that_drops_a_frame, "the time of the last frame is not there when the program ends", "") {
  const CUevent start = gpu.event(0), stop = gpu.event(0);
  record(start, gpu.a);
  slow(gpu.a);
  record(stop, gpu.a);
  time_between(start, stop);
  expect(cuCtxSynchronize());
}

HARMLESS(event_that_ends_before_its_exec, "no launch comes after the end of the event", "") {
  const CUevent done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  expect(cuEventRecordWithFlags(done, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  const CUgraphExec exec = instantiate(end(gpu.a));
  expect(cuGraphLaunch(exec, gpu.a));
  finish(gpu.a);
  expect(cuEventDestroy(done));
  expect(cuGraphExecDestroy(exec));
}

} // namespace
