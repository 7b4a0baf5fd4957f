// SPDX-License-Identifier: MIT
// Times that leave out work, and times that look as if they did.
#include "../driver_calls.hpp"

#include <atomic>

namespace {

struct Pair {
  explicit Pair(const Gpu& gpu) : start(gpu.event(0)), stop(gpu.event(0)) {}
  CUevent start, stop;
};

MISTAKE("elapsed-without-work", decoy_on_the_timed_stream,
        "the timed stream gets a small piece of work, and another stream the rest") {
  const Pair pair(gpu);
  const CUevent done = gpu.event();
  record(pair.start, gpu.a);
  gpu.work(gpu.a);
  gpu.work(gpu.b);
  if (corrected) record(done, gpu.b), wait(gpu.a, done);
  record(pair.stop, gpu.a);
  expect(cuCtxSynchronize());
  time_between(pair.start, pair.stop); //!
}

MISTAKE("elapsed-without-work", fork_without_join,
        "a stream waits for the timed one, which never waits for it") {
  const Pair pair(gpu);
  const CUevent fork = gpu.event(), join = gpu.event();
  for (int i = 0; i < 3; ++i) {
    record(pair.start, gpu.a);
    record(fork, gpu.a);
    wait(gpu.b, fork);
    gpu.work(gpu.b);
    gpu.work(gpu.a);
    if (corrected) record(join, gpu.b), wait(gpu.a, join);
    record(pair.stop, gpu.a);
    expect(cuCtxSynchronize());
    time_between(pair.start, pair.stop); //!
  }
}

MISTAKE("elapsed-without-work", work_of_another_thread,
        "another thread submits the work to a stream of its own") {
  const Pair pair(gpu);
  record(pair.start, gpu.a);
  on_another_thread([&] {
    gpu.work(gpu.b);
    if (corrected) finish(gpu.b);
  });
  record(pair.stop, gpu.a);
  expect(cuCtxSynchronize());
  time_between(pair.start, pair.stop); //!
}

MISTAKE("elapsed-without-work", begun_before_the_start,
        "the work is submitted before the start is recorded") {
  const Pair pair(gpu);
  if (!corrected) gpu.work(gpu.b);
  record(pair.start, gpu.a);
  if (corrected) gpu.work(gpu.a);
  record(pair.stop, gpu.a);
  expect(cuCtxSynchronize());
  time_between(pair.start, pair.stop); //!
}

MISTAKE("elapsed-without-work", graph_on_another_stream,
        "the graph is launched on another stream than the records") {
  begin(gpu.b);
  gpu.work(gpu.b);
  const CUgraphExec exec = instantiate(end(gpu.b));
  const Pair pair(gpu);
  record(pair.start, gpu.a);
  expect(cuGraphLaunch(exec, corrected ? gpu.a : gpu.b));
  record(pair.stop, gpu.a);
  expect(cuCtxSynchronize());
  time_between(pair.start, pair.stop); //!
}

MISTAKE("elapsed-without-work", end_on_another_stream,
        "the end is recorded on a stream that never waits for the timed work") {
  const Pair pair(gpu);
  const CUevent done = gpu.event();
  record(pair.start, gpu.a);
  gpu.work(gpu.a);
  gpu.work(gpu.b);
  if (corrected) record(done, gpu.a), wait(gpu.b, done);
  record(pair.stop, gpu.b);
  expect(cuCtxSynchronize());
  time_between(pair.start, pair.stop); //!
}

MISTAKE("elapsed-too-early", never_gets_a_time,
        "each step asks too early for its time, and ignores the error") {
  const Pair pair(gpu);
  static std::atomic<bool> asked[3]; // the work waits for it, however slow the machine is
  for (auto& now : asked) {
    now = corrected;
    record(pair.start, gpu.a);
    expect(cuLaunchHostFunc(
        gpu.a,
        [](void* flag) {
          for (int ms = 0; ms < 2000 && !*static_cast<std::atomic<bool>*>(flag); ++ms)
            sleep_ms(1);
        },
        &now));
    record(pair.stop, gpu.a);
    if (corrected) finish(gpu.a);
    time_between(pair.start, pair.stop); //!
    now = true;
  }
}

HARMLESS(samples_that_are_not_ready, "each frame asks for the time of the one before, and does without some",
         "") {
  const Pair pairs[] = {Pair(gpu), Pair(gpu)};
  for (int i = 0; i < 6; ++i) {
    const Pair &now = pairs[i % 2], &before = pairs[(i + 1) % 2];
    record(now.start, gpu.a);
    slow(gpu.a);
    record(now.stop, gpu.a);
    if (i == 4) finish(gpu.a);
    if (i > 0) time_between(before.start, before.stop);
  }
}

HARMLESS(samples_of_new_events, "each frame has new events, and its time is dropped if it is not there", "") {
  for (int i = 0; i < 6; ++i) {
    const Pair pair(gpu);
    record(pair.start, gpu.a);
    slow(gpu.a);
    record(pair.stop, gpu.a);
    if (i == 3) finish(gpu.a);
    time_between(pair.start, pair.stop);
    destroy(pair.start), destroy(pair.stop);
  }
}

HARMLESS(last_sample_is_read_at_the_end,
         "the loop drops each time, and the end of the program reads the last one", "") {
  const Pair pair(gpu);
  for (int i = 0; i < 3; ++i) {
    record(pair.start, gpu.a);
    slow(gpu.a);
    record(pair.stop, gpu.a);
    time_between(pair.start, pair.stop);
  }
  finish(gpu.a);
  expect(time_between(pair.start, pair.stop));
}

HARMLESS(host_waits_before_the_end, "the work is on other streams, and the host waits for it before the end",
         "") {
  const Pair pair(gpu);
  const auto time = [&](auto wait) {
    record(pair.start, nullptr);
    gpu.work(gpu.a);
    gpu.work(gpu.b);
    wait();
    record(pair.stop, nullptr);
    expect(cuCtxSynchronize());
    time_between(pair.start, pair.stop);
  };
  time([] { expect(cuCtxSynchronize()); });
  time([&] { finish(gpu.a), finish(gpu.b); });
  time([&] {
    for (const CUstream each : {gpu.a, gpu.b})
      while (cuStreamQuery(each) == CUDA_ERROR_NOT_READY)
        ;
  });
}

HARMLESS(two_times_at_once, "two streams work at the same time, and each is timed", "") {
  const Pair of_a(gpu), of_b(gpu);
  for (int i = 0; i < 3; ++i) {
    record(of_a.start, gpu.a);
    record(of_b.start, gpu.b);
    gpu.work(gpu.a);
    gpu.work(gpu.b);
    record(of_a.stop, gpu.a);
    record(of_b.stop, gpu.b);
    expect(cuCtxSynchronize());
    time_between(of_a.start, of_a.stop);
    time_between(of_b.start, of_b.stop);
  }
}

HARMLESS(prefetch_beside_the_timed_step,
         "each timed step uses what another stream fetched in the step before", "") {
  const Pair pair(gpu);
  const CUevent fetched = gpu.event();
  for (int i = 0; i < 3; ++i) {
    if (i > 0) wait(gpu.a, fetched);
    record(pair.start, gpu.a);
    gpu.work(gpu.a);
    gpu.work(gpu.b);
    record(fetched, gpu.b);
    record(pair.stop, gpu.a);
    expect(cuCtxSynchronize());
    time_between(pair.start, pair.stop);
  }
}

} // namespace
