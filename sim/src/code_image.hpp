// SPDX-License-Identifier: MIT
// What the simulator reads in code: kernels and variables.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cuevent::sim {

inline constexpr int multiprocessors = 132;           // of the simulated device
inline constexpr std::size_t reserved_shared = 1'024; // the driver's part of a block's shared memory

/// Which inputs of a linker can use a name.
enum class Linkage : unsigned char {
  global, ///< all. Only one input may have it
  weak,   ///< all. The linker keeps one of several
  local,  ///< the one that has it
};

struct KernelCode {
  struct Parameter {
    std::size_t offset, size;
  };
  std::vector<Parameter> parameters;
  int most_threads = 1024;
  std::size_t shared = 0; ///< static
  int registers = 4;      ///< PTX does not say
  std::size_t local = 0;
  int cluster[3] = {}; ///< required; zero if none is
  bool explicit_cluster = false;
  Linkage linkage = Linkage::global;
};

struct Variable {
  std::size_t bytes = 0;
  bool constant = false;
  bool managed = false;
  Linkage linkage = Linkage::global;
  std::vector<std::byte> initial; ///< shorter than the variable: the rest is zero
};

/// By name.
struct CodeImage {
  std::vector<std::string> order; ///< of the kernels, as a library lists them. A module begins with the last
  std::map<std::string, KernelCode, std::less<>> kernels;
  std::map<std::string, Variable, std::less<>> variables;
  std::map<std::string, Linkage, std::less<>> functions; ///< that are no kernels
  std::map<std::string, std::set<std::string>> uses; ///< names in the instructions of each kernel or function
  std::set<std::string, std::less<>> elsewhere; ///< functions and kernels of other code, as PTX declares them
  bool relocatable = false;                     ///< for a linker. A device finds nothing that it can use
  int target = 0;                               ///< 75 for PTX of sm_75, or binary code that was made from it
};

CodeImage read_ptx(std::string_view text);

/// Whether the name is one of the functions that every linker and compiler of a device has.
bool is_built_in(std::string_view function);

/// Whether instructions use a function or a kernel that the code declares and lacks. Variables do not count.
bool needs_other_code(const CodeImage&);

} // namespace cuevent::sim
