// SPDX-License-Identifier: MIT
#include "rules/collectives.hpp"

#include <algorithm>
#include <utility>

namespace watch {

namespace {

constexpr std::string_view before_operation = "Kernel_"; // ncclDevKernel_, ncclKernel_, ncclSymkDevKernel_

/// "AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", or empty.
std::string_view operation_of(std::string_view kernel) {
  if (!kernel.starts_with("nccl")) return {};
  const auto found = kernel.find(before_operation);
  return found == std::string_view::npos ? std::string_view()
                                         : kernel.substr(found + before_operation.size());
}

} // namespace

NcclWork nccl_work_of(std::string_view kernel) {
  const std::string_view operation = operation_of(kernel);
  if (operation.empty()) return NcclWork::none;
  return operation.starts_with("SendRecv") ? NcclWork::send_receive : NcclWork::collective;
}

std::string collective_name(const std::string& kernel) {
  const std::string_view operation = operation_of(kernel);
  return std::string(
      operation.substr(0, operation.find_first_of("(<"))); // the arguments depend on the version
}

std::uint64_t CollectiveSequence::hash_of(std::string_view name) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325; // FNV-1a
  for (const char each : name)
    hash = (hash ^ static_cast<unsigned char>(each)) * 0x100'0000'01B3;
  return hash;
}

void CollectiveSequence::add(std::uint64_t call, std::string name) {
  ++count_;
  hash_ = hash_ * hash_factor + hash_of(name);
  last_.push_back({call, std::move(name)});
  if (last_.size() > names_kept) last_.pop_front();
}

std::uint64_t CollectiveSequence::among_first(std::uint64_t calls) const {
  const auto later = std::partition_point(last_.begin(), last_.end(),
                                          [&](const Collective& each) { return each.call < calls; });
  return count_ - static_cast<std::uint64_t>(last_.end() - later);
}

} // namespace watch
