// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "kernel_gate.hpp"

#include <initializer_list>
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

std::shared_ptr<Function> Api::launchable(CUfunction handle, std::initializer_list<unsigned> grid,
                                          std::initializer_list<unsigned> block, unsigned shared,
                                          const std::shared_ptr<Context>& in) {
  auto function = callable(handle, in);
  unsigned most_blocks = 2'147'483'647; // along the first axis
  for (unsigned extent : grid) {
    refuse_if(extent == 0 || extent > most_blocks, CUDA_ERROR_INVALID_VALUE);
    most_blocks = 65'535;
  }
  unsigned long long threads = 1;
  for (unsigned extent : block)
    threads *= extent;
  const KernelCode& code = code_of(*function);
  refuse_if(threads == 0 || threads > static_cast<unsigned long long>(code.most_threads) ||
                shared > static_cast<unsigned>(most_dynamic_shared(code, *function->settings)),
            CUDA_ERROR_INVALID_VALUE);
  return function;
}

void Api::launch(const Function& function, const std::shared_ptr<Stream>& where) {
  refuse_if(function.module->home.context->family() != where->home.context->family(),
            CUDA_ERROR_INVALID_HANDLE);
  submit(where, kernel_work(function));
}

void Api::capture_launch(const Function& function, const std::shared_ptr<Stream>& where,
                         const CUDA_KERNEL_NODE_PARAMS& parameters) {
  refuse_if(function.module->home.context->family() != where->home.context->family(),
            CUDA_ERROR_INVALID_HANDLE);
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
  auto function =
      launchable(handle, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, on->home.context);
  refuse_if(parameters == nullptr && extra == nullptr && !code_of(*function).parameters.empty(),
            CUDA_ERROR_INVALID_VALUE);
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
  auto function =
      launchable(handle, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, on->home.context);
  refuse_if(parameters == nullptr && !code_of(*function).parameters.empty(), CUDA_ERROR_INVALID_VALUE);
  const int fit = blocks_that_fit(*function, static_cast<int>(block_x * block_y * block_z), shared);
  refuse_if(1ULL * grid_x * grid_y * grid_z > static_cast<unsigned long long>(fit) * multiprocessors,
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  launch(*function, on);
  return CUDA_SUCCESS;
}

namespace {

/// CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, since CUDA 12.4, and the last one of CUDA 13.0.
constexpr int updatable = 13, last_launch_attribute = 18;

} // namespace

CUresult Api::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** parameters,
                               void** extra) {
  refuse_if(config == nullptr || (config->attrs == nullptr && config->numAttrs != 0),
            CUDA_ERROR_INVALID_VALUE);
  auto where = stream(config->hStream);
  const bool captured = capturing(*where);
  implicit_check(*where);
  auto function = launchable(handle, {config->gridDimX, config->gridDimY, config->gridDimZ},
                             {config->blockDimX, config->blockDimY, config->blockDimZ},
                             config->sharedMemBytes, where->home.context);
  std::shared_ptr<Event> at_start;
  std::shared_ptr<Event> at_end;
  auto accepted = [&](CUevent event_handle, int flags, unsigned refused_kinds) {
    auto asked = event(event_handle);
    refuse_if((flags & ~CU_EVENT_RECORD_EXTERNAL) != 0, CUDA_ERROR_INVALID_VALUE);
    refuse_if(flags != 0, captured ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_ILLEGAL_STATE);
    refuse_if(asked->home.context->family() != where->home.context->family(), CUDA_ERROR_INVALID_HANDLE);
    refuse_if(captured && asked->interprocess(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    refuse_if(asked->timed() || (asked->flags & refused_kinds) != 0, CUDA_ERROR_NOT_SUPPORTED);
    return asked;
  };
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    refuse_if(attribute.id == updatable && !captured && attribute.value.cooperative != 0,
              CUDA_ERROR_NOT_SUPPORTED);
    refuse_if(attribute.id > last_launch_attribute, CUDA_ERROR_INVALID_VALUE);
    switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: {
      const auto& value = attribute.value.programmaticEvent;
      at_end = accepted(value.event, value.flags, CU_EVENT_INTERPROCESS);
      break;
    }
#if CUDA_VERSION >= 12030
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: {
      if (computer_.options.driver_version < 12030)
        not_modelled("a launch completion event before CUDA 12.3");
      const auto& value = attribute.value.launchCompletionEvent;
      at_start = accepted(value.event, value.flags, CU_EVENT_INTERPROCESS | CU_EVENT_BLOCKING_SYNC);
      break;
    }
#endif
    default:
      not_modelled("launch attribute " + std::to_string(static_cast<int>(attribute.id)));
    }
  }
  if (captured) {
    capture_launch(*function, where,
                   {handle, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                    config->blockDimY, config->blockDimZ, config->sharedMemBytes, parameters, extra, nullptr,
                    nullptr});
    for (auto& event : {at_start, at_end}) {
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
