// SPDX-License-Identifier: MIT
#include "probe_programs.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>

namespace {

/// How many threads of this process belong to the auditor.
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

HARMLESS(forked_child, "a forked child has streams and a looker of its own") {
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

HARMLESS(main_ends, "the process ends although the looker never does anything") {
  gpu.work(gpu.a);
  require(look(region()), "a look");
  require(auditor_threads() == 1, "there is a thread for looks");
  std::thread([] { usleep(100'000); }).detach();
  pthread_exit(nullptr);
}

HARMLESS(exit_in_look, "the process ends while looks are made all the time") {
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

HARMLESS(names, "kernels have names, of which some fit") {
  watch::Region& shared = region();
  const std::string long_name(600, 'x');
  std::string code = ".version 7.0\n.target sm_75\n.address_size 64\n";
  for (const std::string& name : {std::string("first"), std::string("second"), long_name})
    code.append(".visible .entry ").append(name).append("() { ret; }\n");
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
}

HARMLESS(launch_numbers, "the launches of each executable graph are numbered") {
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

HARMLESS(times, "records say when a call returned, and calls that can block say how long they took") {
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
    const watch::Record& record = shared.records[i & shared.record_mask];
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

HARMLESS(without_feature, "without the feature, nothing is different") {
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

HARMLESS(quiet, "records are overwritten, and the program does not notice the report that a signal brings") {
  std::signal(SIGCHLD, [](int) { signals_seen = 1; });
  setenv("ADDED", "later", 1);
  for (std::uint32_t i = 0; i < watch::record_limit + 1000; ++i)
    expect(cuEventQuery(nullptr), CUDA_ERROR_INVALID_HANDLE);
  gpu.work(gpu.a);
  const watch::Region& shared = region();
  require(shared.overwrites != 0 && shared.features == 3, "the process is in quiet mode");
  require(shared.written > watch::record_limit, "records are overwritten");
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone; // the iterator's own descriptor
    const bool is_ours =
        std::filesystem::read_symlink(open, gone).string().find("cuevent-watch") != std::string::npos;
    require(!is_ours || std::stoi(open.path().filename()) >= 300, "low descriptors are the program's");
  }
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

HARMLESS(quiet_fork, "a forked child reports on its own calls") {
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

HARMLESS(own_handler, "the program's own handler of the signal stays") {
  std::signal(SIGUSR1, [](int) { signals_seen = signals_seen + 1; });
  gpu.work(gpu.a);
  kill(getpid(), SIGUSR1);
  require(signals_seen == 1, "the program's handler runs");
  usleep(100'000);
  require(region().look_done.load() == 0, "there is no report");
}

HARMLESS(closed_file, "the program closes the file with its calls") {
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

} // namespace
