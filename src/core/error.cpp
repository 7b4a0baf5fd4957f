// SPDX-License-Identifier: MIT
#include <cuevent/error.hpp>

#include "core/driver_log.hpp"
#include "core/error_hook.hpp"
#include "core/error_texts.hpp"
#include "core/exceptions.hpp"
#include "core/failure.hpp"
#include "core/status.hpp"

#include <cuevent/text.hpp>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cuevent { inline namespace CUEVENT_ABI {

ErrorText::ErrorText(int code) noexcept {
  const ErrorRow* const row = find_row(code);
  if (row == nullptr) return;
  prefix = code == CUDA_SUCCESS ? "CUDA_" : common_prefix;
  after_name = " (";
  end = ")";
  const char** const strings[] = {&name, &text, &advice};
  const char* from = error_texts.coded + row->begin;
  char* to = decoded_;
  for (const char** const string : strings) {
    *string = to;
    for (; *from != '\0'; ++from) {
      if (*from >= ' ') {
        *to++ = *from;
        continue;
      }
      const char* phrase = error_texts.phrases;
      for (char left = *from; --left != 0;)
        phrase += std::strlen(phrase) + 1;
      to = stpcpy(to, phrase);
    }
    *to++ = *from++;
  }
}

void write_name(char (&out)[longest_message], int code, const ErrorText& said,
                const char* before_text) noexcept {
  std::snprintf(out, sizeof out, "%s%s%s%d%s%s%s", said.prefix, said.name, said.after_name, code, said.end,
                before_text, *before_text != '\0' ? said.text : "");
}

namespace {

constexpr const char* unknown_call = "an unknown call";

class DriverCategory final : public std::error_category {
public:
  const char* name() const noexcept override { return "cuda-driver"; }

  [[gnu::cold]] std::string message(int code) const override {
    const ErrorText said(code);
    char text[longest_message];
    write_name(text, code, said, ": ");
    return text;
  }

  // Maps the codes that have the same meaning everywhere, for comparison with std::errc.
  std::error_condition default_error_condition(int code) const noexcept override {
    switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return std::errc::not_enough_memory;
    case CUDA_ERROR_INVALID_VALUE:
      return std::errc::invalid_argument;
    case CUDA_ERROR_NOT_SUPPORTED:
      return std::errc::not_supported;
    case CUDA_ERROR_NOT_PERMITTED:
      return std::errc::operation_not_permitted;
    default:
      return {code, *this};
    }
  }
};

/// The only category. Never destroyed, because exceptions and error codes may outlive the library's statics.
/// Initialised before any code runs: a forked child could find the guard of a local static locked.
union OnlyCategory {
  constexpr OnlyCategory() noexcept : category() {}
  ~OnlyCategory() {}
  DriverCategory category;
};
constinit const OnlyCategory only_category;

[[gnu::cold]] void print_error(CUresult result, const char* call, void*) noexcept {
  if (is_sticky(result)) return;
  const ErrorText said(result);
  const DriverWords words(result, call, Words::keep); // no allocation: the program may be out of memory
  std::fprintf(stderr, "cuevent: %s failed in a destructor: %s%s (%d)%s%s\n", call, said.prefix, said.name,
               result, words.text[0] != '\0' ? "; the driver says: " : "", words.text);
}

} // namespace

constinit KnownHook default_hook{{print_error, nullptr}, nullptr};
// One pointer: a report sees a function with its own user pointer, and a fork finds no lock held.
constinit std::atomic<const KnownHook*> installed_hook{&default_hook};

ErrorKind kind_of(CUresult result) noexcept {
  const ErrorRow* const row = find_row(result);
  return row != nullptr ? static_cast<ErrorKind>(row->kind) : ErrorKind::other;
}

bool is_sticky(CUresult result) noexcept {
  const ErrorKind kind = kind_of(result);
  return kind == ErrorKind::context_lost || kind == ErrorKind::device_fault;
}

const std::error_category& driver_category() noexcept { return only_category.category; }

std::error_code make_error_code(CUresult result) noexcept {
  return {static_cast<int>(result), driver_category()};
}

DriverError::DriverError(CUresult result, const char* call, const char* advice)
    : DriverError(Failure{.result = result, .call = call, .advice = advice}) {}

DriverError::DriverError(const Failure& failure)
    : std::system_error(make_error_code(failure.result)),
      call_(failure.call != nullptr ? failure.call : unknown_call), parts_{}, cause_(failure.cause),
      text_(describe(failure, parts_)) {}

// The key function: only this object contains the vtable and type information.
DriverError::~DriverError() = default;

std::runtime_error DriverError::describe(const Failure& failure, Parts& parts) {
  const auto size_of = [](const char* text) { return static_cast<unsigned>(std::strlen(text)); };
  const ErrorText said(failure.result);
  char name[longest_message];
  write_name(name, failure.result, said);
  const char* const call = failure.call != nullptr ? failure.call : unknown_call;
  const char* const advice = failure.advice != nullptr ? failure.advice : said.advice;
  const char* const before_words = *failure.words != '\0' ? "; the driver says: " : "";
  const char* const before_advice = *advice != '\0' ? "; " : "";
  char* made = nullptr;
  if (asprintf(&made, "%s: %s: %s%s%s%s%s", call, name, said.text, before_words, failure.words, before_advice,
               advice) < 0)
    raise<std::bad_alloc>();
  const std::unique_ptr<char, void (*)(void*)> owner(made, std::free);

  parts.reason = {size_of(call) + 2 + size_of(name) + 2, size_of(said.text)};
  parts.words = {parts.reason.begin + parts.reason.size + size_of(before_words), size_of(failure.words)};
  parts.advice = {parts.words.begin + parts.words.size + size_of(before_advice), size_of(advice)};
  if (failure.advice != nullptr)
    if (const std::size_t why = std::string_view(advice).rfind(": "); why != std::string_view::npos) {
      const auto size = static_cast<unsigned>(why);
      parts.reason = {parts.advice.begin, size};
      parts.advice = {parts.advice.begin + size + 2, parts.advice.size - size - 2};
    }
  return std::runtime_error(made);
}

void throw_failure(const Failure& failure) {
  static constexpr void (*of_kind[])(const Failure&) = {nullptr,
                                                        throw_not_ready,
                                                        throw_usage,
                                                        throw_unsupported,
                                                        throw_capture,
                                                        throw_context_lost,
                                                        throw_out_of_resources,
                                                        throw_device_fault,
                                                        throw_driver_unavailable,
                                                        throw_other};
  if (failure.cause != ErrorCause::unknown && throw_cause_of_failure != nullptr)
    throw_cause_of_failure(failure);
  auto* const of_code = of_kind[static_cast<std::size_t>(failure.kind)];
  if (of_code != nullptr && failure.kind == kind_of(failure.result)) of_code(failure);
  if (throw_kind_of_failure != nullptr) throw_kind_of_failure(failure);
  raise<DriverError>(failure);
}

void throw_error(CUresult result, const char* call, const char* advice) {
  throw_failure({.result = result, .call = call, .advice = advice});
}

void throw_error(ErrorCause cause, const char* call, const char* advice) {
  throw_failure({.result = result_for(cause), .call = call, .advice = advice, .cause = cause});
}

namespace {

[[noreturn, gnu::cold]] void fail_as(Thrown thrown, const char* call, const char* words, const char* format,
                                     std::va_list arguments) {
  char* advice = nullptr;
  if (vasprintf(&advice, format, arguments) < 0) raise<std::bad_alloc>();
  const std::unique_ptr<char, void (*)(void*)> owner(advice, std::free);
  Failure failure{
      .result = thrown.result, .call = call, .advice = advice, .words = words, .cause = thrown.cause};
  if (thrown.kind != ErrorKind::success) failure.kind = thrown.kind;
  throw_failure(failure);
}

} // namespace

void fail(Thrown thrown, const char* call, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  fail_as(thrown, call, "", format, arguments);
}

void fail_refused(Thrown thrown, const char* call, const char* format, ...) {
  const DriverWords words(thrown.result, call, Words::take);
  std::va_list arguments;
  va_start(arguments, format);
  fail_as(thrown, call, words.text, format, arguments);
}

void throw_refused(CUresult result, const char* call, const char* advice) {
  const DriverWords words(result, call, Words::take);
  throw_failure({.result = result, .call = call, .advice = advice, .words = words.text});
}

void report_error(CUresult result, const char* call) noexcept {
  // The driver is gone with all its objects, and destructors do nothing.
  if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED) return;
  const ErrorHook& installed = installed_hook.load()->hook;
  installed.function(result, call, installed.user);
}

}} // namespace cuevent::CUEVENT_ABI
