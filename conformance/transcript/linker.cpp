// SPDX-License-Identifier: MIT
// The driver's linker: what it takes, what it links, and what it says after a mistake.

#include "code_image.hpp"
#include "everywhere.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace transcript {
namespace {

// The driver's linker.
void linker(Lab& lab) {
  const Api& cu = lab.cu;
  CUlinkState state = nullptr;
  void* result = nullptr;
  std::size_t bytes = 0;
  std::string text = code_image;
  lab.is("create", cu.LinkCreate(0, nullptr, nullptr, &state));
  lab.is("create.nowhere", cu.LinkCreate(0, nullptr, nullptr, nullptr));
  lab.is("add",
         cu.LinkAddData(state, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "a", 0, nullptr, nullptr));
  std::string garbage = "garbage";
  lab.is("add.null", cu.LinkAddData(state, CU_JIT_INPUT_PTX, nullptr, 8, "b", 0, nullptr, nullptr));
  lab.is("add_file.missing",
         cu.LinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere/missing.ptx", 0, nullptr, nullptr));
  lab.is("complete", cu.LinkComplete(state, &result, &bytes));
  lab.shows("complete.bytes", bytes > 0);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  lab.is("load", cu.ModuleLoadData(&module, result));
  lab.is("function", cu.ModuleGetFunction(&function, module, "work"));
  lab.is("function.missing", cu.ModuleGetFunction(&function, module, "missing"));
  lab.is("destroy", cu.LinkDestroy(state));
  lab.is("destroy.null", cu.LinkDestroy(nullptr));
  lab.must(cu.LinkCreate(0, nullptr, nullptr, &state), "cuLinkCreate");
  lab.is("garbage", cu.LinkAddData(state, CU_JIT_INPUT_PTX, garbage.data(), 8, "b", 0, nullptr, nullptr));
  lab.is("garbage.complete", cu.LinkComplete(state, &result, &bytes));
  lab.is("garbage.destroy", cu.LinkDestroy(state));
  everywhere(lab, "create", [&](CUstream) { return cu.LinkCreate(0, nullptr, nullptr, &state); });
}

// What `code.linker` does not ask.
void linker_neighbours(Lab& lab) {
  const Api& cu = lab.cu;
  std::string text = code_image, other = ".version 7.0\n.target sm_75\n.visible .entry other() { ret; }\n";
  const auto fresh = [&] {
    CUlinkState state = nullptr;
    lab.must(cu.LinkCreate(0, nullptr, nullptr, &state), "cuLinkCreate");
    return state;
  };
  const auto add = [&](CUlinkState state, int type, std::string& input, std::size_t size) {
    return cu.LinkAddData(state, number<CUjitInputType>(type), input.data(), size, "a", 0, nullptr, nullptr);
  };
  void* result = nullptr;
  std::size_t bytes = 0;
  const auto kernels = [&](const std::string& name, CUlinkState state) {
    const CUresult completed = cu.LinkComplete(state, &result, &bytes);
    lab.is(name + ".complete", completed);
    CUmodule module = nullptr;
    if (completed != CUDA_SUCCESS) return;
    lab.is(name + ".load", cu.ModuleLoadData(&module, result));
    CUfunction function = nullptr;
    for (const char* kernel : {"work", "other"})
      lab.is(name + "." + kernel, cu.ModuleGetFunction(&function, module, kernel));
  };
  kernels("nothing", fresh());
  CUlinkState state = fresh();
  lab.is("two.first", add(state, CU_JIT_INPUT_PTX, text, text.size() + 1));
  lab.is("two.second", add(state, CU_JIT_INPUT_PTX, other, other.size()));
  kernels("two", state);
  lab.is("two.again", cu.LinkComplete(state, &result, &bytes));
  state = fresh();
  lab.is("duplicate.first", add(state, CU_JIT_INPUT_PTX, text, text.size() + 1));
  lab.is("duplicate.second", add(state, CU_JIT_INPUT_PTX, text, text.size() + 1));
  kernels("duplicate", state);
  state = fresh();
  std::string garbage = "garbage";
  for (const int type : {-1, 0, 2, 3, 5, 6, 99})
    lab.is("garbage." + std::to_string(type), add(state, type, garbage, garbage.size()));
  lab.is("empty", add(state, CU_JIT_INPUT_PTX, text, 0));
  lab.is("file.null", cu.LinkAddFile(state, CU_JIT_INPUT_PTX, nullptr, 0, nullptr, nullptr));
  lab.is("complete.no_size", cu.LinkComplete(state, &result, nullptr));
  lab.is("complete.nowhere", cu.LinkComplete(state, nullptr, &bytes));
}

// What a link state is given, and what is done with it.
class LinkSteps {
public:
  explicit LinkSteps(Lab& lab) : lab_(lab), cu_(lab.cu) {
    const CUlinkState whole = fresh();
    lab.must(complete(whole), "cuLinkComplete");
    const std::string cubin(static_cast<const char*>(result_), bytes_);
    lab.must(cu_.LinkDestroy(whole), "cuLinkDestroy");
    steps_ = {{"other", input(CU_JIT_INPUT_PTX, head + ".visible .entry c() { ret; }\n")},
              {"same", input(CU_JIT_INPUT_PTX, kernel)},
              {"calls", input(CU_JIT_INPUT_PTX, calls)},
              {"no_ptx", input(CU_JIT_INPUT_PTX, "garbage")},
              {"new_ptx", input(CU_JIT_INPUT_PTX, ".version 99.0\n.target sm_75\n")},
              {"bad_cubin", input(CU_JIT_INPUT_CUBIN, "garbage")},
              {"whole_cubin", input(CU_JIT_INPUT_CUBIN, cubin)},
              {"bad_fat", input(CU_JIT_INPUT_FATBINARY, "garbage")},
              {"bad_object", input(CU_JIT_INPUT_OBJECT, "garbage")},
              {"ptx_object", input(CU_JIT_INPUT_OBJECT, kernel)},
              {"bad_library", input(CU_JIT_INPUT_LIBRARY, "garbage")},
              {"ptx_library", input(CU_JIT_INPUT_LIBRARY, kernel)},
              {"bad_nvvm", input(number<CUjitInputType>(5), "garbage")},
              {"ptx_nvvm", input(number<CUjitInputType>(5), kernel)},
              {"no_data",
               [this](CUlinkState state) {
                 return cu_.LinkAddData(state, CU_JIT_INPUT_PTX, nullptr, 0, "x", 0, nullptr, nullptr);
               }},
              {"no_file",
               [this](CUlinkState state) {
                 return cu_.LinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere/nothing", 0, nullptr, nullptr);
               }},
              {"complete", [this](CUlinkState state) { return complete(state); }},
              {"calls_and_complete",
               [this](CUlinkState state) {
                 lab_.must(take("calls", state), "cuLinkAddData");
                 return complete(state);
               }},
              {"nowhere", [this](CUlinkState state) { return cu_.LinkComplete(state, nullptr, &bytes_); }}};
  }

  /// With one kernel.
  CUlinkState fresh() {
    CUlinkState state = nullptr;
    lab_.must(cu_.LinkCreate(0, nullptr, nullptr, &state), "cuLinkCreate");
    lab_.must(input(CU_JIT_INPUT_PTX, kernel)(state), "cuLinkAddData");
    return state;
  }
  CUresult take(const std::string& step, CUlinkState state) { return steps_.at(step)(state); }
  CUresult complete(CUlinkState state) { return cu_.LinkComplete(state, &result_, &bytes_); }

  /// The results of one step, of another one, and of two attempts to complete the link.
  void pair(const std::string& first, const std::string& second) {
    const CUlinkState state = fresh();
    std::vector<CUresult> results{take(first, state), take(second, state)};
    for (int i = 0; i < 2; ++i)
      results.push_back(complete(state));
    lab_.shows(first + "." + second, joined(lab_, results));
    lab_.must(cu_.LinkDestroy(state), "cuLinkDestroy");
  }

private:
  using Take = std::function<CUresult(CUlinkState)>;
  Take input(CUjitInputType type, std::string text) {
    return [this, type, text = std::move(text)](CUlinkState state) mutable {
      return cu_.LinkAddData(state, type, text.data(), text.size() + 1, "x", 0, nullptr, nullptr);
    };
  }

  static inline const std::string head = ".version 7.0\n.target sm_75\n.address_size 64\n",
                                  kernel = head + ".visible .entry a() { ret; }\n",
                                  calls = head + ".extern .func m ();\n"
                                                 ".visible .entry b() { call.uni m; ret; }\n";
  Lab& lab_;
  const Api& cu_;
  void* result_ = nullptr;
  std::size_t bytes_ = 0;
  std::map<std::string, Take> steps_;
};

constexpr const char* mistakes_for_linker[] = {"no_ptx",      "new_ptx",    "bad_cubin",  "whole_cubin",
                                               "bad_fat",     "bad_object", "ptx_object", "bad_library",
                                               "ptx_library", "bad_nvvm",   "ptx_nvvm"};

// Whether a mistake changes what the linker of the process says of later ones.
template <int mistake>
void linker_misled(Lab& lab) {
  LinkSteps steps(lab);
  const CUlinkState state = steps.fresh();
  lab.is("first", steps.take(mistakes_for_linker[mistake], state));
  lab.must(lab.cu.LinkDestroy(state), "cuLinkDestroy");
  for (const char* later : {"same", "calls", "other"})
    steps.pair(later, "complete");
}

// Pairs of steps. `same` and `calls` come only before the mistakes, because some of those change the answers
// for the whole process.
void linker_afterwards(Lab& lab) {
  LinkSteps steps(lab);
  const char* const clean[] = {"other",   "same",     "calls",   "no_data",
                               "no_file", "complete", "nowhere", "calls_and_complete"};
  for (const char* first : clean)
    for (const char* second : clean)
      if (std::string(second) != "calls_and_complete") steps.pair(first, second);
  for (const char* first : {"complete", "calls_and_complete"})
    for (const char* mistake : mistakes_for_linker)
      steps.pair(first, mistake);
  const CUlinkState state = steps.fresh();
  lab.is("all.same", steps.take("same", state));
  for (const char* mistake : mistakes_for_linker)
    lab.is(std::string("all.") + mistake, steps.take(mistake, state));
  lab.is("all.other", steps.take("other", state));
  lab.is("all.complete", steps.complete(state));
  lab.must(lab.cu.LinkDestroy(state), "cuLinkDestroy");
  for (const char* first : mistakes_for_linker) {
    for (const char* mistake : mistakes_for_linker)
      steps.pair(first, mistake);
    for (const char* second : {"other", "no_data", "no_file", "nowhere", "complete"}) {
      steps.pair(first, second);
      if (std::string(second) != "complete") steps.pair(second, first);
    }
  }
}

// What two inputs may both have, and what they need of each other.
std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', '|');
  return text.empty() ? "none" : text;
}

void linkage(Lab& lab) {
  const Api& cu = lab.cu;
  const std::string unused =
      ".extern .func missing ();\n.visible .func unused () { call.uni missing; ret; }\n";
  const std::string calls = ".extern .func missing ();\n.visible .entry a() { call.uni missing; ret; }\n";
  const std::string reads = ".extern .global .u32 v;\n.visible .entry a() { .reg .u32 %r; .reg .u64 %p; "
                            "mov.u64 %p, v; ld.global.u32 %r, [%p]; st.global.u32 [%p], %r; ret; }\n";
  const std::string names = ".extern .entry b ();\n.visible .entry a() { .reg .u64 %p; mov.u64 %p, b; "
                            "st.global.u64 [%p], %p; ret; }\n";
  const std::string kernel = ".visible .entry a() { ret; }\n";
  struct Pair {
    const char* name;
    std::string first, second;
  };
  const Pair pairs[] = {
      {"local_variables", kernel + ".global .u32 v;", ".global .u32 v;"},
      {"weak_variables", kernel + ".weak .global .u32 v;", ".weak .global .u32 v;"},
      {"common_variables", kernel + ".common .global .u32 v;", ".common .global .u32 v;"},
      {"global_variables", kernel + ".visible .global .u32 v;", ".visible .global .u32 v;"},
      {"weak_kernels", ".weak .entry a() { ret; }", ".weak .entry a() { ret; }"},
      {"local_kernels", ".entry a() { ret; }", ".entry a() { ret; }"},
      {"unused_function", unused + kernel, ".visible .entry b() { ret; }"},
      {"missing_function", calls, ".visible .entry b() { ret; }"},
      {"missing_variable", reads, ".visible .entry b() { ret; }"},
      {"other_variable", reads, ".visible .global .u32 v;"},
      {"missing_kernel", names, ".visible .entry c() { ret; }"},
      {"other_kernel", names, ".visible .entry b() { ret; }"},
  };
  for (const auto& [name, first, second] : pairs) {
    const std::string is = name;
    char log[512] = {};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CUlinkState state = nullptr;
    lab.must(cu.LinkCreate(2, options, values, &state), "cuLinkCreate");
    lab.shows(is + ".log_at_first", reinterpret_cast<std::uintptr_t>(values[1]));
    const auto add = [&](const char* which, const std::string& body) {
      std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n" + body;
      lab.is(is + which,
             cu.LinkAddData(state, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "x", 0, nullptr, nullptr));
    };
    void* result = nullptr;
    const auto complete = [&](const std::string& when) {
      const CUresult completed = cu.LinkComplete(state, &result, nullptr);
      lab.is(is + when + "complete", completed);
      lab.shows(is + when + "log", reinterpret_cast<std::uintptr_t>(values[1]));
      lab.shows(is + when + "text", in_one_line(log));
      return completed;
    };
    add(".first", first);
    add(".second", second);
    CUresult completed = complete(".");
    if (completed != CUDA_SUCCESS) {
      complete(".again.");
      add(".again.kernel", ".visible .entry d() { ret; }\n");
      complete(".with_kernel.");
      add(".again.missing", ".visible .func missing () { ret; }\n.visible .global .u32 v;\n"
                            ".visible .entry b() { ret; }\n");
      completed = complete(".with_missing.");
    }
    CUmodule module = nullptr;
    if (completed == CUDA_SUCCESS) lab.is(is + ".load", cu.ModuleLoadData(&module, result));
    CUfunction function = nullptr;
    CUdeviceptr variable = 0;
    if (module != nullptr) {
      lab.is(is + ".kernel", cu.ModuleGetFunction(&function, module, "a"));
      lab.is(is + ".variable", cu.ModuleGetGlobal(&variable, nullptr, module, "v"));
    }
    cu.LinkDestroy(state);
  }
  // Without a linker.
  for (const auto& [name, body] :
       {std::pair("unused", unused + kernel), std::pair("calls", calls), std::pair("reads", reads),
        std::pair("names", names), std::pair("declares", ".extern .func missing ();\n" + kernel),
        std::pair("declares_variable", ".extern .global .u32 v;\n" + kernel),
        std::pair("declares_kernel", ".extern .entry b ();\n" + kernel)}) {
    const std::string is = std::string("alone.") + name,
                      text = ".version 7.0\n.target sm_75\n.address_size 64\n" + body;
    CUmodule module = nullptr;
    lab.is(is, cu.ModuleLoadData(&module, text.c_str()));
    CUlibrary library = nullptr;
    lab.is(is + ".library",
           cu.LibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
}

// An H100 crashed when the second option had the value zero. The last question here is that one.
void linker_options(Lab& lab) {
  const Api& cu = lab.cu;
  char log[512] = {};
  const auto create = [&](int option, void* value) {
    CUjit_option name = number<CUjit_option>(option);
    CUlinkState state = nullptr;
    const CUresult result = cu.LinkCreate(1, &name, &value, &state);
    if (result == CUDA_SUCCESS) cu.LinkDestroy(state);
    return result;
  };
  for (const int option : {0, 1, 7, 9, 10, 11, 12, 13, 14, 16, 20, 30, 31, 99, -1})
    for (const std::uintptr_t value : {std::uintptr_t{1}, std::uintptr_t{64}, std::uintptr_t{90}})
      lab.is(std::to_string(option) + ".to_" + std::to_string(value),
             create(option, reinterpret_cast<void*>(value)));
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUlinkState state = nullptr;
  lab.is("log", cu.LinkCreate(2, names, values, &state));
  for (const int option : {0, 7, 8, 9, 10, 11, 12, 13, 14, 16, 20, 30})
    lab.is(std::to_string(option) + ".to_0", create(option, nullptr));
}

} // namespace

std::vector<Scenario> linker_scenarios() {
  return {{"code.linker", linker, Place::child},
          {"code.linkage", linkage, Place::alone},
          {"code.linker_neighbours", linker_neighbours, Place::alone},
          {"code.linker_afterwards", linker_afterwards, Place::alone},
          {"code.linker_misled.no_ptx", linker_misled<0>, Place::alone},
          {"code.linker_misled.new_ptx", linker_misled<1>, Place::probe},
          {"code.linker_misled.bad_cubin", linker_misled<2>, Place::alone},
          {"code.linker_misled.whole_cubin", linker_misled<3>, Place::alone},
          {"code.linker_misled.bad_fat", linker_misled<4>, Place::alone},
          {"code.linker_misled.bad_object", linker_misled<5>, Place::probe},
          {"code.linker_misled.ptx_object", linker_misled<6>, Place::probe},
          {"code.linker_misled.bad_library", linker_misled<7>, Place::alone},
          {"code.linker_misled.ptx_library", linker_misled<8>, Place::probe},
          {"code.linker_misled.bad_nvvm", linker_misled<9>, Place::alone},
          {"code.linker_misled.ptx_nvvm", linker_misled<10>, Place::alone},
          {"code.linker_options", linker_options, Place::child}};
}

} // namespace transcript
