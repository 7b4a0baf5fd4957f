// SPDX-License-Identifier: MIT
#include "core/stay_loaded.hpp"

#include <atomic>
#include <dlfcn.h>
#include <link.h>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constinit std::atomic<bool> this_copy{false};
constinit std::atomic<const void*> newest_code{nullptr}; // the last other code

bool forbid_unloading(const void* code) noexcept {
  Dl_info found{};
  link_map* module = nullptr;
  if (dladdr1(code, &found, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) == 0 || module == nullptr ||
      module->l_name == nullptr || *module->l_name == '\0')
    return true; // the program itself, which has no name, or code that no loader knows
  if (dlopen(module->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr) return true;
  dlerror(); // frees the text
  return false;
}

} // namespace

bool stay_loaded(const void* code) noexcept {
  if (newest_code.load(std::memory_order_relaxed) == code) return true;
  if (!forbid_unloading(code)) return false;
  newest_code.store(code, std::memory_order_relaxed);
  return true;
}

bool stay_loaded() noexcept {
  if (this_copy.load(std::memory_order_relaxed)) return true;
  if (!forbid_unloading(&this_copy)) return false;
  this_copy.store(true, std::memory_order_relaxed);
  return true;
}

}} // namespace cuevent::CUEVENT_ABI
