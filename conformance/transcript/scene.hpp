// SPDX-License-Identifier: MIT
// What every capture case starts from: one capture in progress, and events and streams on both sides of it.
#pragma once

#include "lab.hpp"

namespace transcript {

struct Mode {
  const char* name;
  CUstreamCaptureMode value;
};
inline constexpr Mode capture_modes[] = {{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
                                         {"thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
                                         {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}};

class Scene {
public:
  Scene(Lab& lab, CUstreamCaptureMode mode, unsigned origin_flags = CU_STREAM_NON_BLOCKING);
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  Lab& lab;
  const Api& cu;
  CUfunction kernel;
  CUdeviceptr memory;
  unsigned* word;
  Stream origin;                         // captures
  Stream fork;                           // joined to the capture where a case does so
  Stream bystander;                      // has nothing to do with it
  Stream held;                           // neither; what is on it does not run
  Event done{lab, CU_EVENT_DEFAULT};     // recorded and completed before the capture
  Event done_end{lab, CU_EVENT_DEFAULT}; // likewise, later
  Event shared{lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS}; // likewise
  Event pending{lab, CU_EVENT_DEFAULT};                               // recorded before, not completed
  Event never{lab, CU_EVENT_DEFAULT};                                 // never recorded
  Event captured{lab, CU_EVENT_DEFAULT};                              // recorded in the capture
  Event external{lab, CU_EVENT_DEFAULT}; // recorded in the capture, with the external flag
  CUgraphExec exec = nullptr;            // of an empty node, made before
  Gate gate;

  CUresult launch(CUstream stream) const {
    return cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  // Has the fork stream join the capture, and do work there if asked to.
  void branch(bool with_work) const;
};

using Call = CUresult (*)(Scene&);
struct Probe {
  const char* name;
  Call call;
};

// The call in a fresh capture: its answer, what became of the capture, how it ends, and of which nodes the
// graph is then.
void probe(Lab& lab, const std::string& name, CUstreamCaptureMode mode,
           const std::function<CUresult(Scene&)>& call, unsigned origin_flags = CU_STREAM_NON_BLOCKING);
void show_end(Scene& scene, const std::string& name);

} // namespace transcript
