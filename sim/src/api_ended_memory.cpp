// SPDX-License-Identifier: MIT
// Launches of graphs whose copies and fills use memory that has ended since.

#include "api.hpp"

#include <sstream>
#include <string>

namespace cuevent::sim {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::string described(const UsedMemory& used) {
  std::ostringstream text;
  text << used.bytes << " bytes of host memory at 0x" << std::hex << used.address;
  return text.str();
}

} // namespace

/// Memory of pools, of graphs, of modules and virtual memory end in other ways.
void Api::remember_memory(Work& work, std::uintptr_t address, std::size_t bytes) const {
  const Allocation* const of = allocation_of(address);
  if (of == nullptr || of->pool || of->of_graph || of->mapping || of->variable) return;
  const auto kind = !of->host    ? UsedMemory::Kind::device
                    : of->memory ? UsedMemory::Kind::host_block
                                 : UsedMemory::Kind::registered;
  work.memory.push_back({address, bytes, of->address, of->bytes, of->number, kind});
}

/// A launch that copies with a host block that cuMemFreeHost has freed crashes if the block has at most
/// 1 MiB, also if a new block has its address. From 2 MiB on, and with memory that was unregistered, the
/// launch succeeds, and its work fails, also if new memory of the same kind has the address. Returns that
/// fault, or CUDA_SUCCESS.
CUresult Api::fault_of_ended_memory(const Work& work) const {
  CUresult fault = CUDA_SUCCESS;
  for (const UsedMemory& used : work.memory) {
    const Allocation* const now = allocation_of(used.block);
    if (now != nullptr && now->address == used.block && now->number == used.number) continue;
    if (used.kind == UsedMemory::Kind::device) {
      if (!is_allocated(process_, used.address, used.bytes))
        undefined("the launched graph uses memory of the device that was freed");
      continue;
    }
    if (work.type != CU_GRAPH_NODE_TYPE_MEMCPY) not_modelled("a fill of host memory that was freed");
    if (used.kind == UsedMemory::Kind::host_block && used.block_bytes <= mib)
      crash("the launched graph copies with " + described(used) + ", which cuMemFreeHost has freed");
    const bool again = now != nullptr && now->address == used.block && now->host &&
                       (now->memory != nullptr) == (used.kind == UsedMemory::Kind::host_block);
    if (now != nullptr && !again) not_modelled("a copy with host memory whose address was given away");
    if (used.kind == UsedMemory::Kind::host_block && used.bytes < 2 * mib)
      not_modelled("a copy with a freed host block of more than 1 MiB, of less than 2 MiB");
    fault = CUDA_ERROR_LAUNCH_FAILED;
  }
  return fault;
}

} // namespace cuevent::sim
