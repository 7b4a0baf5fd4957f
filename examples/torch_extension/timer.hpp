// SPDX-License-Identifier: MIT
// Timer: a StageTimer that several Python threads may use. Backward hooks of PyTorch run on
// autograd's own threads.
#pragma once

#include "stream.hpp"

#include <cuevent/stage_timer.hpp>

#include <mutex>
#include <optional>
#include <string>

class Timer;

/// The launches of a torch.cuda.CUDAGraph with captured stages. Both the CUDAGraph and the timer
/// must outlive it.
class TimedReplay {
public:
  TimedReplay(Timer& timer, cuevent::TimedGraph graph) : timer_(timer), graph_(std::move(graph)) {}
  TimedReplay(const TimedReplay&) = delete;
  TimedReplay& operator=(const TimedReplay&) = delete;
  ~TimedReplay();
  void replay(Stream stream);

private:
  Timer& timer_;
  std::optional<cuevent::TimedGraph> graph_;
};

/// Call the members without the GIL. They take a lock, and a thread that held the GIL while it waits
/// for the lock would stop the thread that has the lock.
class Timer {
public:
  explicit Timer(const cuevent::Context& context) : timer_(context) {}

  void open(Stream stream, const std::string& name) {
    const std::lock_guard lock(mutex_);
    timer_.open({*stream.context, stream.handle}, timer_.stage(name));
  }
  void close(Stream stream) {
    const std::lock_guard lock(mutex_);
    timer_.close({*stream.context, stream.handle});
  }
  std::size_t poll() {
    const std::lock_guard lock(mutex_);
    return timer_.poll();
  }
  std::size_t collect() {
    const std::lock_guard lock(mutex_);
    return timer_.collect();
  }
  cuevent::StageReport report() {
    const std::lock_guard lock(mutex_);
    return timer_.report();
  }

  /// Makes the graph of a CUDAGraph ready to launch. PyTorch stays the owner of the graph.
  TimedReplay* instantiate(std::uintptr_t graph) {
    const std::lock_guard lock(mutex_);
    auto borrowed = cuevent::Graph::borrow(timer_.context(), reinterpret_cast<CUgraph>(graph));
    return new TimedReplay(*this, timer_.instantiate(std::move(borrowed)));
  }

private:
  friend class TimedReplay;
  std::mutex mutex_;
  cuevent::StageTimer timer_;
};

inline TimedReplay::~TimedReplay() {
  const std::lock_guard lock(timer_.mutex_);
  graph_.reset();
}

inline void TimedReplay::replay(Stream stream) {
  const std::lock_guard lock(timer_.mutex_);
  graph_->launch({*stream.context, stream.handle});
}
