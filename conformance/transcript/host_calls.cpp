// SPDX-License-Identifier: MIT
// Driver calls by host functions, stream callbacks and destructors of user objects.

#include "everywhere.hpp"

#include <atomic>
#include <chrono>
#include <iterator>
#include <thread>

namespace transcript {
namespace {

struct Asked {
  Lab* lab;
  CUstream other;
  CUevent event;
  CUdeviceptr memory;
};

struct Call {
  const char* name;
  CUresult (*make)(const Asked&);
};

// A driver may wait for itself in some of them.
const Call calls[] = {
    {"driver_version",
     [](const Asked& a) {
       int v = 0;
       return a.lab->cu.DriverGetVersion(&v);
     }},
    {"error_name",
     [](const Asked& a) {
       const char* n = nullptr;
       return a.lab->cu.GetErrorName(CUDA_SUCCESS, &n);
     }},
    {"current",
     [](const Asked& a) {
       CUcontext c = nullptr;
       return a.lab->cu.CtxGetCurrent(&c);
     }},
    {"set_current", [](const Asked& a) { return a.lab->cu.CtxSetCurrent(a.lab->home); }},
    {"event_query", [](const Asked& a) { return a.lab->cu.EventQuery(a.event); }},
    {"event_create",
     [](const Asked& a) {
       CUevent e = nullptr;
       return a.lab->cu.EventCreate(&e, 0);
     }},
    {"event_record", [](const Asked& a) { return a.lab->cu.EventRecord(a.event, a.other); }},
    {"stream_query", [](const Asked& a) { return a.lab->cu.StreamQuery(a.other); }},
    {"stream_synchronize", [](const Asked& a) { return a.lab->cu.StreamSynchronize(a.other); }},
    {"launch", [](const Asked& a) { return a.lab->cu.MemcpyDtoDAsync(a.memory, a.memory + 32, 4, a.other); }},
    {"alloc",
     [](const Asked& a) {
       CUdeviceptr p = 0;
       return a.lab->cu.MemAlloc(&p, 64);
     }},
    {"event_destroy", [](const Asked& a) { return a.lab->cu.EventDestroy(a.event); }},
};

struct Answers {
  Asked asked;
  CUresult of[std::size(calls)];
  std::atomic<std::size_t> made{0};
};

void make_calls(void* data) {
  Answers& answers = *static_cast<Answers*>(data);
  for (std::size_t i = 0; i < std::size(calls); ++i) {
    answers.of[i] = calls[i].make(answers.asked);
    ++answers.made;
  }
}

void print(Lab& lab, const Answers& answers) {
  for (int waited = 0; waited < 200 && answers.made < std::size(calls); ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (std::size_t i = 0; i < answers.made; ++i)
    lab.is(calls[i].name, answers.of[i]);
  if (answers.made < std::size(calls)) lab.shows("hangs_in", calls[answers.made].name);
}

// An object that is not destroyed: a call that hangs uses it.
Answers& fresh(Lab& lab) {
  auto& answers = *new Answers;
  answers.asked.lab = &lab;
  lab.must(lab.cu.StreamCreate(&answers.asked.other, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  lab.must(lab.cu.EventCreate(&answers.asked.event, 0), "cuEventCreate");
  lab.must(lab.cu.MemAlloc(&answers.asked.memory, 64), "cuMemAlloc");
  return answers;
}

void host_function(Lab& lab) {
  Answers& answers = fresh(lab);
  CUstream stream = nullptr;
  lab.must(lab.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  lab.is("enqueue", lab.cu.LaunchHostFunc(stream, make_calls, &answers));
  print(lab, answers);
}

void callback(Lab& lab) {
  Answers& answers = fresh(lab);
  CUstream stream = nullptr;
  lab.must(lab.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  const CUstreamCallback call = [](CUstream, CUresult, void* data) { make_calls(data); };
  lab.is("enqueue", lab.cu.StreamAddCallback(stream, call, &answers, 0));
  print(lab, answers);
}

void destructor(Lab& lab) {
  Answers& answers = fresh(lab);
  CUuserObject object = nullptr;
  lab.must(lab.cu.UserObjectCreate(&object, &answers, make_calls, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
           "cuUserObjectCreate");
  lab.is("release", lab.cu.UserObjectRelease(object, 1));
  print(lab, answers);
}

} // namespace

std::vector<Scenario> host_calls_scenarios() {
  return {{"host_calls.host_function", host_function, Place::probe},
          {"host_calls.callback", callback, Place::probe},
          {"host_calls.destructor", destructor, Place::probe}};
}

} // namespace transcript
