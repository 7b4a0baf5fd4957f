// SPDX-License-Identifier: MIT
// Time that threads and streams lose in calls that look harmless: copies of pageable memory, memory that is
// allocated in a loop, functions of the program that hold other streams up. The auditor measures it.
#include "rules/cost_limits.hpp"
#include "rules/number_text.hpp"
#include "rules/rules.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace watch {

namespace {

class LostTimeRules : public Observer {
public:
  explicit LostTimeRules(Report report) : report_(std::move(report)) {}

  void before(const Call& call) override {
    if (call.verb() == Verb::spent) return spend(call);
    if (!copies_.empty() && call.is_of_the_program()) decide_copy(call);
  }

  void end(bool by_itself) override;

private:
  /// A place that allocates memory.
  struct Allocations {
    Call made;
    std::optional<Call> freed; // the first of the calls that free it
    unsigned long alive = 0, most_alive = 0, ended = 0;
    std::chrono::nanoseconds time{}; // in both calls
  };

  /// `spent` is about the call that has just returned, or about a function that has just run.
  void spend(const Call& spent) {
    Call call = spent;
    call.entry = static_cast<std::uint16_t>(spent.number);
    switch (call.verb()) {
    case Verb::memory_make:
      return allocate(call);
    case Verb::memory_free:
      return free(call);
    case Verb::work:
      if (call.work() == Work::host) return run(call);
      if (call.work() != Work::copy) return;
      count_copy(call.thread);
      copies_.insert_or_assign(call.thread, call);
      return;
    default:
      return;
    }
  }

  void allocate(const Call& call) {
    Allocations& place = allocations_[place_of(call)];
    if (place.ended == 0 && place.alive == 0) place.made = call;
    place.most_alive = std::max(place.most_alive, ++place.alive);
    place.time += call.duration;
    place_of_memory_.insert_or_assign(call.address, place_of(call));
  }

  void free(const Call& call) {
    const auto found = place_of_memory_.find(call.address);
    if (found == place_of_memory_.end()) return;
    Allocations& place = allocations_[found->second];
    place_of_memory_.erase(found);
    if (place.alive > 0) --place.alive;
    ++place.ended;
    place.time += call.duration;
    if (!place.freed) place.freed = call;
  }

  /// A thread that waits right after a copy has wanted to wait.
  void decide_copy(const Call& call) {
    if (!call.returned || !copies_.contains(call.thread)) return;
    if (can_block(call.verb()))
      copies_.erase(call.thread);
    else if (submits_work(call.verb()) && call.work() != Work::copy)
      count_copy(call.thread);
  }

  void count_copy(std::uint32_t thread) {
    const auto found = copies_.find(thread);
    if (found == copies_.end()) return;
    repeated(pageable_, found->second).waited += found->second.duration;
    copies_.erase(found);
  }

  /// A function that begins right after the one of another stream, on the same thread, has waited for it.
  void run(const Call& call) {
    const auto [found, is_first] = last_run_.try_emplace(call.thread, call);
    if (is_first) return;
    const Call before = std::exchange(found->second, call);
    const std::uint64_t began = call.address, submitted = call.value;
    const std::uint64_t other_began = before.address, other_ended = before.address + before.ticks;
    if (before.stream() == call.stream() || before.ticks == 0 || began < other_ended) return;
    const double tick = static_cast<double>(before.duration.count()) / static_cast<double>(before.ticks);
    const auto time = [&](std::uint64_t from, std::uint64_t to) {
      return std::chrono::nanoseconds(
          to <= from ? 0 : static_cast<std::int64_t>(tick * static_cast<double>(to - from)));
    };
    constexpr std::chrono::microseconds way_of_thread{20}; // from one function to the next
    if (time(other_ended, began) > way_of_thread + before.duration / 4) return;
    const auto waited = time(std::max(submitted, other_began), other_ended);
    if (waited < shortest_wait) return;
    Repeated& place = repeated(serial_, call);
    place.waited += waited;
    place.other = before;
  }

  const Report report_;
  std::unordered_map<std::uint32_t, Call> copies_; // by thread: the last call, if it copied pageable memory
  CostPlaces pageable_, serial_;
  std::map<CostPlace, Allocations> allocations_;
  std::unordered_map<std::uint64_t, CostPlace> place_of_memory_;
  std::unordered_map<std::uint32_t, Call> last_run_; // by thread: the last function that has run
};

void LostTimeRules::end(bool) {
  for (const auto& [where, place] : pageable_)
    if (matters(place))
      report_({Rule::pageable_copy,
               "the thread lost " + time_text(place.waited) + " in " + number_text(place.count) +
                   " copies that were submitted here, because their memory is pageable",
               place.call,
               {},
               place.count});
  for (const auto& [where, place] : allocations_) {
    if (place.ended < often || place.ended < reuse * place.most_alive) continue;
    report_({Rule::allocated_in_a_loop,
             "memory was allocated here and freed " + number_text(place.ended) + " times; at most " +
                 number_text(place.most_alive) + " of the blocks lived at a time. These calls took " +
                 time_text(place.time),
             place.made,
             {{"it was freed here", *place.freed}},
             place.ended});
  }
  for (const auto& [where, place] : serial_)
    if (matters(place))
      report_({Rule::serial_host_functions,
               "functions that were submitted here waited " + time_text(place.waited) +
                   " for functions of other streams on the same thread, in " + number_text(place.count) +
                   " cases; so did their streams",
               place.call,
               {{"a function that ran meanwhile was submitted here", *place.other}},
               place.count});
}

} // namespace

Rules lost_time_rules(const World&, Report report) {
  return std::make_shared<LostTimeRules>(std::move(report));
}

} // namespace watch
