// SPDX-License-Identifier: MIT
// The start of every capture case: one capture in progress, with events and streams inside and outside it.
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
  Stream fork;                           // joins the capture if the case wants it
  Stream bystander;                      // takes no part in the capture
  Stream held;                           // takes no part; its work is held
  Event done{lab, CU_EVENT_DEFAULT};     // recorded and complete before the capture
  Event done_end{lab, CU_EVENT_DEFAULT}; // the same, later
  Event shared{lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS}; // the same, interprocess
  Event pending{lab, CU_EVENT_DEFAULT};                               // recorded before, not complete
  Event never{lab, CU_EVENT_DEFAULT};                                 // never recorded
  Event captured{lab, CU_EVENT_DEFAULT};                              // recorded in the capture
  Event external{lab, CU_EVENT_DEFAULT}; // recorded in the capture, with the external flag
  CUgraphExec exec = nullptr;            // of one empty node, made before
  Gate gate;

  CUresult launch(CUstream stream) const {
    return cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  // Makes the fork stream join the capture, and optionally do work in it.
  void branch(bool with_work) const;
};

using Call = CUresult (*)(Scene&);
struct Probe {
  const char* name;
  Call call;
};

// Makes the call in a new capture. Prints the answer, the state of the capture, how the capture ends, and the
// nodes of the graph.
void probe(Lab& lab, const std::string& name, CUstreamCaptureMode mode,
           const std::function<CUresult(Scene&)>& call, unsigned origin_flags = CU_STREAM_NON_BLOCKING);
void show_end(Scene& scene, const std::string& name);

} // namespace transcript
