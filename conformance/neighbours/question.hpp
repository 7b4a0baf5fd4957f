// SPDX-License-Identifier: MIT
// A question: a call of one function, with the choice of each argument and the situation in which it is made.
#pragma once

#include "call.hpp"
#include "choices.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace neighbours {

struct Subject { // a function with what its arguments can be
  Function function;
  std::vector<Choices> choices; // the last two are the current context and a capture
  std::vector<ValidCall> further_calls;
};

struct Question {
  std::size_t subject = 0;
  std::vector<std::size_t> chosen; // of each list of choices
  std::vector<std::size_t> valid;  // of the valid call that it differs from; all are 0 for the usual one
};

constexpr const char* current_contexts[] = {"home", "none", "other"};
constexpr const char* captures[] = {"none", "global", "thread_local", "relaxed"};

std::vector<Subject> all_subjects();
std::string name_of(const Subject&, const Question&);
Question question_of(const std::vector<Subject>&,
                     const std::string& name); // throws if there is none of this name

std::vector<Question>
neighbours_of(const std::vector<Subject>&); // one argument differs from a valid call, and each pair of nulls
std::vector<Question> fresh_pairs(const std::vector<Subject>&, std::uint64_t seed, std::size_t count);

// The answer of the driver: "CUDA_SUCCESS, count=3".
std::string answer(Stage&, const Subject&, const Question&);

} // namespace neighbours
