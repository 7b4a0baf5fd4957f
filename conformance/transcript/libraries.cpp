// SPDX-License-Identifier: MIT
// Modules and libraries: their kernels, their variables, and what a kernel needs.

#include "code_image.hpp"
#include "everywhere.hpp"

#include <kernels.hpp>

#include <array>

namespace transcript {
namespace {

using namespace std::chrono_literals;

CUmodule load_module(Lab& lab) {
  CUmodule module = nullptr;
  lab.must(lab.cu.ModuleLoadData(&module, code_image), "cuModuleLoadData");
  return module;
}

CUlibrary load_library(Lab& lab) {
  CUlibrary library = nullptr;
  lab.must(lab.cu.LibraryLoadData(&library, code_image, nullptr, nullptr, 0, nullptr, nullptr, 0),
           "cuLibraryLoadData");
  return library;
}

CUfunction function_of(Lab& lab, CUmodule module, const char* name) {
  CUfunction function = nullptr;
  lab.must(lab.cu.ModuleGetFunction(&function, module, name), "cuModuleGetFunction");
  return function;
}

CUkernel kernel_of(Lab& lab, CUlibrary library, const char* name) {
  CUkernel kernel = nullptr;
  lab.must(lab.cu.LibraryGetKernel(&kernel, library, name), "cuLibraryGetKernel");
  return kernel;
}

// A kernel handle goes wherever a function handle goes.
CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

void variables(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  const auto ask = [&](const char* name) {
    const CUresult result = cu.ModuleGetGlobal(&address, &bytes, module, name);
    return result == CUDA_SUCCESS ? std::to_string(bytes) : lab.name_of(result);
  };
  for (const char* name : {"counter", "table", "fixed", "missing", "plain", ""})
    lab.shows(std::string("get.") + (*name == '\0' ? "no_name" : name), ask(name));
  lab.is("null_name", cu.ModuleGetGlobal(&address, &bytes, module, nullptr));
  lab.is("no_address", cu.ModuleGetGlobal(nullptr, &bytes, module, "counter"));
  lab.is("no_size", cu.ModuleGetGlobal(&address, nullptr, module, "counter"));
  lab.is("nowhere", cu.ModuleGetGlobal(nullptr, nullptr, module, "counter"));
  lab.is("nowhere.missing", cu.ModuleGetGlobal(nullptr, nullptr, module, "missing"));
  lab.is("no_module", cu.ModuleGetGlobal(&address, &bytes, nullptr, "counter"));
  lab.must(cu.ModuleGetGlobal(&address, &bytes, module, "counter"), "cuModuleGetGlobal");
  CUdeviceptr again = 0;
  lab.must(cu.ModuleGetGlobal(&again, nullptr, module, "counter"), "cuModuleGetGlobal");
  lab.shows("again.is_the_same", again == address);
  std::uint32_t value = 0;
  lab.is("read", cu.MemcpyDtoH(&value, address, 4));
  lab.shows("read.value", value);
  value = 9;
  lab.is("write", cu.MemcpyHtoD(address, &value, 4));
  lab.is("write.too_far", cu.MemcpyHtoD(address, &value, 1 << 20));
  lab.must(cu.ModuleGetGlobal(&again, nullptr, module, "table"), "cuModuleGetGlobal");
  std::array<std::uint64_t, 3> zeros{1, 1, 1};
  lab.is("table.read", cu.MemcpyDtoH(zeros.data(), again, 24));
  lab.shows("table.zero", zeros == std::array<std::uint64_t, 3>{});
  CUdeviceptr base = 0;
  lab.is("range", cu.MemGetAddressRange(&base, &bytes, address));
  unsigned type = 0;
  lab.is("type", cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  lab.shows("type.value", type);
  lab.is("free", cu.MemFree(address));
  everywhere(lab, "get", [&](CUstream) { return cu.ModuleGetGlobal(&address, &bytes, module, "counter"); });
  everywhere(lab, "get_missing",
             [&](CUstream) { return cu.ModuleGetGlobal(&address, &bytes, module, "missing"); });
}

void modules(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUmodule loaded = nullptr;
  CUfunction function = nullptr;
  lab.is("load_file.missing", cu.ModuleLoad(&loaded, "/nowhere/missing.cubin"));
  lab.is("load_file.null", cu.ModuleLoad(&loaded, nullptr));
  lab.is("load_fat.garbage", cu.ModuleLoadFatBinary(&loaded, "garbage"));
  lab.is("load_fat.text", cu.ModuleLoadFatBinary(&loaded, code_image));
  lab.is("function.missing", cu.ModuleGetFunction(&function, module, "missing"));
  lab.is("function.variable", cu.ModuleGetFunction(&function, module, "counter"));
  lab.is("function.null_name", cu.ModuleGetFunction(&function, module, nullptr));
  lab.is("function.no_name", cu.ModuleGetFunction(&function, module, ""));
  lab.is("function.no_module", cu.ModuleGetFunction(&function, nullptr, "plain"));
  lab.is("function.nowhere", cu.ModuleGetFunction(nullptr, module, "plain"));
  CUfunction const work = function_of(lab, module, "work");
  lab.shows("function.again.is_the_same", function_of(lab, module, "work") == work);
  lab.is("unload.null", cu.ModuleUnload(nullptr));
  CUmoduleLoadingMode mode{};
  lab.is("loading_mode", cu.ModuleGetLoadingMode(&mode));
  lab.shows("loading_mode.eager", mode == CU_MODULE_EAGER_LOADING);
}

// A mode that is asked for with a null pointer ended the process.
void functions_of_modules(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUmodule loaded = nullptr;
  CUfunction function = nullptr;
  CUfunction const work = function_of(lab, module, "work");
  CUmodule owner = nullptr;
  lab.is("owner", cu.FuncGetModule(&owner, work));
  lab.shows("owner.is_the_module", owner == module);
  lab.is("owner.null", cu.FuncGetModule(&owner, nullptr));
  lab.is("owner.nowhere", cu.FuncGetModule(nullptr, work));
#if CUDA_VERSION >= 12040
  const char* name = nullptr;
  lab.is("name", cu.FuncGetName(&name, work));
  lab.shows("name.value", name == nullptr ? "none" : name);
  lab.is("name.null", cu.FuncGetName(&name, nullptr));
  lab.is("name.nowhere", cu.FuncGetName(nullptr, work));
  unsigned count = 0;
  lab.is("count", cu.ModuleGetFunctionCount(&count, module));
  lab.shows("count.value", count);
  std::array<CUfunction, 3> functions{};
  lab.is("list", cu.ModuleEnumerateFunctions(functions.data(), 3, module));
  lab.shows("list.filled", (functions[0] != nullptr) + (functions[1] != nullptr) + (functions[2] != nullptr));
  lab.is("list.none", cu.ModuleEnumerateFunctions(functions.data(), 0, module));
  lab.is("list.nowhere", cu.ModuleEnumerateFunctions(nullptr, 1, module));
  CUfunctionLoadingState state{};
  lab.is("is_loaded", cu.FuncIsLoaded(&state, work));
  lab.shows("is_loaded.value", static_cast<int>(state));
  lab.is("load", cu.FuncLoad(work));
  lab.is("load.null", cu.FuncLoad(nullptr));
  const auto parameter = [&](CUfunction of, std::size_t index) {
    std::size_t offset = 77, size = 77;
    const CUresult result = cu.FuncGetParamInfo(of, index, &offset, &size);
    return result == CUDA_SUCCESS ? std::to_string(offset) + ", " + std::to_string(size)
                                  : lab.name_of(result);
  };
  for (std::size_t index = 0; index < 5; ++index)
    lab.shows("parameter." + std::to_string(index), parameter(work, index));
  lab.shows("parameter.of_nothing", parameter(nullptr, 0));
  lab.shows("parameter.of_plain", parameter(function_of(lab, module, "plain"), 0));
  std::size_t offset = 0, size = 0;
  lab.is("parameter.no_size", cu.FuncGetParamInfo(work, 0, &offset, nullptr));
  lab.is("parameter.no_offset", cu.FuncGetParamInfo(work, 0, nullptr, &size));
  everywhere(lab, "parameter", [&](CUstream) { return cu.FuncGetParamInfo(work, 0, &offset, &size); });
  everywhere(lab, "parameter_beyond", [&](CUstream) { return cu.FuncGetParamInfo(work, 9, &offset, &size); });
  everywhere(lab, "name", [&](CUstream) { return cu.FuncGetName(&name, work); });
  everywhere(lab, "count", [&](CUstream) { return cu.ModuleGetFunctionCount(&count, module); });
  everywhere(lab, "load_function", [&](CUstream) { return cu.FuncLoad(work); });
#endif
  everywhere(lab, "owner", [&](CUstream) { return cu.FuncGetModule(&owner, work); });
  everywhere(lab, "function", [&](CUstream) { return cu.ModuleGetFunction(&function, module, "work"); });
  everywhere(lab, "load", [&](CUstream) { return cu.ModuleLoadData(&loaded, code_image); });
  std::array<CUmodule, 5> doomed{};
  for (CUmodule& one : doomed)
    one = load_module(lab);
  auto next = doomed.begin();
  everywhere(lab, "unload", [&](CUstream) { return cu.ModuleUnload(*next++); });
}

void function_attributes(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUlibrary const library = load_library(lab);
  CUfunction const plain = function_of(lab, module, "plain"), work = function_of(lab, module, "work");
  const auto get = [&](CUfunction of, int which) {
    int value = 0;
    const CUresult result = cu.FuncGetAttribute(&value, number<CUfunction_attribute>(which), of);
    return result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result);
  };
  for (int which = 0; which <= 16; ++which) {
    lab.shows("plain." + std::to_string(which), get(plain, which));
    lab.shows("work." + std::to_string(which), get(work, which));
  }
  lab.shows("of_kernel", get(as_function(kernel_of(lab, library, "work")), 0));
  lab.shows("unknown", get(plain, 99));
  lab.shows("null", get(nullptr, 0));
  lab.is("nowhere", cu.FuncGetAttribute(nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, plain));
  struct Wish {
    int attribute, value;
  };
  constexpr Wish wishes[] = {{8, 65536}, {8, 231424}, {8, 300000}, {8, -1},  {8, 0},  {9, 50},
                             {9, 101},   {9, -1},     {9, -2},     {0, 128}, {1, 64}, {4, 32},
                             {10, 1},    {14, 1},     {14, 0},     {15, 1},  {99, 1}};
  for (const Wish& wish : wishes) {
    const std::string name = "set." + std::to_string(wish.attribute) + ".to_" + std::to_string(wish.value);
    lab.is(name, cu.FuncSetAttribute(work, number<CUfunction_attribute>(wish.attribute), wish.value));
    lab.shows(name + ".then", get(work, wish.attribute));
  }
  lab.is("set.null", cu.FuncSetAttribute(nullptr, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0));
  for (const int wish : {0, 1, 3, 9})
    lab.is("cache." + std::to_string(wish), cu.FuncSetCacheConfig(work, number<CUfunc_cache>(wish)));
  lab.is("cache.null", cu.FuncSetCacheConfig(nullptr, CU_FUNC_CACHE_PREFER_L1));
  int value = 0;
  everywhere(lab, "get",
             [&](CUstream) { return cu.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, work); });
  everywhere(lab, "set", [&](CUstream) {
    return cu.FuncSetAttribute(work, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
  });
  everywhere(lab, "cache", [&](CUstream) { return cu.FuncSetCacheConfig(work, CU_FUNC_CACHE_PREFER_L1); });
  // What a launch refuses.
  Stream stream(lab);
  unsigned* const word = lab.word();
  CUdeviceptr where = Lab::address(word);
  unsigned number = 3;
  std::uint64_t more[3] = {};
  char last = 0;
  void* parameters[] = {&number, &where, more, &last};
  const auto launch = [&](unsigned threads, unsigned shared) {
    return cu.LaunchKernel(work, 1, 1, 1, threads, 1, 1, shared, stream, parameters, nullptr);
  };
  lab.is("launch.above_bound", launch(257, 0));
  lab.is("launch.no_parameters", cu.LaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  lab.is("launch.null", cu.LaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  lab.is("synchronize", cu.StreamSynchronize(stream));
}

void libraries(Lab& lab) {
  const Api& cu = lab.cu;
  CUlibrary made = nullptr;
  const auto load = [&](const char* code) {
    return cu.LibraryLoadData(&made, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  lab.is("load", load(code_image));
  lab.is("load.garbage", load("garbage"));
  lab.is("load.empty", load(""));
  lab.is("load.null", load(nullptr));
  lab.is("load.nowhere", cu.LibraryLoadData(nullptr, code_image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  lab.is("load_file.missing",
         cu.LibraryLoadFromFile(&made, "/nowhere/missing.cubin", nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUlibrary const library = load_library(lab);
  CUkernel kernel = nullptr;
  lab.is("kernel", cu.LibraryGetKernel(&kernel, library, "work"));
  CUkernel again = nullptr;
  cu.LibraryGetKernel(&again, library, "work");
  lab.shows("kernel.again.is_the_same", again == kernel);
  CUkernel none = nullptr;
  lab.is("kernel.missing", cu.LibraryGetKernel(&none, library, "missing"));
  lab.is("kernel.variable", cu.LibraryGetKernel(&none, library, "counter"));
  lab.is("kernel.null_name", cu.LibraryGetKernel(&none, library, nullptr));
  lab.is("kernel.no_name", cu.LibraryGetKernel(&none, library, ""));
  lab.is("kernel.nowhere", cu.LibraryGetKernel(nullptr, library, "work"));
  lab.is("kernel.no_library", cu.LibraryGetKernel(&none, nullptr, "work"));
  CUmodule module = nullptr, owner = nullptr;
  lab.is("module", cu.LibraryGetModule(&module, library));
  lab.is("module.null", cu.LibraryGetModule(&owner, nullptr));
  lab.is("module.nowhere", cu.LibraryGetModule(nullptr, library));
  CUfunction function = nullptr, second = nullptr;
  lab.is("function", cu.KernelGetFunction(&function, kernel));
  lab.shows("function.is_the_kernel", function == as_function(kernel));
  cu.KernelGetFunction(&second, kernel);
  lab.shows("function.again.is_the_same", second == function);
  lab.is("function.null", cu.KernelGetFunction(&second, nullptr));
  lab.is("function.nowhere", cu.KernelGetFunction(nullptr, kernel));
  cu.ModuleGetFunction(&second, module, "work");
  lab.shows("function.of_module.is_the_same", second == function);
  cu.FuncGetModule(&owner, function);
  lab.shows("function.module_is_the_module", owner == module);
  {
    const Current other(lab, lab.second_context());
    lab.is("other_context.function", cu.KernelGetFunction(&second, kernel));
    lab.shows("other_context.function.is_the_same", second == function);
    lab.is("other_context.module", cu.LibraryGetModule(&owner, library));
    lab.shows("other_context.module.is_the_same", owner == module);
  }
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  lab.is("global", cu.LibraryGetGlobal(&address, &bytes, library, "counter"));
  lab.shows("global.bytes", bytes);
  lab.is("global.missing", cu.LibraryGetGlobal(&address, &bytes, library, "missing"));
  lab.is("global.nowhere", cu.LibraryGetGlobal(nullptr, nullptr, library, "counter"));
  lab.is("global.null_name", cu.LibraryGetGlobal(&address, &bytes, library, nullptr));
  lab.is("global.no_library", cu.LibraryGetGlobal(&address, &bytes, nullptr, "counter"));
  lab.is("managed", cu.LibraryGetManaged(&address, &bytes, library, "counter"));
  void* unified = nullptr;
  lab.is("unified", cu.LibraryGetUnifiedFunction(&unified, library, "work"));
  int value = 0;
  const auto get = [&](int which, CUdevice device) {
    const CUresult result =
        cu.KernelGetAttribute(&value, number<CUfunction_attribute>(which), kernel, device);
    return result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result);
  };
  lab.shows("attribute", get(0, lab.device));
  lab.shows("attribute.unknown", get(99, lab.device));
  lab.shows("attribute.no_device", get(0, 99));
  lab.is("attribute.null", cu.KernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr, lab.device));
  const auto set = [&](int wish) {
    return cu.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, wish, kernel, lab.device);
  };
  lab.is("set_attribute", set(65536));
  lab.shows("set_attribute.then", get(8, lab.device));
  lab.is("set_attribute.function",
         cu.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  lab.shows("set_attribute.function.value", value);
  lab.is("set_attribute.too_much", set(300000));
  lab.is("set_attribute.no_device",
         cu.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0, kernel, 99));
  lab.is("cache", cu.KernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, lab.device));
#if CUDA_VERSION >= 12050
  const char* name = nullptr;
  lab.is("name", cu.KernelGetName(&name, kernel));
  lab.shows("name.value", name == nullptr ? "none" : name);
  lab.is("name.null", cu.KernelGetName(&name, nullptr));
  unsigned count = 0;
  lab.is("count", cu.LibraryGetKernelCount(&count, library));
  lab.shows("count.value", count);
  std::array<CUkernel, 3> kernels_found{};
  lab.is("list", cu.LibraryEnumerateKernels(kernels_found.data(), 3, library));
  lab.shows("list.filled",
            (kernels_found[0] != nullptr) + (kernels_found[1] != nullptr) + (kernels_found[2] != nullptr));
  lab.is("owner", cu.KernelGetLibrary(&made, kernel));
  lab.shows("owner.is_the_library", made == library);
  lab.is("owner.null", cu.KernelGetLibrary(&made, nullptr));
  std::size_t offset = 0, size = 0;
  lab.is("parameter", cu.KernelGetParamInfo(kernel, 1, &offset, &size));
  lab.shows("parameter.value", std::to_string(offset) + ", " + std::to_string(size));
  lab.is("parameter.beyond", cu.KernelGetParamInfo(kernel, 4, &offset, &size));
  lab.is("parameter.no_size", cu.KernelGetParamInfo(kernel, 1, &offset, nullptr));
  lab.is("parameter.no_offset", cu.KernelGetParamInfo(kernel, 1, nullptr, &size));
  lab.is("parameter.null", cu.KernelGetParamInfo(nullptr, 0, &offset, &size));
  lab.is("parameter.kernel_as_function", cu.FuncGetParamInfo(as_function(kernel), 1, &offset, &size));
  lab.is("name.kernel_as_function", cu.FuncGetName(&name, as_function(kernel)));
  everywhere(lab, "parameter", [&](CUstream) { return cu.KernelGetParamInfo(kernel, 1, &offset, &size); });
  everywhere(lab, "name", [&](CUstream) { return cu.KernelGetName(&name, kernel); });
  everywhere(lab, "count", [&](CUstream) { return cu.LibraryGetKernelCount(&count, library); });
  everywhere(lab, "owner", [&](CUstream) { return cu.KernelGetLibrary(&made, kernel); });
#endif
  CUkernel const plain = kernel_of(lab, library, "plain");
  const auto launch = [&](CUstream on) {
    return cu.LaunchKernel(as_function(plain), 1, 1, 1, 1, 1, 1, 0, on, nullptr, nullptr);
  };
  Stream stream(lab);
  lab.is("launch", launch(stream));
  {
    const Current other(lab, lab.second_context());
    Stream elsewhere(lab);
    lab.is("other_context.launch", launch(elsewhere));
    lab.is("other_context.launch.home_stream", launch(stream));
    lab.is("other_context.synchronize", cu.StreamSynchronize(elsewhere));
  }
  lab.is("synchronize", cu.StreamSynchronize(stream));
  CUgraphNode node = nullptr;
  CUgraph graph = make_graph(lab);
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.kern = plain;
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
  lab.is("node", cu.GraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  CUDA_KERNEL_NODE_PARAMS found{};
  lab.is("node.get", cu.GraphKernelNodeGetParams(node, &found));
  lab.shows("node.get.kern", found.kern == plain);
  lab.shows("node.get.func", found.func == nullptr ? "none" : "some");
  lab.shows("node.get.ctx", found.ctx == lab.home ? "home" : found.ctx == nullptr ? "none" : "other");
  cu.GraphDestroy(graph);
  everywhere_and_captured(lab, "launch", launch);
  everywhere(lab, "load", [&](CUstream) { return load(code_image); });
  everywhere(lab, "kernel", [&](CUstream) { return cu.LibraryGetKernel(&again, library, "work"); });
  everywhere(lab, "module", [&](CUstream) { return cu.LibraryGetModule(&module, library); });
  everywhere(lab, "function", [&](CUstream) { return cu.KernelGetFunction(&function, kernel); });
  everywhere(lab, "global",
             [&](CUstream) { return cu.LibraryGetGlobal(&address, &bytes, library, "counter"); });
  everywhere(lab, "attribute", [&](CUstream) {
    return cu.KernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, lab.device);
  });
  everywhere(lab, "set_attribute", [&](CUstream) { return set(1024); });
  std::array<CUlibrary, 6> doomed{};
  for (CUlibrary& one : doomed)
    one = load_library(lab);
  auto next = doomed.begin();
  everywhere(lab, "unload", [&](CUstream) { return cu.LibraryUnload(*next++); });
  lab.is("unload", cu.LibraryUnload(*next));
  lab.is("unload.null", cu.LibraryUnload(nullptr));
}

void occupancy(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUlibrary const library = load_library(lab);
  CUfunction const plain = function_of(lab, module, "plain"), work = function_of(lab, module, "work");
  const auto blocks = [&](CUfunction of, int threads, std::size_t shared) {
    int value = -1;
    const CUresult result = cu.OccupancyMaxActiveBlocksPerMultiprocessor(&value, of, threads, shared);
    return result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result);
  };
  for (const int threads : {-1, 0, 1, 32, 33, 64, 128, 256, 257, 512, 768, 1024, 1025}) {
    lab.shows("blocks.plain." + std::to_string(threads), blocks(plain, threads, 0));
    lab.shows("blocks.work." + std::to_string(threads), blocks(work, threads, 0));
  }
  for (const std::size_t shared : {std::size_t{1}, std::size_t{1024}, std::size_t{16384}, std::size_t{48128},
                                   std::size_t{49152}, std::size_t{100000}, std::size_t{300000}})
    lab.shows("blocks.shared_" + std::to_string(shared), blocks(work, 128, shared));
  lab.shows("blocks.null", blocks(nullptr, 128, 0));
  lab.shows("blocks.of_kernel", blocks(as_function(kernel_of(lab, library, "plain")), 128, 0));
  lab.is("blocks.nowhere", cu.OccupancyMaxActiveBlocksPerMultiprocessor(nullptr, plain, 128, 0));
  int value = 0;
  for (const unsigned flags : {0u, 1u, 2u})
    lab.is("flags_" + std::to_string(flags),
           cu.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, plain, 128, 0, flags));
  int grid = 0, block = 0;
  const auto best = [&](CUfunction of, CUoccupancyB2DSize dynamic, std::size_t shared, int limit) {
    const CUresult result = cu.OccupancyMaxPotentialBlockSize(&grid, &block, of, dynamic, shared, limit);
    return result == CUDA_SUCCESS ? std::to_string(grid) + ", " + std::to_string(block) : lab.name_of(result);
  };
  lab.shows("best.plain", best(plain, nullptr, 0, 0));
  lab.shows("best.work", best(work, nullptr, 0, 0));
  lab.shows("best.limit_100", best(plain, nullptr, 0, 100));
  lab.shows("best.limit_2000", best(plain, nullptr, 0, 2000));
  lab.shows("best.limit_negative", best(plain, nullptr, 0, -1));
  lab.shows("best.shared", best(plain, nullptr, 40000, 0));
  lab.shows("best.dynamic",
            best(
                plain, [](int threads) { return static_cast<std::size_t>(threads) * 40; }, 0, 0));
  lab.shows("best.null", best(nullptr, nullptr, 0, 0));
  lab.is("best.no_grid", cu.OccupancyMaxPotentialBlockSize(nullptr, &block, plain, nullptr, 0, 0));
  lab.is("best.no_block", cu.OccupancyMaxPotentialBlockSize(&grid, nullptr, plain, nullptr, 0, 0));
  lab.is("best.flags_9", cu.OccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, plain, nullptr, 0, 0, 9));
  const auto room = [&](CUfunction of, int count, int threads) {
    std::size_t bytes = 0;
    const CUresult result = cu.OccupancyAvailableDynamicSMemPerBlock(&bytes, of, count, threads);
    return result == CUDA_SUCCESS ? std::to_string(bytes) : lab.name_of(result);
  };
  for (const int count : {0, 1, 2, 8, 32, 33})
    lab.shows("room." + std::to_string(count), room(plain, count, 128));
  lab.shows("room.work", room(work, 2, 128));
  lab.shows("room.null", room(nullptr, 1, 128));
  everywhere(lab, "blocks",
             [&](CUstream) { return cu.OccupancyMaxActiveBlocksPerMultiprocessor(&value, plain, 128, 0); });
  everywhere(lab, "best", [&](CUstream) {
    return cu.OccupancyMaxPotentialBlockSize(&grid, &block, plain, nullptr, 0, 0);
  });
}

std::string attribute_of(Lab& lab, CUkernel kernel, int which) {
  int value = 0;
  const CUresult result =
      lab.cu.KernelGetAttribute(&value, number<CUfunction_attribute>(which), kernel, lab.device);
  return result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result);
}

std::string attribute_of(Lab& lab, CUfunction function, int which) {
  int value = 0;
  const CUresult result = lab.cu.FuncGetAttribute(&value, number<CUfunction_attribute>(which), function);
  return result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result);
}

// What `code.attributes` and `code.libraries` do not ask.
void more_attributes(Lab& lab) {
  const Api& cu = lab.cu;
  CUlibrary const library = load_library(lab);
  CUfunction const function = function_of(lab, load_module(lab), "work");
  for (const char* name : {"plain", "work"})
    for (int which = -1; which <= 18; ++which)
      lab.shows(std::string("kernel.") + name + "." + std::to_string(which),
                attribute_of(lab, kernel_of(lab, library, name), which));
  for (const int which : {-1, 17, 18})
    lab.shows("function." + std::to_string(which), attribute_of(lab, function, which));
  CUkernel const work = kernel_of(lab, library, "work");
  constexpr auto known = CU_FUNC_ATTRIBUTE_NUM_REGS;
  const auto unknown = number<CUfunction_attribute>(99);
  int value = 0;
  lab.is("wrong.unknown.null", cu.FuncGetAttribute(&value, unknown, nullptr));
  lab.is("wrong.nowhere.unknown", cu.FuncGetAttribute(nullptr, unknown, function));
  lab.is("wrong.nowhere.null", cu.FuncGetAttribute(nullptr, known, nullptr));
  lab.is("wrong.kernel.nowhere", cu.KernelGetAttribute(nullptr, known, work, lab.device));
  lab.is("wrong.kernel.unknown.null", cu.KernelGetAttribute(&value, unknown, nullptr, lab.device));
  lab.is("wrong.kernel.unknown.no_device", cu.KernelGetAttribute(&value, unknown, work, 99));
  lab.is("wrong.kernel.nowhere.no_device", cu.KernelGetAttribute(nullptr, known, work, 99));
  lab.is("wrong.kernel.nowhere.null", cu.KernelGetAttribute(nullptr, known, nullptr, lab.device));
}

void set_attributes(Lab& lab) {
  CUkernel const work = kernel_of(lab, load_library(lab), "work");
  for (int which = 0; which <= 16; ++which) {
    const std::string name = std::to_string(which);
    lab.is(name, lab.cu.KernelSetAttribute(number<CUfunction_attribute>(which), 1, work, lab.device));
    lab.shows(name + ".then", attribute_of(lab, work, which));
  }
}

// The driver's linker makes a cubin of the text.
void attributes_of_cubin(Lab& lab) {
  const Api& cu = lab.cu;
  std::string text = code_image;
  CUlinkState state = nullptr;
  void* binary = nullptr;
  std::size_t bytes = 0;
  lab.must(cu.LinkCreate(0, nullptr, nullptr, &state), "cuLinkCreate");
  lab.must(cu.LinkAddData(state, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "a", 0, nullptr, nullptr),
           "cuLinkAddData");
  lab.must(cu.LinkComplete(state, &binary, &bytes), "cuLinkComplete");
  lab.shows("is_elf", std::string(static_cast<const char*>(binary), bytes).starts_with("\177ELF"));
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  lab.is("module", cu.ModuleLoadData(&module, binary));
  lab.is("library", cu.LibraryLoadData(&library, binary, nullptr, nullptr, 0, nullptr, nullptr, 0));
  lab.is("destroy", cu.LinkDestroy(state));
  for (const char* name : {"plain", "work"}) {
    CUfunction const function = function_of(lab, module, name);
    CUkernel const kernel = kernel_of(lab, library, name);
    for (int which = 0; which <= 16; ++which) {
      const std::string end = std::string(".") + name + "." + std::to_string(which);
      lab.shows("function" + end, attribute_of(lab, function, which));
      lab.shows("kernel" + end, attribute_of(lab, kernel, which));
    }
  }
}

// What is known about the kernels and variables of binary code, which the driver's linker makes.
void binary(Lab& lab) {
  const Api& cu = lab.cu;
  std::string text = code_image;
  CUlinkState state = nullptr;
  void* code = nullptr;
  std::size_t size = 0;
  lab.must(cu.LinkCreate(0, nullptr, nullptr, &state), "cuLinkCreate");
  lab.must(cu.LinkAddData(state, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "a", 0, nullptr, nullptr),
           "cuLinkAddData");
  lab.must(cu.LinkComplete(state, &code, &size), "cuLinkComplete");
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  lab.must(cu.ModuleLoadData(&module, code), "cuModuleLoadData");
  lab.must(cu.LibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0), "cuLibraryLoadData");
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  for (const char* name : {"counter", "table", "fixed", "missing", "plain", ""}) {
    const std::string end = *name == '\0' ? "no_name" : name;
    const CUresult of_module = cu.ModuleGetGlobal(&address, &bytes, module, name);
    lab.shows("module." + end, of_module == CUDA_SUCCESS ? std::to_string(bytes) : lab.name_of(of_module));
    const CUresult of_library = cu.LibraryGetGlobal(&address, &bytes, library, name);
    lab.shows("library." + end, of_library == CUDA_SUCCESS ? std::to_string(bytes) : lab.name_of(of_library));
  }
  std::uint32_t value = 0;
  lab.must(cu.ModuleGetGlobal(&address, &bytes, module, "counter"), "cuModuleGetGlobal");
  lab.is("read", cu.MemcpyDtoH(&value, address, 4));
  lab.shows("read.value", value);
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;
  for (const char* name : {"missing", "counter", ""}) {
    const std::string end = *name == '\0' ? "no_name" : name;
    lab.is("function." + end, cu.ModuleGetFunction(&function, module, name));
    lab.is("kernel." + end, cu.LibraryGetKernel(&kernel, library, name));
  }
#if CUDA_VERSION >= 12040
  unsigned count = 0;
  lab.is("functions", cu.ModuleGetFunctionCount(&count, module));
  lab.shows("functions.count", count);
  lab.is("kernels", cu.LibraryGetKernelCount(&count, library));
  lab.shows("kernels.count", count);
  function = function_of(lab, module, "work");
  kernel = kernel_of(lab, library, "work");
  for (std::size_t index = 0; index < 5; ++index) {
    std::size_t offset = 0, taken = 0;
    const auto shown = [&](CUresult result) {
      return result == CUDA_SUCCESS ? std::to_string(offset) + ", " + std::to_string(taken)
                                    : lab.name_of(result);
    };
    const std::string end = std::to_string(index);
    lab.shows("function.parameter." + end, shown(cu.FuncGetParamInfo(function, index, &offset, &taken)));
    lab.shows("kernel.parameter." + end, shown(cu.KernelGetParamInfo(kernel, index, &offset, &taken)));
  }
  std::size_t offset = 0;
  lab.is("function.parameter.no_size", cu.FuncGetParamInfo(function, 0, &offset, nullptr));
  lab.is("function.parameter.no_offset", cu.FuncGetParamInfo(function, 0, nullptr, &bytes));
#endif
  Stream stream(lab);
  lab.is("launch.no_parameters",
         cu.LaunchKernel(function_of(lab, module, "work"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  lab.is("synchronize", cu.StreamSynchronize(stream));
}

#if CUDA_VERSION >= 12050
// Which names of one kernel are at one address: of a function, of the kernel, and of a second load.
void names(Lab& lab) {
  const Api& cu = lab.cu;
  const auto name_of = [&](CUfunction function) {
    const char* name = nullptr;
    lab.must(cu.FuncGetName(&name, function), "cuFuncGetName");
    return name;
  };
  CUmodule const first = load_module(lab), second = load_module(lab);
  const char* const one = name_of(function_of(lab, first, "work"));
  lab.shows("again", one == name_of(function_of(lab, first, "work")));
  lab.shows("second_module", one == name_of(function_of(lab, second, "work")));
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  const char* of_kernel = nullptr;
  lab.must(cu.LibraryGetKernel(&kernel, load_library(lab), "work"), "cuLibraryGetKernel");
  lab.must(cu.KernelGetName(&of_kernel, kernel), "cuKernelGetName");
  lab.must(cu.KernelGetFunction(&function, kernel), "cuKernelGetFunction");
  lab.shows("function_of_kernel", of_kernel == name_of(function));
  lab.shows("function_of_kernel.again", name_of(function) == name_of(function));
  lab.must(cu.ModuleUnload(second), "cuModuleUnload");
  lab.shows("after_unload", one == name_of(function_of(lab, first, "work")));
}
#endif

// An H200 has ended the process.
void no_threads_in_a_block(Lab& lab) {
  CUjit_option name = CU_JIT_THREADS_PER_BLOCK;
  void* value = nullptr;
  CUlinkState state = nullptr;
  lab.is("link", lab.cu.LinkCreate(1, &name, &value, &state));
}

void cooperative(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUfunction const plain = function_of(lab, module, "plain"), work = function_of(lab, module, "work");
  Stream stream(lab);
  const auto launch = [&](CUfunction function, unsigned blocks, unsigned threads, CUstream where) {
    return cu.LaunchCooperativeKernel(function, blocks, 1, 1, threads, 1, 1, 0, where, nullptr);
  };
  lab.is("plain", launch(plain, 1, 32, stream));
  lab.is("too_many", launch(plain, 1'000'000, 32, stream));
  lab.is("no_blocks", launch(plain, 0, 32, stream));
  lab.is("no_threads", launch(plain, 1, 0, stream));
  lab.is("too_many_threads", launch(plain, 1, 1025, stream));
  lab.is("no_parameters", launch(work, 1, 32, stream));
  lab.is("null", launch(nullptr, 1, 32, stream));
  lab.is("kernel", launch(as_function(kernel_of(lab, load_library(lab), "plain")), 1, 32, stream));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  everywhere_and_captured(lab, "launch", [&](CUstream where) { return launch(plain, 1, 32, where); });
}

// How many clusters fit depends on the device: which multiprocessors it lacks.
void clusters(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUfunction const plain = function_of(lab, module, "plain"), work = function_of(lab, module, "work");
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  CUlaunchConfig config{};
  config.gridDimX = 720;
  config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  const auto ask = [&](const std::string& name, CUfunction function) {
    int count = -1, size = -1;
    const CUresult active = cu.OccupancyMaxActiveClusters(&count, function, &config);
    const CUresult potential = cu.OccupancyMaxPotentialClusterSize(&size, function, &config);
    lab.shows(name, joined({active == CUDA_SUCCESS ? std::to_string(count) : lab.name_of(active),
                            potential == CUDA_SUCCESS ? std::to_string(size) : lab.name_of(potential)}));
  };
  ask("no_cluster", plain);
  config.attrs = &attribute;
  config.numAttrs = 1;
  auto& wish = attribute.value.clusterDim;
  wish.y = wish.z = 1;
  for (const unsigned size : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 16U})
    for (const unsigned threads : {32U, 512U, 1024U, 1025U}) {
      wish.x = size;
      config.blockDimX = threads;
      ask("of_" + std::to_string(size) + ".with_" + std::to_string(threads), plain);
    }
  wish.x = 7;
  ask("does_not_divide", plain);
  wish.x = 2;
  config.blockDimX = 257;
  ask("beyond_bound", work);
  config.blockDimX = 0;
  ask("no_threads", work);
  config.blockDimX = 32;
  config.gridDimY = 0;
  ask("no_blocks", work);
  config.gridDimY = 1;
  for (const unsigned shared : {1024U, 16384U, 30000U, 60000U}) {
    config.sharedMemBytes = shared;
    ask("shared_" + std::to_string(shared), work);
  }
  config.sharedMemBytes = 0;
  ask("null_function", nullptr);
  ask("kernel", as_function(kernel_of(lab, load_library(lab), "work")));
  int count = 0;
  lab.is("nowhere", cu.OccupancyMaxActiveClusters(nullptr, work, &config));
  lab.is("null_launch", cu.OccupancyMaxActiveClusters(&count, work, nullptr));
  everywhere(lab, "ask", [&](CUstream) { return cu.OccupancyMaxActiveClusters(&count, work, &config); });
}

// What `code.variables` and `code.libraries` do not ask.
void more_variables(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUlibrary const library = load_library(lab);
  CUdeviceptr address = 0, again = 0;
  std::size_t bytes = 0;
  for (const char* name : {"counter", "table", "fixed", "plain", ""}) {
    const CUresult result = cu.LibraryGetGlobal(&address, &bytes, library, name);
    lab.shows(std::string("library.") + (*name == '\0' ? "no_name" : name),
              result == CUDA_SUCCESS ? std::to_string(bytes) : lab.name_of(result));
  }
  lab.is("library.no_address", cu.LibraryGetGlobal(nullptr, &bytes, library, "counter"));
  lab.is("library.no_size", cu.LibraryGetGlobal(&address, nullptr, library, "counter"));
  lab.is("library.nowhere.missing", cu.LibraryGetGlobal(nullptr, nullptr, library, "missing"));
  lab.is("library.nowhere.null_name", cu.LibraryGetGlobal(nullptr, nullptr, library, nullptr));
  lab.is("library.no_library.null_name", cu.LibraryGetGlobal(&address, &bytes, nullptr, nullptr));
  lab.is("library.no_library.nowhere", cu.LibraryGetGlobal(nullptr, nullptr, nullptr, "counter"));
  lab.is("module.nowhere.null_name", cu.ModuleGetGlobal(nullptr, nullptr, module, nullptr));
  lab.is("module.no_module.null_name", cu.ModuleGetGlobal(&address, &bytes, nullptr, nullptr));
  lab.is("module.no_module.nowhere", cu.ModuleGetGlobal(nullptr, nullptr, nullptr, "counter"));
  address = 1, bytes = 77;
  cu.ModuleGetGlobal(&address, &bytes, module, "missing");
  lab.shows("module.missing.written", std::to_string(address != 1) + std::to_string(bytes != 77));
  address = 1, bytes = 77;
  cu.LibraryGetGlobal(&address, &bytes, library, "missing");
  lab.shows("library.missing.written", std::to_string(address != 1) + std::to_string(bytes != 77));
  lab.is("library", cu.LibraryGetGlobal(&address, &bytes, library, "counter"));
  CUmodule of_library = nullptr;
  lab.must(cu.LibraryGetModule(&of_library, library), "cuLibraryGetModule");
  lab.is("module_of_library", cu.ModuleGetGlobal(&again, &bytes, of_library, "counter"));
  lab.shows("module_of_library.is_the_same", again == address);
  {
    const Current other(lab, lab.second_context());
    lab.is("other_context.library", cu.LibraryGetGlobal(&again, &bytes, library, "counter"));
    lab.shows("other_context.library.is_the_same", again == address);
    lab.is("other_context.module", cu.ModuleGetGlobal(&again, &bytes, module, "counter"));
  }
  everywhere(lab, "library.missing",
             [&](CUstream) { return cu.LibraryGetGlobal(&address, &bytes, library, "missing"); });
  everywhere(lab, "library.null_name",
             [&](CUstream) { return cu.LibraryGetGlobal(&address, &bytes, library, nullptr); });
  everywhere(lab, "module.null_name",
             [&](CUstream) { return cu.ModuleGetGlobal(&address, &bytes, module, nullptr); });
}

// Calls for code with two wrong arguments.
void pairs(Lab& lab) {
  const Api& cu = lab.cu;
  CUmodule const module = load_module(lab);
  CUlibrary const library = load_library(lab);
  CUfunction const function = function_of(lab, module, "plain");
  CUkernel const kernel = kernel_of(lab, library, "plain");
  CUfunction found = nullptr;
  CUkernel found_kernel = nullptr;
  CUmodule found_module = nullptr;
  CUdeviceptr address = 0;
  std::size_t size = 0;
  int value = 0, block = 0;
  using Wrong = std::vector<bool>;
  const auto name = [](const Wrong& wrong, const char* right) {
    return wrong[2] ? nullptr : wrong[3] ? "" : wrong[4] ? "missing" : right;
  };
  wrong_in_pairs(lab, "module_function", {"nowhere", "module", "null_name", "empty_name", "unknown_name"},
                 [&](const Wrong& wrong) {
                   return cu.ModuleGetFunction(wrong[0] ? nullptr : &found, wrong[1] ? nullptr : module,
                                               name(wrong, "plain"));
                 });
  wrong_in_pairs(lab, "library_kernel", {"nowhere", "library", "null_name", "empty_name", "unknown_name"},
                 [&](const Wrong& wrong) {
                   return cu.LibraryGetKernel(wrong[0] ? nullptr : &found_kernel,
                                              wrong[1] ? nullptr : library, name(wrong, "plain"));
                 });
  wrong_in_pairs(lab, "module_variable", {"nowhere", "module", "null_name", "empty_name", "unknown_name"},
                 [&](const Wrong& wrong) {
                   return cu.ModuleGetGlobal(wrong[0] ? nullptr : &address, wrong[0] ? nullptr : &size,
                                             wrong[1] ? nullptr : module, name(wrong, "counter"));
                 });
  wrong_in_pairs(lab, "library_variable", {"nowhere", "library", "null_name", "empty_name", "unknown_name"},
                 [&](const Wrong& wrong) {
                   return cu.LibraryGetGlobal(wrong[0] ? nullptr : &address, wrong[0] ? nullptr : &size,
                                              wrong[1] ? nullptr : library, name(wrong, "counter"));
                 });
  wrong_in_pairs(lab, "library_module", {"nowhere", "library"}, [&](const Wrong& wrong) {
    return cu.LibraryGetModule(wrong[0] ? nullptr : &found_module, wrong[1] ? nullptr : library);
  });
  wrong_in_pairs(lab, "kernel_function", {"nowhere", "kernel"}, [&](const Wrong& wrong) {
    return cu.KernelGetFunction(wrong[0] ? nullptr : &found, wrong[1] ? nullptr : kernel);
  });
  wrong_in_pairs(lab, "function_attribute", {"nowhere", "attribute", "function"}, [&](const Wrong& wrong) {
    return cu.FuncGetAttribute(wrong[0] ? nullptr : &value, number<CUfunction_attribute>(wrong[1] ? 99 : 0),
                               wrong[2] ? nullptr : function);
  });
  wrong_in_pairs(lab, "kernel_attribute", {"nowhere", "attribute", "kernel", "device"},
                 [&](const Wrong& wrong) {
                   return cu.KernelGetAttribute(wrong[0] ? nullptr : &value,
                                                number<CUfunction_attribute>(wrong[1] ? 99 : 0),
                                                wrong[2] ? nullptr : kernel, wrong[3] ? 99 : 0);
                 });
  wrong_in_pairs(lab, "blocks", {"nowhere", "function", "threads", "flags"}, [&](const Wrong& wrong) {
    return cu.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        wrong[0] ? nullptr : &value, wrong[1] ? nullptr : function, wrong[2] ? 0 : 32, 0, wrong[3] ? 9 : 0);
  });
  wrong_in_pairs(lab, "best", {"no_grid", "no_block", "function", "limit", "flags"}, [&](const Wrong& wrong) {
    return cu.OccupancyMaxPotentialBlockSizeWithFlags(
        wrong[0] ? nullptr : &value, wrong[1] ? nullptr : &block, wrong[2] ? nullptr : function, nullptr, 0,
        wrong[3] ? -1 : 0, wrong[4] ? 9 : 0);
  });
  // Without a place for the result, a device crashes.
  wrong_in_pairs(lab, "room", {"function", "blocks", "threads"}, [&](const Wrong& wrong) {
    return cu.OccupancyAvailableDynamicSMemPerBlock(&size, wrong[0] ? nullptr : function, wrong[1] ? 0 : 1,
                                                    wrong[2] ? 0 : 32);
  });
}

// What waits for work that is held: of the current context, and of another one.
void loads(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext const other = lab.second_context();
  CUstream far = nullptr;
  {
    const Current guard(lab, other);
    far = Stream(lab).release();
  }
  Stream near(lab);
  const auto ask = [&](const std::string& name, const std::function<CUresult()>& call) {
    for (const bool here : {true, false}) {
      const Current guard(lab, here ? lab.home : other);
      Gate gate(lab, here ? CUstream(near) : far);
      Background background(lab, call);
      const bool returns = background.returns_within(100ms);
      gate.open();
      const std::string result = lab.name_of(background.join());
      lab.shows(name + (here ? ".held_here" : ".held_elsewhere"), (returns ? "returns " : "waits ") + result);
      lab.must(cu.StreamSynchronize(here ? CUstream(near) : far), "synchronize");
    }
  };
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  ask("module", [&] { return cu.ModuleLoadData(&module, code_image); });
  ask("library",
      [&] { return cu.LibraryLoadData(&library, code_image, nullptr, nullptr, 0, nullptr, nullptr, 0); });
  // The code of the first use is loaded when it is asked for, or earlier.
  std::vector<CUmodule> modules;
  std::vector<CUlibrary> libraries;
  std::vector<CUfunction> functions;
  std::vector<CUfunction> kernels;
  for (int i = 0; i < 2; ++i) {
    modules.push_back(load_module(lab));
    libraries.push_back(load_library(lab));
    functions.push_back(function_of(lab, load_module(lab), "plain"));
    kernels.push_back(as_function(kernel_of(lab, load_library(lab), "plain")));
  }
  CUfunction function = nullptr;
  Stream idle(lab);
  CUkernel kernel = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  const auto ask_of_each = [&](const std::string& name, const std::function<CUresult(std::size_t)>& call) {
    std::size_t next = 0;
    ask(name, [&] { return call(next++); });
  };
  ask_of_each("module.function",
              [&](std::size_t i) { return cu.ModuleGetFunction(&function, modules[i], "work"); });
  ask_of_each("module.variable",
              [&](std::size_t i) { return cu.ModuleGetGlobal(&address, &bytes, modules[i], "counter"); });
  ask_of_each("library.kernel",
              [&](std::size_t i) { return cu.LibraryGetKernel(&kernel, libraries[i], "work"); });
  ask_of_each("library.function", [&](std::size_t i) {
    return cu.KernelGetFunction(&function, kernel_of(lab, libraries[i], "work"));
  });
  ask_of_each("library.variable",
              [&](std::size_t i) { return cu.LibraryGetGlobal(&address, &bytes, libraries[i], "counter"); });
  ask_of_each("library.module", [&](std::size_t i) { return cu.LibraryGetModule(&module, libraries[i]); });
  const auto launch = [&](CUfunction wanted) {
    return cu.LaunchKernel(wanted, 1, 1, 1, 1, 1, 1, 0, idle, nullptr, nullptr);
  };
  ask_of_each("module.launch", [&](std::size_t i) { return launch(functions[i]); });
  ask_of_each("library.launch", [&](std::size_t i) { return launch(kernels[i]); });
}

void lazy_loads(Lab& lab) {
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  lab.initialize();
  loads(lab);
}

} // namespace

std::vector<Scenario> libraries_scenarios() {
  return {
    {"code.variables", variables, Place::child}, {"code.modules", modules, Place::child},
        {"code.functions", functions_of_modules, Place::child},
        {"code.attributes", function_attributes, Place::child}, {"code.libraries", libraries, Place::child},
        {"code.occupancy", occupancy, Place::child}, {"code.more_attributes", more_attributes, Place::child},
        {"code.set_attributes", set_attributes, Place::child},
        {"code.more_variables", more_variables, Place::child},
        {"code.attributes_of_cubin", attributes_of_cubin, Place::child},
        {"code.binary", binary, Place::alone}, {"code.clusters", clusters, Place::alone},
        {"code.cooperative", cooperative, Place::alone},
#if CUDA_VERSION >= 12050
        {"code.names", names, Place::alone},
#endif
        {"code.no_threads_in_a_block", no_threads_in_a_block, Place::alone},
        {"code.pairs", pairs, Place::child}, {"code.loads", loads, Place::child}, {
      "code.lazy_loads", lazy_loads, Place::bare
    }
  };
}

} // namespace transcript
