// SPDX-License-Identifier: MIT
// Modules and libraries, their kernels and their variables.

#include "api.hpp"
#include "binary_code.hpp"
#include "device_attributes.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

namespace cuevent::sim {

namespace {

constexpr double newest_ptx = 9.0; // of the modelled driver

bool loads_eagerly() {
  const char* const wish = std::getenv("CUDA_MODULE_LOADING");
  return wish != nullptr && std::strcmp(wish, "EAGER") == 0;
}

/// What a device says of text that is no PTX, or too new. There is no compiler to find other mistakes.
CUresult verdict_on(std::string_view image) {
  constexpr std::string_view version = ".version";
  if (is_binary(image)) return CUDA_SUCCESS;
  const std::size_t found = image.find(version);
  if (found == std::string_view::npos) return CUDA_ERROR_INVALID_IMAGE;
  const std::string number(image.substr(found + version.size(), 16));
  return std::strtod(number.c_str(), nullptr) > newest_ptx ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                                           : CUDA_SUCCESS;
}

} // namespace

/// A module is loaded at once. With CUDA_MODULE_LOADING=EAGER, a library becomes a module of each context
/// when it is loaded, otherwise when it is first used in the context.
void Api::wait_to_load(const Context& context) { wait_for_all_work_of(context, "code is loaded"); }

CodeImage Api::checked_ptx(std::string_view text) {
  if (const CUresult verdict = verdict_on(text); verdict != CUDA_SUCCESS) refuse(verdict);
  return read_ptx(text);
}

/// The caller has looked at its other arguments.
std::shared_ptr<Code> Api::load(const void* image, const Bytes& bytes) {
  refuse_if(image == nullptr, CUDA_ERROR_INVALID_VALUE);
  const std::string_view text = static_cast<const char*>(image);
  auto code = std::make_shared<Code>();
  if (!is_binary(text))
    code->image = checked_ptx(text);
  else
    code->verdict = read_binary(bytes, code->image);
  if (code->image.relocatable) code->image.variables.clear(); // they have no place yet
  return code;
}

std::shared_ptr<Module> Api::new_module(std::shared_ptr<Context> home, std::shared_ptr<Code> code) {
  auto made = make<Module>(Kind::module, home.get());
  made->home = {home, home->generation};
  made->code = std::move(code);
  return made;
}

CUresult Api::load_module(CUmodule* out, const void* image, const Bytes& bytes) {
  auto home = context_to_create_in();
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto code = load(image, bytes);
  refuse_if(code->verdict != CUDA_SUCCESS, code->verdict);
  refuse_if(needs_other_code(code->image), CUDA_ERROR_INVALID_PTX);
  wait_to_load(*home);
  *out = as<CUmodule>(*new_module(home, std::move(code)));
  return CUDA_SUCCESS;
}

CUresult Api::cuModuleLoadData(CUmodule* out, const void* image) {
  return load_module(out, image, Bytes(image));
}

/// There is no compiler to use the options.
CUresult Api::cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count, CUjit_option* options,
                                 void** values) {
  context_to_create_in();
  refuse_if(count != 0 && (options == nullptr || values == nullptr), CUDA_ERROR_INVALID_VALUE);
  return cuModuleLoadData(out, image);
}

CUresult Api::cuModuleLoadFatBinary(CUmodule* out, const void* image) { return cuModuleLoadData(out, image); }

std::string Api::contents(const char* path) {
  refuse_if(path == nullptr || *path == '\0', CUDA_ERROR_INVALID_VALUE);
  std::ifstream file(path, std::ios::binary);
  refuse_if(!file, CUDA_ERROR_FILE_NOT_FOUND);
  file.peek();
  refuse_if(file.bad(), CUDA_ERROR_OUT_OF_MEMORY); // a folder, as the driver's linker was measured to answer
  return std::string(std::istreambuf_iterator<char>(file), {});
}

CUresult Api::cuModuleLoad(CUmodule* out, const char* path) {
  current_context();
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  const std::string file = contents(path);
  return load_module(out, file.c_str(), Bytes(std::string_view(file)));
}

CUresult Api::cuModuleUnload(CUmodule handle) {
  auto gone = find<Module>(handle, Kind::module);
  require_alive(gone->home, *gone);
  unsafe_call();
  refuse_if(!gone->library.expired(), CUDA_ERROR_NOT_PERMITTED);
  wait_for_all_work_of(*gone->home.context, "a module is unloaded");
  for (auto& [name, address] : gone->variables)
    process_.allocations.erase(address);
  for (auto& [name, one] : gone->functions)
    if (const auto function = one.lock())
      computer_.handles.remove(*function, "unloaded with its module, " + ending());
  gone->functions.clear();
  computer_.handles.remove(*gone, ending());
  return CUDA_SUCCESS;
}

std::shared_ptr<Function> Api::function_of(const std::shared_ptr<Module>& module, const std::string& name) {
  const CodeImage& image = module->code->image;
  refuse_if(image.relocatable && (image.kernels.contains(name) || image.functions.contains(name)),
            CUDA_ERROR_INVALID_IMAGE);
  refuse_if(!image.kernels.contains(name), CUDA_ERROR_NOT_FOUND);
  std::shared_ptr<Function> known = module->functions[name].lock();
  if (!known) {
    known = make<Function>(Kind::function, module->home.context.get());
    known->module = module;
    known->name = name;
    const auto of = module->library.lock();
    auto& settings = of ? of->settings[name] : known->settings;
    if (!settings) settings = std::make_shared<KernelSettings>();
    known->settings = settings;
    module->functions[name] = known;
  }
  return known;
}

CUresult Api::cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  refuse_if(out == nullptr || name == nullptr || *name == '\0', CUDA_ERROR_INVALID_VALUE);
  auto module = find<Module>(handle, Kind::module);
  require_alive(module->home, *module);
  *out = nullptr;
  const auto function = function_of(module, name);
  function->loaded = true;
  *out = as<CUfunction>(*function);
  return CUDA_SUCCESS;
}

/// The variables of a module get their memory when they are first asked for.
CUresult Api::variable(CUdeviceptr* out, size_t* bytes, const std::shared_ptr<Module>& module,
                       const char* name) {
  const CodeImage& image = module->code->image;
  refuse_if(*name == '\0' || image.kernels.contains(name) ||
                (image.relocatable && image.functions.contains(name)),
            CUDA_ERROR_INVALID_VALUE);
  const auto found = module->code->image.variables.find(name);
  refuse_if(found == module->code->image.variables.end(), CUDA_ERROR_NOT_FOUND);
  auto& address = module->variables[name];
  if (address == 0) {
    Allocation allocation;
    allocation.bytes = found->second.bytes;
    refuse_if(allocation.bytes > all_memory, CUDA_ERROR_OUT_OF_MEMORY);
    allocation.home = module->home;
    allocation.variable = true;
    allocation.managed = found->second.managed;
    allocation.memory = std::make_unique<std::byte[]>(allocation.bytes);
    std::copy_n(found->second.initial.begin(), std::min(found->second.initial.size(), allocation.bytes),
                allocation.memory.get());
    address = add(std::move(allocation));
  }
  if (out != nullptr) *out = address;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

CUresult Api::cuModuleGetGlobal_v2(CUdeviceptr* out, size_t* bytes, CUmodule handle, const char* name) {
  if (out != nullptr) *out = 0; // whatever the answer, unlike cuLibraryGetGlobal
  if (bytes != nullptr) *bytes = 0;
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  refuse_if(name == nullptr || (out == nullptr && bytes == nullptr), CUDA_ERROR_INVALID_VALUE);
  auto module = find<Module>(handle, Kind::module);
  require_alive(module->home, *module);
  return variable(out, bytes, module, name);
}

CUresult Api::cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) crash("there is no place for the mode");
  *mode = loads_eagerly() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

// Libraries

std::shared_ptr<Library> Api::library(CUlibrary handle) {
  auto found = find<Library>(handle, Kind::library);
  if (found->code->garbage) not_modelled("the use of a library whose data is no code");
  return found;
}
std::shared_ptr<LibraryKernel> Api::kernel(CUkernel handle) {
  const auto object = computer_.handles.peek<Object>(reinterpret_cast<std::uintptr_t>(handle));
  refuse_if(object && object->kind == Kind::function, CUDA_ERROR_INVALID_HANDLE);
  return find<LibraryKernel>(handle, Kind::kernel);
}

std::shared_ptr<Module> Api::module_of(const std::shared_ptr<Library>& library,
                                       const std::shared_ptr<Context>& home) {
  if (needs_other_code(library->code->image)) not_modelled("the use of a library that needs other code");
  auto& module = library->modules[home->handle];
  const auto loaded = [&] { return module && module->home.alive(); };
  if (!loaded() && !loads_eagerly()) wait_to_load(*home);
  if (!loaded()) module = new_module(home, library->code); // no other thread did during the wait
  module->library = library;
  return module;
}

/// A device takes a CUkernel wherever it takes a CUfunction.
std::shared_ptr<Function> Api::callable(CUfunction handle, const std::shared_ptr<Context>& in) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  const auto object = computer_.handles.peek<Object>(reinterpret_cast<std::uintptr_t>(handle));
  if (object && object->kind == Kind::kernel) {
    const auto wanted = std::static_pointer_cast<LibraryKernel>(object);
    return function_of(module_of(wanted->library, in ? in : current_context()), wanted->name);
  }
  auto found = find<Function>(handle, Kind::function);
  require_alive(found->module->home, *found);
  return found;
}

/// For calls that take no kernel of a library.
std::shared_ptr<Function> Api::only_function(CUfunction handle) {
  const auto object = computer_.handles.peek<Object>(reinterpret_cast<std::uintptr_t>(handle));
  refuse_if(object && object->kind == Kind::kernel, CUDA_ERROR_INVALID_HANDLE);
  return callable(handle);
}

/// The code is looked at when it is used.
CUresult Api::load_library(CUlibrary* out, const void* image, const Bytes& bytes) {
  std::shared_ptr<Code> loaded;
  if (verdict_on(static_cast<const char*>(image)) == CUDA_SUCCESS) {
    loaded = load(image, bytes);
    refuse_if(is_binary(static_cast<const char*>(image)) && !has_sections(bytes), CUDA_ERROR_INVALID_IMAGE);
    if (loads_eagerly())
      for (const auto& context : std::vector(process_.contexts))
        wait_to_load(*context);
  } else {
    loaded = std::make_shared<Code>();
    loaded->garbage = true;
  }
  auto made = make<Library>(Kind::library, nullptr);
  made->code = std::move(loaded);
  *out = as<CUlibrary>(*made);
  return CUDA_SUCCESS;
}

namespace {

void check_options(const CUjit_option* options, void* const* values, unsigned count,
                   const CUlibraryOption* more, void* const* more_values, unsigned more_count) {
  refuse_if((options == nullptr || values == nullptr) && count != 0, CUDA_ERROR_INVALID_VALUE);
  if (more == nullptr && more_count != 0) crash("the list of library options is null");
  for (unsigned i = 0; i < more_count; ++i)
    refuse_if(static_cast<unsigned>(more[i]) >= CU_LIBRARY_NUM_OPTIONS, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < more_count; ++i)
    if (more[i] == CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE &&
        (more_values == nullptr || more_values[i] == nullptr))
      crash("the table of host functions is null");
}

} // namespace

CUresult Api::cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* options, void** values,
                                unsigned count, CUlibraryOption* more, void** more_values,
                                unsigned more_count) {
  refuse_if(out == nullptr || code == nullptr, CUDA_ERROR_INVALID_VALUE);
  check_options(options, values, count, more, more_values, more_count);
  return load_library(out, code, Bytes(code));
}

CUresult Api::cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* options, void** values,
                                    unsigned count, CUlibraryOption* more, void** more_values,
                                    unsigned more_count) {
  const std::string file = contents(path);
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  check_options(options, values, count, more, more_values, more_count);
  refuse_if(file.empty(), CUDA_ERROR_INVALID_IMAGE);
  return load_library(out, file.c_str(), Bytes(std::string_view(file)));
}

CUresult Api::cuLibraryUnload(CUlibrary handle) {
  auto gone = find<Library>(handle, Kind::library);
  unsafe_call();
  for (auto& [name, one] : gone->kernels)
    if (const auto kernel = one.lock())
      computer_.handles.remove(*kernel, "unloaded with its library, " + ending());
  gone->kernels.clear();
  for (auto& [context, module] : gone->modules)
    computer_.handles.remove(*module, "unloaded with its library, " + ending());
  computer_.handles.remove(*gone, ending());
  return CUDA_SUCCESS;
}

CUresult Api::cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  refuse_if(out == nullptr || name == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto from = library(handle);
  refuse_if(from->code->verdict != CUDA_SUCCESS, from->code->verdict);
  const CodeImage& image = from->code->image;
  refuse_if(!image.kernels.contains(name) && !(image.relocatable && image.functions.contains(name)),
            CUDA_ERROR_NOT_FOUND);
  std::shared_ptr<LibraryKernel> known = from->kernels[name].lock();
  if (!known) {
    known = make<LibraryKernel>(Kind::kernel, nullptr);
    known->library = from;
    known->name = name;
    from->kernels[name] = known;
  }
  *out = as<CUkernel>(*known);
  return CUDA_SUCCESS;
}

CUresult Api::cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto from = library(handle);
  *out = as<CUmodule>(*module_of(from, current_context()));
  return CUDA_SUCCESS;
}

CUresult Api::cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto wanted = kernel(handle);
  *out = as<CUfunction>(*function_of(module_of(wanted->library, current_context()), wanted->name));
  return CUDA_SUCCESS;
}

CUresult Api::cuLibraryGetGlobal(CUdeviceptr* out, size_t* bytes, CUlibrary handle, const char* name) {
  refuse_if(name == nullptr || *name == '\0' || (out == nullptr && bytes == nullptr),
            CUDA_ERROR_INVALID_VALUE);
  const auto from = library(handle); // before it looks for a context
  const auto home = current_context();
  refuse_if(from->code->verdict != CUDA_SUCCESS, from->code->verdict);
  return variable(out, bytes, module_of(from, home), name);
}

/// Needs no context once a context has used the library.
CUresult Api::cuLibraryGetManaged(CUdeviceptr* out, size_t* bytes, CUlibrary handle, const char* name) {
  refuse_if(name == nullptr || *name == '\0' || (out == nullptr && bytes == nullptr),
            CUDA_ERROR_INVALID_VALUE);
  const auto from = library(handle);
  refuse_if(from->code->verdict != CUDA_SUCCESS, from->code->verdict);
  const auto found = from->code->image.variables.find(name);
  refuse_if(found == from->code->image.variables.end() || !found->second.managed, CUDA_ERROR_NOT_FOUND);
  for (const auto& [context, module] : from->modules)
    if (module->home.alive()) return variable(out, bytes, module, name);
  return variable(out, bytes, module_of(from, current_context()), name);
}

/// The simulator finds no such function in any code.
CUresult Api::cuLibraryGetUnifiedFunction(void** out, CUlibrary handle, const char*) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  library(handle);
  refuse(CUDA_ERROR_INVALID_VALUE);
}

// What is known about functions and kernels.

CUresult Api::parameter(const Code& code, const std::string& name, size_t index, size_t* offset,
                        size_t* size) {
  if (code.image.relocatable) not_modelled("the parameters of relocatable code");
  const auto& parameters = code.image.kernels.find(name)->second.parameters;
  refuse_if(index >= parameters.size() || offset == nullptr, CUDA_ERROR_INVALID_VALUE);
  *offset = parameters[index].offset;
  if (size != nullptr) *size = parameters[index].size;
  return CUDA_SUCCESS;
}

CUresult Api::cuFuncGetModule(CUmodule* out, CUfunction handle) {
  refuse_if(out == nullptr || handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUmodule>(*only_function(handle)->module);
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12030
namespace {

/// All kernels of one name have it at one address, also after their code was unloaded.
const char* kept(const std::string& name) {
  static std::set<std::string> names;
  return names.insert(name).first->c_str();
}

} // namespace

CUresult Api::cuFuncGetName(const char** name, CUfunction handle) {
  refuse_if(name == nullptr || handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  *name = kept(only_function(handle)->name);
  return CUDA_SUCCESS;
}

CUresult Api::cuKernelGetName(const char** name, CUkernel handle) {
  refuse_if(name == nullptr || handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  *name = kept(kernel(handle)->name);
  return CUDA_SUCCESS;
}
#endif

#if CUDA_VERSION >= 12040
CUresult Api::cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  refuse_if(handle == nullptr || offset == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto of = only_function(handle);
  return parameter(*of->module->code, of->name, index, offset, size);
}

CUresult Api::cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* size) {
  refuse_if(handle == nullptr || offset == nullptr, CUDA_ERROR_INVALID_VALUE);
  current_context();
  const auto of = kernel(handle);
  return parameter(*of->library->code, of->name, index, offset, size);
}

CUresult Api::cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  refuse_if(count == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Code& code = *find<Module>(handle, Kind::module)->code;
  *count = static_cast<unsigned>(code.image.kernels.size());
  return CUDA_SUCCESS;
}

/// A function that only a list gave is not loaded before it is used.
CUresult Api::cuModuleEnumerateFunctions(CUfunction* functions, unsigned room, CUmodule handle) {
  refuse_if(functions == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto module = find<Module>(handle, Kind::module);
  const auto& order = module->code->image.order;
  for (std::size_t left = order.size(); left != 0 && room != 0; --left, --room) {
    const bool known = !module->functions[order[left - 1]].expired();
    const auto function = function_of(module, order[left - 1]);
    if (!known) function->loaded = loads_eagerly();
    *functions++ = as<CUfunction>(*function);
  }
  return CUDA_SUCCESS;
}

CUresult Api::cuLibraryGetKernelCount(unsigned* count, CUlibrary handle) {
  refuse_if(count == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Code& code = *library(handle)->code;
  *count = static_cast<unsigned>(code.image.kernels.size());
  return CUDA_SUCCESS;
}

CUresult Api::cuLibraryEnumerateKernels(CUkernel* kernels, unsigned room, CUlibrary handle) {
  refuse_if(kernels == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto from = library(handle);
  for (const std::string& name : from->code->image.order)
    if (room-- != 0)
      cuLibraryGetKernel(kernels++, handle, name.c_str());
    else
      break;
  return CUDA_SUCCESS;
}

CUresult Api::cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  refuse_if(state == nullptr, CUDA_ERROR_INVALID_VALUE);
  *state =
      only_function(handle)->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

CUresult Api::cuFuncLoad(CUfunction handle) {
  only_function(handle)->loaded = true;
  return CUDA_SUCCESS;
}
#endif

#if CUDA_VERSION >= 13020
/// As cuda.h says.
CUresult Api::cuFuncGetParamCount(CUfunction handle, size_t* count) {
  refuse_if(handle == nullptr || count == nullptr, CUDA_ERROR_INVALID_VALUE);
  *count = code_of(*only_function(handle)).parameters.size();
  return CUDA_SUCCESS;
}

CUresult Api::cuKernelGetParamCount(CUkernel handle, size_t* count) {
  refuse_if(handle == nullptr || count == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto of = kernel(handle);
  *count = code_of(*of->library->code, of->name).parameters.size();
  return CUDA_SUCCESS;
}
#endif

#if CUDA_VERSION >= 12050
CUresult Api::cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUlibrary>(*kernel(handle)->library);
  return CUDA_SUCCESS;
}
#endif

} // namespace cuevent::sim
