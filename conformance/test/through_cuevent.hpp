// SPDX-License-Identifier: MIT
// What the parts of programs_on_cuevent share: the driver of the program, cuevent's driver, which is the same
// one and notes what it is asked, and what is wrong.
#pragma once

#include "../transcript/api.hpp"

#include <cuevent/context.hpp>
#include <cuevent/driver.hpp>

#include <atomic>
#include <mutex>
#include <optional>

namespace on_cuevent {

// Threads of a program act one at a time, so none of this needs a lock. The neighbour acts at any time.
inline transcript::Api plain;
inline std::optional<cuevent::Driver> driver;
inline std::atomic<int> mistakes = 0;
inline std::atomic<long> created = 0, destroyed = 0; // events, by cuevent
inline std::mutex queues_and_pools; ///< held to create or end one, and by the neighbour, which uses all

/// What cuevent asked the driver about one event, on this thread.
struct Asked {
  CUevent event = nullptr; // any, if null
  int calls = 0;
  CUresult result = CUDA_SUCCESS;
};
inline thread_local Asked asked;

/// Finds functions as cuGetProcAddress does, and has those of events note their calls.
CUresult CUDAAPI find(const char* name, void** function, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status);

void report(const char* call, const char* what, CUresult result);

/// The program's current context, empty if there is none.
cuevent::Context current();

inline bool is_default(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/// Reports if the call changes the current context.
template <class Call>
auto with_the_same_context(const char* call, const Call& make) {
  CUcontext before = nullptr, after = nullptr;
  plain.CtxGetCurrent(&before);
  auto result = make();
  plain.CtxGetCurrent(&after);
  if (before != after) report(call, "the current context has changed", CUDA_SUCCESS);
  return result;
}

/// Makes a call through cuevent, and compares it with what the driver was asked. If cuevent refuses it with a
/// documented result, the plain call is made, because the program goes on from there.
template <class Ours, class Plain>
CUresult both(const char* call, CUevent event, const Ours& ours, const Plain& plainly) {
  asked = {event};
  const CUresult result = with_the_same_context(call, ours);
  if (asked.calls == 0) {
    // An empty event, a context that is empty or is not the event's. Before a wait for an
    // interprocess event, cuevent asks whether the stream captures, which can be refused.
    const bool documented = result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT ||
                            result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (!documented) report(call, "refused without a reason that is documented", result);
    return plainly();
  }
  if (asked.calls != 1) report(call, "the driver was asked more than once", result);
  if (result != asked.result) report(call, "not what the driver answered", result);
  return result;
}

/// Makes a call that cuevent has to refuse with this result and without a call of the driver.
template <class Call>
void has_to_refuse(const char* call, CUresult expected, const Call& make) {
  asked = {};
  const CUresult result = with_the_same_context(call, make);
  if (result != expected) report(call, "not refused as documented", result);
  if (asked.calls != 0) report(call, "refused, but the driver was asked", result);
}

} // namespace on_cuevent
