// SPDX-License-Identifier: MIT
#include "probe_programs.hpp"
#include <kernels.hpp>

#include <atomic>
#include <thread>

namespace {

/// On a busy machine, a probe may seem to take long, so that there may be only one in a millisecond.
void work_until_probed(Gpu& gpu, CUstream stream) {
  for (int i = 0; i < 500; ++i) {
    gpu.work(stream);
    const watch::ProbedStream* const seen = probed(region(), stream);
    if (seen != nullptr && seen->recorded.load() > 0) return;
    usleep(1000);
  }
}

HARMLESS(order, "the probes of a stream come in order, and the looker says which are reached") {
  watch::Region& shared = region();
  const Gate gate;
  for (int i = 0; i < 10; ++i)
    gpu.work(gpu.a);
  expect(cuStreamSynchronize(gpu.a));
  watch::ProbedStream* const seen = probed(shared, gpu.a);
  require(seen != nullptr, "the stream is known");
  require(seen->context == reinterpret_cast<std::uintptr_t>(gpu.context), "its context is known");
  require(look(shared), "a look");
  require(seen->recorded >= 1 && seen->reached == seen->recorded, "all probes are reached");
  require(seen->looked == shared.look_done, "the stream was asked");
  const std::uint64_t before = seen->reached;
  gate.close(gpu.a);
  for (int i = 0; i < 300 || (i < 800 && seen->recorded - seen->reached < 64); ++i) {
    gpu.work(gpu.a);
    usleep(i < 300 ? 30 : 1000);
  }
  const CUevent event = gpu.event();
  expect(cuEventRecord(event, gpu.a));
  expect(cuStreamWaitEvent(gpu.b, event, 0));
  work_until_probed(gpu, gpu.b);
  require(look(shared), "a look at a stream that is held");
  require(seen->reached == before || seen->reached == before + 1, "none behind the gate is reached");
  require(seen->recorded - seen->reached >= 60 && seen->recorded - seen->reached <= 64, "the ring is used");
  const watch::ProbedStream* const waiting = probed(shared, gpu.b);
  require(waiting != nullptr && waiting->recorded == 1 && waiting->reached == 0, "the other stream waits");
  gate.open();
  expect(cuCtxSynchronize());
  require(look(shared), "a look at the end");
  require(seen->reached == seen->recorded && waiting->reached == 1, "all probes are reached at the end");
  std::uint64_t last = 0;
  for (const watch::CallData& call : take_records(shared)) {
    if (call.entry != watch::probe_entry || &shared.streams[call.words[2]] != seen) continue;
    require(call.words[0] == seen->handle && call.context == seen->context, "the record names the stream");
    require(call.words[1] == ++last, "the probes are recorded in order");
  }
  require(last == seen->recorded, "each probe has its record");
}

HARMLESS(stream_query, "a program that asks whether a stream is done gets a probe behind its last work") {
  watch::Region& shared = region();
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 200; ++j) // more than may be probed at once
      gpu.work(gpu.a);
    const watch::ProbedStream* const seen = probed(shared, gpu.a);
    require(seen != nullptr, "the stream is known");
    const std::uint64_t before = seen->recorded;
    for (int j = 0; j < 100 && seen->recorded == before; ++j) {
      usleep(1000);
      cuStreamQuery(gpu.a);
    }
    if (seen->recorded > before) return;
    expect(cuStreamSynchronize(gpu.a)); // the last work had a probe, by chance
  }
  require(false, "a probe behind the last work");
}

HARMLESS(default_streams,
         "default streams have places of their own, and per-thread streams one for each thread") {
  watch::Region& shared = region();
  expect(cuMemsetD8Async(gpu.memory, 1, 64, nullptr));
  gpu.work(CU_STREAM_PER_THREAD);
  std::thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    gpu.work(CU_STREAM_PER_THREAD);
  }).join();
  const CUcontext other = gpu.other_context();
  CUdeviceptr memory = 0;
  expect(cuMemAlloc(&memory, 64));
  expect(cuMemsetD8Async(memory, 1, 64, nullptr));
  gpu.work(gpu.a); // of a context that is not current
  CUcontext current = nullptr;
  expect(cuCtxGetCurrent(&current));
  require(current == other, "the current context is as before");
  usleep(50'000);
  require(look(shared), "a look");
  int legacy = 0, per_thread = 0;
  for (const watch::ProbedStream& stream : shared.streams) {
    if (stream.used.load() == 0) continue;
    require(stream.reached.load() == 1 && stream.result.load() == 0, "the stream is done");
    legacy += stream.handle == 1;
    per_thread += stream.handle == 2 && stream.thread != 0;
  }
  require(legacy == 2 && per_thread == 2, "each default stream is known");
}

HARMLESS(contexts_of_launches, "a launch on a default stream has the context that is current") {
  const watch::Region& shared = region();
  struct Place {
    CUcontext context;
    CUfunction function;
  };
  const auto place_here = [] {
    Place place{};
    CUmodule module = nullptr;
    expect(cuCtxGetCurrent(&place.context));
    expect(cuModuleLoadData(&module, kernels));
    expect(cuModuleGetFunction(&place.function, module, "step"));
    return place;
  };
  const auto launches_in = [&](const Place& place) {
    const auto is_one = [&](const watch::CallData& call) {
      return call.count == 2 && call.words[1] == reinterpret_cast<std::uintptr_t>(place.function) &&
             call.context == reinterpret_cast<std::uintptr_t>(place.context);
    };
    int count = 0;
    for (const watch::Record& record : shared.launches[0].records)
      count += is_one(record.call);
    for (std::uint64_t i = 0; i < shared.written; ++i)
      count += is_one(shared.records[i].call);
    return count;
  };
  const auto launch = [](const Place& place) {
    expect(cuLaunchKernel(place.function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  };
  const Place primary = place_here();
  for (int i = 0; i < 100; ++i)
    launch(primary);
  gpu.other_context();
  const Place other = place_here();
  for (int i = 0; i < 100; ++i)
    for (const Place& place : {primary, other}) {
      expect(cuCtxSetCurrent(place.context));
      launch(place);
    }
  require(launches_in(primary) == 200 && launches_in(other) == 100, "each launch has its context");
}

HARMLESS(captures, "no capture of two threads is harmed, and none contains a probe") {
  watch::Region& shared = region();
  std::atomic<bool> stop = false;
  std::thread looking([&] {
    while (!stop)
      require(look(shared), "a look");
  });
  std::thread working([&] {
    expect(cuCtxSetCurrent(gpu.context));
    while (!stop) {
      gpu.work(gpu.b);
      usleep(20);
    }
  });
  const auto capture = [&] {
    expect(cuCtxSetCurrent(gpu.context));
    const CUstream stream = gpu.stream();
    for (int i = 0; i < 500; ++i) {
      gpu.work(stream);
      expect(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
      for (int j = 0; j < 5; ++j)
        gpu.work(stream);
      CUgraph graph = nullptr;
      expect(cuStreamEndCapture(stream, &graph));
      std::size_t nodes = 0;
      expect(cuGraphGetNodes(graph, nullptr, &nodes));
      require(nodes == 5, "the graph has only the program's nodes");
      expect(cuGraphDestroy(graph));
    }
  };
  std::thread first(capture), second(capture);
  first.join();
  second.join();
  // There may have been a capture all the time.
  for (int i = 0; i < 1000 && (probed(shared, gpu.b) == nullptr || probed(shared, gpu.b)->recorded == 0); ++i)
    usleep(1000);
  stop = true;
  working.join();
  looking.join();
  const watch::ProbedStream* const seen = probed(shared, gpu.b);
  require(seen != nullptr && seen->recorded > 0, "the other thread's stream has probes");
}

HARMLESS(abandoned_capture, "a capture whose stream is destroyed is over") {
  watch::Region& shared = region();
  const CUstream stream = gpu.stream();
  expect(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  gpu.work(gpu.a);
  require(probed(shared, gpu.a) == nullptr, "nothing is probed during a capture");
  expect(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
  gpu.work(gpu.a);
  require(probed(shared, gpu.a) == nullptr, "the capture goes on");
  expect(cuStreamDestroy(stream));
  gpu.work(gpu.a);
  require(probed(shared, gpu.a) != nullptr, "streams are probed after it");
}

HARMLESS(destruction, "streams and contexts come and go under looks") {
  watch::Region& shared = region();
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int cycle = 0; cycle < 500; ++cycle) {
        expect(cuCtxSetCurrent(gpu.context));
        const bool has_context = i % 2 == 0 && cycle % 250 == 0; // a device takes long to make one
        const CUcontext context = has_context ? gpu.other_context() : nullptr;
        const CUstream stream = gpu.stream();
        CUdeviceptr memory = 0;
        expect(cuMemAlloc(&memory, 64));
        for (int j = 0; j < 3; ++j)
          expect(cuMemsetD8Async(memory, 1, 64, stream));
        if (has_context) {
          expect(cuCtxDestroy(context));
          continue;
        }
        expect(cuStreamDestroy(stream));
        expect(cuMemFree(memory));
      }
    });
  std::thread looking([&] {
    while (!stop) {
      require(look(shared), "a look");
      take_records(shared);
    }
  });
  for (std::thread& thread : threads)
    thread.join();
  stop = true;
  looking.join();
  require(shared.look_done.load() > 20, "there were looks meanwhile");
  int forgotten = 0;
  for (const watch::ProbedStream& stream : shared.streams) {
    require(stream.used.load() != 1, "every stream is forgotten");
    forgotten += stream.used.load() == 2;
  }
  require(forgotten > 100, "the streams were known");
}

HARMLESS(reset, "a stream keeps its place when its device's primary context is released and made again") {
  watch::Region& shared = region();
  for (int i = 0; i < 5; ++i) { // a device takes long to make a context
    gpu.work(gpu.a);
    require(look(shared), "a look");
    expect(cuDevicePrimaryCtxReset(0));
    require(look(shared), "a look after the reset");
    require(probed(shared, gpu.a) == nullptr, "the stream is forgotten");
    expect(cuDevicePrimaryCtxRelease(0));
    expect(cuDevicePrimaryCtxRetain(&gpu.context, 0));
    expect(cuCtxSetCurrent(gpu.context));
    gpu.a = gpu.stream();
    expect(cuMemAlloc(&gpu.memory, 4096));
    usleep(1000);
  }
}

HARMLESS(full_queue, "launches have stacks before they block a thread, and nothing else is blocked") {
  watch::Region& shared = region();
  const Gate gate;
  const CUstream other = gpu.stream();
  gate.close(gpu.a);
  take_records(shared);
  for (int i = 0; i < 900; ++i)
    gpu.work(gpu.a);
  int with_stack = 0, without = 0;
  for (const watch::CallData& call : take_records(shared))
    if (call.entry != watch::probe_entry) ++(call.stack != 0 ? with_stack : without);
  require(without > 300 && with_stack > 300, "launches have stacks from the middle of the queue on");
  std::atomic<bool> done = false;
  std::thread blocked([&] {
    expect(cuCtxSetCurrent(gpu.context));
    for (int i = 0; i < 300; ++i)
      gpu.work(gpu.a);
    done = true;
  });
  usleep(100'000);
  require(!done, "the queue is full");
  for (int i = 0; i < 10; ++i)
    gpu.work(other); // creating events would block this thread
  require(probed(shared, other)->recorded.load() == 0, "a new stream has no probes yet");
  require(look(shared), "a look");
  gate.open();
  blocked.join();
  work_until_probed(gpu, other);
  require(probed(shared, other)->recorded.load() > 0, "then it has");
}

HARMLESS(fault, "a fault is shown, and what was reached before stays") {
  watch::Region& shared = region();
  gpu.work(gpu.a);
  expect(cuStreamSynchronize(gpu.a));
  require(look(shared), "a look");
  const watch::ProbedStream* const seen = probed(shared, gpu.a);
  const std::uint64_t before = seen->reached;
  require(before > 0 && seen->result.load() == 0, "there is no fault yet");
  CUmodule module = nullptr;
  CUfunction faulty = nullptr;
  expect(cuModuleLoadData(&module, kernels));
  expect(cuModuleGetFunction(&faulty, module, "write_illegal_address"));
  expect(cuLaunchKernel(faulty, 1, 1, 1, 1, 1, 1, 0, gpu.a, nullptr, nullptr));
  usleep(300'000);
  require(look(shared), "a look");
  require(seen->result.load() == CUDA_ERROR_ILLEGAL_ADDRESS, "the result of the look is kept");
  require(seen->reached.load() >= before, "what was reached stays reached");
}

} // namespace
