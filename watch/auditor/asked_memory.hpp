// SPDX-License-Identifier: MIT
// What an address is, as the driver tells, asked once for each address that a copy or a fill uses.
#pragma once

#include "auditor/libraries.hpp"

#include <atomic>
#include <cstdint>

namespace watch {

/// Addresses that were asked about since the last free. A lost one is asked about again.
struct AskedAddresses {
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint64_t> places[1U << 12]; // by a hash of the address
};

struct FoundMemory {
  bool is_managed = false;           // then the host sees it
  std::uint64_t begin = 0, size = 0; // size 0: the driver does not know it
};

/// After a successful call with this address.
FoundMemory found_memory(const Library& library, std::uint64_t address);

/// Whether it is to be asked about. The next answer is yes only after `forget_asked_addresses()`.
bool is_unasked(std::uint64_t address);
/// Other memory may get the addresses of what the program frees.
void forget_asked_addresses();

} // namespace watch
