// SPDX-License-Identifier: MIT
#include "auditor/libraries.hpp"

#include "auditor/loaded_library.hpp"
#include "auditor/recorder.hpp"
#include "auditor/state.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace watch {

namespace {

template <class Function>
void find(Function& function, const link_map& map, const char* name, const char* suffix = nullptr) {
  function = reinterpret_cast<Function>(exported_function(map, name, suffix));
}

/// Whether `text` is `name` with `suffix`.
bool is_symbol(const char* text, const char* name, const char* suffix) {
  const std::size_t length = std::strlen(name);
  return std::strncmp(text, name, length) == 0 && std::strcmp(text + length, suffix) == 0;
}

/// The two flags of cuGetProcAddress that choose the variant.
cuuint64_t flag_of(bool per_thread_variant) {
  return per_thread_variant ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                            : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
}

} // namespace

void add_library(const link_map& map) {
  const Locked lock(cleared_by_fork->locks.libraries);
  const unsigned free = library_index(nullptr);
  if (free == library_limit) {
    if (region != nullptr) region->lost_libraries.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Library& added = state.libraries[free];
  for (std::size_t i = 0; i < entry_count; ++i) {
    find(added.functions[i][0], map, entry_data[i].symbol);
    added.functions[i][1] = nullptr;
    if (entry_data[i].suffix != nullptr)
      find(added.functions[i][1], map, entry_data[i].symbol, entry_data[i].suffix);
  }
  added.begin = map.l_addr;
  added.end = end_of(map);
  find(added.current_context, map, "cuCtxGetCurrent");
  find(added.stream_context, map, "cuStreamGetCtx");
  find(added.is_capturing, map, "cuStreamIsCapturing");
  find(added.trial.context_id, map, "cuCtxGetId");
  find(added.trial.push, map, "cuCtxPushCurrent_v2");
  find(added.trial.pop, map, "cuCtxPopCurrent_v2");
  find(added.trial.create, map, "cuEventCreate");
  find(added.trial.destroy, map, "cuEventDestroy_v2");
  find(added.trial.record, map, "cuEventRecord");
  find(added.trial.record_context, map, "cuCtxRecordEvent");
  find(added.trial.record_green_context, map, "cuGreenCtxRecordEvent");
  find(added.probing.query, map, "cuEventQuery");
  find(added.probing.exchange_mode, map, "cuThreadExchangeStreamCaptureMode");
  find(added.graphs.nodes, map, "cuGraphGetNodes");
  find(added.graphs.type, map, "cuGraphNodeGetType");
  find(added.graphs.recorded, map, "cuGraphEventRecordNodeGetEvent");
  find(added.graphs.awaited, map, "cuGraphEventWaitNodeGetEvent");
  find(added.graphs.child, map, "cuGraphChildGraphNodeGetGraph");
  if (added.graphs.type == nullptr || added.graphs.recorded == nullptr || added.graphs.awaited == nullptr ||
      added.graphs.child == nullptr)
    added.graphs.nodes = nullptr;
  find(added.jitter.wait, map, "cuStreamWaitValue32_v2");
  find(added.jitter.write, map, "cuStreamWriteValue32_v2");
  find(added.jitter.pin, map, "cuMemHostRegister_v2");
  find(added.jitter.address, map, "cuMemHostGetDevicePointer_v2");
  find(added.jitter.primary_state, map, "cuDevicePrimaryCtxGetState");
  find(added.parameters.of_function, map, "cuFuncGetParamInfo");
  find(added.parameters.of_kernel, map, "cuKernelGetParamInfo");
  find(added.pointer_attributes, map, "cuPointerGetAttributes");
  find(added.find, map, "cuGetProcAddress_v2");
  find(added.optional_call, map, "cueventOptionalCall");
  if (added.current_context != nullptr && added.stream_context != nullptr && added.is_capturing != nullptr)
    added.map = &map;
  else
    return;
  for (std::size_t i = 0; i < entry_count; ++i)
    for (const bool per_thread_variant : {false, true})
      if (added.functions[i][per_thread_variant] != nullptr)
        redirect_function(map, entry_data[i].symbol, per_thread_variant ? entry_data[i].suffix : nullptr,
                          hook_of(free, i, per_thread_variant));
}

void* function_behind(unsigned library, void* hook) {
  for (std::size_t i = 0; i < entry_count; ++i)
    for (const bool per_thread_variant : {false, true})
      if (hook_of(library, i, per_thread_variant) == hook)
        return state.libraries[library].functions[i][per_thread_variant];
  return nullptr;
}

void remove_library(const link_map& map) {
  const Locked lock(cleared_by_fork->locks.libraries);
  const unsigned index = library_index(&map);
  if (index == library_limit) return;
  state.libraries[index].map = nullptr;
  forget_streams({0, 0, index}, false);
}

unsigned library_index(const link_map* map) {
  unsigned index = 0;
  while (index < library_limit && state.libraries[index].map != map)
    ++index;
  return index;
}

bool is_of_a_library(std::uintptr_t address) {
  return std::any_of(std::begin(state.libraries), std::end(state.libraries), [&](const Library& each) {
    return each.map != nullptr && each.begin <= address && address < each.end;
  });
}

void* hook_for_symbol(unsigned library, const char* symbol, void* function) {
  for (std::size_t i = 0; i < entry_count; ++i)
    for (const bool per_thread_variant : {false, true}) {
      const char* const suffix = per_thread_variant ? entry_data[i].suffix : "";
      if (suffix == nullptr || !is_symbol(symbol, entry_data[i].symbol, suffix)) continue;
      return state.libraries[library].functions[i][per_thread_variant] == function
                 ? hook_of(library, i, per_thread_variant)
                 : nullptr;
    }
  return nullptr;
}

void* hook_for_lookup(unsigned library, const char* name, cuuint64_t flags, void* function) {
  Library& here = state.libraries[library];
  // The CUDA runtime looks up the empty name, and expects cuGetProcAddress.
  if (*name == '\0') name = "cuGetProcAddress";
  std::size_t named = entry_count;
  for (std::size_t i = 0; i < entry_count; ++i) {
    if (std::strcmp(entry_data[i].name, name) != 0) continue;
    named = i;
    const bool per_thread_variant =
        entry_data[i].suffix != nullptr && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    // An older version may have no variant for per-thread streams.
    if (per_thread_variant && function == here.functions[i][0]) return hook_of(library, i, false);
    void*& known = here.functions[i][per_thread_variant];
    if (known != function) {
      // The driver may return another address than it exports. The version says which variant this is.
      void* same = nullptr;
      if (here.find == nullptr ||
          here.find(name, &same, entry_data[i].version, flag_of(per_thread_variant), nullptr) !=
              CUDA_SUCCESS ||
          same != function)
        continue;
      if (known == nullptr) known = function;
    }
    return hook_of(library, i, per_thread_variant);
  }
  if (named != entry_count && function != nullptr && region != nullptr)
    region->newer[named].store(1, std::memory_order_relaxed);
  return nullptr;
}

} // namespace watch
