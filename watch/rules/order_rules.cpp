// SPDX-License-Identifier: MIT
// Memory that two streams use without an order. Work is ordered if that cannot be excluded.
#include "rules/order_rules.hpp"
#include "rules/graph_work.hpp"
#include "rules/memory.hpp"
#include "rules/number_text.hpp"
#include "rules/object_text.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace watch {

namespace {

constexpr std::uint64_t most_polled = 64;       // bytes of a store that the host can poll
constexpr std::size_t freed_ranges_kept = 4096; // beyond them, each allocation waits for all frees
constexpr unsigned repetitions = 3;             // of what is only possible, before it is reported

/// A record of memory: see MemoryPart.
struct Part {
  MemoryPart kind;
  std::uint64_t words[3];
};

/// A capture that is under way.
struct CapturedOrder {
  Order order;
  std::map<StreamKey, std::uint32_t> numbers;
  GraphWork work;

  std::uint32_t number(const StreamKey& key) {
    const auto [found, is_new] = numbers.try_emplace(key, 0);
    if (is_new) found->second = order.add_stream(Order::Kind::independent, 0);
    return found->second;
  }
};

struct EventMark {
  OrderMark mark;
  std::shared_ptr<Capture> capture; // in which it was recorded
};

/// Nodes of these kinds are known, and what they use.
bool is_known_node(Work work) {
  return work == Work::kernel || work == Work::copy || work == Work::fill || work == Work::empty ||
         work == Work::host;
}

/// Work whose use of memory is not told.
bool is_opaque(const Call& call, const std::vector<Part>& parts) {
  if (call.verb() != Verb::work && !changes_graph(call.verb())) return false;
  if (call.has(hides_memory)) return true;
  return call.work() != Work::kernel && call.work() != Work::empty && parts.empty();
}

template <class Map>
typename Map::mapped_type taken_out(Map& map, std::uint32_t thread) {
  auto node = map.extract(thread);
  return node.empty() ? typename Map::mapped_type{} : std::move(node.mapped());
}

const char* verb_of(const Access& access) {
  if (access.use != Use::copied) return "a kernel";
  const Work work = entry_data[access.site.entry].work;
  if (work == Work::graph) return "a graph";
  return work == Work::fill ? "a memset" : "a copy";
}

/// Nodes that were added to a graph have no stream.
std::string place_text(const StreamKey& stream) {
  return stream.handle == 0 ? " of the graph" : " on " + stream_text(stream);
}

class OrderRules : public Observer {
public:
  OrderRules(const World& world, Report report, OrderOptions options)
      : world_(world), report_(std::move(report)), options_(options) {}

  void before(const Call& call) override {
    const Handle ended = world_.context_ended_by(call);
    if (ended == 0) return;
    host_waits_for_all();
    memory_.end_context(ended);
  }
  void after(const Call& call) override;

private:
  // Streams
  std::uint32_t number(const StreamKey& key);
  std::uint32_t number(const Call& call) { return number(call.stream()); }
  void host_waits_for(std::uint32_t stream) { order_.host_wait(order_.record(stream)); }
  void host_waits_for_all() { order_.host_wait(order_.record_group(0)); }
  std::shared_ptr<Capture> capture_of(const Call& call) const;
  CapturedOrder* captured(const std::shared_ptr<Capture>& capture);

  // Events
  void record(const Call& call);
  void wait(const Call& call);
  void host_wait_for_event(Handle handle);

  // Graphs
  void see_graph(const Call& call, const std::vector<Part>& parts);
  void add_node(const Call& call, const std::vector<Part>& parts);
  void change_exec(const Call& call, const std::vector<Part>& parts);
  void change_edges(const Call& call, const std::vector<Part>& parts);
  void change_node(const Call& call, const std::vector<Part>& parts);
  void instantiate(const Call& call);
  void launch(const Call& call);

  // Memory
  void see(const Call& call, const std::vector<Part>& parts);
  void take_part(const Call& call);
  Used use_of(const Call& call, const std::vector<Part>& parts);
  void add_words(const Call& call, const std::vector<Part>& parts, Used& used);
  void submit(const Call& call, std::uint32_t stream, const Used& used);
  void capture_work(const Call& call, CapturedOrder& in, const Used& used);
  void allocate(const Call& call, const Part& part);
  void free(const Call& call);
  void free_on_stream(const Call& call, std::uint32_t stream);
  template <class IsBefore>
  void check_free(const Call& call, const Allocation& freed, IsBefore is_before);

  // Findings
  void check(const Call& call, const Access& access, const Allocation& allocation,
             std::optional<Finding>& finding);
  void report(std::optional<Finding> finding);
  Finding overlap(const Call& call, const Access& now, const Access& earlier, const Allocation& allocation);

  const World& world_;
  const Report report_;
  const OrderOptions options_;
  Order order_;
  Memory memory_;
  struct KnownStream {
    std::uint64_t world_number = 0;
    std::uint32_t number = 0;
  };
  std::map<StreamKey, KnownStream> streams_;
  std::unordered_map<Handle, EventMark> events_;
  std::map<std::shared_ptr<const Capture>, CapturedOrder> captures_;      // that may not be over
  std::unordered_map<Handle, std::shared_ptr<GraphWork>> graphs_, execs_; // no work: not known
  std::unordered_map<Handle, OrderMark> launches_;                        // of each exec, the last one
  std::unordered_map<std::uint32_t, std::vector<Part>> parts_;            // of each thread's next call
  std::unordered_map<std::uint32_t, Allocation> dying_; // which each thread is about to free
  std::map<std::uint64_t, std::pair<std::uint64_t, OrderMark>>
      freed_;                             // ranges of pools, not used again: size, free
  std::optional<OrderMark> freed_before_; // of what found no room there
  std::map<std::pair<std::uint32_t, std::uint32_t>, unsigned> seen_; // pairs of stacks
};

// ---- Streams ----

std::uint32_t OrderRules::number(const StreamKey& key) {
  const StreamState* const stream = world_.stream(key);
  const std::uint64_t now = stream != nullptr ? stream->number : 0;
  const auto [found, is_new] = streams_.try_emplace(key);
  KnownStream& known = found->second;
  if (!is_new && (known.world_number == now || now == 0)) return known.number;
  if (!is_new && known.world_number != 0) order_.remove_stream(known.number);
  const bool is_legacy = key.handle == 1;
  const bool is_independent =
      stream != nullptr && stream->created && (stream->flags & CU_STREAM_NON_BLOCKING) != 0;
  if (is_new || known.world_number != 0)
    known.number = order_.add_stream(is_legacy        ? Order::Kind::legacy
                                     : is_independent ? Order::Kind::independent
                                                      : Order::Kind::blocking,
                                     stream != nullptr ? stream->context : key.context);
  known.world_number = now;
  return known.number;
}

std::shared_ptr<Capture> OrderRules::capture_of(const Call& call) const {
  const StreamState* const stream = call.has_stream() ? world_.stream(call.stream()) : nullptr;
  return stream != nullptr && stream->is_capturing() ? stream->capture : nullptr;
}

CapturedOrder* OrderRules::captured(const std::shared_ptr<Capture>& capture) {
  if (!capture) return nullptr;
  if (captures_.find(capture) == captures_.end()) // captures that failed have no end here
    std::erase_if(captures_, [](const auto& each) { return each.first->over; });
  return &captures_[capture];
}

// ---- Events ----

void OrderRules::record(const Call& call) {
  const auto capture = capture_of(call);
  for (const Handle event : call.events()) {
    if (event == 0) continue;
    EventMark& mark = events_[event];
    mark.capture = capture;
    if (CapturedOrder* const in = captured(capture)) {
      mark.mark = in->order.record(in->number(call.stream()));
      continue;
    }
    if (call.has_stream()) {
      mark.mark = order_.record(number(call));
      continue;
    }
    mark.mark = order_.record_group(0); // of a context, perhaps a green one, whose streams are not known
  }
}

void OrderRules::wait(const Call& call) {
  const EventState* const event = world_.event(call.event);
  const auto mark = events_.find(call.event);
  const bool is_unknown = event == nullptr || !event->created || event->shared || event->recorded_by_graph ||
                          event->created->verb() == Verb::event_open;
  if (call.verb() == Verb::context_wait) {
    for (const auto& [key, known] : streams_)
      if (is_unknown) order_.hold(known.number);
    if (mark != events_.end()) order_.host_wait(mark->second.mark);
    return;
  }
  if (CapturedOrder* const in = captured(capture_of(call))) {
    if (call.flags != 0)
      in->work.is_known = false; // it waits for something outside
    else if (mark != events_.end() && mark->second.capture)
      in->order.wait(in->number(call.stream()), mark->second.mark);
    return;
  }
  if (mark != events_.end() && !mark->second.capture) order_.wait(number(call), mark->second.mark);
  if (is_unknown) order_.hold(number(call));
}

void OrderRules::host_wait_for_event(Handle handle) {
  const EventState* const event = world_.event(handle);
  if (event == nullptr || !event->created || event->shared || event->recorded_by_graph)
    return host_waits_for_all();
  const auto mark = events_.find(handle);
  if (mark != events_.end() && !mark->second.capture) order_.host_wait(mark->second.mark);
}

// ---- Memory ----

void OrderRules::take_part(const Call& call) {
  const Part part{static_cast<MemoryPart>(call.number), {call.address, call.value, call.flags}};
  if (part.kind == MemoryPart::freed) {
    dying_[call.thread] = memory_.free(part.words[0]);
    Allocation& dying = dying_[call.thread];
    if (part.words[1] == 0 || dying.size == 0) return;
    // Another thread may get the address before the record of the call.
    const StreamKey key = key_of(part.words[1], call.context, call.thread);
    if (world_.is_capturing(key)) return;
    OrderMark mark = order_.record(number(key));
    if (freed_.size() < freed_ranges_kept) {
      freed_[dying.begin] = {dying.size, std::move(mark)};
      return;
    }
    if (!freed_before_) freed_before_.emplace();
    auto& before = freed_before_->before;
    before.resize(std::max(before.size(), mark.before.size()));
    for (std::size_t i = 0; i < mark.before.size(); ++i)
      before[i] = std::max(before[i], mark.before[i]);
    return;
  }
  if (part.kind == MemoryPart::told_host) {
    const StreamKey key = key_of(part.words[0], call.context, call.thread);
    if (!world_.is_capturing(key)) host_waits_for(number(key));
    return;
  }
  parts_[call.thread].push_back(part);
}

void OrderRules::allocate(const Call& call, const Part& part) {
  const std::uint64_t begin = part.words[0], size = part.words[1];
  if (call.has_stream() && capture_of(call)) return; // the memory of a graph
  if (call.has_stream()) {                           // the driver orders it behind the free of what was there
    const std::uint32_t stream = number(call);
    if (freed_before_) order_.wait(stream, *freed_before_);
    auto old = freed_.lower_bound(begin);
    if (old != freed_.begin() && std::prev(old)->first + std::prev(old)->second.first > begin) --old;
    while (old != freed_.end() && old->first < begin + size) {
      const auto [start, range] = std::move(*old);
      const auto& [width, mark] = range;
      order_.wait(stream, mark);
      old = freed_.erase(old);
      if (start < begin) freed_[start] = {begin - start, mark};
      if (start + width > begin + size) freed_[begin + size] = {start + width - (begin + size), mark};
    }
  }
  Allocation& made = memory_.allocate(begin, size);
  made.of_host = part.kind == MemoryPart::allocated_host;
  made.made = Site(call);
  made.context = call.context;
}

Used OrderRules::use_of(const Call& call, const std::vector<Part>& parts) {
  Used used;
  if (speaks_with_host(call.work())) used.stores_for_host = used.ends_for_host = used.may_wait = true;
  if (is_opaque(call, parts)) used.stores_for_host = used.ends_for_host = true;
  for (const Part& part : parts) {
    const auto& words = part.words;
    if (part.kind == MemoryPart::read || part.kind == MemoryPart::written) {
      const std::uint64_t count = words[2] & 0xFFFF'FFFF, pitch = words[2] >> 32U;
      Access access{{words[0], words[1], pitch, count == 0 || pitch == 0 ? 1 : count},
                    part.kind == MemoryPart::written};
      access.site = Site(call);
      bool of_host = false;
      const bool known =
          memory_.for_each(access.rows, [&](Allocation& in) { of_host = of_host || in.of_host; });
      used.reads_of_host = used.reads_of_host || of_host;
      if (!known) used.ends_for_host = true; // pageable memory: the call may wait
      if (access.writes && (of_host || !known)) {
        used.stores_for_host = true;
        if (access.rows.width * access.rows.count <= most_polled) used.ends_for_host = true;
      }
      used.accesses.push_back(access);
    } else if (part.kind == MemoryPart::unknown) {
      used.stores_for_host = used.ends_for_host = true;
      if (options_.blind != nullptr) ++options_.blind->kernels;
    }
  }
  add_words(call, parts, used);
  return used;
}

void OrderRules::add_words(const Call& call, const std::vector<Part>& parts, Used& used) {
  std::vector<std::pair<std::uint64_t, Use>> words;
  for (const Part& part : parts)
    if (part.kind == MemoryPart::pointers || part.kind == MemoryPart::words_inside)
      for (const std::uint64_t word : part.words)
        if (word != 0) words.emplace_back(word, part.kind == MemoryPart::pointers ? Use::pointer : Use::word);
  for (const auto& [word, use] : words) {
    const Allocation* const in = memory_.at(word);
    if (in == nullptr) continue;
    if (in->of_host) used.stores_for_host = used.ends_for_host = true;
    // The end of the memory before it, if the kernel has a pointer into that.
    const Allocation* const before = word == in->begin ? memory_.at(word - 1) : nullptr;
    const bool is_end = before != nullptr && std::any_of(words.begin(), words.end(), [&](const auto& other) {
                          return other.first >= before->begin && other.first < before->end();
                        });
    if (is_end) continue;
    Access access{{word, in->end() - word}, true, use};
    access.site = Site(call);
    used.accesses.push_back(access);
  }
}

/// Copies and memsets against each other; kernels against them.
void OrderRules::check(const Call& call, const Access& access, const Allocation& allocation,
                       std::optional<Finding>& finding) {
  for (const Access& earlier : allocation.accesses) {
    if (order_.is_before(earlier.point, access.point.stream) || !earlier.rows.overlaps(access.rows)) continue;
    if (!earlier.writes && !access.writes) continue;
    const bool is_certain = earlier.use == Use::copied && access.use == Use::copied;
    if (is_certain) {
      finding = overlap(call, access, earlier, allocation);
      continue;
    }
    // Of two kernels, nothing tells which of them writes.
    if (!options_.all || finding || earlier.use == Use::word || access.use == Use::word) continue;
    if (earlier.use != Use::copied && access.use != Use::copied) continue;
    if (call.stack == 0 || ++seen_[{earlier.site.stack, call.stack}] < repetitions) continue;
    finding = overlap(call, access, earlier, allocation);
  }
}

Finding OrderRules::overlap(const Call& call, const Access& now, const Access& earlier,
                            const Allocation& allocation) {
  const bool is_certain = earlier.use == Use::copied && now.use == Use::copied;
  Access shown = now;
  shown.site = Site(call);
  std::string sentence = std::string(verb_of(shown)) + place_text(call.stream());
  sentence += is_certain ? (now.writes ? " overwrites" : " reads") : " may use";
  sentence += " memory that " + std::string(verb_of(earlier)) +
              place_text(key_of(earlier.site.stream, earlier.site.context, earlier.site.thread));
  sentence += is_certain ? (earlier.writes ? " writes" : " reads") : " may use at the same time";
  sentence += is_certain ? ", and nothing orders the two" : ": nothing orders the two";
  Finding finding{
      is_certain ? Rule::unordered_copies : Rule::unordered_kernel, std::move(sentence), call, {}};
  finding.is_possible = !is_certain;
  finding.earlier.push_back({"the other one was submitted here", earlier.site.call()});
  finding.earlier.push_back({"the memory was allocated here", allocation.made.call()});
  return finding;
}

void OrderRules::report(std::optional<Finding> finding) {
  if (finding) report_(std::move(*finding));
}

void OrderRules::submit(const Call& call, std::uint32_t stream, const Used& used) {
  if (used.stores_for_host) host_waits_for(stream);
  const Point point = order_.submit(stream);
  std::optional<Finding> finding;
  if (!order_.is_held(stream))
    for (const Access& each : used.accesses) {
      const auto use = [&](Allocation& allocation) {
        Access access = each;
        access.point = point;
        if (call.verb() == Verb::graph_launch) access.site = Site(call);
        check(call, access, allocation, finding);
        allocation.add(access, order_);
      };
      if (each.use == Use::copied)
        memory_.for_each(each.rows, use);
      else if (Allocation* const in = memory_.at(each.rows.begin))
        use(*in);
    }
  report(std::move(finding));
  if (used.ends_for_host) host_waits_for(stream);
  if (used.may_wait) order_.hold(stream);
}

void OrderRules::capture_work(const Call& call, CapturedOrder& in, const Used& used) {
  const std::uint32_t stream = in.number(call.stream());
  const Point point = in.order.submit(stream);
  Used& all = in.work.used;
  for (const Access& access : used.accesses) {
    if (access.use != Use::copied) continue;
    std::optional<Finding> finding;
    for (const Access& earlier : all.accesses)
      if (earlier.use == Use::copied && (earlier.writes || access.writes) &&
          earlier.rows.overlaps(access.rows) && !in.order.is_before(earlier.point, stream))
        if (const Allocation* const allocation = memory_.at(std::max(earlier.rows.begin, access.rows.begin)))
          finding = overlap(call, access, earlier, *allocation);
    if (finding) in.work.findings.push_back(std::move(*finding));
  }
  const std::size_t first = all.accesses.size();
  all.add(used);
  for (std::size_t i = first; i < all.accesses.size(); ++i)
    all.accesses[i].point = point;
}

/// cuMemFree and its like wait for the device. But cuMemFree does not wait for anything if the memory is of a
/// pool.
void OrderRules::free(const Call& call) {
  const Allocation freed = taken_out(dying_, call.thread);
  if (freed.size == 0 || !freed.is_of_pool()) return host_waits_for_all();
  check_free(call, freed, [this](const Access& access) { return order_.is_known_by_host(access.point); });
}

void OrderRules::free_on_stream(const Call& call, std::uint32_t stream) {
  const Allocation freed = taken_out(dying_, call.thread);
  order_.submit(stream);
  if (options_.blind != nullptr) ++options_.blind->frees;
  if (freed.size == 0 || order_.is_held(stream)) return;
  check_free(call, freed, [&](const Access& access) { return order_.is_before(access.point, stream); });
}

template <class IsBefore>
void OrderRules::check_free(const Call& call, const Allocation& freed, IsBefore is_before) {
  std::optional<Finding> finding;
  for (const Access& access : freed.accesses) {
    if (is_before(access)) continue;
    const bool is_certain = access.use != Use::word;
    if (!is_certain && !options_.all) continue;
    const StreamKey user = key_of(access.site.stream, access.site.context, access.site.thread);
    std::string sentence = "memory of " + number_text(freed.size) + " bytes ";
    sentence += is_certain ? "is freed" : "may be freed too early";
    if (call.has_stream()) sentence += " on " + stream_text(call.stream());
    sentence += std::string(" while ") + verb_of(access) + " on " + stream_text(user);
    sentence += is_certain ? " uses it: nothing orders the free behind it"
                           : " may use it: a part of a larger argument points there";
    finding = Finding{Rule::freed_while_used, std::move(sentence), call, {}};
    finding->is_possible = !is_certain;
    finding->earlier.push_back({"it is used by this call", access.site.call()});
    finding->earlier.push_back({"it was allocated here", freed.made.call()});
  }
  report(std::move(finding));
}

// ---- Graphs ----

void OrderRules::launch(const Call& call) {
  const std::uint32_t stream = number(call);
  const auto found = execs_.find(call.exec);
  if (const auto last = launches_.find(call.exec); last != launches_.end()) order_.wait(stream, last->second);
  const bool is_known = found != execs_.end() && found->second->is_known;
  Used unknown;
  unknown.stores_for_host = unknown.ends_for_host = unknown.may_wait = true;
  if (!is_known && options_.blind != nullptr) ++options_.blind->launches;
  if (is_known) found->second->gather();
  submit(call, stream, is_known ? found->second->used : unknown);
  launches_[call.exec] = order_.record(stream);
}

/// The program adds a node to a graph. Only graphs that consist of such nodes are known.
void OrderRules::add_node(const Call& call, const std::vector<Part>& parts) {
  const auto found = graphs_.find(call.graph);
  if (found == graphs_.end()) return;
  GraphWork& work = *found->second;
  if (!work.is_built || !is_known_node(call.work())) {
    graphs_.erase(found);
    return;
  }
  std::vector<Handle> after;
  for (const Part& part : parts)
    if (part.kind == MemoryPart::after)
      for (const Handle node : part.words)
        if (node != 0) after.push_back(node);
  work.add_node(call.node, use_of(call, parts), after);
}

void OrderRules::change_exec(const Call& call, const std::vector<Part>& parts) {
  const auto exec = execs_.find(call.exec);
  if (exec == execs_.end()) return;
  if (exec->second.use_count() > 1) exec->second = std::make_shared<GraphWork>(*exec->second);
  const bool enables = call.work() == Work::any; // or disables: not modelled
  if (enables || !exec->second->change_node(call.node, use_of(call, parts))) execs_.erase(exec);
}

void OrderRules::change_edges(const Call& call, const std::vector<Part>& parts) {
  const auto graph = graphs_.find(call.graph);
  if (graph == graphs_.end()) return;
  const bool is_addition = graph->second->is_built && call.has(adds_order);
  for (const Part& part : parts)
    if (is_addition) graph->second->add_dependency(part.words[0], part.words[1]);
  if (!is_addition) graphs_.erase(graph);
}

/// Of a graph whose handle the call does not have.
void OrderRules::change_node(const Call& call, const std::vector<Part>& parts) {
  const Used used = use_of(call, parts);
  bool is_known = false;
  if (is_known_node(call.work()))
    for (const auto& [handle, work] : graphs_)
      is_known = is_known || work->change_node(call.node, used);
  if (!is_known) graphs_.clear();
}

void OrderRules::instantiate(const Call& call) {
  execs_.erase(call.exec);
  const auto found = graphs_.find(call.graph);
  if (found == graphs_.end()) return;
  GraphWork& work = *found->second;
  work.gather();
  if (!work.is_known) return;
  for (Finding& finding : std::exchange(work.findings, {}))
    report_(std::move(finding));
  for (const auto& [earlier, later] : work.unordered_copies())
    if (const Allocation* const in = memory_.at(std::max(earlier.rows.begin, later.rows.begin)))
      report_(overlap(later.site.call(), later, earlier, *in));
  // The graph may change later.
  execs_[call.exec] = work.is_built ? std::make_shared<GraphWork>(work) : found->second;
}

void OrderRules::see_graph(const Call& call, const std::vector<Part>& parts) {
  switch (call.verb()) {
  case Verb::capture_end: {
    const GraphState* const graph = world_.graph(call.made_graph);
    if (graph == nullptr || !graph->capture) return;
    const auto in = captures_.find(graph->capture);
    graphs_.erase(call.made_graph);
    if (in != captures_.end() && !graph->capture->into_graph) {
      graphs_[call.made_graph] = std::make_shared<GraphWork>(std::move(in->second.work));
      graphs_[call.made_graph]->used.drop_repeated();
    }
    if (in != captures_.end()) captures_.erase(in);
    return;
  }
  case Verb::graph_create:
    graphs_[call.made_graph] = std::make_shared<GraphWork>();
    graphs_[call.made_graph]->is_built = true;
    return;
  case Verb::graph_clone:
    if (const auto work = graphs_.find(call.graph); work != graphs_.end())
      graphs_[call.made_graph] = std::make_shared<GraphWork>(work->second->clone());
    else
      graphs_.erase(call.made_graph);
    return;
  case Verb::graph_instantiate:
    launches_.erase(call.exec);
    return instantiate(call);
  case Verb::exec_update:
    return instantiate(call);
  case Verb::exec_set_event:
    execs_.erase(call.exec);
    return;
  case Verb::node_set_event: // of which graph is not known
    graphs_.clear();
    return;
  case Verb::node_add:
    return add_node(call, parts);
  case Verb::exec_change:
    return change_exec(call, parts);
  case Verb::graph_change:
    return change_edges(call, parts);
  case Verb::node_change:
    return change_node(call, parts);
  case Verb::node_add_event:
  case Verb::graph_destroy:
    graphs_.erase(call.graph);
    return;
  case Verb::exec_destroy:
    execs_.erase(call.exec);
    launches_.erase(call.exec);
    return;
  default:
    return;
  }
}

// ---- Calls ----

void OrderRules::after(const Call& call) {
  if (call.verb() == Verb::memory_part) return take_part(call);
  if (!call.is_of_the_program()) return;
  std::vector<Part> parts = taken_out(parts_, call.thread);
  if (!call.succeeded()) {
    dying_.erase(call.thread);
    return;
  }
  const auto place = std::ranges::find(parts, MemoryPart::place, &Part::kind);
  if (place == parts.end()) return see(call, parts);
  Call placed = call;
  placed.place = {static_cast<std::uint32_t>(place->words[0]), static_cast<std::uint32_t>(place->words[1])};
  parts.erase(place); // what is left tells the use of memory
  see(placed, parts);
}

void OrderRules::see(const Call& call, const std::vector<Part>& parts) {
  const auto capture = capture_of(call);
  switch (call.verb()) {
  case Verb::work: {
    for (const Part& part : parts)
      if (part.kind == MemoryPart::allocated || part.kind == MemoryPart::allocated_host) {
        allocate(call, part);
        if (!capture) order_.submit(number(call));
        return;
      }
    const Used used = use_of(call, parts);
    if (CapturedOrder* const in = captured(capture))
      capture_work(call, *in, used);
    else if (call.work() == Work::free)
      free_on_stream(call, number(call));
    else
      submit(call, number(call), used);
    if (call.event != 0 || call.second_event != 0) record(call);
    return;
  }
  case Verb::copy: {
    const StreamKey key = key_of((call.marks & per_thread) != 0 ? 2 : 1, call.context, call.thread);
    Call shown = call;
    shown.stream_handle = key.handle;
    const Used used = use_of(shown, parts);
    submit(shown, number(key), used);
    const bool is_on_device =
        !parts.empty() && !used.stores_for_host && !used.ends_for_host && !used.reads_of_host;
    if (!is_on_device) host_waits_for(number(key)); // measured: others return at once
    return;
  }
  case Verb::memory_make:
    for (const Part& part : parts)
      allocate(call, part);
    return;
  case Verb::memory_free:
    free(call);
    return;
  case Verb::value_write:
    if (CapturedOrder* const in = captured(capture)) {
      in->work.used.stores_for_host = in->work.used.ends_for_host = true;
      in->order.submit(in->number(call.stream()));
      return;
    }
    order_.submit(number(call));
    host_waits_for(number(call));
    return;
  case Verb::value_wait:
    if (CapturedOrder* const in = captured(capture))
      in->work.is_known = false;
    else
      order_.hold(number(call));
    return;
  case Verb::graph_launch:
    if (CapturedOrder* const in = captured(capture))
      in->work.is_known = false;
    else
      launch(call);
    return;
  case Verb::capture_change: // the next node may come after any other one
    if (CapturedOrder* const in = captured(capture)) in->work.is_known = false;
    return;
  case Verb::event_create:
  case Verb::event_open:
  case Verb::event_destroy:
    events_.erase(call.event);
    return;
  case Verb::event_record:
  case Verb::context_record:
    record(call);
    return;
  case Verb::stream_wait:
  case Verb::context_wait:
    wait(call);
    return;
  case Verb::event_query:
  case Verb::event_synchronize:
  case Verb::event_elapsed: // which succeeds only if both are done
    for (const Handle event : call.events())
      if (event != 0) host_wait_for_event(event);
    return;
  case Verb::stream_query:
  case Verb::stream_synchronize:
    if (!capture) host_waits_for(number(call));
    return;
  case Verb::context_synchronize:
    order_.host_wait(order_.record_group(call.named_context));
    return;
  case Verb::stream_destroy:
    return;
  default:
    see_graph(call, parts);
    return;
  }
}

} // namespace

std::shared_ptr<Observer> order_rules(const World& world, Report report, OrderOptions options) {
  return std::make_shared<OrderRules>(world, std::move(report), options);
}

} // namespace watch
