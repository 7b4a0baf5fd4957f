// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "kernel_gate.hpp"
#include "launch_attributes.hpp"

#include <utility>

namespace cuevent::sim {

/// The launch decides how long a kernel runs and how it ends, in a graph too.
void Computer::set_up_kernel(Work& work) const {
  auto found = kernels.find(work.text);
  const Kernel& kernel = found != kernels.end() ? found->second : kernels.at("");
  work.duration = kernel.duration == endless ? never : kernel.duration.count();
  work.fault = kernel.fault;
}

std::shared_ptr<KernelGate>& next_kernel_gate() {
  static thread_local std::shared_ptr<KernelGate> gate;
  return gate;
}

Work Api::kernel_work(const Function& function) const {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work.text = function.name;
  computer_.set_up_kernel(work);
  if (const auto gate = std::exchange(next_kernel_gate(), nullptr))
    work.condition = [gate, launch = 0ULL]() mutable { return gate->open(gate->state, &launch) != 0; };
  return work;
}

std::shared_ptr<Function> Api::launchable(CUfunction handle, const LaunchShape& shape,
                                          const std::shared_ptr<Context>& in) {
  constexpr unsigned deepest_block = 64;
  auto function = callable(handle, in);
  refuse_if(in != nullptr && function->module->home.context->family() != in->family(),
            CUDA_ERROR_INVALID_HANDLE);
  refuse_if(!shape.has_possible_grid(), CUDA_ERROR_INVALID_VALUE);
  unsigned long long threads = 1;
  for (unsigned extent : shape.block)
    threads *= extent;
  const KernelCode& code = code_of(*function);
  refuse_if(threads == 0 || threads > static_cast<unsigned long long>(code.most_threads) ||
                shape.block[2] > deepest_block,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(shape.cooperative && !runs_at_once(*function, shape), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  refuse_if(shape.shared > static_cast<unsigned>(most_dynamic_shared(code, *function->settings)),
            CUDA_ERROR_INVALID_VALUE);
  return function;
}

namespace {

bool has_buffer(void* const* extra) {
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) return true;
  return false;
}

} // namespace

/// As a device does, reads the arguments at once, although no kernel uses them.
void Api::require_arguments(const Function& function, void* const* parameters, void* const* extra) {
  const auto& wanted = code_of(function).parameters;
  refuse_if(parameters == nullptr && !wanted.empty() && !has_buffer(extra), CUDA_ERROR_INVALID_VALUE);
  if (parameters == nullptr) return;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto* const bytes = static_cast<const volatile char*>(parameters[i]);
    if (bytes == nullptr) crash("argument " + std::to_string(i) + " of the kernel has no address");
    for (std::size_t read = 0; read < wanted[i].size; ++read)
      (void)bytes[read];
  }
}

void Api::launch(const Function& function, const std::shared_ptr<Stream>& where) {
  submit(where, kernel_work(function));
}

void Api::capture_launch(const Function& function, const std::shared_ptr<Stream>& where,
                         const CUDA_KERNEL_NODE_PARAMS& parameters) {
  Work work = kernel_work(function);
  work.parameters = kept_parameters(parameters, function);
  submit(where, std::move(work));
}

CUresult Api::cuLaunchKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                             unsigned int block_x, unsigned int block_y, unsigned int block_z,
                             unsigned int shared, CUstream where, void** parameters, void** extra) {
  const auto on = stream(where);
  const bool captured = capturing(*on);
  implicit_check(*on);
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
  auto function = launchable(handle, shape, on->home.context);
  require_arguments(*function, parameters, extra);
  if (captured)
    capture_launch(*function, on,
                   {handle, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, parameters, extra,
                    nullptr, nullptr});
  else
    launch(*function, on);
  return CUDA_SUCCESS;
}

CUresult Api::cuLaunchCooperativeKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y,
                                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared, CUstream where,
                                        void** parameters) {
  const auto on = stream(where);
  capturing(*on);
  implicit_check(*on);
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, true};
  auto function = launchable(handle, shape, on->home.context);
  require_arguments(*function, parameters, nullptr);
  launch(*function, on);
  return CUDA_SUCCESS;
}

CUresult Api::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** parameters,
                               void** extra) {
  refuse_if(config == nullptr || (config->attrs == nullptr && config->numAttrs != 0),
            CUDA_ERROR_INVALID_VALUE);
  auto where = stream(config->hStream);
  const bool captured = capturing(*where);
  implicit_check(*where);
  auto function = launchable(handle, shape_of(*config), where->home.context);
  const LaunchAttributes attributes = launch_attributes(*config, *where->home.context, captured);
  require_arguments(*function, parameters, extra);
  if (attributes.cluster) {
    checked_cluster(*function, shape_of(*config), attributes.cluster);
    not_modelled("launches in clusters of blocks");
  }
  if (!attributes.unmodelled.empty()) not_modelled(attributes.unmodelled);
  const auto &at_start = attributes.at_start, &at_end = attributes.at_end;
  if (captured) {
    capture_launch(*function, where,
                   {handle, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                    config->blockDimY, config->blockDimZ, config->sharedMemBytes, parameters, extra, nullptr,
                    nullptr});
    for (const auto& event : {at_start, at_end}) {
      if (!event) continue;
      recorded(*event, nullptr);
      event->recording->capture = where->capture;
      event->recording->frontier = where->frontier;
    }
    return CUDA_SUCCESS;
  }
  // Part of the launch, so it takes no time of its own.
  auto record_free = [&](const std::shared_ptr<Event>& event) {
    Work work = record_work(event);
    work.duration = 0;
    recorded(*event, enqueue(where, std::move(work), {}));
  };
  if (at_start) record_free(at_start);
  launch(*function, where);
  if (at_end) record_free(at_end);
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
