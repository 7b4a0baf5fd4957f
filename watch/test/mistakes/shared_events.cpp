// SPDX-License-Identifier: MIT
// Events that several producers record, so that a record is lost that somebody relies on. And events that
// streams pass on, or whose marks nobody needs.
#include "../driver_calls.hpp"

namespace {

/// Two producers and a consumer, again and again.
template <class Record>
void share(Gpu& gpu, CUevent shared, CUstream first, CUstream second, bool corrected, Record record_second) {
  const CUstream consumer = gpu.stream();
  for (int i = 0; i < 3; ++i) {
    gpu.work(first);
    record(shared, first);
    if (corrected) wait(consumer, shared);
    gpu.work(second);
    record_second(shared, second);
    wait(consumer, shared);
    gpu.work(consumer);
  }
}

MISTAKE("record-replaced", timed_event_of_two_producers, "the event that two producers share measures time") {
  share(gpu, gpu.event(CU_EVENT_DEFAULT), gpu.a, gpu.b, corrected, [](CUevent shared, CUstream on) {
    record(shared, on); //!
  });
}

MISTAKE("record-replaced", event_of_two_blocking_streams, "the streams of both producers are blocking ones") {
  const CUstream first = gpu.stream(CU_STREAM_DEFAULT), second = gpu.stream(CU_STREAM_DEFAULT);
  share(gpu, gpu.event(), first, second, corrected, [](CUevent shared, CUstream on) {
    record(shared, on); //!
  });
}

MISTAKE("record-replaced", event_of_the_default_stream, "one of the producers uses the default stream") {
  share(gpu, gpu.event(), nullptr, gpu.b, corrected, [](CUevent shared, CUstream on) {
    record(shared, on); //!
  });
}

MISTAKE("record-replaced", new_event_for_each_buffer,
        "each buffer has an event, which two producers record") {
  const CUfunction step = kernel("step");
  const CUstream consumer = gpu.stream();
  for (int i = 0; i < 2; ++i) {
    const CUevent ready = gpu.event();
    run(step, gpu.a);
    record(ready, gpu.a);
    if (corrected) wait(consumer, ready);
    run(step, gpu.b);
    record(ready, gpu.b); //!
    wait(consumer, ready);
    run(step, consumer);
    destroy(ready);
  }
}

MISTAKE("record-replaced", two_threads_and_their_event,
        "each thread records the event of both, and waits for its own work") {
  const CUevent shared = gpu.event(), other = corrected ? gpu.event() : shared;
  const CUstream first = gpu.stream(), second = gpu.stream();
  for (int i = 0; i < 3; ++i) {
    on_another_thread([&] {
      gpu.work(gpu.a);
      record(shared, gpu.a);
    });
    on_another_thread([&] {
      gpu.work(gpu.b);
      record(other, gpu.b); //!
    });
    on_another_thread([&] {
      wait(first, shared);
      gpu.work(first);
    });
    on_another_thread([&] {
      wait(second, other);
      gpu.work(second);
    });
  }
}

MISTAKE("record-replaced", shared_event_beside_timers, "a profiler also records events after each work") {
  const CUevent shared = gpu.event(), timer = gpu.event(CU_EVENT_DEFAULT);
  const CUstream consumer = gpu.stream();
  const auto produce = [&](CUstream on) {
    gpu.work(on);
    record(timer, on);
    record(shared, on); //!
  };
  for (int i = 0; i < 3; ++i) {
    produce(gpu.a);
    if (corrected) wait(consumer, shared);
    produce(gpu.b);
    wait(consumer, shared);
    gpu.work(consumer);
  }
}

MISTAKE("record-replaced", polled_for_two_producers, "the host polls one event for the work of two streams") {
  const CUevent shared = gpu.event();
  const auto poll = [&] {
    while (cuEventQuery(shared) == CUDA_ERROR_NOT_READY)
      sleep_ms(1);
  };
  for (int i = 0; i < 3; ++i) {
    slow(gpu.a);
    record(shared, gpu.a);
    if (corrected) poll();
    gpu.work(gpu.b);
    record(shared, gpu.b); //!
    poll();
  }
}

MISTAKE("record-replaced", host_waits_for_the_consumer,
        "the consumer gets no work, and the host waits for it") {
  const CUevent shared = gpu.event();
  const CUstream consumer = gpu.stream();
  for (int i = 0; i < 3; ++i) {
    slow(gpu.a);
    record(shared, gpu.a);
    if (corrected) wait(consumer, shared);
    slow(gpu.b);
    record(shared, gpu.b); //!
    wait(consumer, shared);
    finish(consumer);
  }
}

MISTAKE("record-replaced", second_producer_at_times,
        "the second producer has work in some of the steps only") {
  const CUevent shared = gpu.event();
  const CUstream consumer = gpu.stream();
  for (int i = 0; i < 6; ++i) {
    gpu.work(gpu.a);
    record(shared, gpu.a);
    if (i % 2 == 1) {
      if (corrected) wait(consumer, shared);
      gpu.work(gpu.b);
      record(shared, gpu.b); //!
    }
    wait(consumer, shared);
    gpu.work(consumer);
  }
}

HARMLESS(waits_for_the_first_in_another_way, "the consumer waits for the first producer by another event",
         "") {
  const CUevent shared = gpu.event(), first = gpu.event();
  const CUstream consumer = gpu.stream();
  for (int i = 0; i < 4; ++i) {
    gpu.work(gpu.a);
    record(shared, gpu.a);
    record(first, gpu.a);
    gpu.work(gpu.b);
    record(shared, gpu.b);
    wait(consumer, shared);
    wait(consumer, first);
    gpu.work(consumer);
  }
}

HARMLESS(host_waits_for_both, "the host waits for the event, and then for the stream whose record is lost",
         "") {
  const CUevent shared = gpu.event();
  for (int i = 0; i < 4; ++i) {
    slow(gpu.a);
    record(shared, gpu.a);
    slow(gpu.b);
    record(shared, gpu.b);
    expect(cuEventSynchronize(shared));
    finish(gpu.a);
  }
}

HARMLESS(second_work_comes_behind_the_first, "the second producer waits for the first by another event", "") {
  const CUevent passed = gpu.event();
  const CUstream consumer = gpu.stream();
  for (int i = 0; i < 4; ++i) {
    const CUevent ready = gpu.event(i % 2 == 0 ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
    gpu.work(gpu.a);
    record(ready, gpu.a);
    order(gpu.a, passed, gpu.b);
    gpu.work(gpu.b);
    record(ready, gpu.b);
    order(gpu.b, ready, consumer);
    gpu.work(consumer);
    destroy(ready);
  }
}

HARMLESS(legacy_work_between_the_records, "the default stream orders two blocking streams", "") {
  const CUevent done = gpu.event();
  const CUstream first = gpu.stream(CU_STREAM_DEFAULT), second = gpu.stream(CU_STREAM_DEFAULT);
  for (int i = 0; i < 4; ++i) {
    gpu.work(first);
    record(done, first);
    gpu.work(nullptr);
    gpu.work(second);
    record(done, second);
    wait(gpu.a, done);
    gpu.work(gpu.a);
  }
}

HARMLESS(dropped_samples_of_two_streams,
         "timers are used by two streams in turn, and some times are not read", "") {
  const CUevent start = gpu.event(CU_EVENT_DEFAULT), stop = gpu.event(CU_EVENT_DEFAULT);
  for (int i = 0; i < 8; ++i) {
    const CUstream on = i % 2 == 0 ? gpu.a : gpu.b;
    record(start, on);
    gpu.work(on);
    record(stop, on);
    if (i % 2 == 0) continue;
    expect(cuEventSynchronize(stop));
    expect(time_between(start, stop));
  }
}

HARMLESS(pool_gives_out_what_is_done, "a pool asks each event whether it is done before it is used again",
         "") {
  std::vector<CUevent> pool = events(gpu, 2);
  const CUstream consumer = gpu.stream();
  for (int i = 0; i < 10; ++i) {
    const CUevent taken = pool.front();
    pool.erase(pool.begin());
    while (cuEventQuery(taken) == CUDA_ERROR_NOT_READY)
      sleep_ms(1);
    const CUstream on = i % 2 == 0 ? gpu.a : gpu.b;
    gpu.work(on);
    record(taken, on);
    if (i % 3 == 0) wait(consumer, taken), gpu.work(consumer);
    pool.push_back(taken);
  }
}

HARMLESS(tasks_that_nobody_waits_for, "tasks of three streams mark their ends, and only some have dependents",
         "") {
  std::vector<CUevent> pool = events(gpu, 3);
  const CUstream streams[] = {gpu.a, gpu.b, gpu.stream()};
  const CUstream consumer = gpu.stream();
  CUevent held = nullptr;
  for (std::size_t i = 0; i < 60; ++i) {
    const CUstream on = streams[i % 3];
    gpu.work(on);
    const CUevent mark = pool.back();
    record(mark, on);
    if (i % 4 != 3) continue; // and the event may be used again
    wait(consumer, mark);
    gpu.work(consumer);
    pool.pop_back();
    if (held != nullptr) pool.push_back(held);
    held = mark;
  }
}

HARMLESS(marks_of_a_queue, "the events of a queue mark tasks, each of which a task of its own stream follows",
         "") {
  std::vector<CUevent> pool = events(gpu, 2);
  const CUstream consumer = gpu.stream();
  for (int i = 0; i < 20; ++i) {
    const CUstream on = i % 2 == 0 ? gpu.a : gpu.b;
    const CUevent mark = pool.front();
    pool.erase(pool.begin());
    gpu.work(on);
    record(mark, on);
    gpu.work(on); // the next task needs no wait
    pool.push_back(mark);
    if (i % 5 == 4) order(on, mark, consumer), gpu.work(consumer);
  }
}

} // namespace
