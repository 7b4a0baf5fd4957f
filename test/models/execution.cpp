// SPDX-License-Identifier: MIT
#include "execution.hpp"

namespace model {

namespace {

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel;
}

template <class Value>
void add_bytes(std::string& to, const Value& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void add_view(std::string& to, const View& view) {
  add_bytes(to, view.seen);
  add_bytes(to, view.clock);
}

} // namespace

bool Choices::next() {
  if (executions_++ != 0) {
    while (!choices_.empty() && choices_.back().chosen + 1 == choices_.back().count)
      choices_.pop_back();
    if (choices_.empty()) return false;
    ++choices_.back().chosen;
  }
  at_ = 0;
  repeated_ = choices_.size();
  return true;
}

std::size_t Choices::choose(std::size_t count) {
  if (at_ == choices_.size()) choices_.push_back({0, count});
  return choices_[at_++].chosen;
}

bool Choices::reach(const std::string& state) { return states_.insert(state).second; }

void Execution::spawn(std::string name, Task<> program) {
  threads_.push_back({.name = std::move(name), .program = std::move(program)});
}

bool Execution::run() {
  for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
    threads_[thread].now.clock[thread] = 1;
    threads_[thread].suspended = threads_[thread].program.handle();
    resume(thread);
  }
  while (violation_.empty()) {
    const std::vector<Step> possible = steps();
    if (possible.empty()) break;
    std::size_t chosen = 0;
    if (possible.size() > 1) {
      if (!choices_.repeating() && !choices_.reach(state())) return false;
      chosen = choices_.choose(possible.size());
    }
    take(possible[chosen]);
  }
  current_ = none;
  for (const Thread& thread : threads_)
    check(thread.program.done(), thread.name + " waits forever");
  return violation_.empty();
}

std::string Execution::violation() const { return violation_.empty() ? "" : violation_ + trace_; }

std::vector<Execution::Step> Execution::steps() const {
  std::vector<Step> found;
  for (std::size_t thread = 0; thread < threads_.size(); ++thread)
    if (!threads_[thread].program.done()) add_steps(thread, found);
  return found;
}

void Execution::add_steps(std::size_t thread, std::vector<Step>& to) const {
  const Thread& of = threads_[thread];
  const Request& request = of.request;
  if (request.kind == Request::Kind::fence ||
      (request.kind == Request::Kind::barrier && of.unreached.empty())) {
    to.push_back({thread});
  } else if (request.kind == Request::Kind::barrier) {
    for (const std::size_t other : of.unreached)
      to.push_back({.thread = thread, .reaches = other});
  } else if (request.kind == Request::Kind::lock) {
    if (!locks_[request.index].locked) to.push_back({thread});
  } else {
    const std::vector<Message>& messages = locations_[request.index].messages;
    for (std::size_t at = of.now.seen[request.index]; at < messages.size(); ++at) {
      const bool gap = at + 1 == messages.size() || !messages[at + 1].attached; // room for a message after it
      if (request.kind == Request::Kind::store) {
        if (gap) to.push_back({thread, at + 1});
      } else if (request.kind == Request::Kind::load) {
        if (!request.accepts || request.accepts(messages[at].value)) to.push_back({thread, at});
      } else if ((gap || !request.updated(messages[at].value)) &&
                 (!request.accepts || request.accepts(messages[at].value))) {
        to.push_back({thread, at});
      }
    }
  }
}

void Execution::take(const Step& step) {
  current_ = step.thread;
  Thread& thread = current();
  const Request& request = thread.request;
  trace_ += "\n  " + thread.name + ": ";
  if (request.memory != none) touch(request.memory);
  switch (request.kind) {
  case Request::Kind::load: {
    const Location& location = locations_[request.index];
    thread.read = location.messages[step.message].value;
    learn(thread, request, request.order, step.message);
    trace_ += "reads " + location.name + " = " + std::to_string(thread.read);
    break;
  }
  case Request::Kind::store:
    trace_ += "writes " + locations_[request.index].name + " = " + std::to_string(request.value);
    write(step.thread, request.index, {.value = request.value, .view = thread.released}, step.message,
          request.order);
    break;
  case Request::Kind::update:
    update(step);
    break;
  case Request::Kind::lock:
    trace_ += "locks";
    locks_[request.index].locked = true;
    thread.now.join(locks_[request.index].view);
    break;
  case Request::Kind::fence:
    trace_ += "fence";
    fence(step.thread, request.order);
    break;
  case Request::Kind::barrier:
    trace_ += "barrier of all threads";
    if (step.reaches != none) {
      trace_ += " reaches " + threads_[step.reaches].name;
      fence(step.reaches, std::memory_order_seq_cst);
      std::erase(thread.unreached, step.reaches);
      return;
    }
    fence(step.thread, std::memory_order_seq_cst);
    thread.in_barrier = !thread.in_barrier;
    for (std::size_t other = 0; thread.in_barrier && other < threads_.size(); ++other)
      if (other != step.thread) thread.unreached.push_back(other);
    if (thread.in_barrier) return;
  }
  resume(step.thread);
}

void Execution::update(const Step& step) {
  Thread& thread = current();
  const Request request = thread.request;
  const Message old = locations_[request.index].messages[step.message];
  const std::optional<std::int64_t> value = request.updated(old.value);
  thread.read = old.value;
  thread.succeeded = value.has_value();
  learn(thread, request, value ? request.order : request.failure, step.message);
  trace_ += (value ? "updates " : "does not update ") + locations_[request.index].name + " = " +
            std::to_string(old.value);
  if (!value) return;
  trace_ += " to " + std::to_string(*value);
  Message message{.value = *value, .view = thread.released, .attached = true};
  message.view.join(old.view); // the release sequence goes on
  write(step.thread, request.index, message, step.message + 1, request.order);
}

void Execution::resume(std::size_t thread) {
  current_ = thread;
  Thread& of = threads_[thread];
  add_bytes(of.history, of.read);
  of.history += of.succeeded ? 's' : 'f';
  of.suspended.resume();
}

void Execution::learn(Thread& thread, const Request& request, std::memory_order order, std::size_t message) {
  const View& view = locations_[request.index].messages[message].view;
  View read;
  read.seen[request.index] = static_cast<std::uint8_t>(message);
  thread.now.join(read);
  thread.acquired.join(view);
  if (acquires(order)) thread.now.join(view);
}

void Execution::write(std::size_t index, std::size_t location, Message message, std::size_t at,
                      std::memory_order order) {
  const auto insert = [&](View& view) { view.insert(location, at); };
  for (Thread& thread : threads_) {
    insert(thread.now);
    insert(thread.acquired);
    insert(thread.released);
  }
  for (Location& each : locations_)
    for (Message& written : each.messages)
      insert(written.view);
  for (Lock& lock : locks_)
    insert(lock.view);
  insert(global_);
  insert(message.view);

  Thread& thread = threads_[index];
  thread.now.seen[location] = static_cast<std::uint8_t>(at);
  message.view.seen[location] = static_cast<std::uint8_t>(at);
  if (releases(order)) {
    message.view.join(thread.now);
    ++thread.now.clock[index];
  }
  std::vector<Message>& messages = locations_[location].messages;
  messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(at), message);
}

void Execution::fence(std::size_t index, std::memory_order order) {
  Thread& thread = threads_[index];
  const bool ordered = order == std::memory_order_seq_cst;
  if (ordered || acquires(order)) thread.now.join(thread.acquired);
  if (ordered) {
    thread.now.join_seen(global_);
    global_.seen = thread.now.seen;
  }
  if (ordered || releases(order)) {
    thread.released = thread.now;
    ++thread.now.clock[index];
  }
}

void Execution::touch(std::size_t memory) {
  if (current_ == none) return;
  check(read(memory) != 0, current().name + " uses " + cells_[memory].name + " after its end");
}

void Execution::race(const Cell& cell, std::size_t other) {
  check(false, "data race on " + cell.name + " between " + current().name + " and " + threads_[other].name);
}

std::int64_t Execution::read(std::size_t index) {
  Cell& cell = cells_[index];
  if (current_ == none) return cell.value;
  Thread& thread = current();
  if (thread.now.clock[cell.writer] < cell.written) race(cell, cell.writer);
  cell.read[current_] = thread.now.clock[current_];
  add_bytes(thread.history, cell.value);
  return cell.value;
}

void Execution::write(std::size_t index, std::int64_t value) {
  Cell& cell = cells_[index];
  if (current_ != none) {
    const Thread& thread = current();
    if (thread.now.clock[cell.writer] < cell.written) race(cell, cell.writer);
    for (std::size_t other = 0; other < threads_.size(); ++other)
      if (thread.now.clock[other] < cell.read[other]) race(cell, other);
    cell.writer = current_;
    cell.written = thread.now.clock[current_];
  }
  cell.value = value;
}

/// All that decides how the execution can go on.
std::string Execution::state() const {
  std::string state;
  for (const Thread& thread : threads_) {
    add_bytes(state, thread.history.size());
    state += thread.history;
    add_view(state, thread.now);
    add_view(state, thread.acquired);
    add_view(state, thread.released);
    add_bytes(state, thread.in_barrier);
    std::uint8_t unreached = 0;
    for (const std::size_t other : thread.unreached)
      unreached = static_cast<std::uint8_t>(unreached | 1U << other);
    add_bytes(state, unreached);
  }
  for (const Location& location : locations_) {
    add_bytes(state, location.messages.size());
    for (const Message& message : location.messages) {
      add_bytes(state, message.value);
      add_view(state, message.view);
      add_bytes(state, message.attached);
    }
  }
  for (const Cell& cell : cells_) {
    add_bytes(state, cell.value);
    add_bytes(state, cell.writer);
    add_bytes(state, cell.written);
    add_bytes(state, cell.read);
  }
  for (const Lock& lock : locks_) {
    add_bytes(state, lock.locked);
    add_view(state, lock.view);
  }
  add_view(state, global_);
  return state;
}

} // namespace model
