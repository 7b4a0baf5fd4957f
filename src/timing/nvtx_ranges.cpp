// SPDX-License-Identifier: MIT
#include "timing/nvtx_ranges.hpp"

// Only headers: they load a tool if the environment names one, and otherwise do nothing.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

nvtxDomainHandle_t domain() noexcept { // of all timers, and never destroyed
  static nvtxDomainHandle_t const created = nvtxDomainCreateA("cuevent");
  return created;
}

} // namespace

bool NvtxRanges::supported() noexcept { return true; }

void NvtxRanges::add(StageId stage, std::string_view name) {
  const auto index = static_cast<std::size_t>(stage);
  if (!wanted_ || index < names_.size()) return;
  names_.resize(index + 1);
  names_[index] = nvtxDomainRegisterStringA(domain(), std::string(name).c_str()); // null if there is no tool
}

std::uint64_t NvtxRanges::begin_range(StageId stage) const noexcept {
  const auto index = static_cast<std::size_t>(stage);
  if (index >= names_.size() || names_[index] == nullptr) return 0;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = names_[index];
  return nvtxDomainRangeStartEx(domain(), &attributes);
}

void NvtxRanges::end_range(std::uint64_t range) noexcept { nvtxDomainRangeEnd(domain(), range); }

}} // namespace cuevent::CUEVENT_ABI
#else
namespace cuevent { inline namespace CUEVENT_ABI {

bool NvtxRanges::supported() noexcept { return false; }
void NvtxRanges::add(StageId, std::string_view) {}
std::uint64_t NvtxRanges::begin_range(StageId) const noexcept { return 0; }
void NvtxRanges::end_range(std::uint64_t) noexcept {}

}} // namespace cuevent::CUEVENT_ABI
#endif
