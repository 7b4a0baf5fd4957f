// SPDX-License-Identifier: MIT
// The memory in which the ranks of one communicator meet. Each rank is a thread of any process of this user.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace cuevent::sim::nccl {

/// Each rank has a device of its own. The simulator has at most this many devices.
inline constexpr unsigned most_ranks = 8;

/// The ranks only store to their own part, and wait for nobody while they hold anything. So a rank that dies
/// holds up nothing but the collectives that it has not joined.
/// Thread-safety: one thread for each function whose name begins with `wait`; any number for the others.
class Meeting {
public:
  using Name = std::array<std::uint64_t, 2>; ///< random
  /// Makes the memory of a communicator. It disappears once all ranks are there, or with this process. If the
  /// process was killed, it disappears when another process makes one.
  static Name create();
  static std::string digits_of(const Name&); ///< hexadecimal

  using Stopped = std::function<bool()>; ///< asked while a rank waits

  /// Takes the place of a rank. Throws Failure if the memory is not what create() makes.
  Meeting(const Name&, unsigned ranks, unsigned rank, std::uint32_t device);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting();

  /// Waits until all ranks are there. Throws Failure if one has died or uses the same
  /// device, or if `stopped`.
  void wait_for_all(const Stopped& stopped) const;

  /// Bytes that a rank shows to others, for collectives and transfers that move values. More are not moved.
  static constexpr std::size_t largest_parcel = 64 << 10, largest_sent_parcel = 16 << 10;
  /// A kernel with more transfers to one rank moves none of them.
  static constexpr std::size_t most_sent_parcels = 4;

  /// Says that the rank has begun the collective, and returns its number, from 1.
  std::uint64_t begin(std::uint64_t what, const void* parcel, std::size_t bytes);
  /// Of a rank, while this rank is in the collective that all have begun. Changes nothing if the rank has
  /// shown nothing.
  void read_parcel(std::uint64_t number, unsigned rank, void* to, std::size_t bytes) const;
  /// Whether all ranks have begun the same collective as this number. If they differ, this never holds.
  bool all_have_begun(std::uint64_t number, std::uint64_t what) const;

  enum class Direction { send, receive };
  struct Transfer {
    Direction direction;
    unsigned peer;
    std::uint64_t bytes;
  };
  /// Both sides count the transfers from one rank to another.
  std::uint64_t begin(const Transfer&, const void* parcel);
  /// Of the sender, while this rank is in the kernel with the transfer, which the sender has begun.
  void read_parcel(const Transfer&, std::uint64_t number, void* to) const;
  bool other_side_has_begun(const Transfer&, std::uint64_t number) const;

  /// A new communicator of the ranks with the same color, in the order of their keys and then of their ranks.
  struct Split {
    Name name;
    unsigned ranks, rank;
  };
  /// Waits for all ranks. Without a color (-1), there is no new communicator, and no ranks.
  Split wait_for_split(int color, int key, const Stopped& stopped);

  /// The others need not wait for this rank any more.
  void leave();

  unsigned ranks() const { return ranks_; }
  unsigned rank() const { return rank_; }

private:
  struct Memory;
  struct Parcel;
  void show(const Parcel&, std::uint64_t number, const void* from, std::size_t bytes);
  static void read(const Parcel&, std::uint64_t number, void* to, std::size_t bytes);

  bool is_there(unsigned rank) const;
  enum class Needed { it, all };
  template <class Holds>
  void wait_until(Holds, unsigned rank, Needed, const Stopped& stopped) const;

  Memory* memory_ = nullptr;
  int file_ = -1;
  std::string path_;
  unsigned ranks_, rank_;
  std::uint64_t splits_ = 0;
};

} // namespace cuevent::sim::nccl
