// SPDX-License-Identifier: MIT
// Modules, libraries, and the kernels in them.
#pragma once

#include "code_image.hpp"
#include "context.hpp"

#include <map>
#include <memory>
#include <string>

namespace cuevent::sim {

struct Function;
struct Library;
struct LibraryKernel;

/// What a module or a library was loaded from.
struct Code {
  bool garbage = false;            ///< a library takes anything, until it is used
  CUresult verdict = CUDA_SUCCESS; ///< on binary code, which a library says when it is used
  CodeImage image;
};

/// What can be set about a kernel.
struct KernelSettings {
  int dynamic_shared = -1; ///< not set: what the static memory leaves of 48 KiB
  int carveout = -1;
  int cluster_beyond = 0; ///< CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
  int cluster_policy = 0;
  int cluster[3] = {}; ///< not set: 0
};

/// What launches as before CUDA 4.0 keep in a function.
struct OldLaunch {
  unsigned block[3] = {1, 1, 1};
  unsigned shared = 0;
  std::size_t parameters = 0; ///< bytes
};

struct Module : Object {
  Birthplace home;
  std::shared_ptr<Code> code;
  std::map<std::string, std::weak_ptr<Function>> functions;     ///< which own the module
  std::map<std::string, std::uintptr_t, std::less<>> variables; ///< addresses
  std::weak_ptr<Library> library;                               ///< of which it is a part
};

struct Function : Object {
  std::shared_ptr<Module> module;
  std::string name;
  std::shared_ptr<KernelSettings> settings; ///< shared with the kernel, if a library has it
  OldLaunch old;
  bool loaded = true; ///< not before it is used, if a list of its module gave it
};

/// Code that belongs to no context. Each context that uses it gets a module.
struct Library : Object {
  std::shared_ptr<Code> code;
  std::map<std::uintptr_t, std::shared_ptr<Module>> modules;       ///< by handle of the context
  std::map<std::string, std::weak_ptr<LibraryKernel>> kernels;     ///< which own the library
  std::map<std::string, std::shared_ptr<KernelSettings>> settings; ///< by kernel
};

struct LibraryKernel : Object {
  std::shared_ptr<Library> library;
  std::string name;
};

} // namespace cuevent::sim
