// SPDX-License-Identifier: MIT
#include "report/hang_threads.hpp"

#include "report/call_owner.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace watch {

namespace {

constexpr std::chrono::seconds stuck_call(1);
constexpr std::size_t threads_named = 8;
constexpr std::size_t threads_kept = 8192; // twice as many as the auditor watches at a time

std::string place_of(const CallFile& process, CallText& texts, Call call, std::uint32_t python) {
  if (python != 0) call.stack = python;
  return call.stack == 0 ? std::string() : texts.place_of(process, call);
}

} // namespace

void LastCalls::after(const Call& call) {
  if (!call.returned || !call.is_of_the_program()) return;
  if (threads_.size() >= threads_kept) drop_oldest();
  Thread& thread = threads_[call.thread];
  thread.left = call.time;
  if (submits_work(call.verb())) thread.submitted = call.time;
  if (call.stack != 0) thread.placed = call;
}

/// The ends of threads are not known.
void LastCalls::drop_oldest() {
  std::vector<std::chrono::nanoseconds> ends;
  for (const auto& [number, thread] : threads_)
    ends.push_back(thread.left);
  const auto middle = ends.begin() + static_cast<std::ptrdiff_t>(ends.size() / 2);
  std::nth_element(ends.begin(), middle, ends.end());
  std::erase_if(threads_, [limit = *middle](const auto& each) { return each.second.left <= limit; });
}

nlohmann::ordered_json LastCalls::json(const CallFile& process, CallText& texts, const Moment& moment) const {
  auto all = nlohmann::ordered_json::array();
  std::vector<std::pair<std::uint32_t, std::chrono::nanoseconds>> submitted;
  for (const auto& [number, thread] : threads_)
    if (std::none_of(moment.calls.begin(), moment.calls.end(),
                     [&, thread_number = number](const CallUnderWay& each) {
                       return each.call.thread == thread_number;
                     }))
      submitted.emplace_back(number, thread.submitted);
  for (const CallUnderWay& each : moment.calls) {
    if (each.age < stuck_call || all.size() == threads_named) continue;
    all.push_back({{"thread", thread_text(process, each.call.thread)},
                   {"inside", each.call.name()},
                   {"for_ns", each.age.count()},
                   {"place", place_of(process, texts, each.call, each.python)}});
  }
  const auto last = std::max_element(submitted.begin(), submitted.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (last == submitted.end() || last->second.count() == 0) return all;
  const Thread& thread = threads_.at(last->first);
  all.push_back({{"thread", thread_text(process, last->first)},
                 {"inside", nullptr},
                 {"after", thread.placed.stack == 0 ? std::string() : thread.placed.name()},
                 {"for_ns", std::max<std::int64_t>(0, (moment.time - thread.left).count())},
                 {"place", place_of(process, texts, thread.placed, 0)}});
  return all;
}

} // namespace watch
