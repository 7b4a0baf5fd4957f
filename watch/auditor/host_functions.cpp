// SPDX-License-Identifier: MIT
#include "auditor/host_functions.hpp"

#include "auditor/recorder.hpp"
#include "auditor/state.hpp"
#include "protocol/ticks.hpp"

namespace watch {

HostFunction* take_host_function(const CallData& call) {
  for (HostFunction& place : cleared_by_fork->host_functions.all) {
    std::uint32_t free = 0;
    if (place.used.load(std::memory_order_relaxed) != 0 ||
        !place.used.compare_exchange_strong(free, 1, std::memory_order_acquire))
      continue;
    place.stack = call.stack;
    place.entry = call.entry;
    place.marks = call.marks;
    place.stream = call.words[0];
    place.context = call.context;
    place.submitted = ticks();
    return &place;
  }
  return nullptr;
}

namespace {

/// Runs the program's function. The place may be taken again while it runs: nothing of it is read later.
template <class Run>
void measure(HostFunction* place, Run run) {
  CallData spent{};
  spent.entry = spent_entry;
  spent.marks = place->marks;
  spent.count = 4;
  spent.stack = place->stack;
  spent.context = place->context;
  spent.words[2] = place->submitted;
  spent.words[3] = place->stream;
  const std::uint16_t entry = place->entry;
  give_back(place);
  spent.words[1] = ticks();
  run();
  spent.words[0] = entry | (ticks() - spent.words[1]) << 16U;
  const Thread* const thread = this_thread();
  if (thread == nullptr) return;
  spent.thread = thread->number;
  record(spent);
}

} // namespace

void CUDA_CB run_host_function(void* place) {
  auto* const own = static_cast<HostFunction*>(place);
  const CUhostFn function = own->function;
  void* const data = own->data;
  measure(own, [&] { function(data); });
}

void CUDA_CB run_stream_callback(CUstream stream, CUresult result, void* place) {
  auto* const own = static_cast<HostFunction*>(place);
  const CUstreamCallback callback = own->callback;
  void* const data = own->data;
  measure(own, [&] { callback(stream, result, data); });
}

} // namespace watch
