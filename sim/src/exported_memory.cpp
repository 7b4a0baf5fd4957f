// SPDX-License-Identifier: MIT
#include "exported_memory.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

namespace cuevent::sim {

namespace {

constexpr const char* memory_file = "memory";

void* pointer_to(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

bool write_all(int file, std::uintptr_t from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = pwrite(file, pointer_to(from + done), bytes - done, static_cast<off_t>(done));
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

bool show_file(int file, std::uintptr_t address, std::size_t bytes) {
  return mmap(pointer_to(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
         MAP_FAILED;
}

} // namespace

std::unique_ptr<ExportedMemory> ExportedMemory::make(std::unique_ptr<std::byte[]>& block,
                                                     std::uintptr_t address, std::size_t bytes,
                                                     unsigned long long allocation) {
  const std::size_t size = whole_pages(bytes);
  std::unique_ptr<ExportedMemory> made(new ExportedMemory);
  OfferedFile& offered = made->identity_.file;
  offered = offer_file(memory_file, size);
  made->identity_.allocation = allocation;
  if (offered.number < 0 || !write_all(offered.number, address, bytes) ||
      !show_file(offered.number, address, size))
    return nullptr;
  made->address_ = address;
  made->block_ = std::move(block);
  return made;
}

void ExportedMemory::withdraw() { sim::withdraw(identity_.file); }

/// The pages are plain memory again before they go back to the heap. If the system refuses, they are lost.
ExportedMemory::~ExportedMemory() {
  withdraw();
  if (!block_) return;
  void* const plain = mmap(pointer_to(address_), identity_.file.bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (plain == MAP_FAILED) static_cast<void>(block_.release());
}

std::unique_ptr<ImportedMemory> ImportedMemory::open(const MemoryIdentity& identity) {
  const int file = open_offered_file(memory_file, identity.file);
  if (file < 0) return nullptr;
  void* const shown = mmap(nullptr, identity.file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  errno = error;
  if (shown == MAP_FAILED) return nullptr;
  std::unique_ptr<ImportedMemory> made(new ImportedMemory);
  made->identity_ = identity;
  made->address_ = reinterpret_cast<std::uintptr_t>(shown);
  return made;
}

ImportedMemory::~ImportedMemory() { munmap(pointer_to(address_), identity_.file.bytes); }

} // namespace cuevent::sim
