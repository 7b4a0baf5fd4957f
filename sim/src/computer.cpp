// SPDX-License-Identifier: MIT
#include "computer.hpp"

#include "capture.hpp"
#include "stream.hpp"

#include "../../environment/unknown_variables.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <pthread.h>

namespace cuevent::sim {

namespace {

Options& default_options() {
  static Options options;
  return options;
}

constexpr Time call_duration = 1'000;
constexpr Time fault_notice = 100'000'000; // 0 to 300 ms on a device

} // namespace

void Computer::set_default_options(const Options& options) { default_options() = options; }

Computer& Computer::instance() {
  static Computer* const computer = new Computer;
  return *computer;
}

Computer::Computer() {
  // The drop-in has refused them. A program that links the simulator goes on: it reads no variable.
  environment::for_each_unknown_variable(environment::Product::simulator, [](const char* text) {
    std::fprintf(stderr, "cuevent sim: warning: %s\n", text);
  });
  scheduler.reset(default_options().random_order);
  handles.forget_all(default_options().reuse_handles);
  begin_session(default_options());
  pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); },
                 [] {
                   Computer& child = instance();
                   for (Process& process : child.processes)
                     process.forked = process.initialized;
                   // The threads exist only in the parent.
                   if (child.engine_.joinable()) child.engine_.detach();
                   new (&child.changed) std::condition_variable; // the old one waits for the parent's threads
                   child.host.lost_in_fork();
                   child.log.lost_in_fork();
                   child.waiters_.clear();
                   child.mutex.unlock();
                 });
}

std::optional<CUdevice> Computer::seen_as(int number) const {
  if (!visible) return number;
  const auto found = std::ranges::find(*visible, number);
  if (found == visible->end()) return std::nullopt;
  return static_cast<CUdevice>(found - visible->begin());
}

void Computer::reset(Lock& lock, const Options& chosen) {
  if (chosen.devices < 1 || chosen.devices > most_devices)
    misuse("reset: the number of devices is " + std::to_string(chosen.devices) + ": use 1 to " +
           std::to_string(most_devices));
  if (chosen.driver_version < 12000 || chosen.driver_version > newest_driver_version)
    misuse("reset: the driver version is " + std::to_string(chosen.driver_version) + ": use 12000 to " +
           std::to_string(newest_driver_version));
  if (!waiters_.empty())
    misuse("reset: a new session begins while another thread is inside a driver call, " +
           std::string(waiters_.front().call.name) + ": end the thread's work first");
  host.drain(lock);
  scheduler.reset(chosen.random_order);
  for (Process& process : processes)
    end_process(process);
  handles.forget_all(chosen.reuse_handles);
  begin_session(chosen);
  host.drain(lock);
}

void Computer::end_process(Process& process) {
  scheduler.abandon(
      [&](const Operation& operation) { return operation.stream->home.context->process == &process; });
  for (auto& capture : process.captures)
    finish(*capture);
  for (auto& context : process.contexts) { // streams and contexts refer to each other
    context->legacy.reset();
    context->per_thread.clear();
    context->all_streams.reset();
    context->barriers.clear();
    context->active = false;
  }
  handles.forget(process);
  calls_of_ended_ += process.calls;
  const int index = process.index;
  process = Process{};
  process.index = index;
  changed.notify_all();
}

void Computer::begin_session(const Options& chosen) {
  for (std::size_t i = 0; i < processes.size(); ++i)
    processes[i].index = static_cast<int>(i);
  exported_events.clear();
  recordings_of_others.clear();
  kernels = {{"", Kernel{}}};
  context_ids = 0;
  stream_ids = 1;
  capture_ids = 0;
  options = chosen;
  visible.reset();
  origin_ = std::chrono::steady_clock::now();
}

Time Computer::wall_time() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - origin_)
      .count();
}

void Computer::catch_up() {
  if (!running()) return;
  const auto before = scheduler.progress();
  scheduler.advance_to(wall_time());
  if (scheduler.progress() != before) changed.notify_all();
}

void Computer::settle(Lock& lock) {
  if (!running()) {
    host.settle(lock);
    return;
  }
  start_engine();
  changed.notify_all();
}

void Computer::tick(Lock& lock) {
  if (running()) {
    catch_up();
  } else {
    scheduler.advance_to(scheduler.now() + call_duration);
    host.settle(lock);
  }
}

void Computer::wait_a_little(Lock& lock, Patience& patience) {
  using namespace std::chrono_literals;
  if (!running()) {
    if (scheduler.step()) { // a blocking call moves the clock forward
      host.settle(lock);
      changed.notify_all();
      return;
    }
    if (host.busy() && !host.stuck()) {
      host.settle(lock);
      return;
    }
  }
  if (scheduler.next_end()) {
    patience.renew();
  } else if (patience.exhausted()) {
    report_deadlock();
  }
  auto slice = std::chrono::steady_clock::now() + (running() && !scheduler.polls() ? 50ms : 1ms);
  if (auto next = scheduler.next_end()) slice = std::min(slice, origin_ + std::chrono::nanoseconds(*next));
  changed.wait_until(lock, slice);
  catch_up();
}

void Computer::start_engine() {
  if (engine_.joinable() || stopping_) return;
  engine_ = std::thread([this] { engine_loop(); });
}

void Computer::engine_loop() {
  using namespace std::chrono_literals;
  Lock lock(mutex);
  while (!stopping_) {
    catch_up();
    auto wake = std::chrono::steady_clock::now() + (running() && scheduler.polls() ? 50us : 1s);
    if (auto next = scheduler.next_end(); next && running())
      wake = std::min(wake, origin_ + std::chrono::nanoseconds(*next));
    changed.wait_until(lock, wake);
  }
}

void Computer::register_exit_handlers() {
  if (exit_registered_) return;
  exit_registered_ = true;
  std::atexit([] { instance().end_of_program(); });
}

void Computer::end_of_program() {
  Lock lock(mutex);
  for (Process& process : processes)
    process.deinitialize();
  stopping_ = true;
  changed.notify_all();
  host.stop(lock);
  if (engine_.joinable()) {
    lock.unlock();
    engine_.join();
    lock.lock();
  }
}

ThreadId Computer::this_thread_id() {
  static std::atomic<ThreadId> last{0};
  thread_local ThreadId id = 0; // trivial, so that it outlives every other thread_local
  if (id == 0) id = ++last;
  return id;
}

ThreadState& Computer::this_thread(Process& process) { return process.threads[this_thread_id()]; }

void meet_fault(Process& process, FaultNews news) {
  if (process.fault == CUDA_SUCCESS) return;
  if (Computer::instance().scheduler.now() >= process.fault_noticed) process.fault_delivered = true;
  if (news == FaultNews::of_a_submission && process.fault_at_once) process.fault_delivered = true;
  refuse_if(process.fault_delivered, process.fault);
}

void raise_fault(Process& process, CUresult fault, bool at_once) {
  if (process.fault != CUDA_SUCCESS) return;
  Computer& computer = Computer::instance();
  process.fault = fault;
  process.fault_at_once = at_once;
  process.fault_noticed = computer.scheduler.now() + fault_notice;
  computer.scheduler.abandon(
      [&](const Operation& op) { return op.stream->home.context->process == &process; });
  computer.changed.notify_all();
}

} // namespace cuevent::sim
