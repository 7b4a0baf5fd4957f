// SPDX-License-Identifier: MIT
#include "through_cuevent.hpp"

#include <cstdio>
#include <cstring>
#include <type_traits>

namespace on_cuevent {
namespace {

template <class Argument>
bool is_asked(Argument argument) {
  if constexpr (std::is_same_v<Argument, CUevent>) return argument == asked.event;
  return false;
}

/// A driver function that notes its calls. `number` tells functions of one type apart.
template <int number, class Function>
struct Noted;
template <int number, class... Arguments>
struct Noted<number, CUresult(Arguments...)> {
  static inline CUresult(CUDAAPI* original)(Arguments...) = nullptr;
  static CUresult CUDAAPI call(Arguments... arguments) {
    const CUresult result = original(arguments...);
    if (number == 0 && result == CUDA_SUCCESS) ++created;
    if (number == 1 && result == CUDA_SUCCESS) ++destroyed;
    if (asked.event != nullptr && !(is_asked(arguments) || ...)) return result; // for another event
    ++asked.calls;
    asked.result = result;
    return result;
  }
  static void note(void** function) {
    original = reinterpret_cast<CUresult(CUDAAPI*)(Arguments...)>(*function);
    *function = reinterpret_cast<void*>(call);
  }
};

} // namespace

CUresult CUDAAPI find(const char* name, void** function, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status) {
  const CUresult result = plain.GetProcAddress(name, function, version, flags, status);
  if (result != CUDA_SUCCESS || *function == nullptr) return result;
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("cuEventCreate")) Noted<0, CUresult(CUevent*, unsigned)>::note(function);
  if (is("cuEventDestroy")) Noted<1, CUresult(CUevent)>::note(function);
  if (is("cuEventRecord")) Noted<2, CUresult(CUevent, CUstream)>::note(function);
  if (is("cuEventRecordWithFlags")) Noted<3, CUresult(CUevent, CUstream, unsigned)>::note(function);
  if (is("cuEventQuery")) Noted<4, CUresult(CUevent)>::note(function);
  if (is("cuEventSynchronize")) Noted<5, CUresult(CUevent)>::note(function);
  if (is("cuEventElapsedTime") && version >= 12080)
    Noted<6, CUresult(float*, CUevent, CUevent)>::note(function);
  if (is("cuStreamWaitEvent")) Noted<7, CUresult(CUstream, CUevent, unsigned)>::note(function);
  if (is("cuCtxRecordEvent")) Noted<8, CUresult(CUcontext, CUevent)>::note(function);
  if (is("cuCtxWaitEvent")) Noted<9, CUresult(CUcontext, CUevent)>::note(function);
  if (is("cuIpcOpenEventHandle")) Noted<10, CUresult(CUevent*, CUipcEventHandle)>::note(function);
  return result;
}

void report(const char* call, const char* what, CUresult result) {
  ++mistakes;
  std::printf("%s: %s (%d)\n", call, what, static_cast<int>(result));
}

cuevent::Context current() {
  cuevent::Context context;
  static_cast<void>(cuevent::Context::try_current(context, *driver));
  return context;
}

} // namespace on_cuevent
