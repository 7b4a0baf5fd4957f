// SPDX-License-Identifier: MIT
// The structures here are of C++ as GCC lays them out on Linux. The names of PyTorch's functions contain the
// types, so a version with types of other names is not observed.
#include "auditor/torch_allocator.hpp"

#include "auditor/loaded_library.hpp"
#include "auditor/recorder.hpp"
#include "auditor/stacks.hpp"
#include "auditor/state.hpp"
#include "protocol/protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace watch {

namespace {

/// What the allocator tells: the beginning of c10::CachingDeviceAllocator::TraceEntry.
struct TraceEntry {
  enum Action : std::int32_t { allocated, free_requested };
  std::int32_t action;
  std::int8_t device;
  std::uint64_t address;
  void* context[2]; // a shared pointer
  std::uint64_t stream, size;
  std::uint64_t pool[2]; // zeros for the usual one; with TorchAllocator::tells_pool
};
static_assert(offsetof(TraceEntry, address) == 8 && offsetof(TraceEntry, size) == 40);

/// std::function<void(const TraceEntry&)>.
struct Observer {
  enum Operation : std::int32_t { type, pointer, clone, destroy };
  std::uint64_t data[2];
  bool (*manage)(Observer* into, const Observer* from, Operation operation);
  void (*call)(const Observer* observer, const TraceEntry* entry);
};

bool manage(Observer* into, const Observer* from, Observer::Operation operation) {
  if (operation == Observer::clone) std::memcpy(into->data, from->data, sizeof into->data);
  return false;
}

/// The thread holds a lock of the allocator.
[[gnu::hot]] void see_block(const Observer*, const TraceEntry* entry) {
  const bool is_allocated = entry->action == TraceEntry::allocated;
  if (!is_allocated && entry->action != TraceEntry::free_requested) return;
  const auto address = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  const auto above = reinterpret_cast<std::uintptr_t>(__builtin_dwarf_cfa());
  Thread* const thread = this_thread();
  if (thread == nullptr) return;
  const bool may_be_private = !state.torch_allocator.tells_pool || entry->pool[0] != 0 || entry->pool[1] != 0;
  CallData record{};
  record.entry = memory_entry;
  record.count = 4;
  record.thread = thread->number;
  if (region->stacks != Stacks::none)
    record.stack = stack_number(*thread, address, above, region->overwrites == 0);
  record.words[0] =
      static_cast<std::uint64_t>(is_allocated ? MemoryPart::block_allocated : MemoryPart::block_freed);
  record.words[1] = entry->address;
  record.words[2] = entry->size;
  record.words[3] = may_be_private ? 1 : 0;
  watch::record(record);
}

using Table = void* const*;

/// The function of the object that has the same place as this one in the known table, or null.
void* function_like(Table object_table, const void* function) {
  const TorchAllocator& torch = state.torch_allocator;
  constexpr std::size_t before_functions = 2;
  for (std::size_t i = before_functions; i < torch.table_size; ++i)
    if (torch.table[i] == function) return object_table[i - before_functions];
  return nullptr;
}

/// Others throw if somebody wants to observe them.
bool is_native(Table object_table) {
  const auto* const type = static_cast<const char* const*>(object_table[-1]);
  constexpr const char* native = "N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE";
  return type != nullptr && std::strcmp(type[1], native) == 0;
}

} // namespace

void find_torch_allocator(const link_map& map) {
  TorchAllocator& torch = state.torch_allocator;
  const auto exports = [&](const char* name) { return exported_function(map, name, nullptr); };
  if (torch.current == nullptr)
    torch.current =
        static_cast<std::atomic<void*>*>(exports("_ZN3c104cuda20CUDACachingAllocator9allocatorE"));
  if (torch.table != nullptr) return;
  constexpr const char* other_table = "_ZTVN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE";
  constexpr const char* add = "_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator"
                              "27attachAllocatorTraceTrackerESt8functionIFvRKN3c10";
  torch.is_initialized =
      exports("_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator11initializedEv");
  torch.add_observer = exported_function(map, add, "22CachingDeviceAllocator10TraceEntryEEE");
  torch.tells_pool = torch.add_observer != nullptr;
  if (torch.add_observer == nullptr) // the older name of the type
    torch.add_observer = exported_function(map, add, "4cuda20CUDACachingAllocator10TraceEntryEEE");
  if (torch.add_observer == nullptr || torch.is_initialized == nullptr) return;
  torch.table = static_cast<Table>(exports(other_table));
  torch.table_size = exported_size(map, other_table) / sizeof(void*);
}

void observe_torch_allocator() {
  TorchAllocator& torch = state.torch_allocator;
  if (torch.current == nullptr || torch.table == nullptr ||
      torch.is_observed.load(std::memory_order_relaxed) != 0)
    return;
  void* const allocator = torch.current->load(std::memory_order_acquire);
  if (allocator == nullptr) return;
  const auto table = *static_cast<Table*>(allocator);
  if (!is_native(table)) return;
  const auto is_initialized = reinterpret_cast<bool (*)(void*)>(function_like(table, torch.is_initialized));
  const auto add = reinterpret_cast<void (*)(void*, Observer*)>(function_like(table, torch.add_observer));
  if (is_initialized == nullptr || add == nullptr || !is_initialized(allocator) ||
      torch.is_observed.exchange(1, std::memory_order_relaxed) != 0)
    return;
  // The thread may hold the lock of an allocator, which may be taken again. Others that hold one wait for
  // nothing that this thread has.
  Observer observer{{}, &manage, &see_block};
  add(allocator, &observer);
}

} // namespace watch
