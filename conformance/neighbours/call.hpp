// SPDX-License-Identifier: MIT
// The driver's functions with their parameters, as rows of functions.inc have them, called with words.
#pragma once

#include "stage.hpp"

#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

namespace neighbours {

struct Parameter {
  std::string type;
  std::string name;
};

struct Function {
  std::string symbol;
  std::string name; // for cuGetProcAddress
  int version = 0;
  std::vector<Parameter> parameters;
  std::function<CUresult(void* address, const std::vector<Word>& arguments)> call;
};

template <class T>
T argument(Word word) {
  if constexpr (std::is_class_v<T>) {
    return *reinterpret_cast<const T*>(word);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(word);
  } else {
    return (T)word;
  }
}

template <class... P, std::size_t... I>
CUresult call_with(CUresult (*function)(P...), const std::vector<Word>& words, std::index_sequence<I...>) {
  return function(argument<P>(words[I])...);
}

template <class... P>
Function function_of(const char* symbol, const char* name, int version, const char* parameters,
                     CUresult (*)(P...)) {
  Function made;
  made.symbol = symbol;
  made.name = name;
  made.version = version;
  const std::string text(parameters);
  std::size_t begin = 1;
  while (begin < text.size() - 1) {
    std::size_t end = text.find(", ", begin);
    if (end == std::string::npos) end = text.size() - 1;
    const std::string one = text.substr(begin, end - begin);
    const std::size_t space = one.rfind(' ');
    made.parameters.push_back({one.substr(0, space), one.substr(space + 1)});
    begin = end + 2;
  }
  made.call = [](void* address, const std::vector<Word>& words) {
    return call_with(reinterpret_cast<CUresult (*)(P...)>(address), words, std::index_sequence_for<P...>());
  };
  return made;
}

std::vector<Function> all_functions();

} // namespace neighbours
