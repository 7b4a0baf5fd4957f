// SPDX-License-Identifier: MIT
#include "watch/seen.hpp"

#include "protocol/protocol.hpp"

#include <map>
#include <vector>

namespace cli {

namespace {

/// "3 processes", "41,200 calls", "no finding".
std::string counted(std::size_t count, const std::string& one, const std::string& many) {
  if (count == 0) return "no " + one;
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, ",");
  return digits + ' ' + (count == 1 ? one : many);
}

std::string unseen_memory_text(const watch::UnseenMemory& memory) {
  std::string text;
  if (memory.unknown > 0)
    text += "; what memory " + counted(memory.unknown, "copy or fill uses", "copies and fills use") +
            " is not known";
  if (memory.arrays > 0)
    text += "; the arrays of " + counted(memory.arrays, "copy", "copies") + " are not compared";
  return text;
}

/// What the rules about memory did not see.
std::string blindness_text(const watch::OrderBlindness& blind, bool has_torch) {
  std::string text;
  if (has_torch && blind.frees == 0 && blind.blocks == 0)
    text += "; PyTorch's allocator hides its frees: set PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync";
  if (blind.kernels > 0)
    text += "; the driver has no parameter information for " + counted(blind.kernels, "launch", "launches") +
            " of kernels";
  if (blind.launches > 0)
    text += "; what " + counted(blind.launches, "launch", "launches") + " of graphs use is not known";
  if (blind.sources > 0)
    text += "; the " + counted(blind.sources, "source of a copy was", "sources of copies were") +
            " not looked at";
  if (blind.targets > 0)
    text += "; early uses of " + counted(blind.targets, "target of a copy", "targets of copies") +
            " would not have been seen";
  if (blind.pairs > 0)
    text +=
        "; " + counted(blind.pairs, "pair of kernels was", "pairs of kernels were") + " not kept to be tried";
  text += unseen_memory_text(blind.memory);
  return text;
}

std::string passed_by_text(const watch::BlindSpots& spots) {
  std::string text;
  if (spots.calls > 0)
    text += "; " + counted(spots.calls, "call", "calls") + " passed by, because a process had more than " +
            std::to_string(watch::thread_limit) + " threads";
  if (spots.libraries > 0)
    text +=
        "; the calls of " + counted(spots.libraries, "more copy", "more copies") + " of libcuda passed by";
  if (spots.functions.empty()) return text;
  text += "; the program has newer versions of " + counted(spots.functions.size(), "function", "functions") +
          ", whose calls passed by:";
  for (const std::string& name : spots.functions)
    text += ' ' + name;
  return text;
}

} // namespace

std::string seen_text(const WatchSession& watched, std::size_t findings, bool have_hangs) {
  const auto unwatched = watched.unwatched();
  std::string text = unwatched.empty() ? "no process used the driver" : "watched no process";
  if (watched.processes() > 0)
    text = "watched " + counted(watched.processes(), "process", "processes") + ", " +
           counted(watched.calls(), "call", "calls") + ", " + counted(findings, "finding", "findings");
  if (have_hangs) text += ", and it hangs";
  std::map<std::string, std::size_t> reasons;
  const auto add = [&](const std::vector<watch::Unwatched>& processes, const std::string& what) {
    for (const watch::Unwatched& process : processes)
      ++reasons[what + process.reason];
  };
  add(unwatched, " could not be watched: ");
  add(watched.partly_watched(), " could be watched only in part: ");
  text += blindness_text(watched.blind(), watched.has_torch_with_order());
  for (const auto& [reason, count] : reasons)
    text += "; " + counted(count, "process", "processes") + reason;
  return text + passed_by_text(watched.passed_by());
}

std::string vendor_text(std::size_t findings) {
  if (findings == 0) return {};
  return "; " + counted(findings, "more finding is", "more findings are") +
         " about libraries of CUDA alone: --vendor lists them";
}

} // namespace cli
