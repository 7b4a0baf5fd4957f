// SPDX-License-Identifier: MIT
// The collectives that a process has submitted to a stream, so that the ranks of a job can be compared.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace watch {

/// What a kernel of NCCL does, by its name. Ranks differ by right in what they send and receive.
enum class NcclWork { none, collective, send_receive };
NcclWork nccl_work_of(std::string_view kernel);

/// "AllReduce_Sum_f32_RING_LL" for the kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL(...).
std::string collective_name(const std::string& kernel);

/// How many there were, the names of the last ones, and a hash of all names. `merge/hang_sequence.hpp` takes
/// names back out of the hash, so that a common beginning can be recognised without the names in it.
class CollectiveSequence {
public:
  static constexpr std::size_t names_kept = 256;
  static constexpr std::uint64_t hash_factor = 0x9E37'79B9'7F4A'7C15; // odd

  static std::uint64_t hash_of(std::string_view name);

  /// `call` is the number of the call among those that have submitted work to the stream, from 0.
  void add(std::uint64_t call, std::string name);

  struct Collective {
    std::uint64_t call;
    std::string name;
  };
  std::uint64_t count() const { return count_; }
  std::uint64_t hash() const { return hash_; }
  const std::deque<Collective>& last() const { return last_; }

  /// How many of them are among the first calls, if they are among the last names.
  std::uint64_t among_first(std::uint64_t calls) const;

private:
  std::uint64_t count_ = 0, hash_ = 0;
  std::deque<Collective> last_;
};

} // namespace watch
