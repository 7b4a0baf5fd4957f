// SPDX-License-Identifier: MIT
#include "shrink.hpp"

#include <algorithm>
#include <memory>
#include <poll.h>

namespace conformance {
namespace {

/// One driver, in a process that is replaced when it has to be.
class Oracle {
public:
  explicit Oracle(std::string library) : library_(std::move(library)) {}

  std::string answers(const Request& request) {
    if (!worker_) worker_ = std::make_unique<Worker>(library_);
    worker_->ask(request);
    for (;;) {
      pollfd ready{worker_->pipe(), POLLIN, 0};
      poll(&ready, 1, 100);
      const auto news = worker_->read_news();
      if (news == Worker::News::none) continue;
      std::string given = worker_->answers();
      if (news != Worker::News::answers) worker_.reset();
      return given;
    }
  }

private:
  std::string library_;
  std::unique_ptr<Worker> worker_;
};

} // namespace

ShrunkProgram shrink(std::uint64_t seed, const std::string& reference_library, const std::string& library) {
  Oracle reference(reference_library);
  Oracle here(library);
  const Program whole = program_of(seed);
  ShrunkProgram shortest;
  std::string kept(whole.size(), '1');
  std::optional<Difference> wanted; // a part that differs in another way is another matter
  const auto still_differs = [&](const std::string& candidate) {
    const Request request{seed, candidate};
    const std::string expected = reference.answers(request);
    const std::string own = here.answers(request);
    const auto found = differences(expected, own);
    if (found.empty()) return false;
    if (!wanted) wanted = found.front();
    if (found.front().expected != wanted->expected || found.front().here != wanted->here) return false;
    kept = candidate;
    shortest.reference = expected;
    shortest.here = own;
    return true;
  };
  if (!still_differs(kept)) return {};
  // Nothing behind the first difference matters.
  std::string prefix = kept;
  const std::size_t needed = differences(shortest.reference, shortest.here).front().call + 1;
  std::fill(prefix.begin() + static_cast<std::ptrdiff_t>(std::min(needed, prefix.size())), prefix.end(), '0');
  still_differs(prefix);
  for (std::size_t length = 16; length != 0;) {
    bool removed = false;
    for (std::size_t first = 0; first < kept.size(); first += length) {
      std::string candidate = kept;
      const auto begin = candidate.begin() + static_cast<std::ptrdiff_t>(first);
      std::fill(begin, begin + static_cast<std::ptrdiff_t>(std::min(length, kept.size() - first)), '0');
      if (candidate != kept && still_differs(candidate)) removed = true;
    }
    if (!removed || length != 1) length /= 2;
  }
  for (std::size_t call = 0; call < whole.size(); ++call)
    if (kept[call] == '1') shortest.program.push_back(whole[call]);
  return shortest;
}

std::optional<DifferentProgram> confirmed_difference(std::uint64_t seed, const std::string& expected,
                                                     const std::string& library,
                                                     const std::string& reference_library) {
  auto found = differences(expected, run_alone(library, {seed, {}}));
  if (found.empty()) return std::nullopt;
  if (!reference_library.empty()) {
    auto shortest = shrink(seed, reference_library, library);
    if (!shortest.program.empty()) {
      found = differences(shortest.reference, shortest.here);
      return DifferentProgram{seed, std::move(shortest.program), std::move(shortest.reference),
                              std::move(found)};
    }
  }
  return DifferentProgram{seed, program_of(seed), expected, std::move(found)};
}

} // namespace conformance
