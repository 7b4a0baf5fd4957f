// SPDX-License-Identifier: MIT
#include "auditor/kernel_parameters.hpp"

#include "auditor/state.hpp"

#include <iterator>

namespace watch {

namespace {

constexpr std::uint32_t places_tried = 16;
constexpr std::uint32_t most_parameters = 4096; // of a kernel

using Place = KernelParameters::Place;

constexpr std::uint64_t unknown = 0xFFFF;             // in place of the count
constexpr std::uint64_t changing = ~std::uint64_t{0}; // of no generation

std::uint64_t packed(std::uint64_t first, std::uint64_t count, std::uint32_t born) {
  return first | count << 24U | std::uint64_t{born} << 40U;
}

/// The count, or `unknown`. A function handle may be one of a CUkernel, which has its own question.
std::uint64_t ask(const Library& library, CUfunction function, Parameter* into, std::uint32_t room) {
  using Ask = CUresult (*)(CUfunction, std::size_t, std::size_t*, std::size_t*);
  const OwnCalls own(library);
  for (const Ask question : {library.parameters.of_function, library.parameters.of_kernel}) {
    if (question == nullptr) continue;
    for (std::uint32_t i = 0; i <= room; ++i) {
      std::size_t offset = 0, size = 0;
      const CUresult result = question(function, i, &offset, &size);
      if (result == CUDA_ERROR_INVALID_HANDLE && i == 0) break; // of the other kind
      if (result == CUDA_ERROR_INVALID_VALUE) return i;         // behind the last one
      if (result != CUDA_SUCCESS || i == room || offset > 0xFFFF || size > 0xFFFF) return unknown;
      into[i] = {static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(size)};
    }
  }
  return unknown;
}

Parameters unpacked(std::uint64_t where) {
  const std::uint64_t count = where >> 24U & 0xFFFF;
  if (count == unknown) return {};
  return {true, static_cast<std::uint32_t>(count), cleared_by_fork->parameters.all + (where & 0xFF'FFFF)};
}

} // namespace

Parameters parameters_of(const Library& library, CUfunction function) {
  const auto handle = reinterpret_cast<std::uintptr_t>(function);
  KernelParameters& known = cleared_by_fork->parameters;
  const std::uint32_t now = known.generation.load(std::memory_order_acquire);
  const std::uint64_t hash = (handle * 0x9E37'79B9'7F4A'7C15U) >> 40U;
  for (std::uint32_t i = 0; i < places_tried; ++i) {
    const Place& place = known.places[(hash + i) % std::size(known.places)];
    if (place.function.load(std::memory_order_acquire) != handle) continue;
    const std::uint64_t where = place.where.load(std::memory_order_acquire);
    if (where >> 40U == now && place.function.load(std::memory_order_relaxed) == handle)
      return unpacked(where);
  }
  const Locked lock(known.lock);
  const std::uint32_t first = known.used.load(std::memory_order_relaxed);
  const std::uint32_t left = static_cast<std::uint32_t>(std::size(known.all)) - first;
  const std::uint32_t room = left < most_parameters ? left : most_parameters;
  const std::uint64_t count = ask(library, function, known.all + first, room);
  if (count != unknown)
    known.used.store(first + static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  const std::uint64_t where = packed(first, count, now);
  for (std::uint32_t i = 0; i < places_tried; ++i) {
    Place& place = known.places[(hash + i) % std::size(known.places)];
    const std::uint64_t owner = place.function.load(std::memory_order_relaxed);
    const bool is_old = place.where.load(std::memory_order_relaxed) >> 40U != now;
    if (owner != handle && owner != 0 && !is_old) continue;
    // A reader looks at the function again, so that it never takes another one's parameters.
    place.where.store(changing, std::memory_order_release);
    place.function.store(handle, std::memory_order_release);
    place.where.store(where, std::memory_order_release);
    break;
  }
  return unpacked(where);
}

void forget_parameters() { cleared_by_fork->parameters.generation.fetch_add(1, std::memory_order_release); }

} // namespace watch
