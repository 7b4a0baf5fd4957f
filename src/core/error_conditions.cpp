// SPDX-License-Identifier: MIT
// Comparison of an error code with an ErrorKind.
#include <cuevent/error.hpp>

#include <cstddef>
#include <iterator>
#include <string>
#include <system_error>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

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

/// As the category of driver_category(): never destroyed, and initialised before any code runs.
union OnlyKindCategory {
  constexpr OnlyKindCategory() noexcept : category() {}
  ~OnlyKindCategory() {}
  KindCategory category;
};
constinit const OnlyKindCategory only_kind_category;

} // namespace

ErrorKind kind_of(const std::error_code& code) noexcept {
  if (code.category() == driver_category()) return kind_of(static_cast<CUresult>(code.value()));
  return code ? ErrorKind::other : ErrorKind::success;
}

std::error_condition make_error_condition(ErrorKind kind) noexcept {
  return {static_cast<int>(kind), only_kind_category.category};
}

}} // namespace cuevent::CUEVENT_ABI
