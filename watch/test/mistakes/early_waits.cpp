// SPDX-License-Identifier: MIT
// Waits that come before the record that they need, and waits that rightly come first.
#include "../driver_calls.hpp"

namespace {

MISTAKE("wait-before-record", consumer_works_before_the_record,
        "the consumer is launched between the wait and the record that it needs") {
  const CUfunction step = kernel("step");
  const CUevent ready = gpu.event();
  record(ready, gpu.a);
  for (int i = 0; i < 3; ++i) {
    run(step, gpu.a);
    if (corrected) record(ready, gpu.a);
    wait(gpu.b, ready); //!
    run(step, gpu.b);
    if (!corrected) record(ready, gpu.a);
  }
}

MISTAKE("wait-before-record", producer_works_before_the_record,
        "the producer is launched again between the wait and the record") {
  const CUevent ready = gpu.event();
  record(ready, gpu.a);
  for (int i = 0; i < 3; ++i) {
    gpu.work(gpu.a);
    if (!corrected) wait(gpu.b, ready); //!
    gpu.work(gpu.a);
    record(ready, gpu.a);
    if (corrected) wait(gpu.b, ready);
    gpu.work(gpu.b);
  }
}

MISTAKE("wait-before-record", third_stream_works_before_the_record,
        "another stream is launched and waited for between the wait and the record") {
  const CUevent ready = gpu.event(), other = gpu.event();
  const CUstream third = gpu.stream();
  record(ready, gpu.a);
  for (int i = 0; i < 3; ++i) {
    gpu.work(gpu.a);
    if (corrected) record(ready, gpu.a);
    wait(gpu.b, ready); //!
    gpu.work(third);
    record(other, third);
    expect(cuEventSynchronize(other));
    if (!corrected) record(ready, gpu.a);
    gpu.work(gpu.b);
  }
}

MISTAKE("wait-before-record", swapped_after_a_right_step,
        "the first step is right, and the wait of the next ones comes before the record") {
  const CUevent ready = gpu.event();
  gpu.work(gpu.a);
  order(gpu.a, ready, gpu.b);
  gpu.work(gpu.b);
  for (int i = 0; i < 3; ++i) {
    gpu.work(gpu.a);
    if (corrected) record(ready, gpu.a);
    wait(gpu.b, ready); //!
    gpu.work(gpu.b);
    if (!corrected) record(ready, gpu.a);
  }
}

MISTAKE("wait-never-recorded", thread_waits_at_once,
        "a thread waits for an event that the producer has not recorded, before there is any work") {
  const CUevent ready = gpu.event();
  const auto produce = [&] {
    gpu.work(gpu.a);
    record(ready, gpu.a);
  };
  if (corrected) produce();
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    expect(cuEventSynchronize(ready)); //!
  });
  if (!corrected) produce();
  expect(cuCtxSynchronize());
}

MISTAKE("wait-never-recorded", consumer_thread_works_at_once,
        "the same, and the thread submits work that needs the producer's") {
  const CUevent ready = gpu.event();
  const auto produce = [&] {
    gpu.work(gpu.a);
    record(ready, gpu.a);
  };
  if (corrected) produce();
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    expect(cuEventSynchronize(ready)); //!
    gpu.work(gpu.b);
  });
  if (!corrected) produce();
  expect(cuCtxSynchronize());
}

MISTAKE("wait-never-recorded", stream_waits_at_once,
        "a consumer's stream waits for a new event before there is any work") {
  const CUevent ready = gpu.event();
  const auto produce = [&] {
    gpu.work(gpu.a);
    record(ready, gpu.a);
  };
  if (corrected) produce();
  on_another_thread([&] {
    wait(gpu.b, ready); //!
    gpu.work(gpu.b);
  });
  if (!corrected) produce();
  expect(cuCtxSynchronize());
}

HARMLESS(one_buffer_is_used_once, "the buffer has an event of its last reader, and is written once", "") {
  const CUevent last = gpu.event(), written = gpu.event();
  gpu.work(gpu.b); // of something else
  wait(gpu.a, last);
  gpu.work(gpu.a);
  order(gpu.a, written, gpu.b);
  gpu.work(gpu.b);
  record(last, gpu.b);
}

HARMLESS(buffers_that_nobody_reads, "buffers have events of their last readers, and are only written", "") {
  for (const CUevent last : events(gpu, 4)) {
    wait(gpu.a, last);
    gpu.work(gpu.a);
  }
}

HARMLESS(two_streams_write_buffers_that_nobody_reads, "the same with two streams in turn", "") {
  const std::vector<CUevent> last = events(gpu, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const CUstream on = i % 2 == 0 ? gpu.a : gpu.b;
    wait(on, last[i]);
    gpu.work(on);
  }
}

HARMLESS(staging_buffer_is_used_once,
         "the host waits for the last use of a buffer before it fills the buffer", "") {
  const CUevent last = gpu.event();
  expect(cuEventSynchronize(last));
  gpu.work(gpu.b); // of something else
  gpu.work(gpu.a);
  record(last, gpu.a);
}

HARMLESS(slot_of_two_threads_is_used_once, "a producer waits for a slot that its consumer has not used yet",
         "") {
  const CUevent free = gpu.event(), full = gpu.event();
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    expect(cuEventSynchronize(free));
    gpu.work(gpu.a);
    record(full, gpu.a);
    gpu.work(gpu.stream());
  });
  on_another_thread([&] {
    wait(gpu.b, full);
    gpu.work(gpu.b);
    record(free, gpu.b);
  });
}

HARMLESS(primed_ring_of_three, "the slots of a ring are recorded before anything has used them", "") {
  const std::vector<CUevent> empty = events(gpu, 3), full = events(gpu, 3);
  for (const CUevent each : empty)
    record(each, gpu.b);
  for (std::size_t i = 0; i < 12; ++i) {
    wait(gpu.a, empty[i % 3]);
    gpu.work(gpu.a);
    order(gpu.a, full[i % 3], gpu.b);
    gpu.work(gpu.b);
    record(empty[i % 3], gpu.b);
  }
}

HARMLESS(last_uses_beside_other_work, "the reader has other work after the last use of the buffer", "") {
  const CUevent last = gpu.event(), written = gpu.event();
  record(last, gpu.b);
  for (int i = 0; i < 4; ++i) {
    gpu.work(gpu.b); // of something else
    wait(gpu.a, last);
    gpu.work(gpu.a);
    order(gpu.a, written, gpu.b);
    gpu.work(gpu.b);
    record(last, gpu.b);
    expect(cuCtxSynchronize());
  }
}

HARMLESS(waits_each_time_a_buffer_is_used,
         "a buffer's event is waited for before each use, and others are filled", "") {
  const std::vector<CUevent> ready = events(gpu, 2), last = events(gpu, 2);
  for (int i = 0; i < 4; ++i)
    for (std::size_t buffer = 0; buffer < 2; ++buffer) {
      wait(gpu.a, last[buffer]);
      gpu.work(gpu.a);
      if (i > 0) wait(gpu.b, ready[1 - buffer]);
      gpu.work(gpu.b);
      record(ready[buffer], gpu.a);
      for (int use = 0; use < 3; ++use) {
        wait(gpu.b, ready[buffer]);
        gpu.work(gpu.b);
      }
      record(last[buffer], gpu.b);
    }
}

HARMLESS(prefetch_with_a_wait_each_step, "each step computes what was fetched in the step before", "") {
  const CUevent fetched = gpu.event();
  gpu.work(gpu.a);
  record(fetched, gpu.a);
  for (int i = 0; i < 4; ++i) {
    gpu.work(gpu.a);
    wait(gpu.b, fetched);
    gpu.work(gpu.b);
    wait(gpu.b, fetched);
    gpu.work(gpu.b);
    record(fetched, gpu.a);
    if (i % 2 == 1) finish(gpu.b);
  }
}

} // namespace
