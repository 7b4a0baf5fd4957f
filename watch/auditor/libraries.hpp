// SPDX-License-Identifier: MIT
// The copies of libcuda in this process. A program has one, and another one for each namespace of
// `dlmopen` that uses the driver. Each has its own functions, and so each has its own hooks.
#pragma once

#include "protocol/calls.hpp"

#include <cstddef>
#include <cstdint>
#include <link.h>

namespace watch {

inline constexpr unsigned library_limit = 4; // calls to further copies are not watched

/// One copy of libcuda: where its functions are. The second index is 1 for variants of per-thread streams.
struct Library {
  const link_map* map = nullptr;
  std::uintptr_t begin = 0, end = 0; // of its memory
  void* functions[entry_count][2] = {};
  CUresult (*current_context)(CUcontext*) = nullptr;
  CUresult (*stream_context)(CUstream, CUcontext*) = nullptr;
  CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus*) = nullptr;
  /// What it takes to try a record in another context.
  struct {
    CUresult (*context_id)(CUcontext, unsigned long long*) = nullptr;
    CUresult (*push)(CUcontext) = nullptr;
    CUresult (*pop)(CUcontext*) = nullptr;
    CUresult (*create)(CUevent*, unsigned) = nullptr;
    CUresult (*destroy)(CUevent) = nullptr;
    CUresult (*record)(CUevent, CUstream) = nullptr;
    CUresult (*record_context)(CUcontext, CUevent) = nullptr;
    CUresult (*record_green_context)(GreenContext*, CUevent) = nullptr;
  } trial;
  /// What probes need in addition.
  struct {
    CUresult (*query)(CUevent) = nullptr;
    CUresult (*exchange_mode)(CUstreamCaptureMode*) = nullptr;
  } probing;
  /// What tells the events of a graph. `nodes` is null if one of them is missing.
  struct {
    CUresult (*nodes)(CUgraph, CUgraphNode*, std::size_t*) = nullptr;
    CUresult (*type)(CUgraphNode, CUgraphNodeType*) = nullptr;
    CUresult (*recorded)(CUgraphNode, CUevent*) = nullptr;
    CUresult (*awaited)(CUgraphNode, CUevent*) = nullptr;
    CUresult (*child)(CUgraphNode, CUgraph*) = nullptr;
  } graphs;
  /// What holds streams back.
  struct {
    CUresult (*wait)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
    CUresult (*write)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
    CUresult (*pin)(void*, std::size_t, unsigned) = nullptr;
    CUresult (*address)(CUdeviceptr*, void*, unsigned) = nullptr;
    CUresult (*primary_state)(CUdevice, unsigned*, int*) = nullptr;
  } jitter;
  /// Null in drivers before CUDA 12.4.
  struct {
    CUresult (*of_function)(CUfunction, std::size_t, std::size_t*, std::size_t*) = nullptr;
    CUresult (*of_kernel)(CUfunction, std::size_t, std::size_t*, std::size_t*) = nullptr; // takes a CUkernel
  } parameters;
  CUresult (*pointer_attributes)(unsigned, CUpointer_attribute*, void**, CUdeviceptr) = nullptr;
  CUresult (*find)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*) = nullptr;
  void (*optional_call)(int begin) = nullptr; // of the simulated driver only
};

/// While it lives, this thread makes calls of the auditor's own. The simulated driver ends a process at a
/// call that it does not model. It refuses these calls instead, and tells nobody.
class OwnCalls {
public:
  explicit OwnCalls(const Library& library) : optional_call_(library.optional_call) {
    if (optional_call_ != nullptr) optional_call_(1);
  }
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;
  ~OwnCalls() {
    if (optional_call_ != nullptr) optional_call_(0);
  }

private:
  void (*optional_call_)(int);
};

/// The loader has mapped libcuda, or has unmapped one. Where the library allows, its exports are
/// redirected to the hooks: the loader does not ask auditors about calls without a procedure linkage table
/// (-fno-plt), nor about addresses in static tables.
void add_library(const link_map& map);
void remove_library(const link_map& map);

/// The index of this copy of libcuda, or `library_limit`.
unsigned library_index(const link_map* map);

/// Whether the address is in one of them.
bool is_of_a_library(std::uintptr_t address);

/// The function of this copy that a hook stands for, or null.
void* function_behind(unsigned library, void* hook);

/// The function that takes the place of this exported one, or null.
void* hook_for_symbol(unsigned library, const char* symbol, void* function);

/// The function that takes the place of what cuGetProcAddress has returned, or null.
void* hook_for_lookup(unsigned library, const char* name, cuuint64_t flags, void* function);

/// The hook of an entry; defined with the hooks.
void* hook_of(unsigned library, std::size_t entry, bool per_thread_variant);

} // namespace watch
