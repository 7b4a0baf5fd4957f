// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"
#include "object.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace cuevent::sim {

/// Memory without an address: a file without a name, which any number of addresses can show. It lives while a
/// handle or an address refers to it. Other processes can open the file.
struct PhysicalMemory : Object {
  ~PhysicalMemory() override;

  std::size_t bytes = 0;
  CUmemAllocationProp properties{};
  unsigned references = 1; ///< that cuMemRelease ends
  unsigned mappings = 0;   ///< addresses that show it
  int file = -1;
};

/// What an address shows, and which devices may use the address.
struct Mapping {
  std::shared_ptr<PhysicalMemory> memory;
  std::map<int, unsigned> access; ///< CUmemAccess_flags, by device

  unsigned access_of(int device) const {
    const auto found = access.find(device);
    return found == access.end() ? unsigned{CU_MEM_ACCESS_FLAGS_PROT_NONE} : found->second;
  }
  /// To one device, or to any if none is given.
  bool allows(unsigned wanted, std::optional<int> device = std::nullopt) const {
    return std::any_of(access.begin(), access.end(), [&](const auto& each) {
      return (each.second & wanted) == wanted && each.first == device.value_or(each.first);
    });
  }
};

/// A range of addresses that nothing else gets. Memory can be shown in it.
class AddressRange {
public:
  AddressRange() = default;
  /// At the wish if its place is free. Empty if the system has no such range.
  AddressRange(std::size_t bytes, std::size_t alignment, std::uintptr_t wish);
  AddressRange(AddressRange&& other) noexcept { swap(other); }
  AddressRange& operator=(AddressRange&& other) noexcept {
    swap(other);
    return *this;
  }
  ~AddressRange();

  std::uintptr_t address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  bool contains(std::uintptr_t address, std::size_t bytes) const {
    return address >= address_ && address - address_ <= bytes_ && bytes <= bytes_ - (address - address_);
  }

private:
  void swap(AddressRange& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }

  std::uintptr_t address_ = 0;
  std::size_t bytes_ = 0;
};

/// The first part of the kind of the file, before its place.
inline constexpr const char* physical_file = "physical:";

/// Makes the file. `number` is the one of its device in the machine. False if the system makes no file.
bool make_file(PhysicalMemory&, int number);

/// Shows the memory at an address inside of a range.
void show(const PhysicalMemory&, std::uintptr_t address);
/// Nothing is at these addresses any more. They stay reserved.
void hide(std::uintptr_t address, std::size_t bytes);

} // namespace cuevent::sim
