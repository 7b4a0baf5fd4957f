// SPDX-License-Identifier: MIT
#include "api.hpp"

#include <dlfcn.h>

#include <type_traits>

namespace transcript {

Api Api::load(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw LoadFailure(dlerror());

  const auto get = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(handle, "cuGetProcAddress_v2"));
  if (get == nullptr) throw LoadFailure(library + " has no cuGetProcAddress_v2: older than CUDA 12.0");
  return resolved_by(get);
}

Api Api::resolved_by(PFN_cuGetProcAddress_v12000 get) {
  Api api;
  api.GetProcAddress = get;
  const auto resolve = [&api](const char* name, int version, auto& member) {
    void* address = nullptr;
    const CUresult result =
        api.GetProcAddress(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr);
    if (result == CUDA_SUCCESS) member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
  };
#define ROW(name, version) resolve("cu" #name, version, api.name);
#define ROW_AS(member, name, version) resolve("cu" #name, version, api.member);
#include "symbols.inc"
#undef ROW_AS
#undef ROW
  return api;
}

} // namespace transcript
