// SPDX-License-Identifier: MIT
// Objects made with one C++ standard are used with another: three objects and the library in one program.
#include "every_standard.hpp"
#include <cuevent/sim.hpp>

#include <cstdio>
#include <cstring>

namespace {

int checks = 0;
int failures = 0;

void expect(bool holds, const char* condition, long one, long other) {
  ++checks;
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "C++ %ld and %ld: not %s\n", one, other, condition);
}
// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the condition's own text is its name
#define EXPECT(condition) expect(condition, #condition, one.language, other.language)

void layout(const builds::Standard& one, const builds::Standard& other) {
  EXPECT(one.layout.size() == other.layout.size());
  for (std::size_t i = 0; i != one.layout.size() && i != other.layout.size(); ++i) {
    const builds::Number &here = one.layout.begin()[i], &there = other.layout.begin()[i];
    expect(std::strcmp(here.name, there.name) == 0 && here.value == there.value, here.name, one.language,
           other.language);
  }
}

void use(const builds::Standard& one, const builds::Standard& other, const cuevent::Context& context,
         CUstream stream) {
  cuevent::DriverEvent event;
  EXPECT(one.make(event, context, cuevent::EventFlags::blocking_sync) == CUDA_SUCCESS);
  EXPECT(event.flags() == cuevent::EventFlags::blocking_sync);
  EXPECT(other.record(event, stream));
  EXPECT(one.equal(context, event.context()));
  EXPECT(one.text(event) == cuevent::to_string(event) && other.text(event) == one.text(event));

  bool caught = false;
  try {
    one.elapsed(event, event);
  } catch (const cuevent::TimingDisabled& error) {
    caught = error.result() == CUDA_ERROR_INVALID_HANDLE;
  }
  EXPECT(caught);

  cuevent::Graph graph(context);
  const cuevent::EventRecordNode first = one.add_after(graph, event, {});
  const cuevent::EventRecordNode second = other.add_after(graph, event, {first.native_handle()});
  EXPECT(first != second && graph.event_nodes().records.size() == 2);

  cuevent::EventPool pool(context);
  {
    const cuevent::PooledEvent lease = one.acquire(pool, stream);
    EXPECT(lease.recorded());
  }
  EXPECT(other.acquire(pool, stream).query_relaxed());
  EXPECT(pool.counters().created == 1);

  cuevent::CompletionQueue queue(context);
  int calls = 0;
  one.when_complete(queue, stream, calls);
  other.when_complete(queue, stream, calls);
  while (queue.pending() != 0)
    queue.poll();
  EXPECT(calls == 2);

  cuevent::TimelineFence fence(context, stream);
  const std::uint64_t before = one.reached(fence);
  EXPECT(before != 0 && other.reached(fence) == before + 1);

  const cuevent::Deadline deadline(cuevent::TimeLimit(std::chrono::milliseconds(1500)));
  EXPECT(one.left(deadline) == other.left(deadline));
}

} // namespace

int main() {
  const builds::Standard standards[] = {builds::cpp17(), builds::cpp20(), builds::cpp23()};
  const cuevent::sim::Machine machine;
  const cuevent::Driver driver(cuevent::sim::get_proc_address);
  const cuevent::Context context = cuevent::Context::primary(0, driver);
  CUstream stream = nullptr;
  {
    const cuevent::ContextGuard guard(context);
    driver.entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000)(&stream, CU_STREAM_NON_BLOCKING);
  }
  for (const builds::Standard& one : standards)
    for (const builds::Standard& other : standards) {
      EXPECT((&one == &other) == (one.language == other.language));
      layout(one, other);
      use(one, other, context, stream);
    }

  const builds::Standard &one = standards[0], &other = standards[1];
  EXPECT(one.language == 201703 && other.language == 202002);

  std::printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
