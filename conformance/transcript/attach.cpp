// SPDX-License-Identifier: MIT
// cuCtxAttach and cuCtxDetach, which count the uses of a context: when a context ends, and what is current
// then.

#include "everywhere.hpp"

namespace transcript {
namespace {

using namespace std::chrono_literals;

// A new context, current above the home context.
CUcontext make(Lab& lab) {
  CUcontext made = nullptr;
  lab.must(lab.cu.CtxCreate(&made, 0, lab.device), "cuCtxCreate");
  return made;
}

void show_current(Lab& lab, const std::string& name, CUcontext made) {
  CUcontext current = nullptr;
  const CUresult result = lab.cu.CtxGetCurrent(&current);
  lab.shows(name + ".then_current", result != CUDA_SUCCESS ? lab.name_of(result)
                                    : current == nullptr   ? "none"
                                    : current == made      ? "it"
                                    : current == lab.home  ? "home"
                                                           : "other");
  lab.is(name + ".then_synchronize", lab.cu.CtxSynchronize());
}

void attach(Lab& lab, const std::string& name, CUcontext made) {
  CUcontext attached = nullptr;
  lab.is(name, lab.cu.CtxAttach(&attached, 0));
  lab.shows(name + ".is_the_current", attached == made);
}

void detach(Lab& lab, const std::string& name, CUcontext made) {
  lab.is(name, lab.cu.CtxDetach(made));
  show_current(lab, name, made);
}

void home_is_well(Lab& lab) {
  lab.is("home.set_current", lab.cu.CtxSetCurrent(lab.home));
  CUevent event = nullptr;
  lab.is("home.event_create", lab.cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

void counted(Lab& lab) {
  CUcontext const made = make(lab);
  attach(lab, "attach", made);
  attach(lab, "attach.again", made);
  for (const char* name : {"detach", "detach.again", "detach.last"})
    detach(lab, name, made);
  home_is_well(lab);
}

void created(Lab& lab) {
  detach(lab, "detach", make(lab));
  home_is_well(lab);
}

void too_often(Lab& lab) {
  CUcontext const made = make(lab);
  detach(lab, "detach", made);
  detach(lab, "detach.again", made);
  home_is_well(lab);
}

void then_destroy(Lab& lab) {
  CUcontext const made = make(lab);
  attach(lab, "attach", made);
  lab.is("destroy", lab.cu.CtxDestroy(made));
  show_current(lab, "destroy", made);
  detach(lab, "detach", made);
  home_is_well(lab);
}

void then_use(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext const made = make(lab);
  CUstream const stream = Stream(lab).release();
  CUevent const event = Event(lab).release();
  CUcontext popped = nullptr;
  unsigned long long id = 0;
  detach(lab, "detach", made);
  lab.is("stream_query", cu.StreamQuery(stream));
  lab.is("event_query", cu.EventQuery(event));
  lab.is("event_record", cu.EventRecord(event, stream));
  lab.is("ctx_get_id", cu.CtxGetId(made, &id));
  lab.is("push", cu.CtxPushCurrent(made));
  show_current(lab, "push", made);
  lab.is("pop", cu.CtxPopCurrent(&popped));
  lab.is("destroy", cu.CtxDestroy(made));
  home_is_well(lab);
}

void popped(Lab& lab) {
  CUcontext const made = make(lab);
  CUcontext top = nullptr;
  lab.must(lab.cu.CtxPopCurrent(&top), "cuCtxPopCurrent");
  detach(lab, "detach", made);
  lab.is("push", lab.cu.CtxPushCurrent(made));
  show_current(lab, "push", made);
  home_is_well(lab);
}

void pushed_twice(Lab& lab) {
  CUcontext const made = make(lab);
  CUcontext top = nullptr;
  lab.must(lab.cu.CtxPushCurrent(made), "cuCtxPushCurrent");
  detach(lab, "detach", made);
  lab.is("pop", lab.cu.CtxPopCurrent(&top));
  lab.shows("pop.is_it", top == made);
  show_current(lab, "pop", made);
  home_is_well(lab);
}

// The context is also current on this thread.
void elsewhere(Lab& lab) {
  CUcontext const made = make(lab);
  lab.is("detach", on_other_thread(lab, [&] {
           lab.cu.CtxSetCurrent(made);
           return lab.cu.CtxDetach(made);
         }));
  show_current(lab, "detach", made);
  home_is_well(lab);
}

void primary(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext made = nullptr;
  const auto is_active = [&](const std::string& name) {
    unsigned flags = 0;
    int active = -1;
    cu.DevicePrimaryCtxGetState(lab.device, &flags, &active);
    lab.shows(name + ".then_active", active);
  };
  lab.must(cu.DevicePrimaryCtxRetain(&made, lab.device), "cuDevicePrimaryCtxRetain");
  lab.must(cu.CtxPushCurrent(made), "cuCtxPushCurrent");
  attach(lab, "attach", made);
  for (const char* name : {"detach", "detach.again"}) {
    detach(lab, name, made);
    is_active(name);
  }
  lab.is("release", cu.DevicePrimaryCtxRelease(lab.device));
  is_active("release");
  home_is_well(lab);
}

// A stream of the context is held.
void with_work(Lab& lab) {
  CUcontext const made = make(lab);
  CUcontext top = nullptr;
  CUstream const stream = Stream(lab).release();
  lab.must(lab.cu.CtxPopCurrent(&top), "cuCtxPopCurrent");
  Gate gate(lab, stream);
  Background call(lab, [&] {
    lab.cu.CtxSetCurrent(made);
    return lab.cu.CtxDetach(made);
  });
  lab.shows("detach.returns", call.returns_within(1s));
  gate.open();
  lab.is("detach", call.join());
  home_is_well(lab);
}

void wrong(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext attached = nullptr;
  for (int i = 0; i < 8; ++i) // more often than it is detached
    lab.must(cu.CtxAttach(&attached, 0), "cuCtxAttach");
  for (const unsigned flags : {1U, 8U, ~0U})
    lab.is("attach.flags_" + std::to_string(flags), cu.CtxAttach(&attached, flags));
  everywhere(lab, "attach", [&](CUstream) { return cu.CtxAttach(&attached, 0); });
  everywhere(lab, "detach", [&](CUstream) { return cu.CtxDetach(lab.home); });
  lab.is("detach.not_current", cu.CtxDetach(lab.second_context()));
  lab.is("detach.null", cu.CtxDetach(nullptr));
  lab.is("attach.nowhere", cu.CtxAttach(nullptr, 0));
  lab.is("attach.nowhere.flags", cu.CtxAttach(nullptr, 1));
}

} // namespace

std::vector<Scenario> attach_scenarios() {
  return {{"attach.counted", counted, Place::child},
          {"attach.created", created, Place::child},
          {"attach.too_often", too_often, Place::child},
          {"attach.then_destroy", then_destroy, Place::child},
          {"attach.then_use", then_use, Place::last},
          {"attach.popped", popped, Place::child},
          {"attach.pushed_twice", pushed_twice, Place::child},
          {"attach.elsewhere", elsewhere, Place::child},
          {"attach.primary", primary, Place::alone},
          {"attach.with_work", with_work, Place::child},
          {"attach.wrong", wrong, Place::alone}};
}

} // namespace transcript
