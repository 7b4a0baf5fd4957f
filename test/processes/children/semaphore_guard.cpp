// SPDX-License-Identifier: MIT
// The thread that guards shared semaphores: when there is one, how it is scheduled, and what it costs.
#include "scenario.hpp"

#include <cuevent/timeline_semaphore.hpp>
#include <gpu.hpp>

#include <chrono>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace process {

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

/// The number of the thread with this name, or 0.
pid_t find_thread(const std::string& name) {
  pid_t found = 0;
  DIR* const threads = opendir("/proc/self/task");
  while (const dirent* const each = readdir(threads)) {
    std::ifstream file("/proc/self/task/" + std::string(each->d_name) + "/comm");
    if (std::string line; std::getline(file, line) && line == name) found = std::atoi(each->d_name);
  }
  closedir(threads);
  return found;
}

/// A thread sets its name when it begins to run.
pid_t wait_for_guard() {
  const auto end = std::chrono::steady_clock::now() + 20s;
  pid_t guard = 0;
  while ((guard = find_thread("cuevent-guard")) == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(1ms);
  return guard;
}

long long processor_time(pid_t thread) {
  long long nanoseconds = 0;
  std::ifstream("/proc/self/task/" + std::to_string(thread) + "/schedstat") >> nanoseconds;
  return nanoseconds;
}

void guard_thread() {
  const gpu::Gpu gpu;
  TimelineSemaphore own(gpu.context), shared(gpu.context);
  own.abandon_on_death();
  expect(own.wait_for(1, 1ms) == false, "the wait times out");
  own.abandon();
  std::this_thread::sleep_for(50ms); // a thread would have begun to run
  expect(find_thread("cuevent-guard") == 0, "a semaphore that is not shared has no thread");
  std::thread([&] {
    const sched_param none{};
    expect(pthread_setschedparam(pthread_self(), SCHED_BATCH, &none) == 0, "another policy");
    close(shared.export_handle());
  }).join();
  const pid_t guard = wait_for_guard();
  expect(guard != 0, "the thread has a name");
  expect(sched_getscheduler(guard) == SCHED_OTHER, "the thread has the usual policy");
}

void many_guarded_semaphores() {
  constexpr int count = 300; // three descriptors each
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const gpu::Gpu gpu;
  std::vector<TimelineSemaphore> all;
  std::vector<int> handles;
  for (int i = 0; i < count; ++i) {
    all.emplace_back(gpu.context);
    handles.push_back(all.back().export_handle());
    all.back().abandon_on_death();
  }
  const pid_t guard = wait_for_guard();
  std::this_thread::sleep_for(300ms); // it has seen all of them
  const long long before = processor_time(guard);
  std::this_thread::sleep_for(1s);
  [[maybe_unused]] const long long took = processor_time(guard) - before;
#ifndef SANITIZED
  // A look at all locks each 10 ms would take 60 ms.
  expect(took < 20'000'000,
         "300 idle semaphores take 2 % of a processor, and not " + std::to_string(took) + " ns");
#endif

  close(handles[7]); // before it was imported: this counts as a death
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (all[7].status() != TimelineStatus::abandoned && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(1ms);
  expect(all[7].status() == TimelineStatus::abandoned, "the thread notices the death");
  for (int i = 0; i < count; ++i)
    if (i != 7) {
      expect(all[static_cast<std::size_t>(i)].status() == TimelineStatus::active, "the others live");
      close(handles[static_cast<std::size_t>(i)]);
    }
}

} // namespace

std::vector<Scenario> semaphore_guard_scenarios() {
  return {{"guard-thread", guard_thread}, {"many-guarded-semaphores", many_guarded_semaphores}};
}

} // namespace process
