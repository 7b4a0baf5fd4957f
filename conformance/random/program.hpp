// SPDX-License-Identifier: MIT
// A program of driver calls, as data. Objects are named by slots: event e3, stream s1, graph g0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace conformance {

inline constexpr int thread_slots = 3;
inline constexpr int context_slots = 6;
inline constexpr int primary_context = 0; // of device 0, as the next two
inline constexpr int created_context = 1;
inline constexpr int green_context = 2;
inline constexpr int far_primary_context = 3; // of device 1
inline constexpr int far_created_context = 4;
inline constexpr int partner_context = 5; // of the other process
inline constexpr int stream_slots = 6;
inline constexpr int event_slots = 8;
inline constexpr int graph_slots = 4;
inline constexpr int exec_slots = 4;
inline constexpr int gate_slots = 6;
inline constexpr int memory_slots = 4;
inline constexpr int pool_slots = 2;
inline constexpr int library_slots = 2;
inline constexpr int partner_streams = 2;
inline constexpr int no_object = -1;   // a null handle or pointer, or no context
inline constexpr int null_object = -2; // a null graph or exec; with no_object there, the call is left out
inline constexpr unsigned null_result = 1u << 31; // in Call::flags: no place for what the call returns

/// A stream is a slot, or one of these.
inline constexpr int null_stream = -1;
inline constexpr int legacy_stream = -2;
inline constexpr int per_thread_stream = -3;

/// The parameters of each operation, in the order of Call::arguments; `f` stands for Call::flags.
enum class Op : std::uint8_t {
#define OP(name, form) name,
#include "operations.inc"
#undef OP
};

struct Call {
  Op op{};
  int arguments[3] = {};
  unsigned flags = 0;
  int thread = 0;
};

using Program = std::vector<Call>;

std::string_view form_of(Op);
std::string text_of(const Call&);
std::string text_of(const Program&); ///< one call a line
std::uint64_t fingerprint(const Program&);

/// What a program draws from. The seed decides: each profile has a million seeds.
enum class Profile {
  narrow,
  wide,        ///< also three threads, a green context, launches that record events, and updates of execs
  two_devices, ///< also contexts of a second device, and peer access
  imported,    ///< also events of another process, and calls that the other process makes
  nulls,       ///< wide, and each handle and each pointer to a result is null in some calls
  memory,      ///< the same, with memory: allocations, copies and fills
  broad, ///< the same, with memory pools, managed memory, copies of boxes, queries of pointers, libraries,
         ///< and child graphs, copies and fills as nodes
};
inline constexpr std::uint64_t seeds_of_a_profile = 1'000'000;
Profile profile_of(std::uint64_t seed);
int devices_needed(std::uint64_t seed);

/// The program of a seed. A seed means the same program forever: whoever changes the generator
/// records again.
Program program_of(std::uint64_t seed);

} // namespace conformance
