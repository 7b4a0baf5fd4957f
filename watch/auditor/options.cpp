// SPDX-License-Identifier: MIT
#include "auditor/options.hpp"

#include "auditor/kernel_calls.hpp"
#include "auditor/state.hpp"

#include "../../environment/unknown_variables.hpp"

#include <cstdlib>
#include <cstring>

namespace watch {

namespace {

void warn(const char* text) {
  char line[300] = "cuevent watch: warning: ";
  std::memcpy(line + std::strlen(line), text, std::strlen(text) + 1);
  const std::size_t length = std::strlen(line);
  line[length] = '\n';
  syscall(SYS_write, 2, line, length + 1);
}

Stacks stacks_wanted() {
  const char* const stacks = std::getenv("CUEVENT_WATCH_STACKS");
  if (stacks != nullptr && std::strcmp(stacks, "all") == 0) return Stacks::all;
  if (stacks != nullptr && std::strcmp(stacks, "none") == 0) return Stacks::none;
  return Stacks::usual;
}

std::uint32_t features_wanted() {
  std::uint32_t features = 0;
  const char* digit = std::getenv("CUEVENT_WATCH_FEATURES");
  for (; digit != nullptr && *digit >= '0' && *digit <= '9'; ++digit)
    features = 10 * features + static_cast<std::uint32_t>(*digit - '0');
  return features;
}

} // namespace

bool read_environment() {
  Options& options = state.options;
  const char* const folder = std::getenv("CUEVENT_WATCH");
  if (folder == nullptr || *folder == '\0' || std::strlen(folder) >= sizeof options.folder) return false;
  std::memcpy(options.folder, folder, std::strlen(folder) + 1);
  environment::for_each_unknown_variable(environment::Product::tools, &warn);
  options.stacks = stacks_wanted();
  options.is_quiet = std::strcmp(folder, "quiet") == 0;
  options.features = options.is_quiet ? probes | blocking_calls : features_wanted();
  if (options.is_quiet && !prepare_quiet_mode()) return false;
  if (!prepare_jitter()) options.features &= ~std::uint32_t{jitter};
  return prepare_state();
}

} // namespace watch
