// SPDX-License-Identifier: MIT
// Memory of cuMemAlloc that another process uses. No capture refuses these calls.

#include "api.hpp"
#include "device_attributes.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace cuevent::sim {

namespace {

/// The content of the 64 bytes of a memory handle.
struct MemoryHandle {
  std::array<char, 8> magic;
  unsigned long long start; ///< of the process
  unsigned long long inode;
  unsigned long long bytes; ///< of the memory; its file has whole pages
  unsigned long long allocation;
  int os_process;
  int process; ///< Process::index
  int file;
  int device;       ///< its number in the machine
  unsigned context; ///< 0: the memory's own one was current
  unsigned check;
};
static_assert(sizeof(MemoryHandle) == sizeof(CUipcMemHandle));

constexpr std::array<char, 8> magic_of_memory = {'c', 'u', 's', 'i', 'm', 'm', 'e', 'm'};

/// Refuses what no export has made.
MemoryHandle contents_of(const CUipcMemHandle& handle) {
  MemoryHandle contents{};
  std::memcpy(&contents, &handle, sizeof contents);
  refuse_if(contents.magic != magic_of_memory ||
                contents.check != sum_of_handle(&contents, sizeof contents) || contents.bytes == 0 ||
                contents.bytes > all_memory || contents.process < 0 || contents.process > 1,
            CUDA_ERROR_INVALID_VALUE);
  return contents;
}

} // namespace

/// Waits for no work. Each address of the memory gives the same handle.
CUresult Api::cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  refuse_if(out == nullptr || pointer == 0, CUDA_ERROR_INVALID_VALUE);
  const auto current = current_context();
  const auto found = process_.allocations.find(allocation_start(pointer));
  refuse_if(found == process_.allocations.end(), CUDA_ERROR_INVALID_VALUE);
  Allocation& memory = found->second;
  if (memory.variable) not_modelled("a variable of a module for another process");
  refuse_if(!memory.is_plain(), CUDA_ERROR_INVALID_VALUE);
  if (!memory.home.alive()) not_modelled("memory of a context that has ended, for another process");
  if (current->type == Context::Type::green || memory.home.context->type == Context::Type::green)
    not_modelled("memory for another process, with a green context");
  if (!memory.exported)
    memory.exported = ExportedMemory::make(memory.memory, memory.address, memory.bytes, memory.number);
  refuse_if(!memory.exported, CUDA_ERROR_OUT_OF_MEMORY);
  const OfferedFile& file = memory.exported->identity().file;
  MemoryHandle contents{magic_of_memory,
                        file.process.start,
                        file.inode,
                        memory.bytes,
                        memory.number,
                        file.process.id,
                        process_.index,
                        file.number,
                        computer_.number_of(memory.home.context->device),
                        current == memory.home.context ? 0 : static_cast<unsigned>(current->id),
                        0};
  contents.check = sum_of_handle(&contents, sizeof contents);
  std::memcpy(out, &contents, sizeof contents);
  return CUDA_SUCCESS;
}

/// The memory of a process that has ended is another error than memory that was freed.
void Api::refuse_to_open(const OfferedFile& file, int simulated_process, int error) {
  const auto& there = computer_.processes[static_cast<std::size_t>(simulated_process)];
  const bool is_there = file.process == this_os_process() ? there.initialized : lives(file.process);
  if (error == EMFILE || error == ENFILE || error == ENOMEM) refuse(CUDA_ERROR_OUT_OF_MEMORY);
  if (error == EACCES || error == EPERM) not_modelled("memory of a process that must not be looked at");
  refuse(is_there ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
}

/// The one that was opened from such a handle, or null.
Allocation* Api::imported(const MemoryIdentity& identity) {
  for (auto& [address, allocation] : process_.allocations)
    if (allocation.imported && allocation.imported->identity() == identity) return &allocation;
  return nullptr;
}

CUresult Api::open_memory(CUdeviceptr* out, const CUipcMemHandle& handle, unsigned flags, bool as_before) {
  constexpr unsigned lazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, ignored = 2;
  refuse_if(out == nullptr || (flags & lazy) == 0, CUDA_ERROR_INVALID_VALUE);
  const auto home = current_context();
  const MemoryHandle contents = contents_of(handle);
  const MemoryIdentity identity{
      {{contents.os_process, contents.start}, contents.file, contents.inode, whole_pages(contents.bytes)},
      contents.allocation};
  refuse_if(identity.file.process == this_os_process() && contents.process == process_.index,
            CUDA_ERROR_INVALID_CONTEXT);
  if ((flags & ~(lazy | ignored)) != 0) not_modelled("these flags");
  if (contents.context != 0) not_modelled("memory that was exported while another context was current");
  if (home->type == Context::Type::green) not_modelled("memory of another process in a green context");
  if (contents.device != computer_.number_of(home->device)) not_modelled("memory of another device");
  if (Allocation* const open = imported(identity)) {
    refuse_if(open->home.context != home, CUDA_ERROR_INVALID_HANDLE);
    if (as_before && !open->imported->opened_as_before)
      not_modelled("memory that is open, in the function as it was before CUDA 11.0");
    refuse_if(as_before, CUDA_ERROR_ALREADY_MAPPED);
    ++open->imported->opened;
    *out = open->address;
    return CUDA_SUCCESS;
  }
  auto import = ImportedMemory::open(identity);
  if (!import) refuse_to_open(identity.file, contents.process, errno);
  import->opened_as_before = as_before;
  Allocation opened;
  opened.address = import->address();
  opened.bytes = static_cast<std::size_t>(contents.bytes);
  opened.home = {home, home->generation};
  opened.imported = std::move(import);
  *out = add(std::move(opened));
  return CUDA_SUCCESS;
}

CUresult Api::cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return open_memory(out, handle, flags, true);
}

CUresult Api::cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  return open_memory(out, handle, flags, false);
}

/// Waits for all work of the context that opened the memory, also if the memory stays open. Any context may
/// be current.
CUresult Api::cuIpcCloseMemHandle(CUdeviceptr pointer) {
  current_context();
  const auto address = static_cast<std::uintptr_t>(pointer);
  const auto open = [&]() -> Allocation& {
    const auto found = process_.allocations.find(address);
    refuse_if(found == process_.allocations.end() || !found->second.imported, CUDA_ERROR_INVALID_VALUE);
    return found->second;
  };
  end_of_allocation(open());
  if (--open().imported->opened == 0) process_.allocations.erase(address);
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
