// SPDX-License-Identifier: MIT
#include "core/driver_loading.hpp"

#include <string>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

template <class... Source>
CUresult try_find(const DriverTable*& out, Source... source) noexcept {
  LoadFailure failed;
  const DriverTable* const table = load_table(source..., failed);
  if (table == nullptr) return failed.result;
  out = table;
  return CUDA_SUCCESS;
}

} // namespace

Driver::Driver(const std::string& library) : table_(&loaded(library.c_str())) {}

CUresult Driver::try_load(Driver& out) noexcept { return try_find(out.table_); }
CUresult Driver::try_load(Driver& out, const char* library) noexcept {
  return library != nullptr ? try_find(out.table_, library) : CUDA_ERROR_INVALID_VALUE;
}
CUresult Driver::try_load(Driver& out, GetProcAddress get_proc_address) noexcept {
  return try_find(out.table_, get_proc_address);
}

}} // namespace cuevent::CUEVENT_ABI
