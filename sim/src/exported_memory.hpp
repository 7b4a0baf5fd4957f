// SPDX-License-Identifier: MIT
#pragma once

#include "os_process.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace cuevent::sim {

/// Which memory of which process a handle names.
struct MemoryIdentity {
  OfferedFile file;
  unsigned long long allocation = 0; ///< Allocation::number

  bool operator==(const MemoryIdentity& other) const {
    return file.process == other.file.process && file.inode == other.file.inode &&
           allocation == other.allocation;
  }
};

/// Memory of cuMemAlloc that was exported: its pages show a file, which other processes can open. Memory that
/// nobody exports has no file, because a process may open only so many.
class ExportedMemory {
public:
  /// Takes the block, whose pages from the address on belong to nothing else. Null, and the block stays where
  /// it is, if the system makes no file.
  static std::unique_ptr<ExportedMemory> make(std::unique_ptr<std::byte[]>& block, std::uintptr_t address,
                                              std::size_t bytes, unsigned long long allocation);
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;
  ~ExportedMemory();

  /// Nobody can open it any more. Who has opened it keeps it.
  void withdraw();
  const MemoryIdentity& identity() const { return identity_; }

private:
  ExportedMemory() = default;

  std::unique_ptr<std::byte[]> block_;
  std::uintptr_t address_ = 0;
  MemoryIdentity identity_;
};

/// Memory of another process, shown at an address of this one.
class ImportedMemory {
public:
  /// Null, with `errno` set, if the file is not there, or the system gives no addresses.
  static std::unique_ptr<ImportedMemory> open(const MemoryIdentity&);
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
  ~ImportedMemory();

  std::uintptr_t address() const { return address_; }
  const MemoryIdentity& identity() const { return identity_; }

  unsigned opened = 1;           ///< how often. Each close ends one
  bool opened_as_before = false; ///< by the function as it was before CUDA 11.0

private:
  ImportedMemory() = default;

  MemoryIdentity identity_;
  std::uintptr_t address_ = 0;
};

} // namespace cuevent::sim
