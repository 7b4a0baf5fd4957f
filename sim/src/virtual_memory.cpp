// SPDX-License-Identifier: MIT
#include "virtual_memory.hpp"

#include "os_process.hpp"
#include "process.hpp"
#include "refusal.hpp"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace cuevent::sim {

namespace {

void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

constexpr int reserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

} // namespace

/// The name tells another process where the memory is.
bool make_file(PhysicalMemory& memory, int number) {
  const std::string kind =
      physical_file + std::to_string(memory.properties.location.type) + ":" + std::to_string(number);
  memory.file = make_offered_file(kind.c_str(), memory.bytes);
  if (memory.file < 0) return false;
  void* const content = mmap(nullptr, memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.file, 0);
  if (content == MAP_FAILED) return false;
  std::memset(content, fresh, memory.bytes);
  munmap(content, memory.bytes);
  return true;
}

PhysicalMemory::~PhysicalMemory() {
  if (file >= 0) close(file);
}

AddressRange::AddressRange(std::size_t bytes, std::size_t alignment, std::uintptr_t wish) {
  if (bytes + alignment < bytes) return;
  if (wish != 0) { // older systems take this flag for a hint
    void* const there = mmap(pointer(wish), bytes, PROT_NONE, reserved | MAP_FIXED_NOREPLACE, -1, 0);
    if (there == pointer(wish)) {
      address_ = wish;
      bytes_ = bytes;
      return;
    }
    if (there != MAP_FAILED) munmap(there, bytes);
  }
  void* const found = mmap(nullptr, bytes + alignment, PROT_NONE, reserved, -1, 0);
  if (found == MAP_FAILED) return;
  const auto start = reinterpret_cast<std::uintptr_t>(found);
  const std::uintptr_t aligned = (start + alignment - 1) / alignment * alignment;
  const std::size_t before = aligned - start, after = alignment - before;
  if (before != 0) munmap(found, before);
  if (after != 0) munmap(pointer(aligned + bytes), after);
  address_ = aligned;
  bytes_ = bytes;
}

AddressRange::~AddressRange() {
  if (bytes_ != 0) munmap(pointer(address_), bytes_);
}

void show(const PhysicalMemory& memory, std::uintptr_t address) {
  void* const shown =
      mmap(pointer(address), memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory.file, 0);
  refuse_if(shown == MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
}

void hide(std::uintptr_t address, std::size_t bytes) {
  void* const hidden = mmap(pointer(address), bytes, PROT_NONE, reserved | MAP_FIXED, -1, 0);
  refuse_if(hidden == MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
}

} // namespace cuevent::sim
