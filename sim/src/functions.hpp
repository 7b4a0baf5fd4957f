// SPDX-License-Identifier: MIT
#pragma once

#include "api.hpp"
#include "driver_table.hpp"

namespace cuevent::sim {

/// Runs first in every driver call. Refuses calls that the gate does not allow.
void pass(Gate, Process&);

template <class Body>
CUresult enter(int index, const char* name, Gate gate, InCallback rule, bool per_thread, Body body) {
  const bool is_callback = HostThread::is_this_thread();
  if (is_callback && rule == InCallback::refused) return CUDA_ERROR_NOT_PERMITTED;
  if (is_callback && rule == InCallback::unknown) return call_of_a_host_function(name);
  Computer& computer = Computer::instance();
  Computer::Lock lock(computer.mutex);
  Process& process = computer.processes[static_cast<std::size_t>(index)];
  const CallUnderWay before = call_under_way;
  if (gate != Gate::bare) ++process.calls; // bare calls only look things up
  call_under_way = {name, process.calls, index, nullptr};
  CUresult result = CUDA_SUCCESS;
  try {
    if (gate != Gate::bare) computer.tick(lock);
    pass(gate, process);
    Api api(computer, lock, process, per_thread);
    result = body(api);
  } catch (const Refusal& refusal) {
    result = refusal.result;
  }
  const char* const reason = call_under_way.reason;
  call_under_way = before;
  if (result != CUDA_SUCCESS) {
    if (is_callback && result == CUDA_ERROR_INVALID_CONTEXT) result = CUDA_ERROR_NOT_PERMITTED;
    computer.log.write(lock, index, {name, result, reason});
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      lock.unlock();
      tell_refusal();
    }
  }
  return result;
}

/// The driver's functions as seen by one process. They carry no user data, so each process has its
/// own functions.
template <int P>
struct Functions {
#define ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)                              \
  static CUresult CUDAAPI symbol parameters {                                                                \
    return enter(P, #symbol, Gate::gate, InCallback::in_callbacks, false,                                    \
                 [&](Api& api) { return api.symbol arguments; });                                            \
  }
#define STREAM_ENTRY(gate, in_callbacks, name, version, thread_version, suffix, symbol, parameters,          \
                     arguments)                                                                              \
  ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)                                    \
  static CUresult CUDAAPI symbol##_##suffix parameters {                                                     \
    return enter(P, #symbol "_" #suffix, Gate::gate, InCallback::in_callbacks, true,                         \
                 [&](Api& api) { return api.symbol arguments; });                                            \
  }
#include "driver_functions.inc"
#undef ENTRY
#undef STREAM_ENTRY
};

} // namespace cuevent::sim
