// SPDX-License-Identifier: MIT
// The linker's states, inputs and options as arguments.
#include "choices.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

namespace neighbours {
namespace {

CUlinkState new_link(Stage& s) {
  CUlinkState made = nullptr;
  s.must(s.cu.LinkCreate(0, nullptr, nullptr, &made), "cuLinkCreate");
  return made;
}
CUlinkState with_code(Stage& s) {
  const CUlinkState made = new_link(s);
  s.must(s.cu.LinkAddData(made, CU_JIT_INPUT_PTX, const_cast<char*>(s.code()), std::strlen(s.code()) + 1,
                          "code", 0, nullptr, nullptr),
         "cuLinkAddData");
  return made;
}

Choices states(bool has_code) {
  return {has_code ? choice("with_code", with_code) : choice("empty", new_link),
          null(),
          has_code ? choice("empty", new_link) : choice("with_code", with_code),
          choice("of_other_context",
                 [has_code](Stage& s) {
                   return s.in_other_context([&] { return has_code ? with_code(s) : new_link(s); });
                 }),
          choice("complete",
                 [](Stage& s) {
                   const CUlinkState made = with_code(s);
                   void* code = nullptr;
                   std::size_t size = 0;
                   s.must(s.cu.LinkComplete(made, &code, &size), "cuLinkComplete");
                   return made;
                 }),
          choice("wrong_event", [](Stage& s) { return s.event(); }),
          choice("destroyed", [](Stage& s) {
            const CUlinkState made = new_link(s);
            s.must(s.cu.LinkDestroy(made), "cuLinkDestroy");
            return made;
          })};
}

Choices input_sizes() {
  const auto of_code = [](const char* label, int more) {
    return choice(label, [more](Stage& s) { return static_cast<long long>(std::strlen(s.code())) + more; });
  };
  Choices all{of_code("whole", 1), of_code("without_null", 0)};
  for (Choice& each : numbers({0, 1, 3, 100}))
    all.push_back(std::move(each));
  std::swap(all[1], all[2]); // 0 is next to the valid one
  return all;
}

} // namespace

Choices linker_choices(const std::string& symbol, const std::string& type, const std::string& name) {
  if (type == "CUlinkState") return states(symbol == "cuLinkComplete" || symbol == "cuLinkDestroy");
  if (symbol != "cuLinkAddData_v2" && symbol != "cuLinkAddFile_v2") return {};
  if (type == "CUjitInputType") return enumerators(CU_JIT_INPUT_PTX, 6);
  if (name == "path") return paths();
  if (name == "data") return images();
  if (name == "size") return input_sizes();
  if (name == "name") return words({"code", ""});
  if (name == "numOptions") return numbers({0, 1});
  if (name == "options") return choices_of("cuLinkCreate_v2", type, name);
  if (name == "optionValues") return {null(), choice("zeros", [](Stage& s) { return s.room(4096); })};
  return {};
}

Choices added_to_linker(const std::string& symbol, const std::string& name) {
  if (symbol != "cuLinkCreate_v2") return {};
  if (name == "optionValues") {
    Choices all;
    for (const std::uint64_t value : {0U, 1U, 2U, 90U})
      all.push_back(numbers_in_list<std::uint64_t>("first_" + std::to_string(value), {value}));
    all.push_back(numbers_in_list<std::uint64_t>("first_2_to_the_32", {std::uint64_t{1} << 32}));
    return all;
  }
  if (name != "options") return {};
  Choices all;
  for (int option = 33; option <= 38; ++option)
    all.push_back(numbers_in_list<int>("option_" + std::to_string(option), {option}));
  return all;
}

} // namespace neighbours
