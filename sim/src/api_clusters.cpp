// SPDX-License-Identifier: MIT
// How many clusters of blocks fit on the device. The multiprocessors are in groups, which differ between the
// devices of one model too. A cluster needs a group with as many multiprocessors as it has blocks. Here the
// groups are as on the H100 that was asked.

#include "api.hpp"
#include "launch_attributes.hpp"

#include <algorithm>

namespace cuevent::sim {

namespace {

constexpr int groups[] = {18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2};
constexpr int most_blocks_of_clusters = 8; // of a multiprocessor
constexpr int portable_cluster = 8, largest_cluster = 16;

int clusters_that_fit(int blocks_of_cluster, int blocks_of_processor) {
  int count = 0;
  for (const int group : groups)
    if (group >= blocks_of_cluster) count += group * blocks_of_processor / blocks_of_cluster;
  return count;
}

} // namespace

/// The cluster that a launch of this shape has. Zeros: none.
Cluster Api::checked_cluster(const Function& function, const LaunchShape& shape,
                             const std::optional<Cluster>& wish) {
  const KernelCode& code = code_of(function);
  const auto required = required_cluster(code, *function.settings);
  refuse_if(code.explicit_cluster && required == Cluster{} && !wish, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  refuse_if(required != Cluster{} && wish && *wish != required, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  const Cluster cluster = wish ? *wish : required;
  if (cluster == Cluster{}) return cluster;
  const long long blocks = 1LL * cluster[0] * cluster[1] * cluster[2];
  refuse_if(blocks == 0 || (blocks > portable_cluster && function.settings->cluster_beyond == 0),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
  for (std::size_t i = 0; i < 3; ++i)
    refuse_if(shape.grid[i] % static_cast<unsigned>(cluster[i]) != 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  return cluster;
}

struct Api::ClusterLaunch {
  long long blocks_of_cluster; ///< 0: no cluster
  int blocks_of_processor;
  bool beyond; ///< clusters that no other device may take
};

Api::ClusterLaunch Api::cluster_launch(const int* out, CUfunction handle, const CUlaunchConfig* config) {
  refuse_if(out == nullptr || handle == nullptr || config == nullptr ||
                (config->attrs == nullptr && config->numAttrs != 0),
            CUDA_ERROR_INVALID_VALUE);
  if (config->hStream == nullptr) current_context();
  const auto on = config->hStream != nullptr ? stream(config->hStream) : nullptr;
  const auto user = on ? on->home.context : thread().contexts.back();
  const auto function = callable(handle, on ? user : nullptr);
  refuse_if(user->family() != function->module->home.context->family(), CUDA_ERROR_INVALID_HANDLE);
  const unsigned long long threads =
      1ULL * config->blockDimX * config->blockDimY * std::min(config->blockDimZ, 65'536U);
  const LaunchShape shape = shape_of(*config);
  refuse_if(!shape.has_possible_grid() || threads == 0, CUDA_ERROR_INVALID_VALUE);
  const auto attributes = launch_attributes(*config, *user, on && on->capture);
  const Cluster cluster = checked_cluster(*function, shape, attributes.cluster);
  const bool beyond = function->settings->cluster_beyond != 0;
  const long long blocks = 1LL * cluster[0] * cluster[1] * cluster[2];
  const int fit =
      blocks_that_fit(*function, static_cast<int>(std::min(threads, 65'536ULL)), config->sharedMemBytes);
  return {blocks, std::min(fit, most_blocks_of_clusters), beyond};
}

CUresult Api::cuOccupancyMaxActiveClusters(int* count, CUfunction handle, const CUlaunchConfig* config) {
  const ClusterLaunch launch = cluster_launch(count, handle, config);
  *count = launch.blocks_of_cluster == 0
               ? 0
               : clusters_that_fit(static_cast<int>(std::min(launch.blocks_of_cluster, 1'000'000LL)),
                                   launch.blocks_of_processor);
  return CUDA_SUCCESS;
}

CUresult Api::cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle, const CUlaunchConfig* config) {
  const ClusterLaunch launch = cluster_launch(size, handle, config);
  const int largest = launch.beyond ? largest_cluster : portable_cluster;
  *size = launch.blocks_of_processor == 0 ? 0 : largest;
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
