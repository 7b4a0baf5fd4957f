// SPDX-License-Identifier: MIT
#include "core/driver_loading.hpp"

#include "core/result_of.hpp"

#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

template <class... Source>
CUresult try_make(Driver& out, Source... source) noexcept {
  return thrown_by([&] {
    if constexpr (sizeof...(source) == 0)
      out = Driver::instance();
    else
      out = Driver(source...);
  });
}

} // namespace

Driver::Driver(const std::string& library) : Driver(load_driver(library.c_str())) {}

CUresult Driver::try_load(Driver& out) noexcept { return try_make(out); }
CUresult Driver::try_load(Driver& out, const char* library) noexcept {
  return library != nullptr ? try_make(out, library) : CUDA_ERROR_INVALID_VALUE;
}
CUresult Driver::try_load(Driver& out, GetProcAddress get_proc_address) noexcept {
  return try_make(out, get_proc_address);
}

}} // namespace cuevent::CUEVENT_ABI
