// SPDX-License-Identifier: MIT
// The driver's linker. It puts the kernels and variables of its inputs into one file. There is no compiler,
// so it finds no mistake in instructions.

#include "api.hpp"
#include "archive.hpp"
#include "binary_code.hpp"
#include "elf_image.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cuevent::sim {

/// A text buffer of the caller, and where it learns how many bytes were written. Both must live as long as
/// the link state.
class LinkLog {
public:
  void set_text(void* text) { text_ = static_cast<char*>(text); }
  void set_size(std::size_t size, void*& written) {
    size_ = size;
    written_ = &written;
  }
  /// The last line has no end of line.
  void add(const std::string& line) {
    if (text_ == nullptr || size_ == 0) return;
    if (!lines_.empty()) lines_ += '\n';
    lines_ += line;
    const std::string all = lines_.substr(0, size_ - 1);
    std::memcpy(text_, all.c_str(), all.size() + 1);
    *written_ = reinterpret_cast<void*>(all.size());
  }

private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  void** written_ = nullptr;
  std::string lines_;
};

struct LibraryMember {
  CodeImage code;
  std::string library; ///< the name of the input
};

struct Link : Object {
  CodeImage code;
  std::map<std::string, std::string> inputs; ///< which one has this kernel, function or variable
  LinkLog errors;
  std::vector<LibraryMember> libraries; ///< until somebody needs what it has
  CUresult broken = CUDA_SUCCESS; ///< the error of most calls after an input, or cuLinkComplete, has failed
  bool linked = false;            ///< cuLinkComplete was tried, so it takes no more inputs
  std::string result;             ///< of cuLinkComplete
};

std::shared_ptr<Link> Api::link(CUlinkState state) { return find<Link>(state, Kind::link); }

namespace {

constexpr int last_option = 34; // CU_JIT_SPLIT_COMPILE

/// The numbers 0 and 1 were accepted too.
bool is_target(std::uintptr_t value) {
  constexpr int architectures[] = {30, 32, 35, 37, 50, 52, 53,  60,  61,  62,  70, 72,
                                   75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
  constexpr std::uintptr_t variants = 0x30000; // CU_COMPUTE_ACCELERATED_TARGET_BASE, ..._FAMILY_TARGET_BASE
  return value <= 1 || std::count(std::begin(architectures), std::end(architectures),
                                  static_cast<int>(value & ~variants)) != 0;
}

void check_option(int option, std::uintptr_t value) {
  if (option == CU_JIT_THREADS_PER_BLOCK && value == 0)
    crash_by(SIGFPE, "the linker divides by zero threads in a block");
  refuse_if(option < 0 || option > last_option || option == CU_JIT_FALLBACK_STRATEGY ||
                (option == CU_JIT_MAX_REGISTERS && static_cast<std::uint32_t>(value) == 0) ||
                (option == CU_JIT_TARGET && !is_target(value)) ||
                (option == CU_JIT_CACHE_MODE && value > CU_JIT_CACHE_OPTION_CA),
            CUDA_ERROR_INVALID_VALUE);
}

/// Options that a device takes only together.
constexpr int options_together[][3] = {
    {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER},
    {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER},
    {CU_JIT_GLOBAL_SYMBOL_NAMES, CU_JIT_GLOBAL_SYMBOL_ADDRESSES, CU_JIT_GLOBAL_SYMBOL_COUNT}};

/// The names of kernels or variables, and their number.
constexpr int name_lists[][2] = {{CU_JIT_REFERENCED_KERNEL_NAMES, CU_JIT_REFERENCED_KERNEL_COUNT},
                                 {CU_JIT_REFERENCED_VARIABLE_NAMES, CU_JIT_REFERENCED_VARIABLE_COUNT}};

void check_options_together(const std::map<int, std::uintptr_t>& given) {
  for (const auto& all : options_together) {
    const auto count =
        std::count_if(std::begin(all), std::end(all), [&](int one) { return given.contains(one); });
    refuse_if(count != 0 && count != 3, CUDA_ERROR_INVALID_VALUE);
  }
  const auto value_of = [&](int option) { return given.contains(option) ? given.at(option) : 0; };
  for (const auto& [names, number] : name_lists)
    if (value_of(names) == 0 && value_of(number) != 0)
      crash("an option says how many names there are, and none says where they are");
}

/// Gives back the number of threads, which has 32 bits, the time so far, and that nothing was logged.
void answer_option(int option, void*& value, LinkLog& errors) {
  const std::uintptr_t given = reinterpret_cast<std::uintptr_t>(value);
  if (option == CU_JIT_THREADS_PER_BLOCK) value = reinterpret_cast<void*>(given & 0xffff'ffff);
  if (option == CU_JIT_WALL_TIME) value = nullptr;
  if (option == CU_JIT_ERROR_LOG_BUFFER) errors.set_text(value);
  if (option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) errors.set_size(given & 0xffff'ffff, value);
  if (option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES || option == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
    value = nullptr;
}

void check_options(unsigned count, const CUjit_option* options, void* const* values) {
  refuse_if(count != 0 && (options == nullptr || values == nullptr), CUDA_ERROR_INVALID_VALUE);
  std::map<int, std::uintptr_t> given;
  for (unsigned i = 0; i < count; ++i) {
    const auto value = reinterpret_cast<std::uintptr_t>(values[i]);
    check_option(options[i], value);
    given[options[i]] = value;
  }
  check_options_together(given);
}

} // namespace

CUresult Api::cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  const auto home = current_context();
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  check_options(count, options, values);
  const auto made = make<Link>(Kind::link, home.get());
  for (unsigned i = 0; i < count; ++i)
    answer_option(options[i], values[i], made->errors);
  *out = as<CUlinkState>(*made);
  return CUDA_SUCCESS;
}

namespace {

bool is_ptx(std::string_view input) { // which can be inside of the others
  return !is_binary(input) && !is_archive(input) && input.find(".version") != std::string_view::npos;
}

Linkage linkage_of(Linkage linkage) { return linkage; }
template <class Thing>
Linkage linkage_of(const Thing& thing) {
  return thing.linkage;
}

/// A name that several inputs may have stays once: the global one, or the first. Calls twice(name) if two
/// inputs have the same global name.
template <class Things, class Twice>
void add_all(Things& to, const Things& from, Twice twice) {
  for (const auto& [name, thing] : from) {
    const auto [place, is_new] = to.try_emplace(name, thing);
    if (is_new) continue;
    const Linkage there = linkage_of(place->second), here = linkage_of(thing);
    if (there == Linkage::global && here == Linkage::global) twice(name);
    if (here < there) place->second = thing;
  }
}

/// Adds an input. False if it has a global name that an input before has too: the errors get a line for each.
bool add_code(Link& link, const CodeImage& from, const std::string& input) {
  CodeImage& to = link.code;
  bool once = true;
  const auto twice = [&](const std::string& name) {
    once = false;
    link.errors.add("error   : Multiple definition of '" + name + "' in '" + input + "', first defined in '" +
                    link.inputs[name] + "'");
  };
  for (const std::string& kernel : from.order)
    if (!to.kernels.contains(kernel)) to.order.push_back(kernel);
  add_all(to.kernels, from.kernels, twice);
  add_all(to.variables, from.variables, twice);
  add_all(to.functions, from.functions, twice);
  const auto remember = [&](const auto& things) {
    for (const auto& [name, thing] : things)
      link.inputs.try_emplace(name, input);
  };
  remember(from.kernels);
  remember(from.variables);
  remember(from.functions);
  for (const auto& [user, names] : from.uses)
    to.uses[user].insert(names.begin(), names.end());
  to.target = std::max(to.target, from.target);
  return once;
}

bool has(const CodeImage& code, const std::string& name) {
  return code.functions.contains(name) || code.kernels.contains(name) || code.variables.contains(name);
}

/// What kernels need, and the functions that they call, and nobody has, with one that needs it. The linker
/// drops other functions.
std::map<std::string, std::string> missing_in(const CodeImage& code) {
  std::map<std::string, std::string> missing;
  std::set<std::string> seen(code.order.begin(), code.order.end());
  for (std::vector<std::string> left = code.order; !left.empty();) {
    const std::string user = std::move(left.back());
    left.pop_back();
    const auto uses = code.uses.find(user);
    if (uses == code.uses.end()) continue;
    for (const std::string& name : uses->second) {
      if (!seen.insert(name).second) continue;
      left.push_back(name);
      if (!has(code, name) && !is_built_in(name)) missing.emplace(name, user);
    }
  }
  return missing;
}

/// Adds the members of libraries that have what is missing, and what those need. False if two inputs have the
/// same global name.
bool add_libraries(Link& link) {
  std::vector<const LibraryMember*> left;
  for (const LibraryMember& one : link.libraries)
    left.push_back(&one);
  for (bool once = true;;) {
    const auto missing = missing_in(link.code);
    const auto wanted = std::find_if(left.begin(), left.end(), [&](const LibraryMember* one) {
      return std::any_of(missing.begin(), missing.end(),
                         [&](const auto& name) { return has(one->code, name.first); });
    });
    if (wanted == left.end()) return once;
    once = add_code(link, (*wanted)->code, (*wanted)->library) && once;
    left.erase(wanted);
  }
}

/// What the linker finds in binary code: no, one or several pieces. Throws Damaged.
std::vector<CodeImage> read_binary_input(CUjitInputType type, std::string_view input) {
  std::vector<CodeImage> found;
  if (type == CU_JIT_INPUT_CUBIN && is_binary(input)) {
    found.push_back(read_elf(Bytes(input)).code);
  } else if (type == CU_JIT_INPUT_FATBINARY && is_binary(input)) {
    const CUresult verdict = read_binary(Bytes(input), found.emplace_back());
    refuse_if(verdict != CUDA_SUCCESS, verdict);
  } else if (type == CU_JIT_INPUT_OBJECT && is_binary(input)) {
    found = read_object(input);
    if (found.empty()) not_modelled("an object without device code for the linker");
  } else if (type == CU_JIT_INPUT_LIBRARY && is_archive(input)) {
    for (const std::string_view member : members_of(input))
      for (CodeImage& one : read_object(member))
        found.push_back(std::move(one));
  } else {
    if (is_archive(input)) not_modelled("a library for the linker, and the type says that it is none");
    throw Damaged();
  }
  return found;
}

} // namespace

/// Refuses a second definition, or what is missing. Not modelled once the linker of the process is misled.
void Api::refuse_link(CUresult& broken) {
  if (process_.linker_misled)
    not_modelled("a mistake that the linker finds after an input that misled it: a device may not find it");
  refuse(broken = CUDA_ERROR_INVALID_SOURCE);
}

/// A broken link still reads PTX and libraries before it returns its error, and it accepts any object.
CUresult Api::add_to_link(CUlinkState state, CUjitInputType type, const void* data, std::size_t size,
                          const char* name) {
  const auto into = link(state);
  refuse_if(data == nullptr || size == 0 || into->linked || type < CU_JIT_INPUT_CUBIN ||
                type > CU_JIT_INPUT_NVVM,
            CUDA_ERROR_INVALID_VALUE);
  const std::string_view input(static_cast<const char*>(data), size);
  CUresult& broken = into->broken;
  const auto refuse_if_broken = [&] { refuse_if(broken != CUDA_SUCCESS, broken); };
  std::vector<CodeImage> found;
  if (type == CU_JIT_INPUT_PTX || (type == CU_JIT_INPUT_FATBINARY && !is_binary(input))) {
    try {
      found.push_back(checked_ptx(input.data())); // to its null, as when a module is loaded
    } catch (const Refusal& refusal) {
      if (refusal.result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) process_.linker_misled = true;
      throw;
    }
  } else if (type == CU_JIT_INPUT_OBJECT && broken != CUDA_SUCCESS) {
    return CUDA_SUCCESS;
  } else if ((type == CU_JIT_INPUT_OBJECT && !is_binary(input) && !is_archive(input)) ||
             (type == CU_JIT_INPUT_LIBRARY && is_ptx(input))) {
    process_.linker_misled = true;
    refuse(CUDA_ERROR_UNKNOWN);
  } else {
    if (type == CU_JIT_INPUT_CUBIN || type == CU_JIT_INPUT_NVVM) refuse_if_broken();
    if (type == CU_JIT_INPUT_NVVM) refuse(broken = CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
    try {
      found = read_binary_input(type, input);
    } catch (const Damaged&) {
      if (type == CU_JIT_INPUT_CUBIN) broken = CUDA_ERROR_INVALID_IMAGE;
      refuse(CUDA_ERROR_INVALID_IMAGE);
    }
    if (type == CU_JIT_INPUT_CUBIN && !found.front().relocatable)
      refuse(broken = CUDA_ERROR_NO_BINARY_FOR_GPU);
  }
  refuse_if_broken();
  const std::string from = name != nullptr ? name : "";
  if (type == CU_JIT_INPUT_LIBRARY) {
    for (CodeImage& one : found)
      into->libraries.push_back({std::move(one), from});
    return CUDA_SUCCESS;
  }
  for (const CodeImage& one : found)
    if (!add_code(*into, one, from)) refuse_link(broken);
  return CUDA_SUCCESS;
}

/// The state comes first, and then the options.
void Api::check_input(CUlinkState state, unsigned count, const CUjit_option* options, void* const* values) {
  link(state);
  check_options(count, options, values);
}

CUresult Api::cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size,
                               const char* name, unsigned count, CUjit_option* options, void** values) {
  check_input(state, count, options, values);
  return add_to_link(state, type, data, size, name);
}

CUresult Api::cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned count,
                               CUjit_option* options, void** values) {
  check_input(state, count, options, values);
  refuse_if(path == nullptr || *path == '\0' || link(state)->linked, CUDA_ERROR_INVALID_VALUE);
  const std::string file = contents(path);
  refuse_if(file.empty(), CUDA_ERROR_INVALID_IMAGE);
  return add_to_link(state, type, file.data(), file.size(), path);
}

/// The file lives as long as the link state.
CUresult Api::cuLinkComplete(CUlinkState state, void** out, size_t* size) {
  const auto from = link(state);
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(from->broken != CUDA_SUCCESS, from->broken);
  refuse_if(from->linked, CUDA_ERROR_INVALID_HANDLE);
  from->linked = true;
  if (!add_libraries(*from)) refuse_link(from->broken);
  const auto missing = missing_in(from->code);
  for (const auto& [name, user] : missing)
    from->errors.add("error   : Undefined reference to '" + name + "' in '" + from->inputs[user] + "'");
  if (!missing.empty()) refuse_link(from->broken);
  ElfImage elf;
  elf.code = from->code;
  elf.target = 90;
  try {
    from->result = write_elf(elf);
  } catch (const Damaged&) { // more kernels than a file can have
    refuse(from->broken = CUDA_ERROR_INVALID_IMAGE);
  }
  *out = from->result.data();
  if (size != nullptr) *size = from->result.size();
  return CUDA_SUCCESS;
}

CUresult Api::cuLinkDestroy(CUlinkState state) {
  const auto gone = link(state);
  computer_.handles.remove(*gone, ending());
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
