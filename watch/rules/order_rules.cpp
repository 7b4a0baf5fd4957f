// SPDX-License-Identifier: MIT
// Memory that two streams use without an order. Work is ordered if that cannot be excluded.
#include "rules/order_rules.hpp"
#include "rules/guarded_targets.hpp"
#include "rules/kernel_pairs.hpp"
#include "rules/known_graphs.hpp"
#include "rules/memory_records.hpp"
#include "rules/number_text.hpp"
#include "rules/object_text.hpp"
#include "rules/source_changes.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

namespace watch {

namespace {

constexpr unsigned repetitions = 3;       // of what is only possible, before it is reported
constexpr std::size_t doubts_kept = 1024; // with more, findings are lost

Certainty certainty_of(bool is_certain) { return is_certain ? Certainty::certain : Certainty::possible; }

constexpr const char* in_structure = "a part of a larger argument points there";

/// Why a kernel may not use the memory.
std::string doubt_text(const Access& access) {
  return access.use == Use::word ? std::string(": ") + in_structure
                                 : ": an argument lies in it, which may be a number";
}

/// " uses", " reads", or this word for a copy or a memset that writes.
const char* effect_of(const Access& access, const char* writes) {
  if (access.use != Use::copied) return " uses";
  return access.writes ? writes : " reads";
}

/// Nodes that were added to a graph have no stream.
std::string place_text(const StreamKey& stream) {
  return stream.handle == 0 ? " of the graph" : " on " + stream_text(stream);
}

/// Two copies, or a kernel and a copy that writes all of a block of which the kernel has the begin. A kernel
/// may poll a block of a few bytes.
bool is_certain_conflict(const Access& one, const Access& other, const Allocation& in) {
  if (one.use == Use::copied && other.use == Use::copied) return true;
  const Access& copy = one.use == Use::copied ? one : other;
  const Access& kernel = one.use == Use::copied ? other : one;
  return in.origin == Origin::block && in.size > most_polled && copy.use == Use::copied && copy.writes &&
         copy.rows.covers({in.begin, in.size}) && kernel.use == Use::pointer && kernel.rows.begin == in.begin;
}

/// A word of a structure may be any number, but hardly by chance the begin of a tensor's memory. A structure
/// keeps old pointers, too, so its kernel may still not use the memory.
bool has_begin(const Access& access, const Allocation& in) {
  return access.use != Use::word ||
         (access.rows.begin == in.begin && (in.origin == Origin::block || in.origin == Origin::pool));
}

/// What it uses for sure: of what is behind the pointer of a kernel, the begin.
Rows sure_rows(const Access& access) {
  return access.use == Use::copied ? access.rows : Rows{access.rows.begin, 1};
}

bool is_sure(const Access& access) { return access.use <= Use::pointer; }

class OrderRules : public Observer {
public:
  OrderRules(const World& world, Report report, OrderOptions options)
      : world_(world), report_(std::move(report)), all_(options.all), wants_candidates_(options.candidates),
        blind_(options.blind != nullptr ? *options.blind : unread_), graphs_(world) {}

  void before(const Call& call) override;
  const OrderEffects* effects() const override { return &effects_; }
  void after(const Call& call) override;
  void end(bool) override { pairs_.report_to(report_); }

private:
  std::shared_ptr<Capture> capture_of(const Call& call) const;
  Used use_of(const Call& call) { return memory_.use_of(call, parts_, blind_.kernels, blind_.memory); }

  // Before the call: what it uses, and what it does to the order.
  void prepare(const Call& call);
  void prepare_work(const Call& call);
  void prepare_use(const Call& call);
  void prepare_launch(const Call& call);
  void prepare_failed(const Call& call);
  void prepare_free(const Call& call);

  // After it: is something not ordered?
  void take_part(const Call& record);
  void check_work(const Call& call);
  void check(const Call& call, const Used& used);
  void check(const Call& call, const Access& access, const Allocation& allocation,
             std::optional<Finding>& finding);
  void check_former(const Call& call, const Access& access, const Allocation& block,
                    std::optional<Finding>& finding);
  void check_captured(const Call& call, const std::shared_ptr<Capture>& capture);
  void check_graph(GraphWork* work);
  void check_ends(const Call& call, const Used& used);
  void check_free(const Call& call);
  void check_free(const Call& call, const Allocation& freed, const std::vector<Point>& functions,
                  std::optional<Finding>& finding);
  bool is_done_before_free(const Call& call, const Access& access) const;
  void report(std::optional<Finding> finding);
  std::vector<Point> open_functions(const Access& access) const;
  void note_pair(const Call& call, const Access& now, const Access& earlier, const Allocation& allocation);
  void note_host_work(const Call& call);
  void note_source(const Call& call);
  void note_target(const Call& call);
  std::optional<std::uint64_t> taken_out(MemoryPart kind);
  static std::optional<Call> noticed_by(const Call& record);
  void doubt(Finding finding, std::vector<Point> others, std::vector<Point> functions);
  void drop_doubts();
  void end_doubts();
  Finding overlap(const Call& call, const Access& now, const Access& earlier, const Allocation& allocation);

  const World& world_;
  const Report report_;
  const bool all_, wants_candidates_;
  OrderBlindness unread_; // in place of one that nobody reads
  OrderBlindness& blind_;
  MemoryRecords memory_;
  KnownGraphs graphs_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, unsigned> seen_; // pairs of stacks
  KernelPairs pairs_;
  SourceChanges sources_;
  GuardedTargets targets_;

  /// A finding, unless one of the host functions waits until the host knows that one of the others is done.
  struct Doubt {
    Finding finding;
    std::vector<Point> others, functions;
  };
  std::vector<Doubt> doubts_;

  // Of the call under way:
  Call call_; // with its place, and the stream that it uses without naming it
  std::vector<Part> parts_;
  std::optional<std::uint64_t> source_; // the number of the copy whose source the auditor looks at, or 0
  std::optional<std::uint64_t> target_; // the same of the copy whose target it guards
  Used used_;
  const Used* launched_ = nullptr; // by the graph that is launched, if that is known
  std::vector<Allocation> freed_;
  OrderEffects effects_;
};

std::shared_ptr<Capture> OrderRules::capture_of(const Call& call) const {
  const StreamState* const stream = call.has_stream() ? world_.stream(call.stream()) : nullptr;
  return stream != nullptr && stream->is_capturing() ? stream->capture : nullptr;
}

// ---- Before the call ----

void OrderRules::before(const Call& call) {
  if (const Handle ended = world_.context_ended_by(call); ended != 0) memory_.end_context(ended);
  if (!doubts_.empty()) drop_doubts();
  if (!call.is_of_the_program()) return;
  parts_ = memory_.parts_of_next_call(call.thread);
  used_ = {};
  launched_ = nullptr;
  effects_ = {};
  if (!call.succeeded()) return prepare_failed(call);
  call_ = call;
  if (call.verb() == Verb::copy) call_.stream_handle = (call.marks & per_thread) != 0 ? 2 : 1;
  if (const auto place = std::ranges::find(parts_, MemoryPart::place, &Part::kind); place != parts_.end()) {
    call_.place = {static_cast<std::uint32_t>(place->words[0]), static_cast<std::uint32_t>(place->words[1])};
    parts_.erase(place); // what is left tells the use of memory
  }
  source_ = taken_out(MemoryPart::source);
  target_ = taken_out(MemoryPart::target);
  prepare(call_);
}

/// The first word of what the auditor tells of the copy in addition.
std::optional<std::uint64_t> OrderRules::taken_out(MemoryPart kind) {
  const auto part = std::ranges::find(parts_, kind, &Part::kind);
  if (part == parts_.end()) return std::nullopt;
  const std::uint64_t word = part->words[0];
  parts_.erase(part);
  return word;
}

void OrderRules::prepare(const Call& call) {
  switch (call.verb()) {
  case Verb::work:
    return prepare_work(call);
  case Verb::copy:
    return prepare_use(call);
  case Verb::graph_launch:
    return prepare_launch(call);
  case Verb::value_write:
    effects_.stores_for_host = effects_.ends_for_host = true;
    return;
  case Verb::memory_make:
    for (const Part& part : parts_)
      if (part.kind == MemoryPart::handle)
        memory_.note_handle(part);
      else
        memory_.allocate(call, part);
    return;
  case Verb::memory_free:
    return prepare_free(call);
  case Verb::node_add:
    for (const Part& part : parts_)
      if (part.kind == MemoryPart::allocated) memory_.give_to_graph(part);
    return;
  default:
    return;
  }
}

void OrderRules::prepare_work(const Call& call) {
  for (const Part& part : parts_)
    if (part.kind == MemoryPart::allocated || part.kind == MemoryPart::allocated_host) {
      if (capture_of(call))
        memory_.give_to_graph(part);
      else
        effects_.behind = memory_.allocate(call, part);
      return;
    }
  if (call.work() == Work::free && !capture_of(call)) return prepare_free(call);
  prepare_use(call);
}

void OrderRules::prepare_use(const Call& call) {
  used_ = use_of(call);
  effects_.add(used_);
  effects_.contexts = used_.contexts;
}

void OrderRules::prepare_launch(const Call& call) {
  if (capture_of(call)) return;
  const GraphWork* const work = graphs_.launched(call.exec);
  if (work == nullptr) ++blind_.launches;
  if (work != nullptr) launched_ = &work->used;
  static_cast<HostEffects&>(effects_) = work != nullptr ? work->used : unknown_effects;
}

/// Perhaps because its memory was freed, as a call that the process ended in.
void OrderRules::prepare_failed(const Call& call) {
  memory_.keep(call);
  if (!parts_.empty() && call.result == CUDA_ERROR_INVALID_VALUE) used_ = use_of(call);
  if (call.verb() != Verb::graph_launch || capture_of(call)) return;
  if (const GraphWork* const work = graphs_.launched(call.exec)) used_ = work->used;
}

/// cuMemFree and its like wait for the device. But cuMemFree does not wait for anything if the memory is of a
/// pool, and cuMemUnmap never does.
void OrderRules::prepare_free(const Call& call) {
  freed_ = memory_.freed_by_next_call(call.thread);
  if (call.verb() == Verb::memory_free)
    effects_.waits_for_device =
        !call.has(stays_on_device) && (freed_.empty() || freed_.front().origin != Origin::pool);
  else
    ++blind_.frees;
}

// ---- After the call ----

void OrderRules::after(const Call& call) {
  if (call.verb() == Verb::memory_part && static_cast<MemoryPart>(call.number) == MemoryPart::source_changed)
    return report(sources_.change_of(call.address, memory_, noticed_by(call)));
  if (call.verb() == Verb::memory_part && static_cast<MemoryPart>(call.number) == MemoryPart::target_used)
    return report(targets_.use_of(call));
  if (call.verb() == Verb::memory_part) return take_part(call);
  if (!call.is_of_the_program()) return;
  if (!call.succeeded()) return check_ends(call, used_);
  if (!doubts_.empty()) end_doubts();
  note_host_work(call_);
  switch (call.verb()) {
  case Verb::work:
    return check_work(call_);
  case Verb::copy:
    check(call_, used_);
    return check_ends(call_, used_);
  case Verb::graph_launch:
    if (launched_ == nullptr) return;
    check(call_, *launched_);
    return check_ends(call_, *launched_);
  case Verb::value_write:
    if (const auto capture = capture_of(call)) graphs_.captured(capture).used.HostEffects::add(effects_);
    return;
  case Verb::memory_free:
    return check_free(call_);
  default:
    return check_graph(graphs_.see(call_, parts_, [&] { return use_of(call_); }));
  }
}

/// A captured free is of memory of a graph, as measured, and frees nothing before a launch.
void OrderRules::take_part(const Call& record) {
  const bool is_free = record.number == static_cast<std::uint64_t>(MemoryPart::freed);
  const StreamState* const stream = is_free && record.value != 0
                                        ? world_.stream(key_of(record.value, record.context, record.thread))
                                        : nullptr;
  if (stream != nullptr && stream->is_capturing()) return;
  std::optional<MemoryRecords::Free> free;
  if (stream != nullptr) free = {world_.order().next(*stream), world_.order().is_held(*stream)};
  const unsigned long blocks = memory_.blocks();
  memory_.take(record, world_.order().order(), std::move(free));
  blind_.blocks += memory_.blocks() - blocks;
}

void OrderRules::check_work(const Call& call) {
  const auto capture = capture_of(call);
  const std::optional<Point>& point = world_.order().point();
  for (const Part& part : parts_)
    if (part.kind == MemoryPart::allocated || part.kind == MemoryPart::allocated_host) {
      if (!capture && point) memory_.note_made(call, part, *point, world_.order().order());
      return;
    }
  if (!capture && call.work() == Work::free) return check_free(call);
  if (capture)
    check_captured(call, capture);
  else
    check(call, used_);
  if (source_ && !capture) note_source(call);
  if (target_ && !capture) note_target(call);
  check_ends(call, used_);
}

/// What may write to the host's memory, or wait for the host.
void OrderRules::note_host_work(const Call& call) {
  const StreamState* const stream = call.has_stream() ? world_.stream(call.stream()) : nullptr;
  if (stream == nullptr || stream->is_capturing()) return;
  const Order& order = world_.order().order();
  if (world_.order().is_held(*stream))
    for (const Point& hold : order.open_holds(*stream->number_in_order))
      sources_.note_actor(hold, order);
  const std::optional<Point>& point = world_.order().point();
  if (!point) return;
  const auto write = [&](Allocation& to) {
    if (!to.of_host) return;
    to.writers[point->stream].add(*point, order);
    ++to.writes;
  };
  const Used* const used = call.verb() == Verb::graph_launch ? launched_ : &used_;
  for (std::size_t i = 0; used != nullptr && i < used->accesses.size(); ++i)
    if (used->accesses[i].writes && used->accesses[i].use == Use::copied)
      memory_.for_each(used->accesses[i], write);
  const bool only_writes = call.work() == Work::copy || call.work() == Work::fill;
  if (call.verb() == Verb::value_write) {
    if (Allocation* const to = memory_.at(call.address)) write(*to);
  } else if (effects_.stores_for_host && !only_writes) {
    sources_.note_actor(*point, order);
  }
}

void OrderRules::note_source(const Call& call) {
  if (*source_ == 0) {
    ++blind_.sources;
    return;
  }
  const auto read = std::ranges::find(used_.accesses, false, &Access::writes);
  if (read != used_.accesses.end())
    sources_.note_copy(*source_, call, memory_.at(read->rows.begin), world_.order());
}

void OrderRules::note_target(const Call& call) {
  if (*target_ == 0) {
    ++blind_.targets;
    return;
  }
  const auto written = std::ranges::find(used_.accesses, true, &Access::writes);
  const Allocation* const in = written != used_.accesses.end() ? memory_.at(written->rows.begin) : nullptr;
  targets_.note_copy(*target_, call, in);
}

/// The call before which the auditor has seen a change, or the change itself.
std::optional<Call> OrderRules::noticed_by(const Call& record) {
  if (record.value == changed_here) {
    Call write = record;
    write.stack = static_cast<std::uint32_t>(record.flags);
    return write;
  }
  if (record.value >= entry_count) return std::nullopt;
  Site site(record);
  site.entry = static_cast<std::uint16_t>(record.value);
  site.stack = static_cast<std::uint32_t>(record.flags);
  return site.call();
}

/// What is used after it was freed, even if that is on the same stream.
void OrderRules::check_ends(const Call& call, const Used& used) {
  std::optional<Finding> finding;
  for (const Access& access : used.accesses) {
    const Ended* const ended = memory_.end_of(access);
    if (ended == nullptr) continue;
    const bool is_certain = access.use <= Use::pointer;
    if (!is_certain && (!all_ || finding)) continue;
    Access shown = access;
    shown.site = Site(call);
    std::string sentence = std::string(verb_of(shown)) + place_text(call.stream());
    sentence += is_certain ? " uses memory" : " may use memory";
    sentence += ended->origin == Origin::mapped ? " after it was unmapped" : " after it was freed";
    if (!is_certain) sentence += doubt_text(access);
    finding = Finding{Rule::freed_while_used, std::move(sentence), call, {}};
    finding->certainty = certainty_of(is_certain);
    finding->earlier.push_back({"it was freed here", ended->freed.call()});
    if (call.verb() == Verb::graph_launch)
      finding->earlier.push_back({"this call has put its use into the graph", access.site.call()});
    finding->earlier.push_back({"it was allocated here", ended->made.call()});
    if (is_certain) break;
  }
  report(std::move(finding));
}

void OrderRules::check(const Call& call, const Used& used) {
  const StreamOrder& order = world_.order();
  const std::vector<Point>& functions = order.host_functions();
  if (!order.point() || (order.is_held() && functions.empty())) return;
  std::shared_ptr<const std::vector<Point>> after;
  if (!functions.empty()) after = std::make_shared<const std::vector<Point>>(functions);
  std::optional<Finding> finding;
  for (Access access : used.accesses) {
    if (memory_.end_of(access) != nullptr) continue; // other memory has the address
    access.point = *order.point();
    access.after = after;
    if (call.verb() == Verb::graph_launch) access.site = Site(call);
    memory_.for_each(access, [&](Allocation& allocation) {
      check(call, access, allocation, finding);
      check_former(call, access, allocation, finding);
      allocation.is_filled = allocation.is_filled || (access.use == Use::copied && access.writes);
      allocation.add(access, order.order());
    });
  }
  report(std::move(finding));
}

/// Copies and memsets against each other; kernels against them.
void OrderRules::check(const Call& call, const Access& access, const Allocation& allocation,
                       std::optional<Finding>& finding) {
  for (const Access& earlier : allocation.accesses) {
    if (world_.order().order().is_before(earlier.point, access.point.stream) ||
        !allocation.rows_of(earlier).overlaps(allocation.rows_of(access)))
      continue;
    if (!earlier.writes && !access.writes) continue;
    const bool is_certain = is_certain_conflict(earlier, access, allocation);
    std::vector<Point> functions = open_functions(earlier), others;
    if (!functions.empty()) others.push_back(access.point);
    if (access.after) {
      functions.insert(functions.end(), access.after->begin(), access.after->end());
      others.push_back(earlier.point);
    }
    if (!is_certain) {
      // Of two kernels, nothing tells which of them writes.
      const bool are_kernels = earlier.use != Use::copied && access.use != Use::copied;
      const bool has_word = earlier.use == Use::word || access.use == Use::word;
      if (has_word && (are_kernels || !has_begin(earlier, allocation) || !has_begin(access, allocation)))
        continue;
      if (are_kernels) {
        if (wants_candidates_ && functions.empty()) note_pair(call, access, earlier, allocation);
        continue;
      }
      if (!all_ || finding) continue;
      if (call.stack == 0 || ++seen_[{earlier.site.stack, call.stack}] < repetitions) continue;
    }
    if (functions.empty())
      finding = overlap(call, access, earlier, allocation);
    else
      doubt(overlap(call, access, earlier, allocation), std::move(others), std::move(functions));
  }
}

/// The memory of blocks that were freed is in use again. Nothing waits between the two, unless the program
/// does.
void OrderRules::check_former(const Call& call, const Access& access, const Allocation& block,
                              std::optional<Finding>& finding) {
  for (const FormerUse& former : block.former) {
    const Access& earlier = former.access;
    if (world_.order().order().is_before(earlier.point, access.point.stream) ||
        (!earlier.writes && !access.writes) || !earlier.rows.overlaps(access.rows) || access.after ||
        !open_functions(earlier).empty())
      continue;
    const bool is_certain =
        is_sure(earlier) && is_sure(access) && sure_rows(earlier).overlaps(sure_rows(access));
    if (!is_certain) {
      if (!all_ || finding || earlier.use == Use::inside || access.use == Use::inside) continue;
      if (call.stack == 0 || ++seen_[{earlier.site.stack, call.stack}] < repetitions) continue;
    }
    Access shown = access;
    shown.site = Site(call);
    const StreamKey user = key_of(earlier.site.stream, earlier.site.context, earlier.site.thread);
    std::string sentence = "memory of " + number_text(former.size) + " bytes ";
    sentence += is_certain ? "is freed" : "may be freed too early";
    sentence += std::string(" while ") + verb_of(earlier) + place_text(user);
    sentence += is_certain ? " uses it: " : " may use it: ";
    sentence += std::string(verb_of(shown)) + place_text(call.stream());
    sentence += " uses the memory next, and nothing orders the two";
    finding = Finding{Rule::freed_while_used, std::move(sentence), former.freed.call(), {}};
    finding->certainty = certainty_of(is_certain);
    finding->call.place = call.place; // what comes too early
    finding->earlier.push_back({"it is used by this call", earlier.site.call()});
    finding->earlier.push_back({"it was allocated here", former.made.call()});
    finding->earlier.push_back({"the allocator gave it away again here", block.made.call()});
    finding->earlier.push_back({"this call uses it next", call});
    if (is_certain) return;
  }
}

Finding OrderRules::overlap(const Call& call, const Access& now, const Access& earlier,
                            const Allocation& allocation) {
  const bool is_certain = is_certain_conflict(earlier, now, allocation);
  const bool are_copies = earlier.use == Use::copied && now.use == Use::copied;
  Access shown = now;
  shown.site = Site(call);
  std::string sentence = std::string(verb_of(shown)) + place_text(call.stream());
  sentence += is_certain ? effect_of(now, " overwrites") : " may use";
  sentence += " memory that " + std::string(verb_of(earlier)) +
              place_text(key_of(earlier.site.stream, earlier.site.context, earlier.site.thread));
  const bool is_made = is_allocation(earlier);
  sentence += is_made ? " makes" : is_certain ? effect_of(earlier, " writes") : " may use at the same time";
  sentence += is_certain ? ", and nothing orders the two" : ": nothing orders the two";
  if (now.use == Use::word || earlier.use == Use::word) sentence += std::string("; ") + in_structure;
  Finding finding{
      are_copies ? Rule::unordered_copies : Rule::unordered_kernel, std::move(sentence), call, {}};
  finding.certainty = certainty_of(is_certain);
  finding.earlier.push_back({"the other one was submitted here", earlier.site.call()});
  if (!is_made && allocation.origin != Origin::found)
    finding.earlier.push_back({"the memory was allocated here", allocation.made.call()});
  return finding;
}

/// Of two kernels, nothing tells which of them writes.
void OrderRules::note_pair(const Call& call, const Access& now, const Access& earlier,
                           const Allocation& allocation) {
  if (call.stack == 0 || earlier.site.stack == 0) return;
  Access later = now;
  later.site = Site(call);
  if (!pairs_.add(rank_of(earlier, later, allocation), earlier, later,
                  [&] { return overlap(call, now, earlier, allocation); }))
    ++blind_.pairs;
}

/// The host functions before the access that may wait still.
std::vector<Point> OrderRules::open_functions(const Access& access) const {
  std::vector<Point> open;
  if (access.after)
    std::ranges::copy_if(*access.after, std::back_inserter(open), [&](const Point& function) {
      return world_.order().compare_with_host(function) != Ordered::before;
    });
  return open;
}

void OrderRules::doubt(Finding finding, std::vector<Point> others, std::vector<Point> functions) {
  if (doubts_.size() < doubts_kept)
    doubts_.push_back({std::move(finding), std::move(others), std::move(functions)});
}

/// A function that has not ended may have waited for what the host knows now.
void OrderRules::drop_doubts() {
  const Order& order = world_.order().order();
  std::erase_if(doubts_, [&](const Doubt& doubt) {
    return std::ranges::any_of(doubt.others,
                               [&](const Point& other) { return order.is_known_by_host(other); });
  });
}

/// The host has found that functions have ended, and did not know of the other work before.
void OrderRules::end_doubts() {
  std::vector<Doubt> left;
  for (Doubt& doubt : std::exchange(doubts_, {})) {
    const bool have_ended = std::ranges::all_of(doubt.functions, [&](const Point& function) {
      return world_.order().compare_with_host(function) == Ordered::before;
    });
    if (have_ended)
      report_(std::move(doubt.finding));
    else
      left.push_back(std::move(doubt));
  }
  doubts_.insert(doubts_.begin(), std::make_move_iterator(left.begin()), std::make_move_iterator(left.end()));
}

void OrderRules::report(std::optional<Finding> finding) {
  if (finding) report_(std::move(*finding));
}

void OrderRules::check_captured(const Call& call, const std::shared_ptr<Capture>& capture) {
  const CapturedNode& node = capture->last_work.at(call.stream());
  GraphWork& work = graphs_.captured(capture);
  Used& all = work.used;
  for (const Access& access : used_.accesses) {
    if (access.use != Use::copied) continue;
    std::optional<Finding> finding;
    for (const Access& earlier : all.accesses)
      if (earlier.use == Use::copied && (earlier.writes || access.writes) &&
          earlier.rows.overlaps(access.rows) && !capture->order.is_before(earlier.point, node.point.stream))
        if (const Allocation* const allocation = memory_.at(std::max(earlier.rows.begin, access.rows.begin)))
          finding = overlap(call, access, earlier, *allocation);
    if (finding) work.findings.push_back(std::move(*finding));
  }
  for (const Access& access : used_.accesses)
    memory_.note_in_graph(access);
  const std::size_t first = all.accesses.size();
  all.add(used_);
  for (std::size_t i = first; i < all.accesses.size(); ++i)
    all.accesses[i].point = node.point;
}

/// Whether the branches of a graph that the call has instantiated use the same memory.
void OrderRules::check_graph(GraphWork* work) {
  if (work == nullptr) return;
  for (Finding& finding : std::exchange(work->findings, {}))
    report_(std::move(finding));
  for (const auto& [earlier, later] : work->unordered_copies())
    if (const Allocation* const in = memory_.at(std::max(earlier.rows.begin, later.rows.begin)))
      report_(overlap(later.site.call(), later, earlier, *in));
}

bool OrderRules::is_done_before_free(const Call& call, const Access& access) const {
  const StreamOrder& order = world_.order();
  return call.has_stream() ? order.order().is_before(access.point, order.point()->stream)
                           : order.order().is_known_by_host(access.point);
}

void OrderRules::check_free(const Call& call) {
  std::optional<Finding> finding;
  std::vector<Point> functions; // that the free comes after, and that may wait for the last use
  if (call.has_stream()) functions = world_.order().host_functions();
  const bool is_held = call.has_stream() && world_.order().is_held() && functions.empty();
  if (!effects_.waits_for_device && !is_held)
    for (const Allocation& freed : freed_)
      check_free(call, freed, functions, finding);
  memory_.end(call, std::exchange(freed_, {}));
  report(std::move(finding));
}

/// A function before the use only makes it later.
void OrderRules::check_free(const Call& call, const Allocation& freed, const std::vector<Point>& functions,
                            std::optional<Finding>& finding) {
  for (const Access& access : freed.accesses) {
    if (is_allocation(access) || is_done_before_free(call, access)) continue;
    const bool is_certain = access.use <= Use::pointer;
    if (!is_certain && !all_) continue;
    const StreamKey user = key_of(access.site.stream, access.site.context, access.site.thread);
    std::string sentence = "memory of " + number_text(freed.size) + " bytes ";
    sentence += is_certain ? "is freed" : "may be freed too early";
    if (call.has_stream()) sentence += " on " + stream_text(call.stream());
    sentence += std::string(" while ") + verb_of(access) + " on " + stream_text(user);
    sentence +=
        is_certain ? " uses it: nothing orders the free behind it" : " may use it" + doubt_text(access);
    Finding found{Rule::freed_while_used, std::move(sentence), call, {}};
    found.certainty = certainty_of(is_certain);
    found.earlier.push_back({"it is used by this call", access.site.call()});
    found.earlier.push_back({"it was allocated here", freed.made.call()});
    if (functions.empty())
      finding = std::move(found);
    else
      doubt(std::move(found), {access.point}, functions);
  }
}

} // namespace

std::shared_ptr<Observer> order_rules(const World& world, Report report, OrderOptions options) {
  return std::make_shared<OrderRules>(world, std::move(report), options);
}

} // namespace watch
