// SPDX-License-Identifier: MIT
#include "scheduler.hpp"

#include "computer.hpp"
#include "host_thread.hpp"
#include "stream.hpp"

#include <algorithm>

namespace cuevent::sim {

void Scheduler::reset(std::optional<unsigned long long> seed) {
  for (auto& [number, operation] : unfinished_) { // operations, streams and graphs refer to each other
    operation->after.clear();
    operation->dependents.clear();
    operation->stream.reset();
    operation->work = Work{};
    operation->state = Operation::State::done;
  }
  unfinished_.clear();
  ready_.clear();
  running_.clear();
  now_ = 0;
  polls_ = false;
  random_.reset();
  if (seed) random_.emplace(*seed);
}

void Scheduler::submit(const std::shared_ptr<Operation>& operation) {
  operation->number = ++submitted_;
  std::erase_if(operation->after, [](const auto& other) { return !other || other->done(); });
  operation->unmet = operation->after.size();
  for (auto& other : operation->after)
    other->dependents.push_back(operation.get());
  if (operation->submitted) {
    ++operation->stream->pending;
    operation->stream->queued += operation->work.places;
  }
  unfinished_.emplace(operation->number, operation);
  if (operation->unmet == 0) {
    ready_.emplace(operation->number, operation.get());
    start_ready();
  }
}

std::optional<Time> Scheduler::next_end() const {
  if (running_.empty()) return std::nullopt;
  return running_.begin()->first;
}

void Scheduler::advance_to(Time then) {
  start_ready();
  while (!running_.empty() && running_.begin()->first <= then)
    step();
  now_ = std::max(now_, then);
  start_ready();
}

bool Scheduler::step() {
  const auto before = progress_;
  start_ready();
  if (progress_ != before) return true;
  if (running_.empty()) return false;
  Operation& first = *running_.begin()->second;
  const Time end = running_.begin()->first;
  running_.erase(running_.begin());
  now_ = std::max(now_, end);
  finish(first, end);
  start_ready();
  return true;
}

bool Scheduler::may_start(const Operation& operation) {
  if (operation.stream->held) return false;
  if (!operation.work.condition) return true;
  if (operation.work.condition()) return true;
  polls_ = true;
  return false;
}

void Scheduler::start_ready() {
  for (bool started = true; started;) {
    started = false;
    polls_ = false;
    std::vector<unsigned long long> candidates;
    candidates.reserve(ready_.size());
    for (auto& [number, operation] : ready_)
      candidates.push_back(number);
    if (random_) std::shuffle(candidates.begin(), candidates.end(), *random_);
    for (auto number : candidates) {
      auto found = ready_.find(number);
      if (found == ready_.end() || !may_start(*found->second)) continue;
      Operation& operation = *found->second;
      ready_.erase(found);
      start(operation);
      started = true;
    }
  }
}

void Scheduler::start(Operation& operation) {
  operation.state = Operation::State::running;
  if (operation.work.type == CU_GRAPH_NODE_TYPE_KERNEL) ++kernels_[operation.work.text];
  if (operation.work.duration == never) return;
  const bool on_host = operation.work.function != nullptr;
  // A device guarantees no order between streams. With a seed, each operation is late by a random time.
  const Time late = random_ && !on_host ? static_cast<Time>((*random_)() % 20'000) : 0;
  const Time duration = operation.stream->hold + (operation.submitted ? late : 0) + operation.work.duration;
  if (duration == 0) {
    finish(operation, now_);
  } else {
    running_.emplace(now_ + duration, &operation);
  }
}

/// A host function begins when its time is over, and completes when it returns.
void Scheduler::finish(Operation& operation, Time when) {
  if (operation.work.function != nullptr)
    host_.run(unfinished_.at(operation.number));
  else
    complete(operation, when);
}

void Scheduler::complete(Operation& operation, Time when) {
  const auto keep = unfinished_.at(operation.number);
  operation.ended = when;
  const bool gone = operation.work.gone && operation.work.gone();
  if (operation.work.effect && !gone) operation.work.effect();
  const bool copies = operation.work.type == CU_GRAPH_NODE_TYPE_MEMCPY;
  const CUresult fault = !gone    ? operation.work.fault
                         : copies ? CUDA_ERROR_ILLEGAL_ADDRESS
                                  : CUDA_ERROR_LAUNCH_FAILED;
  Process* const process = operation.stream->home.context->process;
  forget(operation);
  if (fault != CUDA_SUCCESS) {
    operation.abandoned = true;
    raise_fault(*process, fault, false);
  }
}

void Scheduler::forget(Operation& operation) {
  const auto keep = unfinished_.at(operation.number);
  unfinished_.erase(operation.number);
  ready_.erase(operation.number);
  if (operation.state == Operation::State::running)
    std::erase_if(running_, [&](const auto& entry) { return entry.second == &operation; });
  operation.state = Operation::State::done;
  ++progress_;
  if (operation.submitted) {
    --operation.stream->pending;
    operation.stream->queued -= operation.work.places;
  }
  // Unfinished operations before this one must not count it down.
  for (auto& other : operation.after)
    std::erase(other->dependents, &operation);
  operation.after.clear();
  for (Operation* dependent : operation.dependents) {
    std::erase_if(dependent->after, [&](const auto& other) { return other.get() == &operation; });
    if (--dependent->unmet == 0) ready_.emplace(dependent->number, dependent);
  }
  operation.dependents.clear();
  operation.work = Work{};
  operation.stream.reset();
}

void Scheduler::host_function_returned(Operation& operation, Time when) {
  if (operation.done()) return; // dropped in the meantime
  now_ = std::max(now_, when);
  complete(operation, now_);
  start_ready();
}

void Scheduler::end_kernels(const std::string& text) {
  std::vector<std::shared_ptr<Operation>> ended;
  for (auto& [number, operation] : unfinished_)
    if (operation->state == Operation::State::running && operation->work.duration == never &&
        operation->work.text == text)
      ended.push_back(operation);
  for (auto& operation : ended)
    complete(*operation, now_);
  start_ready();
}

} // namespace cuevent::sim
