// SPDX-License-Identifier: MIT
#include "host_thread.hpp"

#include "computer.hpp"

namespace cuevent::sim {

namespace {

thread_local bool this_is_the_host_thread = false;

/// Long enough for a short function on a busy computer, short enough to pay once for each gate.
constexpr std::chrono::milliseconds grace{20};

} // namespace

bool HostThread::is_this_thread() { return this_is_the_host_thread; }

void HostThread::start() {
  if (thread_.joinable()) return;
  stopping_ = false;
  thread_ = std::thread([this] { loop(); });
}

void HostThread::run(const std::shared_ptr<Operation>& operation) {
  queue_.push_back({operation, operation->work.function, operation->work.data});
  start();
  Computer::instance().changed.notify_all();
}

void HostThread::run_destructor(CUhostFn function, void* pointer) {
  queue_.push_back({nullptr, function, pointer});
  start();
  Computer::instance().changed.notify_all();
}

void HostThread::loop() {
  this_is_the_host_thread = true;
  Computer& computer = Computer::instance();
  std::unique_lock lock(computer.mutex);
  for (;;) {
    computer.changed.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    if (task.operation && task.operation->done()) continue; // dropped in the meantime
    running_ = task.operation;
    current_ = true;
    ++taken_;
    lock.unlock();
    task.function(task.data);
    lock.lock();
    current_ = false;
    running_.reset();
    if (task.operation) {
      computer.catch_up();
      computer.scheduler.host_function_returned(*task.operation, computer.scheduler.now());
    }
    computer.changed.notify_all();
  }
}

bool HostThread::stuck() const { return current_ && gave_up_ == taken_; }

void HostThread::settle(std::unique_lock<std::mutex>& lock) {
  if (is_this_thread()) return; // a function does not wait for its own end
  Computer& computer = Computer::instance();
  auto begun = taken_;
  auto deadline = std::chrono::steady_clock::now() + grace;
  while (busy() && !stuck()) {
    if (computer.changed.wait_until(lock, deadline) == std::cv_status::timeout && taken_ == begun && current_)
      gave_up_ = taken_;
    if (taken_ != begun || !current_) {
      begun = taken_;
      deadline = std::chrono::steady_clock::now() + grace;
    }
  }
}

void HostThread::drain(std::unique_lock<std::mutex>& lock) {
  Computer& computer = Computer::instance();
  std::erase_if(queue_, [](const Task& task) { return task.operation != nullptr; });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  if (!computer.changed.wait_until(lock, deadline, [&] { return !busy(); }))
    undefined("a new session begins while a host function of the previous session has not returned");
}

void HostThread::stop(std::unique_lock<std::mutex>& lock) {
  if (!thread_.joinable()) return;
  stopping_ = true;
  if (current_) { // user code may never return, and the program is ending
    thread_.detach();
    return;
  }
  Computer::instance().changed.notify_all();
  lock.unlock();
  thread_.join();
  lock.lock();
}

void HostThread::lost_in_fork() {
  if (thread_.joinable()) thread_.detach();
  queue_.clear();
  current_ = false;
  running_.reset();
}

} // namespace cuevent::sim
