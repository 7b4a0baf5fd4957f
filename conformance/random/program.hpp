// SPDX-License-Identifier: MIT
// A program of driver calls, as data. Objects are named by slots: event e3, stream s1, graph g0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace conformance {

inline constexpr int thread_slots = 3;
inline constexpr int context_slots = 3;
inline constexpr int primary_context = 0; // of device 0, as all of them
inline constexpr int created_context = 1;
inline constexpr int green_context = 2;
inline constexpr int stream_slots = 6;
inline constexpr int event_slots = 8;
inline constexpr int graph_slots = 4;
inline constexpr int exec_slots = 4;
inline constexpr int gate_slots = 6;
inline constexpr int no_object = -1; // a null handle, or no context

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

std::string text_of(const Call&);
std::string text_of(const Program&); ///< one call a line
std::uint64_t fingerprint(const Program&);

/// The program of a seed. A seed means the same program forever: whoever changes the generator records
/// again. Seeds from `first_wide_seed` on draw from more: three threads, a green context, kernels whose
/// launch records an event, and updates of an exec from a graph.
Program program_of(std::uint64_t seed);
inline constexpr std::uint64_t first_wide_seed = 1'000'000;

} // namespace conformance
