// SPDX-License-Identifier: MIT
// Runs seeds in worker processes, which keep their contexts from seed to seed. A seed that ends its process, or
// hangs, runs once more in a process of its own. If it ends that one too, the end is part of its answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace conformance {

struct Seeds {
  std::uint64_t first = 1, last = 0;
};

struct RunOptions {
  std::string library = "libcuda.so.1";
  Seeds seeds;
  int jobs = 1;
  std::chrono::seconds time_limit = std::chrono::hours(24); ///< then the seeds that are left are not run
};

struct NoDriver : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Gives the answers of each seed to the sink, in any order. Throws NoDriver if the library or the device cannot be used.
/// The running program is started again for the workers, and has to pass its arguments to worker_main first.
void run_seeds(const RunOptions&,
               const std::function<void(std::uint64_t seed, const std::string& answers)>& sink);

/// The answers of one seed, in a process of its own.
std::string run_alone(const std::string& library, std::uint64_t seed);

/// If these arguments are those of a worker, does its work and does not return.
void worker_main(int argc, char** argv);

} // namespace conformance
