// SPDX-License-Identifier: MIT
#include "question.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include <unistd.h>

namespace neighbours {
namespace {

Choices situations(const char* const* names, std::size_t count) {
  Choices all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(choice(names[i], [i](Stage&) { return i; }));
  return all;
}

std::string argument_name(const Subject& subject, std::size_t i) {
  const std::size_t parameters = subject.function.parameters.size();
  return i < parameters ? subject.function.parameters[i].name : i == parameters ? "[current]" : "[capture]";
}

struct Random { // the same numbers with every library
  std::uint64_t state;
  std::size_t below(std::size_t bound) {
    state += 0x9e3779b97f4a7c15u;
    std::uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return static_cast<std::size_t>((mixed ^ (mixed >> 31)) % bound);
  }
};

// What has ended, or is a handle of another kind.
bool is_ended(const std::string& label) {
  return label == "destroyed" || label == "unloaded" || label == "of_unloaded" || label == "released" ||
         label == "unregistered" || label == "freed" || label.find(":freed") != std::string::npos ||
         label.find("_destroyed") != std::string::npos || label.find("_released") != std::string::npos ||
         label.compare(0, 6, "wrong_") == 0;
}

Question usual_call(const std::vector<Subject>& subjects, std::size_t subject) {
  const std::vector<std::size_t> first(subjects[subject].choices.size(), 0);
  return {subject, first, first};
}

// Numbers that differ from device to device, or from run to run.
bool has_own_value(const std::string& symbol, const std::string& name) {
  static const std::set<std::string> names{"id",   "free",    "total", "milliseconds",
                                           "uuid", "version", "symbol"};
  return names.count(name) != 0 || symbol == "cuDeviceTotalMem_v2" || symbol == "cuDeviceGetAttribute" ||
         symbol == "cuDriverGetVersion";
}

} // namespace

std::vector<Subject> all_subjects() {
  std::vector<Subject> all;
  for (Function& function : all_functions()) {
    Subject subject;
    bool known = true;
    for (const Parameter& parameter : function.parameters) {
      Choices choices = choices_of(function.symbol, parameter.type, parameter.name);
      known = known && !choices.empty();
      if (!known) break;
      // What has ended comes last: an answer may leave the process damaged.
      std::stable_partition(choices.begin() + 1, choices.end(),
                            [](const Choice& each) { return !is_ended(each.label); });
      subject.choices.push_back(std::move(choices));
    }
    if (!known) continue; // sim/MODELLED.md lists the functions that nobody asked about
    subject.choices.push_back(situations(current_contexts, 3));
    subject.choices.push_back(situations(captures, 4));
    subject.further_calls = further_valid_calls(function.symbol);
    subject.function = std::move(function);
    all.push_back(std::move(subject));
  }
  return all;
}

std::string name_of(const Subject& subject, const Question& question) {
  std::string name = subject.function.symbol + "(";
  bool first = true;
  for (std::size_t i = 0; i < question.chosen.size(); ++i) {
    if (question.chosen[i] == 0) continue;
    name +=
        (first ? "" : ", ") + argument_name(subject, i) + "=" + subject.choices[i][question.chosen[i]].label;
    first = false;
  }
  return name + ")";
}

Question question_of(const std::vector<Subject>& subjects, const std::string& name) {
  const std::size_t open = name.find('(');
  for (std::size_t s = 0; s < subjects.size() && open != std::string::npos; ++s) {
    const Subject& subject = subjects[s];
    if (name.compare(0, open, subject.function.symbol) != 0) continue;
    Question question = usual_call(subjects, s);
    std::size_t begin = open + 1;
    while (begin + 1 < name.size()) {
      const std::size_t end = std::min(name.find(", ", begin), name.size() - 1);
      const std::string part = name.substr(begin, end - begin);
      for (std::size_t i = 0; i < subject.choices.size(); ++i)
        for (std::size_t c = 1; c < subject.choices[i].size(); ++c)
          if (argument_name(subject, i) + "=" + subject.choices[i][c].label == part) question.chosen[i] = c;
      begin = end + 2;
    }
    if (name_of(subject, question) == name) return question;
  }
  throw std::invalid_argument("no question " + name);
}

namespace {

// For each argument, the choice of a valid call and then its neighbours.
using Variations = std::vector<std::vector<std::size_t>>;

Variations usual_variations(const Subject& subject) {
  Variations all;
  for (const Choices& choices : subject.choices) {
    all.emplace_back(choices.size());
    std::iota(all.back().begin(), all.back().end(), std::size_t{0});
  }
  return all;
}

Variations variations_of(const Subject& subject, const ValidCall& call) {
  Variations all = usual_variations(subject);
  for (const Variation& each : call) {
    std::size_t i = 0;
    while (i < subject.function.parameters.size() && subject.function.parameters[i].name != each.parameter)
      ++i;
    if (i == subject.function.parameters.size()) throw std::logic_error("no parameter " + each.parameter);
    all[i].clear();
    for (const std::string& label : each.labels) {
      const Choices& choices = subject.choices[i];
      const auto found =
          std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.label == label; });
      if (found == choices.end()) throw std::logic_error("no choice " + each.parameter + "=" + label);
      all[i].push_back(static_cast<std::size_t>(found - choices.begin()));
    }
  }
  return all;
}

} // namespace

std::vector<Question> neighbours_of(const std::vector<Subject>& subjects) {
  std::vector<Question> all;
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    const Subject& subject = subjects[s];
    std::vector<Question> last;
    std::set<std::vector<std::size_t>> asked;
    const auto add = [&](const Question& question) {
      if (!asked.insert(question.chosen).second) return; // it is a neighbour of another valid call, too
      bool ended = false;
      for (std::size_t i = 0; i < question.chosen.size(); ++i)
        ended |= is_ended(subject.choices[i][question.chosen[i]].label);
      (ended ? last : all).push_back(question);
    };
    std::vector<Variations> calls{usual_variations(subject)};
    for (const ValidCall& call : subject.further_calls)
      calls.push_back(variations_of(subject, call));
    for (const Variations& arguments : calls) {
      Question valid{s, {}, {}};
      for (const auto& choices : arguments)
        valid.valid.push_back(choices[0]);
      valid.chosen = valid.valid;
      add(valid);
      Question question = valid;
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        for (std::size_t choice : arguments[i]) {
          question.chosen[i] = choice;
          add(question);
        }
        question.chosen[i] = valid.chosen[i];
      }
      for (std::size_t i = 0; i < arguments.size(); ++i)
        for (std::size_t j = i + 1; j < arguments.size(); ++j) {
          if (arguments[i].size() < 2 || arguments[j].size() < 2) continue;
          question.chosen[i] = arguments[i][1];
          question.chosen[j] = arguments[j][1];
          add(question);
          question.chosen[i] = valid.chosen[i];
          question.chosen[j] = valid.chosen[j];
        }
    }
    all.insert(all.end(), last.begin(), last.end());
  }
  return all;
}

std::vector<Question> fresh_pairs(const std::vector<Subject>& subjects, std::uint64_t seed,
                                  std::size_t count) {
  Random random{seed};
  std::vector<Question> all;
  std::set<std::string> known;
  for (std::size_t tries = 0; all.size() < count && tries < count * 100; ++tries) {
    const std::size_t s = random.below(subjects.size());
    const auto& choices = subjects[s].choices;
    Question question = usual_call(subjects, s);
    const std::size_t i = random.below(choices.size()), j = random.below(choices.size());
    question.chosen[i] = random.below(choices[i].size());
    question.chosen[j] = random.below(choices[j].size());
    if (i == j || question.chosen[i] == 0 || question.chosen[j] == 0) continue;
    if (is_ended(choices[i][question.chosen[i]].label) || is_ended(choices[j][question.chosen[j]].label))
      continue;
    if (known.insert(name_of(subjects[s], question)).second) all.push_back(question);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Question& a, const Question& b) { return a.subject < b.subject; });
  return all;
}

namespace {

std::string shown_number(Word word, std::size_t bytes) {
  if (bytes == 4) return std::to_string(static_cast<std::int32_t>(word));
  return std::to_string(static_cast<std::int64_t>(word));
}

// How many 32-bit words of a result are shown when the call succeeds. They hold no addresses.
std::size_t shown_words(const std::string& symbol, const std::string& name) {
  static const std::map<std::string, std::size_t> all{
      {"cuArrayGetDescriptor_v2.pArrayDescriptor", 6},
      {"cuArray3DGetDescriptor_v2.pArrayDescriptor", 9},
      {"cuArrayGetMemoryRequirements.memoryRequirements", 4},
      {"cuArrayGetSparseProperties.sparseProperties", 7},
      {"cuMipmappedArrayGetMemoryRequirements.memoryRequirements", 4},
      {"cuMipmappedArrayGetSparseProperties.sparseProperties", 7},
      {"cuMemGetAllocationGranularity.granularity", 2},
      {"cuMemGetAllocationPropertiesFromHandle.prop", 4},
      {"cuTexObjectGetTextureDesc.pTexDesc", 8},
      {"cuTexObjectGetResourceViewDesc.pResViewDesc", 12}};
  const auto found = all.find(symbol + "." + name);
  return found == all.end() ? 0 : found->second;
}

std::string words_at(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes + 4 * i, 4);
    text += (i == 0 ? "" : " ") + (word == 0xa5a5a5a5u ? "kept" : std::to_string(word));
  }
  return text;
}

// What the call put into the results.
std::string results(const Subject& subject, const std::vector<Word>& arguments, const Question& question,
                    bool succeeded) {
  std::string text;
  for (std::size_t i = 0; i < subject.function.parameters.size(); ++i) {
    const Parameter& parameter = subject.function.parameters[i];
    const bool counter = parameter.type == "size_t*" && parameter.name == "count";
    if (arguments[i] == 0 ||
        (!counter && !is_result(subject.function.symbol, parameter.type, parameter.name)))
      continue;
    if (!counter && question.chosen[i] != 0) continue;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(arguments[i]);
    Word word = 0;
    static const std::set<std::string> wide{"size_t*", "cuuint64_t*", "unsigned long long*"};
    static const std::set<std::string> handles{"CUarray*",
                                               "CUmipmappedArray*",
                                               "CUmemGenericAllocationHandle*",
                                               "CUsurfObject*",
                                               "CUtexObject*",
                                               "CUcontext*",
                                               "CUdeviceptr*",
                                               "CUevent*",
                                               "CUfunction*",
                                               "CUgraph*",
                                               "CUgraphExec*",
                                               "CUgraphNode*",
                                               "CUgreenCtx*",
                                               "CUkernel*",
                                               "CUlibrary*",
                                               "CUlogsCallbackHandle*",
                                               "CUmemoryPool*",
                                               "CUmodule*",
                                               "CUstream*",
                                               "CUuserObject*",
                                               "CUdevResourceDesc*"};
    const bool pointer = parameter.type.find("**") != std::string::npos || handles.count(parameter.type) != 0;
    static const std::set<std::string> narrow{"int*",
                                              "unsigned int*",
                                              "CUdevice*",
                                              "CUfunc_cache*",
                                              "CUfunctionLoadingState*",
                                              "CUgraphNodeType*",
                                              "CUmemAccess_flags*",
                                              "CUmoduleLoadingMode*",
                                              "CUstreamCaptureStatus*",
                                              "CUdriverProcAddressQueryResult*"};
    const std::size_t size = pointer || wide.count(parameter.type) ? 8 : narrow.count(parameter.type) ? 4 : 0;
    std::string shown;
    if (size == 0) {
      bool kept = true;
      for (int b = 0; b < 64; ++b)
        kept = kept && bytes[b] == 0xa5;
      shown = kept ? "kept" : "set";
    } else {
      std::memcpy(&word, bytes, size);
      const Word pattern = size == 4 ? 0xa5a5a5a5u : 0xa5a5a5a5a5a5a5a5u;
      if (word == pattern)
        shown = "kept";
      else if (pointer)
        shown = word == 0 ? "null" : "set";
      else if (has_own_value(subject.function.symbol, parameter.name))
        shown = "set";
      else
        shown = shown_number(word, size);
    }
    const std::size_t words = shown_words(subject.function.symbol, parameter.name);
    if (succeeded && words != 0 && shown != "kept") {
      text += ", " + parameter.name + "=" + words_at(bytes, words);
      continue;
    }
    if (counter ? !succeeded : (shown == "kept") == !succeeded) continue;
    text += ", " + parameter.name + "=" + shown;
  }
  return text;
}

// Ends what a call has made, once its captures have ended.
void end_later(Stage& stage, const std::string& symbol, const std::vector<Word>& arguments) {
  const auto made = [&arguments] { return *reinterpret_cast<const Word*>(arguments[0]); };
  const transcript::Api& cu = stage.cu;
  if (symbol == "cuArrayCreate_v2" || symbol == "cuArray3DCreate_v2")
    stage.later([&cu, array = made()] { cu.ArrayDestroy((CUarray)array); });
  if (symbol == "cuMipmappedArrayCreate")
    stage.later([&cu, array = made()] { cu.MipmappedArrayDestroy((CUmipmappedArray)array); });
  if (symbol == "cuTexObjectCreate" || symbol == "cuSurfObjectCreate")
    stage.later([&stage, object = made(), surface = symbol == "cuSurfObjectCreate"] {
      stage.end_object(object, surface);
    });
  if (symbol == "cuMemCreate" || symbol == "cuMemImportFromShareableHandle" ||
      symbol == "cuMemRetainAllocationHandle")
    stage.later([&cu, memory = made()] { cu.MemRelease(memory); });
  if (symbol == "cuMemAddressReserve")
    stage.later([&cu, range = made(), bytes = arguments[1]] { cu.MemAddressFree(range, bytes); });
  if (symbol == "cuMemExportToShareableHandle")
    stage.later([file = static_cast<int>(made())] { close(file); });
}

} // namespace

std::string answer(Stage& stage, const Subject& subject, const Question& question) {
  stage.next();
  void* address = nullptr;
  stage.cu.GetProcAddress(subject.function.name.c_str(), &address, subject.function.version,
                          CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr);
  if (address == nullptr) return "not found";
  std::vector<Word> arguments;
  const std::size_t parameters = subject.function.parameters.size();
  for (std::size_t i = 0; i < parameters; ++i)
    arguments.push_back(subject.choices[i][question.chosen[i]].make(stage));
  const std::size_t context = question.chosen[parameters], capture = question.chosen[parameters + 1];
  if (capture != 0)
    stage.begun(stage.new_stream(), capture == 1   ? CU_STREAM_CAPTURE_MODE_GLOBAL
                                    : capture == 2 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                   : CU_STREAM_CAPTURE_MODE_RELAXED);
  if (context == 1) stage.must(stage.cu.CtxSetCurrent(nullptr), "cuCtxSetCurrent");
  if (context == 2) stage.must(stage.cu.CtxSetCurrent(stage.other()), "cuCtxSetCurrent");

  const CUresult result = subject.function.call(address, arguments);

  const char* name = "?";
  stage.cu.GetErrorName(result, &name);
  std::string text = name == nullptr ? "unknown " + std::to_string(result) : name;
  if (text.compare(0, 11, "CUDA_ERROR_") == 0) text = text.substr(11);
  if (text == "CUDA_SUCCESS") text = "SUCCESS";
  text += results(subject, arguments, question, result == CUDA_SUCCESS);
  const std::string& symbol = subject.function.symbol;
  if (result == CUDA_SUCCESS) end_later(stage, symbol, arguments);
  if (result == CUDA_SUCCESS && symbol == "cuStreamDestroy_v2") stage.forget((CUstream)arguments[0]);
  if (result == CUDA_SUCCESS && symbol == "cuMemHostRegister_v2")
    stage.cu.MemHostUnregister(reinterpret_cast<void*>(arguments[0]));
  if (result == CUDA_SUCCESS && symbol.find("BeginCapture") != std::string::npos)
    stage.begins((CUstream)arguments[0]);
  return text;
}

} // namespace neighbours
