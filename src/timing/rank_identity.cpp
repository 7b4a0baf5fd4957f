// SPDX-License-Identifier: MIT
#include "timing/rank_identity.hpp"

#include <cuevent/error.hpp>

#include <charconv>
#include <cstdlib>
#include <unistd.h>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

struct Launcher {
  const char *rank, *size, *local_rank;
};
// torchrun first, because mpirun or srun may have started it once for each host.
constexpr Launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

[[noreturn]] void fail_for_rank(const std::string& why) {
  throw_error(CUDA_ERROR_INVALID_VALUE, "RankIdentity::from_environment", why.c_str());
}

unsigned number_in(const VariableOf& value_of, const char* variable) {
  const std::string_view text = value_of(variable);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail_for_rank(std::string("the environment variable ") + variable + " is \"" + std::string(text) +
                  "\", which is not a number: start the program with its launcher, or unset the variable");
  return number;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  return gethostname(name, sizeof name) == 0 ? name : "";
}

} // namespace

std::optional<RankIdentity> rank_identity_in(const VariableOf& value_of) {
  for (const Launcher& launcher : launchers) {
    if (value_of(launcher.rank) == nullptr || value_of(launcher.size) == nullptr) continue;
    RankIdentity identity{.rank = number_in(value_of, launcher.rank),
                          .size = number_in(value_of, launcher.size),
                          .host = host_name()};
    if (value_of(launcher.local_rank) != nullptr)
      identity.local_rank = number_in(value_of, launcher.local_rank);
    if (identity.rank >= identity.size)
      fail_for_rank(std::string(launcher.rank) + " is " + std::to_string(identity.rank) + " and " +
                    launcher.size + " is " + std::to_string(identity.size) +
                    ": a rank is less than the size; correct or unset the variables");
    return identity;
  }
  return std::nullopt;
}

std::optional<RankIdentity> RankIdentity::from_environment() {
  return rank_identity_in([](const char* variable) -> const char* { return std::getenv(variable); });
}

}} // namespace cuevent::CUEVENT_ABI
