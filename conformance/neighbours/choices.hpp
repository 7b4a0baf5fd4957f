// SPDX-License-Identifier: MIT
// What an argument can be. The first choice of each parameter is valid, and the others are its neighbours.
#pragma once

#include "stage.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace neighbours {

struct Choice {
  std::string label;
  std::function<Word(Stage&)> make;
};
using Choices = std::vector<Choice>;

template <class T>
Word word(T value) {
  return (Word)value;
}
template <class Made>
Choice choice(std::string label, Made make) {
  return {std::move(label), [make](Stage& stage) { return word(make(stage)); }};
}

inline Choice null() {
  return choice("null", [](Stage&) { return Word{0}; });
}
// A list with one element.
template <class Make>
Choice list_of(const char* label, Make make) {
  return choice(label, [make](Stage& s) {
    auto* const list = static_cast<decltype(make(s))*>(s.room(8 * sizeof(void*)));
    list[0] = make(s);
    return list;
  });
}
// A list that begins with these numbers, with zeros behind them; or one number at an address.
template <class T>
Choice numbers_in_list(const std::string& label, std::vector<T> values) {
  return choice(label, [values](Stage& s) {
    T* const list = static_cast<T*>(s.room(8 * sizeof(T)));
    for (std::size_t i = 0; i < values.size(); ++i)
      list[i] = values[i];
    return list;
  });
}

Choices numbers(std::vector<long long> values);
Choices flag_bits(unsigned valid = 0); // the valid ones, none, each bit, and all
Choices enumerators(long long valid, long long last, std::vector<long long> others = {});
Choices words(std::vector<const char*> texts);
Choices paths();  // of files with code
Choices images(); // code in memory
Choices chosen_first(Choices choices, const std::string& label);
Choices without(Choices choices, std::set<std::string> labels);

// What the parameter of a function can be: what this parameter of this function is, or else what its type and
// name are, or else what its type is. Empty if nothing says it.
Choices choices_of(const std::string& symbol, const std::string& type, const std::string& name);

// Parts of it.
Choices handle_choices(const std::string& type);
Choices structure_choices(const std::string& symbol, const std::string& type, const std::string& name);
Choices array_choices(const std::string& symbol, const std::string& type, const std::string& name);
Choices texture_choices(const std::string& symbol, const std::string& type, const std::string& name);
Choices virtual_memory_choices(const std::string& symbol, const std::string& type, const std::string& name);
Choices graph_memory_choices(const std::string& symbol, const std::string& type, const std::string& name);
Choices memory_range_choices(const std::string& symbol, const std::string& type, const std::string& name);
Choices linker_choices(const std::string& symbol, const std::string& type, const std::string& name);
Choices core_dump_choices(const std::string& symbol, const std::string& type, const std::string& name);
bool is_result(const std::string& symbol, const std::string& type, const std::string& name);

// Some first choices are refused together, and a recording has the answers to their neighbours. These are
// further choices of such functions, and the calls with them that are valid.
Choices added_choices(const std::string& symbol, const std::string& name);
Choices added_to_virtual_memory(const std::string& symbol, const std::string& name);
Choices added_to_graph_memory(const std::string& symbol, const std::string& name);
Choices added_to_memory_ranges(const std::string& symbol, const std::string& name);
Choices added_to_linker(const std::string& symbol, const std::string& name);

struct Variation { // of a parameter: the first label is of the valid call, and the others are its neighbours
  std::string parameter;
  std::vector<std::string> labels;
};
using ValidCall = std::vector<Variation>; // the other parameters have their first choice, and vary as usual
std::vector<ValidCall> further_valid_calls(const std::string& symbol);

} // namespace neighbours
