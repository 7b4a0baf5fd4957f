// SPDX-License-Identifier: MIT
// Programs that test the probes of the auditing library, from inside: `watch_probes WAY`.

#include "probe_programs.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>

int auditor_threads() {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    std::getline(file, name);
    if (name == "cuevent-watch") ++count;
  }
  return count;
}

namespace {

/// The probes of a stream come in order, and the looker says which are reached.
void order(Gpu& gpu) {
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
  for (int i = 0; i < 300; ++i) {
    gpu.work(gpu.a);
    usleep(30);
  }
  const CUevent event = gpu.event();
  expect(cuEventRecord(event, gpu.a));
  expect(cuStreamWaitEvent(gpu.b, event, 0));
  gpu.work(gpu.b);
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

/// Default streams have places of their own, and per-thread streams one for each thread.
void default_streams(Gpu& gpu) {
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

/// Captures of two threads, next to work on other streams: none is harmed, and none contains a probe.
void captures(Gpu& gpu) {
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
  stop = true;
  working.join();
  looking.join();
  const watch::ProbedStream* const seen = probed(shared, gpu.b);
  require(seen != nullptr && seen->recorded > 0, "the other thread's stream has probes");
}

/// A capture whose stream is destroyed is over.
void abandoned_capture(Gpu& gpu) {
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

/// Streams and contexts come and go under looks.
void destruction(Gpu& gpu) {
  watch::Region& shared = region();
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int cycle = 0; cycle < 500; ++cycle) {
        expect(cuCtxSetCurrent(gpu.context));
        const bool has_context = i % 2 == 0 && cycle % 5 == 0;
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

/// A stream keeps its place when its device's primary context is released and made again.
void reset(Gpu& gpu) {
  watch::Region& shared = region();
  for (int i = 0; i < 20; ++i) {
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

/// A forked child has streams and a looker of its own.
void forked(Gpu& gpu) {
  gpu.work(gpu.a);
  require(look(region()), "a look"); // the thread has its name then
  require(auditor_threads() == 1, "the parent has one thread for looks");
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      require(auditor_threads() == 0, "the child has none yet");
      expect(cuMemsetD8Async(gpu.memory, 1, 64, gpu.a), CUDA_ERROR_NOT_INITIALIZED);
      require(auditor_threads() == 0, "a call that fails starts none");
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(status == 0, "a forked child");
    require(look(region()), "a look in the parent");
  }
}

/// The process ends although the looker never does anything.
void without_main_thread(Gpu& gpu) {
  gpu.work(gpu.a);
  require(look(region()), "a look");
  require(auditor_threads() == 1, "there is a thread for looks");
  std::thread([] { usleep(100'000); }).detach();
  pthread_exit(nullptr);
}

/// The process ends while looks are made all the time.
void exit_in_look(Gpu& gpu) {
  const Gate gate;
  gate.close(gpu.a);
  gpu.work(gpu.a);
  std::thread([] {
    for (;;)
      look(region(), 1);
  }).detach();
  usleep(20'000);
  gate.open();
}

void names(Gpu& gpu) {
  watch::Region& shared = region();
  const std::string long_name(600, 'x');
  std::string code = ".version 7.0 .visible .entry first() {} .visible .entry second() {} .visible .entry ";
  code.append(long_name).append("() {}");
  CUmodule module = nullptr;
  expect(cuModuleLoadData(&module, code.c_str()));
  const auto name_of = [&](CUfunction function) -> std::string {
    for (const watch::Name& name : shared.names)
      if (name.handle.load() == reinterpret_cast<std::uintptr_t>(function))
        return shared.name_text + name.text.load();
    return "";
  };
  CUfunction first = nullptr, second = nullptr;
  CUfunction with_long_name = nullptr;
  expect(cuModuleGetFunction(&first, module, "first"));
  expect(cuModuleGetFunction(&second, module, "second"));
  expect(cuModuleGetFunction(&with_long_name, module, long_name.c_str()));
  require(name_of(first) == "first" && name_of(second) == "second", "kernels have names");
  require(name_of(with_long_name) == long_name.substr(0, watch::longest_name - 1), "a long name is cut");
  for (std::uint32_t i = 0; i < 2 * watch::name_room / watch::longest_name; ++i)
    expect(cuModuleGetFunction(&with_long_name, module, long_name.c_str()));
  require(name_of(first) == "first", "names stay when there is no more room");
  static_cast<void>(gpu);
}

void launch_numbers(Gpu& gpu) {
  watch::Region& shared = region();
  CUgraph graph = nullptr;
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_RELAXED));
  gpu.work(gpu.a);
  expect(cuStreamEndCapture(gpu.a, &graph));
  take_records(shared);
  for (int round = 0; round < 2; ++round) {
    CUgraphExec exec = nullptr;
    expect(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i)
      expect(cuGraphLaunch(exec, gpu.a));
    expect(cuStreamSynchronize(gpu.a));
    expect(cuGraphExecDestroy(exec));
  }
  std::uint64_t wanted = 0;
  for (const watch::CallData& call : take_records(shared))
    if (call.entry != watch::probe_entry && call.count == 3 &&
        call.words[1] == reinterpret_cast<std::uintptr_t>(gpu.a))
      require(call.words[2] == wanted++ % 3 + 1, "the launches are numbered");
  require(wanted == 6, "each launch is recorded");
}

/// A thread whose launches will soon block it has a stack; and then it is blocked, and nothing else is.
void full_queue(Gpu& gpu) {
  watch::Region& shared = region();
  const Gate gate;
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
  const CUstream other = gpu.stream();
  for (int i = 0; i < 10; ++i)
    gpu.work(other); // creating events would block this thread
  require(probed(shared, other)->recorded.load() == 0, "a new stream has no probes yet");
  require(look(shared), "a look");
  gate.open();
  blocked.join();
  gpu.work(other);
  require(probed(shared, other)->recorded.load() > 0, "then it has");
}

/// Records say when a call returned, and calls that can block say how long they took.
void times(Gpu& gpu) {
  watch::Region& shared = region();
  const Gate gate;
  gate.close(gpu.a);
  const auto now_ns = [] {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  };
  take_records(shared);
  const std::int64_t begun_ns = now_ns();
  std::thread opening([&] {
    usleep(200'000);
    require(shared.threads[0].inside.load() == 1, "the first thread is in a call");
    const double inside_ms = 1e3 * static_cast<double>(watch::ticks() - shared.threads[0].begun) /
                             static_cast<double>(watch::ticks() - shared.first_tick) * 1e-9 *
                             static_cast<double>(now_ns() - shared.first_time);
    require(inside_ms > 150 && inside_ms < 2000, "the slot says since when");
    gate.open();
  });
  expect(cuStreamSynchronize(gpu.a));
  opening.join();
  expect(cuEventQuery(nullptr), CUDA_ERROR_INVALID_HANDLE);
  const double rate = static_cast<double>(watch::ticks() - shared.first_tick) /
                      static_cast<double>(now_ns() - shared.first_time); // ticks in a nanosecond
  bool found = false;
  for (std::uint64_t i = shared.read; i < shared.written; ++i) {
    const watch::Record& record = shared.records[i % watch::record_limit];
    const double when = static_cast<double>(std::uint64_t{record.time} << watch::coarse_shift) / rate;
    require(when > static_cast<double>(begun_ns - shared.first_time) - 5e6 &&
                when < static_cast<double>(now_ns() - shared.first_time) + 5e6,
            "the record says when");
    if (record.call.words[3] == 0 || record.call.entry == watch::probe_entry) continue;
    const double took_ms = static_cast<double>(record.call.words[3]) / rate * 1e-6;
    require(took_ms > 150 && took_ms < 2000, "the call says how long it took");
    found = true;
  }
  require(found, "the call is recorded");
}

/// A fault is shown, and what was reached before stays.
void fault(Gpu& gpu) {
  watch::Region& shared = region();
  gpu.work(gpu.a);
  expect(cuStreamSynchronize(gpu.a));
  require(look(shared), "a look");
  const watch::ProbedStream* const seen = probed(shared, gpu.a);
  const std::uint64_t before = seen->reached;
  require(before > 0 && seen->result.load() == 0, "there is no fault yet");
  CUmodule module = nullptr;
  CUfunction faulty = nullptr;
  expect(cuModuleLoadData(&module, ".version 7.0 .visible .entry faulty() {}"));
  expect(cuModuleGetFunction(&faulty, module, "faulty"));
  expect(cuLaunchKernel(faulty, 1, 1, 1, 1, 1, 1, 0, gpu.a, nullptr, nullptr));
  usleep(300'000);
  require(look(shared), "a look");
  require(seen->result.load() == CUDA_ERROR_ILLEGAL_ADDRESS, "the result of the look is kept");
  require(seen->reached.load() >= before, "what was reached stays reached");
}

/// Without the feature, nothing is different.
void without_feature(Gpu& gpu) {
  watch::Region& shared = region();
  for (int i = 0; i < 100; ++i)
    gpu.work(gpu.a);
  expect(cuMemcpyDtoD(gpu.memory, gpu.memory + 64, 64));
  expect(cuCtxSynchronize());
  require(shared.features == 0 && auditor_threads() == 0, "there is no thread for looks");
  for (const watch::CallData& call : take_records(shared))
    require(call.entry != watch::probe_entry, "there are no probes");
  for (const watch::ProbedStream& stream : shared.streams)
    require(stream.used.load() == 0, "no stream is probed");
  for (const watch::Name& name : shared.names)
    require(name.handle.load() == 0, "no kernel has a name");
}

volatile std::sig_atomic_t signals_seen = 0;

/// Waits for the file in which the test's command writes. False if it does not come.
bool wait_for_report() {
  const char* const path = std::getenv("REPORT");
  require(path != nullptr, "the test names a file");
  for (int i = 0; i < 3000; ++i) {
    if (access(path, F_OK) == 0) return unlink(path) == 0;
    usleep(1000);
  }
  return false;
}

/// Without a reader, records are overwritten, and a signal brings a report that the program does not notice.
void quiet(Gpu& gpu) {
  std::signal(SIGCHLD, [](int) { signals_seen = 1; });
  setenv("ADDED", "later", 1);
  for (std::uint32_t i = 0; i < watch::record_limit + 1000; ++i)
    expect(cuEventQuery(nullptr), CUDA_ERROR_INVALID_HANDLE);
  gpu.work(gpu.a);
  const watch::Region& shared = region();
  require(shared.overwrites != 0 && shared.features == 3, "the process is in quiet mode");
  require(shared.written > watch::record_limit, "records are overwritten");
  const int low = dup(0);
  require(low >= 0 && low < 10, "low descriptors are the program's");
  for (std::uint32_t i = 1; i <= 3; ++i) {
    errno = 0;
    expect(static_cast<CUresult>(kill(getpid(), SIGUSR1)));
    require(errno == 0, "errno is the program's");
    require(wait_for_report(), "a report");
    require(shared.look_done.load() == i, "each report comes after a look");
  }
  usleep(50'000); // until the command is waited for
  require(signals_seen == 0, "no signal tells of a child");
  require(waitpid(-1, nullptr, __WALL) == -1 && errno == ECHILD, "the program has no child");
}

/// A forked child reports on its own calls.
void quiet_fork(Gpu& gpu) {
  gpu.work(gpu.a);
  const pid_t child = fork();
  if (child == 0) {
    expect(static_cast<CUresult>(kill(getpid(), SIGUSR1))); // does no harm to a child without calls
    expect(cuEventQuery(nullptr), CUDA_ERROR_INVALID_HANDLE);
    require(region().look_wanted.load() == 0, "the child has memory of its own");
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  require(status == 0, "a forked child");
  require(region().look_wanted.load() == 0, "the child's signal was not the parent's");
  kill(getpid(), SIGUSR1);
  require(wait_for_report(), "a report");
}

void own_handler(Gpu& gpu) {
  std::signal(SIGUSR1, [](int) { signals_seen = signals_seen + 1; });
  gpu.work(gpu.a);
  kill(getpid(), SIGUSR1);
  require(signals_seen == 1, "the program's handler runs");
  usleep(100'000);
  require(region().look_done.load() == 0, "there is no report");
}

void closed_file(Gpu& gpu) {
  gpu.work(gpu.a);
  for (int descriptor = 3; descriptor < 1024; ++descriptor)
    close(descriptor);
  for (int i = 0; i < 1000; ++i)
    require(dup(0) >= 0, "dup"); // other files have its number
  kill(getpid(), SIGUSR1);
  while (region().look_done.load() == 0)
    usleep(1000);
  usleep(100'000);
}

struct Way {
  const char* name;
  void (*run)(Gpu&);
};

constexpr Way ways[] = {
    {"order", &order},
    {"default-streams", &default_streams},
    {"captures", &captures},
    {"abandoned-capture", &abandoned_capture},
    {"destruction", &destruction},
    {"reset", &reset},
    {"fork", &forked},
    {"main-ends", &without_main_thread},
    {"exit-in-look", &exit_in_look},
    {"names", &names},
    {"launch-numbers", &launch_numbers},
    {"times", &times},
    {"fault", &fault},
    {"full-queue", &full_queue},
    {"without-feature", &without_feature},
    {"quiet", &quiet},
    {"quiet-fork", &quiet_fork},
    {"own-handler", &own_handler},
    {"closed-file", &closed_file},
};

} // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[2], "forked") == 0) { // both processes, before the first call of either
    const pid_t child = fork();
    int status = 0;
    if (child != 0) waitpid(child, &status, 0);
    require(status == 0, "the forked child");
    argc = 2;
  }
  for (const Way& way : ways) {
    if (argc == 1) std::puts(way.name);
    if (argc != 2 || std::strcmp(argv[1], way.name) != 0) continue;
    Gpu gpu;
    way.run(gpu);
    return 0;
  }
  return argc == 1 ? 0 : 2;
}
