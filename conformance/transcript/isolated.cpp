// SPDX-License-Identifier: MIT
// Calls whose answers may depend on what an earlier scenario has left: a context below on the stack, or a
// primary context that somebody retains. Each scenario here begins with an empty stack in a process of its
// own, and then asks again with what could have been left.

#include "lab.hpp"

namespace transcript {
namespace {

using namespace std::chrono_literals;

using Switch = CUresult (*)();

// Empties the stack, and shows how many contexts there were.
void begin(Lab& lab) {
  int count = 0;
  for (CUcontext popped = nullptr; lab.cu.CtxPopCurrent(&popped) == CUDA_SUCCESS && popped != nullptr;)
    ++count;
  lab.shows("contexts_before", count);
}

// What is current below: nothing, another context, a primary context.
template <class Ask>
void above_each(Lab& lab, const Ask& ask) {
  ask("empty_stack");
  CUcontext const other = lab.second_context();
  CUcontext primary = nullptr, popped = nullptr;
  lab.must(lab.cu.CtxPushCurrent(other), "push");
  ask("above_nothing");
  lab.must(lab.cu.CtxPushCurrent(lab.home), "push");
  ask("above_another");
  lab.must(lab.cu.CtxPopCurrent(&popped), "pop");
  ask("popped");
  lab.must(lab.cu.CtxPopCurrent(&popped), "pop");
  ask("empty_again");
  lab.must(lab.cu.DevicePrimaryCtxRetain(&primary, lab.device), "retain");
  ask("primary_retained");
  lab.must(lab.cu.CtxPushCurrent(primary), "push");
  ask("primary_current");
  lab.must(lab.cu.CtxPopCurrent(&popped), "pop");
  ask("primary_popped");
}

void attach(Lab& lab) {
  begin(lab);
  above_each(lab, [&](const std::string& name) {
    CUcontext current = nullptr, attached = nullptr;
    lab.cu.CtxGetCurrent(&current);
    lab.is(name + ".attach", lab.cu.CtxAttach(&attached, 0));
    lab.shows(name + ".attach.stores", attached == nullptr   ? "nothing"
                                       : attached == current ? "the current context"
                                                             : "another context");
    if (attached == nullptr)
      lab.is(name + ".detach", lab.cu.CtxDetach(lab.home));
    else
      lab.is(name + ".detach", lab.cu.CtxDetach(attached)); // as often as it was attached
  });
}

void profiler(Lab& lab) {
  const auto resolved = [&](const char* name) {
    void* address = nullptr;
    lab.must(lab.cu.GetProcAddress(name, &address, 4000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr), name);
    return reinterpret_cast<Switch>(address);
  };
  const Switch start = resolved("cuProfilerStart"), stop = resolved("cuProfilerStop");
  begin(lab);
  above_each(lab, [&](const std::string& name) {
    lab.is(name + ".start", start());
    lab.is(name + ".stop", stop());
  });
}

void show_state(Lab& lab, const std::string& name) {
  unsigned flags = 0;
  int active = -1;
  lab.cu.DevicePrimaryCtxGetState(lab.device, &flags, &active);
  lab.shows(name + ".then_active", active);
}

// Whether an attachment counts as a retain, and a detachment as a release.
template <int attached, int detached>
void primary_attached(Lab& lab) {
  begin(lab);
  show_state(lab, "before");
  CUcontext primary = nullptr, given = nullptr, popped = nullptr;
  lab.must(lab.cu.DevicePrimaryCtxRetain(&primary, lab.device), "retain");
  lab.must(lab.cu.CtxPushCurrent(primary), "push");
  for (int i = 0; i < attached; ++i)
    lab.must(lab.cu.CtxAttach(&given, 0), "attach");
  for (int i = 0; i < detached; ++i)
    lab.must(lab.cu.CtxDetach(primary), "detach");
  show_state(lab, "retained");
  lab.is("pop", lab.cu.CtxPopCurrent(&popped));
  for (const char* name : {"release", "release.again", "release.third"}) {
    lab.is(name, lab.cu.DevicePrimaryCtxRelease(lab.device));
    show_state(lab, name);
  }
}

// Whether a release waits for work that is held: of the primary context, or of another one.
template <bool is_last, bool work_is_its_own>
void primary_released(Lab& lab) {
  begin(lab);
  show_state(lab, "before");
  CUcontext primary = nullptr, popped = nullptr;
  for (int i = 0; i < (is_last ? 1 : 2); ++i)
    lab.must(lab.cu.DevicePrimaryCtxRetain(&primary, lab.device), "retain");
  lab.must(lab.cu.CtxPushCurrent(work_is_its_own ? primary : lab.home), "push");
  CUstream const stream = Stream(lab).release();
  lab.must(lab.cu.CtxPopCurrent(&popped), "pop");
  Gate gate(lab, stream);
  std::atomic<bool> done = false;
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::thread caller([&] { // whose stack is empty too
    result = lab.cu.DevicePrimaryCtxRelease(lab.device);
    done = true;
  });
  for (const auto deadline = std::chrono::steady_clock::now() + 1s;
       !done && std::chrono::steady_clock::now() < deadline;)
    std::this_thread::sleep_for(1ms);
  lab.shows("release.returns", done.load());
  gate.open();
  caller.join();
  lab.is("release", result);
  show_state(lab, "release");
}

} // namespace

std::vector<Scenario> isolated_scenarios() {
  return {{"isolated.attach", attach, Place::alone},
          {"isolated.profiler", profiler, Place::alone},
          {"isolated.primary.retained", primary_attached<0, 0>, Place::alone},
          {"isolated.primary.attached", primary_attached<1, 0>, Place::alone},
          {"isolated.primary.detached", primary_attached<0, 1>, Place::alone},
          {"isolated.primary.both", primary_attached<1, 1>, Place::alone},
          {"isolated.last_release.own_work", primary_released<true, true>, Place::alone},
          {"isolated.last_release.other_work", primary_released<true, false>, Place::alone},
          {"isolated.other_release.own_work", primary_released<false, true>, Place::alone},
          {"isolated.other_release.other_work", primary_released<false, false>, Place::alone}};
}

} // namespace transcript
