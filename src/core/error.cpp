// SPDX-License-Identifier: MIT
#include <cuevent/error.hpp>

#include "core/driver_log.hpp"
#include "core/fork_lock.hpp"
#include "core/status.hpp"

#include <cuevent/text.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <new>
#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

struct Row {
  int code;
  const char* name;
  ErrorKind kind;
  const char* text;
  const char* advice;
};

constexpr Row rows[] = {
    {0, "CUDA_SUCCESS", ErrorKind::success, "the call succeeded", ""},
#define CUEVENT_ERROR(code, name, Class, kind, text, advice) {code, #name, ErrorKind::kind, text, advice},
#include <cuevent/errors.inc>
};

constexpr bool code_less(const Row& a, const Row& b) { return a.code < b.code; }
constexpr bool rows_are_sorted() { // std::is_sorted is a constant in C++20 only
  for (std::size_t i = 1; i < std::size(rows); ++i)
    if (code_less(rows[i], rows[i - 1])) return false;
  return true;
}
static_assert(rows_are_sorted(), "the rows are looked up by bisection");

const Row* find(int code) {
  const Row* const row =
      std::lower_bound(std::begin(rows), std::end(rows), Row{code, "", {}, "", ""}, code_less);
  return row != std::end(rows) && row->code == code ? row : nullptr;
}

class DriverCategory final : public std::error_category {
public:
  const char* name() const noexcept override { return "cuda-driver"; }

  std::string message(int code) const override {
    const Row* const row = find(code);
    return to_string(static_cast<CUresult>(code)) + ": " +
           (row != nullptr ? row->text : "an error that this version of cuevent does not know");
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

class KindCategory final : public std::error_category {
public:
  const char* name() const noexcept override { return "cuda-driver-kind"; }

  std::string message(int kind) const override {
    static constexpr const char* names[] = {"success",
                                            "not ready",
                                            "wrong use of the driver",
                                            "not supported",
                                            "a broken rule of stream capture",
                                            "a lost context",
                                            "no more resources",
                                            "a device fault",
                                            "no usable driver",
                                            "another error"};
    return kind >= 0 && static_cast<std::size_t>(kind) < std::size(names) ? names[kind] : "no kind of error";
  }

  bool equivalent(const std::error_code& code, int kind) const noexcept override {
    return kind_of(code) == static_cast<ErrorKind>(kind);
  }
};

/// The only object of a category. Never destroyed, because exceptions and error codes may outlive the
/// library's statics. Made when the library is loaded: a forked child could find the guard of a local static
/// locked.
template <class Category>
struct Only {
  alignas(Category) static inline std::byte storage[sizeof(Category)];

  static void make() noexcept { new (storage) Category; }
  static const Category& get() noexcept { return *std::launder(reinterpret_cast<const Category*>(storage)); }
};

[[gnu::constructor(first_constructor)]] void make_categories() noexcept {
  Only<DriverCategory>::make();
  Only<KindCategory>::make();
}

std::string describe(CUresult result, const char* call, const char* advice) {
  std::string text = std::string(call) + ": " + driver_category().message(result);
  if (advice == nullptr) advice = usual_advice(result);
  if (*advice != '\0') text.append("; ").append(advice);
  return text;
}

void print_error(CUresult result, const char* call, void*) noexcept {
  if (is_sticky(result)) return;
  const Row* const row = find(result);
  char reasons[400]; // no allocation: the program may be out of memory
  read_reasons(result, call, reasons, sizeof reasons);
  std::fprintf(stderr, "cuevent: %s failed in a destructor: %s (%d)%s%s\n", call,
               row ? row->name : "CUresult", result, reasons[0] != '\0' ? "; the driver says: " : "",
               reasons);
}

/// A hook that was installed at least once. Never freed: a report on another thread may still read it.
struct KnownHook {
  ErrorHook hook;
  KnownHook* older;
};
constinit KnownHook default_hook{{print_error, nullptr}, nullptr};
constinit std::atomic<KnownHook*> newest_hook{&default_hook};
// One pointer: a report sees a function with its own user pointer, and a fork finds no lock held.
constinit std::atomic<const KnownHook*> hook{&default_hook};

/// The entry of `wanted`, a new one if it is not known. Null if there is no memory.
const KnownHook* known(const ErrorHook& wanted) noexcept {
  KnownHook* newest = newest_hook.load();
  for (const KnownHook* each = newest; each != nullptr; each = each->older)
    if (each->hook == wanted) return each;
  auto* const added = new (std::nothrow) KnownHook{wanted, newest};
  if (added == nullptr) return nullptr;
  while (!newest_hook.compare_exchange_weak(added->older, added)) {
  }
  return added;
}

} // namespace

const char* usual_advice(CUresult result) noexcept {
  const Row* const row = find(result);
  return row != nullptr ? row->advice : "";
}

std::string to_string(CUresult result) {
  const Row* const row = find(result);
  const std::string number = std::to_string(static_cast<int>(result));
  return row != nullptr ? std::string(row->name) + " (" + number + ")" : "CUresult " + number;
}

ErrorKind kind_of(CUresult result) noexcept {
  const Row* const row = find(result);
  return row != nullptr ? row->kind : ErrorKind::other;
}

bool is_sticky(CUresult result) noexcept {
  const ErrorKind kind = kind_of(result);
  return kind == ErrorKind::context_lost || kind == ErrorKind::device_fault;
}

const std::error_category& driver_category() noexcept { return Only<DriverCategory>::get(); }

std::error_code make_error_code(CUresult result) noexcept {
  return {static_cast<int>(result), driver_category()};
}

ErrorKind kind_of(const std::error_code& code) noexcept {
  if (code.category() == driver_category()) return kind_of(static_cast<CUresult>(code.value()));
  return code ? ErrorKind::other : ErrorKind::success;
}

std::error_condition make_error_condition(ErrorKind kind) noexcept {
  return {static_cast<int>(kind), Only<KindCategory>::get()};
}

DriverError::DriverError(CUresult result, const char* call, const char* advice)
    : std::system_error(make_error_code(result)), call_(call != nullptr ? call : "an unknown call"),
      text_(describe(result, call_, advice)) {}

// The destructors are the key functions. Only this file contains the vtables and type information.
DriverError::~DriverError() = default;
UsageError::~UsageError() = default;
Unsupported::~Unsupported() = default;
CaptureError::~CaptureError() = default;
ContextLost::~ContextLost() = default;
OutOfResources::~OutOfResources() = default;
DeviceFault::~DeviceFault() = default;
DriverUnavailable::~DriverUnavailable() = default;

#define CUEVENT_ERROR(code, name, Class, kind, text, advice)                                                 \
  Class::Class(const char* call, const char* advice_if_known)                                                \
      : ErrorBase::kind(static_cast<CUresult>(code), call, advice_if_known) {}                               \
  Class::~Class() = default;
#include <cuevent/errors.inc>

EmptyEvent::~EmptyEvent() = default;
TimingDisabled::~TimingDisabled() = default;
NeverRecorded::~NeverRecorded() = default;
ContextMismatch::~ContextMismatch() = default;
RecordedInCapture::~RecordedInCapture() = default;
ExternalOutsideCapture::~ExternalOutsideCapture() = default;
SemaphoreAbandoned::~SemaphoreAbandoned() = default;

void throw_error(CUresult result, const char* call, const char* advice) {
  switch (static_cast<int>(result)) {
#define CUEVENT_ERROR(code, name, Class, kind, text, advice_in_table)                                        \
  case code:                                                                                                 \
    throw Class(call, advice);
#include <cuevent/errors.inc>
  default:
    throw DriverError(result, call, advice);
  }
}

ErrorHook set_error_hook(const ErrorHook& next) noexcept {
  const KnownHook* const entry = next.function != nullptr ? known(next) : &default_hook;
  return (entry != nullptr ? hook.exchange(entry) : hook.load())->hook;
}

void report_error(CUresult result, const char* call) noexcept {
  // The driver is gone with all its objects, and destructors do nothing.
  if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED) return;
  const ErrorHook& installed = hook.load()->hook;
  installed.function(result, call, installed.user);
}

}} // namespace cuevent::CUEVENT_ABI
