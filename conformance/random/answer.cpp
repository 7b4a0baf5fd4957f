// SPDX-License-Identifier: MIT
#include "answer.hpp"

#include <cctype>

namespace conformance {
namespace {

struct Letter {
  char letter;
  CUresult result;
  const char* name;
};

constexpr Letter letters[] = {
#define LETTER(letter, name) {letter, name, #name},
    LETTER('.', CUDA_SUCCESS) LETTER('n', CUDA_ERROR_NOT_READY) LETTER('v', CUDA_ERROR_INVALID_VALUE)
        LETTER('h', CUDA_ERROR_INVALID_HANDLE) LETTER('c', CUDA_ERROR_INVALID_CONTEXT)
            LETTER('s', CUDA_ERROR_ILLEGAL_STATE) LETTER('u', CUDA_ERROR_NOT_SUPPORTED)
                LETTER('d', CUDA_ERROR_CONTEXT_IS_DESTROYED) LETTER('p', CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
                    LETTER('U', CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                        LETTER('I', CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
                            LETTER('M', CUDA_ERROR_STREAM_CAPTURE_MERGE)
                                LETTER('A', CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
                                    LETTER('J', CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
                                        LETTER('O', CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
                                            LETTER('L', CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
                                                LETTER('E', CUDA_ERROR_CAPTURED_EVENT)
                                                    LETTER('W', CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
#undef LETTER
};

constexpr std::string_view any_other = "x"; // and the number, in brackets

} // namespace

std::string short_form(CUresult result) {
  for (const Letter& one : letters)
    if (one.result == result) return std::string(1, one.letter);
  return std::string(any_other) + "(" + std::to_string(static_cast<int>(result)) + ")";
}

std::string short_form(CUresult result, unsigned long long value) {
  return short_form(result) + (result == CUDA_SUCCESS ? std::to_string(value) : "");
}

std::string long_form(std::string_view answer) {
  if (answer.empty()) return "nothing";
  if (answer.front() == left_out) return "not called";
  if (answer.front() == '<') return std::string(answer);
  std::string text;
  for (const Letter& one : letters)
    if (one.letter == answer.front()) text = one.name;
  std::string_view rest = answer.substr(1);
  if (answer.starts_with(any_other) && rest.starts_with('(') && rest.find(')') != std::string_view::npos) {
    const auto end = rest.find(')');
    text = "CUresult " + std::string(rest.substr(1, end - 1));
    rest = rest.substr(end + 1);
  }
  if (text.empty()) return "unknown answer: " + std::string(answer);
  const bool late = !rest.empty() && rest.back() == after_opening;
  if (late) rest.remove_suffix(1);
  if (!rest.empty()) text += ", " + std::string(rest);
  if (late) text += ", but only after all gates were opened";
  return text;
}

std::vector<std::string> split_answers(std::string_view all) {
  std::vector<std::string> answers;
  for (const char letter : all) {
    const bool in_brackets = !answers.empty() && (answers.back().find('(') != std::string::npos) &&
                             (answers.back().find(')') == std::string::npos);
    const bool in_an_end = !answers.empty() && answers.back().front() == '<';
    const bool goes_on = std::isdigit(static_cast<unsigned char>(letter)) != 0 || letter == '(' ||
                         letter == ':' || letter == after_opening;
    if (!answers.empty() && (goes_on || in_brackets || in_an_end))
      answers.back() += letter;
    else
      answers.emplace_back(1, letter);
  }
  return answers;
}

} // namespace conformance
