// SPDX-License-Identifier: MIT
#include "api.hpp"

#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace cuevent::sim {

namespace {

constexpr double newest_ptx = 9.0; // of the modelled driver

/// ELF files, and those of several, with or without their wrapper. They are not looked into.
bool is_binary(std::string_view image) {
  using namespace std::string_view_literals;
  for (const auto beginning : {"\x7f"
                               "ELF"sv,
                               "\x50\xed\x55\xba"sv, "\xb1\x43\x62\x46"sv})
    if (image.starts_with(beginning)) return true;
  return false;
}

/// What a device says of text that is no PTX, or too new. There is no compiler to find other mistakes.
CUresult verdict_on(std::string_view image) {
  constexpr std::string_view version = ".version";
  if (is_binary(image)) return CUDA_SUCCESS;
  const std::size_t found = image.find(version);
  if (found == std::string_view::npos) return CUDA_ERROR_INVALID_IMAGE;
  return std::strtod(image.data() + found + version.size(), nullptr) > newest_ptx
             ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
             : CUDA_SUCCESS;
}

} // namespace

CUresult Api::cuModuleLoadData(CUmodule* out, const void* image) {
  auto home = context_to_create_in();
  refuse_if(out == nullptr || image == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (const CUresult verdict = verdict_on(static_cast<const char*>(image)); verdict != CUDA_SUCCESS)
    refuse(verdict);
  auto loaded = make<Module>(Kind::module, home.get());
  loaded->home = {home, home->generation};
  loaded->image = static_cast<const char*>(image);
  *out = as<CUmodule>(*loaded);
  return CUDA_SUCCESS;
}

CUresult Api::cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*, void**) {
  return cuModuleLoadData(out, image); // there is no compiler to use the options
}

CUresult Api::cuModuleUnload(CUmodule handle) {
  auto gone = find<Module>(handle, Kind::module);
  require_alive(gone->home, *gone);
  computer_.handles.remove(*gone, ending());
  return CUDA_SUCCESS;
}

CUresult Api::cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  refuse_if(out == nullptr || name == nullptr || *name == '\0', CUDA_ERROR_INVALID_VALUE);
  auto module = find<Module>(handle, Kind::module);
  require_alive(module->home, *module);
  // The name is searched in text. A binary image cannot be searched.
  refuse_if(!is_binary(module->image) && module->image.find(name) == std::string::npos, CUDA_ERROR_NOT_FOUND);
  auto function = make<Function>(Kind::function, module->home.context.get());
  function->module = module;
  function->name = name;
  *out = as<CUfunction>(*function);
  return CUDA_SUCCESS;
}

namespace {

Work kernel_work(const Function& function) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work.text = function.name;
  return work;
}

} // namespace

/// The launch decides how long a kernel runs and how it ends, in a graph too.
void Computer::set_up_kernel(Work& work) const {
  auto found = kernels.find(work.text);
  const Kernel& kernel = found != kernels.end() ? found->second : kernels.at("");
  work.duration = kernel.duration == endless ? never : kernel.duration.count();
  work.fault = kernel.fault;
}

std::shared_ptr<Function> Api::launchable(CUfunction handle, std::initializer_list<unsigned> grid,
                                          std::initializer_list<unsigned> block) {
  auto function = find<Function>(handle, Kind::function);
  require_alive(function->module->home, *function);
  for (unsigned extent : grid)
    refuse_if(extent == 0, CUDA_ERROR_INVALID_VALUE);
  unsigned long long threads = 1;
  for (unsigned extent : block)
    threads *= extent;
  refuse_if(threads == 0 || threads > 1024, CUDA_ERROR_INVALID_VALUE);
  return function;
}

void Api::launch(const Function& function, const std::shared_ptr<Stream>& where) {
  refuse_if(function.module->home.context->family() != where->home.context->family(),
            CUDA_ERROR_INVALID_HANDLE);
  Work work = kernel_work(function);
  computer_.set_up_kernel(work);
  submit(where, std::move(work));
}

CUresult Api::cuLaunchKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                             unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int,
                             CUstream where, void**, void**) {
  auto function = launchable(handle, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z});
  launch(*function, stream(where));
  return CUDA_SUCCESS;
}

CUresult Api::cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void**, void**) {
  refuse_if(config == nullptr || (config->attrs == nullptr && config->numAttrs != 0),
            CUDA_ERROR_INVALID_VALUE);
  auto where = stream(config->hStream);
  const bool captured = capturing(*where);
  auto function = launchable(handle, {config->gridDimX, config->gridDimY, config->gridDimZ},
                             {config->blockDimX, config->blockDimY, config->blockDimZ});
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
    launch(*function, where);
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

CUresult Api::cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr || parameters->func == nullptr, CUDA_ERROR_INVALID_VALUE);
  return add_node(out, into, after, count, kernel_work(*find<Function>(parameters->func, Kind::function)));
}

} // namespace cuevent::sim
