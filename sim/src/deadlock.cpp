// SPDX-License-Identifier: MIT
#include "computer.hpp"
#include "refusal.hpp"
#include "stream.hpp"

#include <cstdio>
#include <set>
#include <string>

namespace cuevent::sim {

namespace {

std::string name_of_stream(const Stream& stream) {
  const std::string context = "context #" + std::to_string(stream.home.context->number);
  switch (stream.type) {
  case Stream::Type::legacy:
    return "the legacy stream of " + context;
  case Stream::Type::per_thread:
    return "a per-thread stream of " + context;
  case Stream::Type::all_streams:
    return "all streams of " + context;
  case Stream::Type::created:
    break;
  }
  return "stream #" + std::to_string(stream.number) + " of " + context;
}

std::string name_of_operation(const Operation& operation) {
  return "operation " + std::to_string(operation.number) + " (" + operation.work.text + ") on " +
         name_of_stream(*operation.stream);
}

std::string what_releases(const Operation& operation) {
  if (!operation.after.empty()) {
    std::set<unsigned long long> numbers; // an operation can come after another one for two reasons
    for (auto& other : operation.after)
      numbers.insert(other->number);
    std::string text = numbers.size() == 1 ? "waits for operation " : "waits for operations ";
    for (const auto number : numbers)
      text += (number == *numbers.begin() ? "" : ", ") + std::to_string(number);
    return text;
  }
  if (operation.state == Operation::State::running) {
    if (operation.work.function != nullptr) return "runs; ends when its host function returns";
    return "runs forever; cuevent::sim::end_kernels(\"" + operation.work.text + "\") ends it";
  }
  if (operation.stream->held) return "its stream is held; cuevent::sim::release releases it";
  if (operation.elsewhere) return "waits for the process that has recorded the event";
  if (operation.work.condition)
    return operation.work.type == CU_GRAPH_NODE_TYPE_KERNEL ? "waits for the other ranks of its communicator"
                                                            : "waits for a write to memory";
  return "is ready";
}

std::string text_of(const Operation& operation) {
  return name_of_operation(operation) + ": " + what_releases(operation);
}

} // namespace

std::vector<std::string> Computer::describe_unfinished() const {
  std::vector<std::string> texts;
  for (auto& [number, operation] : scheduler.unfinished())
    texts.push_back(text_of(*operation));
  return texts;
}

void Computer::report_deadlock() const {
  std::fprintf(
      stderr,
      "cuevent sim: no progress is possible: no pending operation can end by itself\n  waiting threads:\n");
  for (const Waiter& waiter : waiters_)
    std::fprintf(stderr, "    thread %llu in %s (call #%llu of simulated process %d): %s\n", waiter.thread,
                 waiter.call.name, waiter.call.number, waiter.call.process, waiter.what.c_str());
  std::fprintf(stderr, "  unfinished operations:\n");
  std::size_t shown = 0;
  for (auto& [number, operation] : scheduler.unfinished()) {
    if (++shown > 64) {
      std::fprintf(stderr, "    and %zu more\n", scheduler.unfinished().size() - 64);
      break;
    }
    std::fprintf(stderr, "    %s\n", text_of(*operation).c_str());
  }
  if (scheduler.unfinished().empty()) std::fprintf(stderr, "    no operation is pending\n");
  std::fflush(stderr);
  abort_with_report();
}

} // namespace cuevent::sim
