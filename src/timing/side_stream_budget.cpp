// SPDX-License-Identifier: MIT
#include "timing/side_stream_budget.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constinit std::atomic<SideStreams*> newest{nullptr};

/// The object of the context in the list from `first` up to `end`, null if there is none.
SideStreams* find(SideStreams* first, const SideStreams* end, const Context& context) {
  for (; first != end; first = first->next)
    if (first->id == context.id() && first->driver == context.driver()) return first;
  return nullptr;
}

SideStreams& of_context(const Context& context) {
  SideStreams* first = newest.load(std::memory_order_acquire);
  if (SideStreams* const found = find(first, nullptr, context)) return *found;
  std::unique_ptr<SideStreams> added(new SideStreams{context.driver(), context.id()});
  added->next = first;
  while (!newest.compare_exchange_weak(first, added.get(), std::memory_order_acq_rel)) {
    // Other threads were faster, and may have added this context.
    if (SideStreams* const found = find(first, added->next, context)) return *found;
    added->next = first;
  }
  return *added.release();
}

} // namespace

SideStreamPermit permit_side_stream(const Context& context, std::size_t most) {
  if (most == 0) return nullptr;
  SideStreams& streams = of_context(context);
  std::size_t in_use = streams.in_use.load(std::memory_order_relaxed);
  do
    if (in_use >= most) return nullptr;
  while (!streams.in_use.compare_exchange_weak(in_use, in_use + 1, std::memory_order_relaxed));
  return SideStreamPermit(&streams);
}

}} // namespace cuevent::CUEVENT_ABI
