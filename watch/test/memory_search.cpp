// SPDX-License-Identifier: MIT
// Compares the rules of memory with a search: memory_search PROGRAMS [SEED]. A program is a random sequence
// of allocations, frees, copies, fills, kernels, graphs and waits. The search keeps every operation, and for
// each the set of all that come before it. It shares no code with what it checks. Prints the first difference
// and returns 1.
#include "rules/order_rules.hpp"
#include "rules/world.hpp"

#include <algorithm>
#include <bitset>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using watch::MemoryPart;
using watch::Named;

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;
constexpr std::size_t nodes_limit = 256;
using Set = std::bitset<nodes_limit>; // of operations

/// What a copy, a fill or a kernel names.
struct Place {
  std::uint64_t begin, width;
  std::uint64_t rows = 1; // with `pitch` between their begins
  bool writes = false;
  Named named = Named::of_device;
};
constexpr std::uint64_t pitch = 4 * KiB;

bool overlap(const Place& one, const Place& other) {
  for (std::uint64_t i = 0; i < one.rows; ++i)
    for (std::uint64_t j = 0; j < other.rows; ++j) {
      const std::uint64_t a = one.begin + i * pitch, b = other.begin + j * pitch;
      if (a < b + other.width && b < a + one.width) return true;
    }
  return false;
}

struct Use {
  Place place;
  std::size_t node;
  bool by_kernel, allocates;
};

/// One life of memory.
struct Block {
  std::uint64_t begin, size;
  enum Kind : std::uint8_t { plain, pool, pinned, found } kind;
  bool of_other_context = false;
  bool has_ended = false;
  std::vector<Use> uses = {};

  std::uint64_t end() const { return begin + size; }
};

/// Addresses whose block was freed, until they are allocated again.
struct Hole {
  std::uint64_t begin, end;
  std::size_t block;
  std::optional<Set> before; // a stream-ordered free
};

struct Node {
  std::vector<std::pair<Place, std::optional<std::size_t>>> uses; // with the block that had the address
  bool by_kernel = false;
};

struct SearchedGraph {
  std::vector<Node> nodes;
  bool stores = false, ends = false;
  std::optional<Set> last_launch;
};

/// What the host learns from a call.
struct Learnt {
  bool begins = false, ends = false;
};

class Program {
public:
  explicit Program(unsigned seed) : random_(seed) {
    world_.add(watch::order_rules(
        world_, [this](const watch::Finding& finding) { found_[finding.rule] += finding.count; },
        {.blind = &blind_}));
    for (unsigned i = 0; i < stream_count; ++i) {
      see("cuStreamCreate", {handle(i), CU_STREAM_NON_BLOCKING});
      past_.emplace_back();
    }
    past_.resize(stream_count + 2); // of the default streams
    for (unsigned i = 0; i < event_count; ++i)
      see("cuEventCreate", {event + i, CU_EVENT_DISABLE_TIMING});
  }

  /// What went wrong, or the empty text.
  std::string run() {
    const unsigned operations = 20 + draw(70);
    for (unsigned i = 0; i < operations && count_ + 8 < nodes_limit; ++i) {
      expected_.clear();
      found_.clear();
      step();
      if (found_ != expected_) return "operation " + std::to_string(i) + ", " + last_ + ": " + difference();
    }
    return blind_.memory.unknown == unknown_ ? "" : "unknown memory is not counted as it should be";
  }

private:
  static constexpr unsigned stream_count = 3, legacy = stream_count, of_thread = legacy + 1, event_count = 3;
  static constexpr std::uint64_t slots = 4, slot_size = 64 * MiB, block_size = 40 * MiB;
  static constexpr std::uint64_t first_slot = 1ULL << 40U, host_slot = 2ULL << 40U,
                                 unknown_begin = 3ULL << 40U, heap = 4ULL << 40U, graph = 0x7000,
                                 exec = 0x8000, event = 0x9000, own_context = 0x400, other_context = 0x401;

  // ---- The calls, as the auditor records them ----

  static std::uint64_t handle(unsigned stream) { return 0x100 + 0x10 * stream; }

  static std::uint16_t entry(const char* symbol) {
    static std::map<std::string, std::uint16_t> known;
    const auto [place, is_new] = known.try_emplace(symbol);
    for (std::uint16_t i = 0; is_new && i < watch::entry_count; ++i)
      if (std::strcmp(watch::entry_data[i].symbol, symbol) == 0) place->second = i;
    return place->second;
  }

  void see(std::uint16_t entry, const std::vector<std::uint64_t>& words, CUresult result = CUDA_SUCCESS,
           std::uint64_t context = own_context) {
    watch::CallData data{};
    data.entry = entry;
    data.count = static_cast<std::uint8_t>(words.size());
    data.thread = 1;
    data.context = context;
    data.marks = marks_;
    data.result = static_cast<std::uint32_t>(result);
    std::copy(words.begin(), words.end(), data.words);
    world_.see(watch::decoded(data));
  }
  void see(const char* symbol, const std::vector<std::uint64_t>& words, CUresult result = CUDA_SUCCESS) {
    last_ = symbol;
    see(entry(symbol), words, result);
  }
  void see(MemoryPart part, std::uint64_t one, std::uint64_t two, std::uint64_t three = 0) {
    see(watch::memory_entry, {static_cast<std::uint64_t>(part), one, two, three});
  }
  void see(const Place& place) {
    const std::uint64_t shape = place.rows == 1 ? 1 : pitch << 32U | place.rows;
    see(place.writes ? MemoryPart::written : MemoryPart::read, place.begin, place.width,
        shape | static_cast<std::uint64_t>(place.named) << 30U);
  }

  // ---- The search ----

  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

  std::optional<std::size_t> block_at(std::uint64_t address) const {
    for (std::size_t i = blocks_.size(); i-- > 0;)
      if (live_[i] && blocks_[i].begin <= address && address < blocks_[i].end()) return i;
    return std::nullopt;
  }
  const Hole* hole_at(std::uint64_t address) const {
    for (const Hole& each : holes_)
      if (each.begin <= address && address < each.end) return &each;
    return nullptr;
  }

  /// A new operation of the stream.
  std::size_t add_node(unsigned stream) {
    past_[stream] |= host_;
    before_.push_back(past_[stream]);
    past_[stream].set(count_);
    return count_++;
  }

  /// The block gets these addresses: what else is there has ended in a way that nobody saw.
  std::size_t make_block(Block block, Set* behind = nullptr) {
    std::vector<Hole> left;
    for (const Hole& each : holes_) {
      const bool is_apart = each.end <= block.begin || block.end() <= each.begin;
      if (is_apart) left.push_back(each);
      if (is_apart || !each.before) continue;
      if (behind != nullptr) *behind |= *each.before;
      if (each.begin < block.begin) left.push_back({each.begin, block.begin, each.block, each.before});
      if (block.end() < each.end) left.push_back({block.end(), each.end, each.block, each.before});
    }
    holes_ = left;
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      if (live_[i] && blocks_[i].begin < block.end() && block.begin < blocks_[i].end()) live_[i] = false;
    blocks_.push_back(std::move(block));
    live_.push_back(true);
    return blocks_.size() - 1;
  }

  /// The block that a place names, if that is known: one that lives, or memory that was freed and that the
  /// driver would know.
  std::optional<std::size_t> named_block(const Place& place, bool is_refused) const {
    if (const auto block = block_at(place.begin)) return block;
    const Hole* const hole = hole_at(place.begin);
    const bool is_told = hole != nullptr && place.named == Named::of_device &&
                         (blocks_[hole->block].kind == Block::pool || is_refused);
    return is_told ? std::optional(hole->block) : std::nullopt;
  }

  bool uses_freed(const Node& node) const {
    return std::ranges::any_of(
        node.uses, [this](const auto& use) { return use.second && blocks_[*use.second].has_ended; });
  }

  void expect(watch::Rule rule) { expected_[rule] = 1; }

  /// The operation uses the block that has the address now.
  void use(const Place& place, std::size_t node, bool by_kernel) {
    const auto at = block_at(place.begin);
    if (!at) return;
    Block& block = blocks_[*at];
    for (const Use& earlier : block.uses)
      if (!by_kernel && !earlier.by_kernel && earlier.node != node &&
          (earlier.place.writes || place.writes) && overlap(earlier.place, place) &&
          !before_[node].test(earlier.node) && !host_then_.test(earlier.node))
        expect(watch::Rule::unordered_copies);
    block.uses.push_back({place, node, by_kernel, false});
  }

  /// What the call does on the stream, with the memory that it names. The default streams wait for each
  /// other.
  void submit(unsigned stream, const std::vector<Node>& nodes, Learnt learnt) {
    if (stream >= legacy) past_[stream] |= past_[stream == legacy ? of_thread : legacy];
    if (learnt.begins) host_ |= past_[stream];
    host_then_ = host_;
    const std::size_t node = add_node(stream);
    for (const Node& each : nodes)
      for (const auto& [place, block] : each.uses) {
        if (block && blocks_[*block].has_ended)
          expect(watch::Rule::freed_while_used);
        else
          use(place, node, each.by_kernel);
      }
    if (learnt.ends) host_ |= past_[stream];
  }

  enum class Seen : std::uint8_t { unknown, device, shared, pageable };
  Seen kind_of(const Place& place) const {
    if (const auto block = block_at(place.begin))
      return blocks_[*block].kind >= Block::pinned ? Seen::shared : Seen::device;
    return place.named == Named::of_device ? Seen::unknown : Seen::pageable;
  }

  /// The page of --order says which copies wait.
  Learnt learnt_from(const std::vector<Place>& places, bool has_stream, bool is_upload = false) const {
    Learnt learnt;
    bool reads_host = false, writes_host = false, is_in_device = true;
    for (const Place& place : places) {
      const Seen seen = kind_of(place);
      const std::uint64_t bytes = place.width * place.rows;
      const bool is_host = seen == Seen::shared || seen == Seen::pageable;
      is_in_device = is_in_device && !is_host;
      (place.writes ? writes_host : reads_host) |= is_host;
      if (seen == Seen::pageable && (place.writes || bytes > 2 * MiB)) learnt.ends = true;
      if (place.writes && is_host) {
        learnt.begins = true;
        if (bytes <= 256) learnt.ends = true;
      }
    }
    if (reads_host && writes_host) learnt.ends = true;
    if (has_stream || is_in_device) return learnt;
    const Place& source = places.front();
    const std::uint64_t bytes = source.width * source.rows;
    const bool is_measured = source.rows == 1 ? bytes >= 512 * KiB && bytes <= 16 * MiB
                                              : bytes >= 480 * KiB && bytes <= 8224 * KiB;
    const bool returns_early =
        is_upload && kind_of(source) == Seen::pageable && is_measured && is_at_home(places[1]);
    return {true, !returns_early};
  }
  /// Of cuMemAlloc or of a pool, in the context of the call.
  bool is_at_home(const Place& place) const {
    const auto block = block_at(place.begin);
    return block && blocks_[*block].kind <= Block::pool && !blocks_[*block].of_other_context;
  }

  // ---- Steps ----

  std::uint64_t slot(unsigned number) const { return first_slot + number * slot_size; }
  std::uint64_t any_slot() { return slot(draw(slots)); }

  /// Somewhere in the slot, whatever lives there.
  Place in_slot(std::uint64_t begin, bool writes) {
    constexpr std::uint64_t widths[] = {64, 256, 512, 4 * KiB};
    const bool is_far = draw(3) == 0; // in the second half, which a shorter block does not have
    return {begin + (is_far ? block_size / 2 : 0) + 256 * draw(4), widths[draw(4)], 1, writes};
  }
  Place in_device(bool writes) {
    if (draw(12) == 0) return {unknown_begin + 256 * draw(4), 128, 1, writes};
    return in_slot(any_slot(), writes);
  }
  Place in_host(bool writes) {
    constexpr std::uint64_t widths[] = {64, 256, 512};
    const std::uint64_t begin = draw(3) == 0 ? heap : host_slot + slot_size * draw(2);
    return {begin + 256 * draw(4), widths[draw(3)], 1, writes, Named::of_host};
  }

  /// Rarely, what lives there has ended, and nobody has seen it.
  bool is_taken(std::uint64_t address) {
    const auto block = block_at(address);
    return block && blocks_[*block].kind != Block::found && draw(8) != 0;
  }

  void make_plain() {
    const Block block{any_slot(), block_size >> draw(2), Block::plain, draw(4) == 0};
    if (is_taken(block.begin)) return;
    make_block(block);
    see(MemoryPart::allocated, block.begin, block.size);
    last_ = "cuMemAlloc_v2";
    see(entry("cuMemAlloc_v2"), {}, CUDA_SUCCESS, block.of_other_context ? other_context : own_context);
  }

  void make_pinned() {
    const Block block{host_slot + slot_size * draw(2), block_size, Block::pinned};
    if (block_at(block.begin)) return;
    make_block(block);
    see(MemoryPart::allocated_host, block.begin, block.size);
    see("cuMemHostAlloc", {0});
  }

  /// Comes after the frees of what had the addresses.
  void make_in_order(unsigned stream) {
    const Block block{any_slot(), block_size >> draw(2), Block::pool};
    if (is_taken(block.begin)) return;
    Set behind;
    const std::size_t made = make_block(block, &behind);
    past_[stream] |= behind;
    const std::size_t node = add_node(stream);
    blocks_[made].uses.push_back({{block.begin, block.size, 1, true}, node, false, true});
    see(MemoryPart::allocated, block.begin, block.size);
    see("cuMemAllocAsync", {handle(stream)});
  }

  void end(std::size_t block, std::optional<Set> before) {
    blocks_[block].has_ended = true;
    live_[block] = false;
    std::erase_if(holes_, [&](const Hole& hole) { return hole.begin == blocks_[block].begin; });
    holes_.push_back({blocks_[block].begin, blocks_[block].end(), block, std::move(before)});
  }

  void free_in_order(unsigned stream) {
    const auto block = block_at(any_slot());
    if (!block || blocks_[*block].kind != Block::pool) return;
    const std::uint64_t begin = blocks_[*block].begin;
    see(MemoryPart::freed, begin, handle(stream));
    if (draw(8) == 0) return see("cuMemFreeAsync", {handle(stream)}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const Set before = past_[stream] | host_;
    const std::size_t node = add_node(stream);
    for (const Use& each : blocks_[*block].uses)
      if (!each.allocates && !before_[node].test(each.node)) expect(watch::Rule::freed_while_used);
    end(*block, before);
    see("cuMemFreeAsync", {handle(stream)});
  }

  /// Waits for everything, except for memory of a pool.
  void free_at_once() {
    const bool is_host = draw(4) == 0;
    const auto block = block_at(is_host ? host_slot + slot_size * draw(2) : any_slot());
    if (!block || blocks_[*block].kind == Block::found) return;
    const char* const call = is_host ? "cuMemFreeHost" : "cuMemFree_v2";
    see(MemoryPart::freed, blocks_[*block].begin, 0);
    if (blocks_[*block].kind == Block::pool) {
      for (const Use& each : blocks_[*block].uses)
        if (!each.allocates && !host_.test(each.node)) expect(watch::Rule::freed_while_used);
    } else {
      for (const Set& past : past_)
        host_ |= past;
    }
    see(call, {});
    if (draw(8) == 0) // it was recorded before it failed
      see(call, {}, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    else
      end(*block, std::nullopt);
  }

  struct Drawn {
    const char* call;
    std::vector<Place> places;
  };
  Drawn draw_work() {
    switch (draw(5)) {
    case 0:
      return {"cuMemcpyDtoDAsync_v2", {in_device(false), in_device(true)}};
    case 1:
      return {"cuMemcpyHtoDAsync_v2", {in_host(false), in_device(true)}};
    case 2:
      return {"cuMemcpyDtoHAsync_v2", {in_device(false), in_host(true)}};
    default:
      return {"cuMemsetD8Async", {in_device(true)}};
    }
  }

  Node node_of(const std::vector<Place>& places, bool is_refused = false) {
    Node node;
    bool is_unknown = false;
    for (const Place& place : places) {
      is_unknown = is_unknown || kind_of(place) == Seen::unknown;
      node.uses.emplace_back(place, named_block(place, is_refused));
    }
    unknown_ += is_unknown;
    return node;
  }

  void work(unsigned stream) {
    Drawn drawn = draw_work();
    if (drawn.places.size() == 2 && drawn.places[0].named == Named::of_host && draw(4) == 0)
      drawn.places[0] = large_source(), drawn.places[1] = of_width(drawn.places[1], drawn.places[0].width);
    const bool is_refused = draw(10) == 0;
    if (!is_refused) find(drawn.places);
    const Node node = node_of(drawn.places, is_refused);
    if (is_refused) {
      if (uses_freed(node)) expect(watch::Rule::freed_while_used);
    } else {
      submit(stream, {node}, learnt_from(drawn.places, true));
    }
    for (const Place& place : drawn.places)
      see(place);
    see(drawn.call, {handle(stream)}, is_refused ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
  }

  /// The driver is asked about addresses of the device, and may know them.
  void find(const std::vector<Place>& places) {
    for (const Place& place : places) {
      if (place.named != Named::of_device || draw(6) != 0) continue;
      const std::uint64_t begin = place.begin & ~(4 * KiB - 1);
      see(MemoryPart::found, begin, 8 * KiB);
      const Hole* const hole = hole_at(begin);
      const bool is_freed = hole != nullptr && blocks_[hole->block].kind == Block::pool;
      if (!block_at(begin) && !block_at(begin + 8 * KiB - 1) && !is_freed)
        make_block({begin, 8 * KiB, Block::found});
    }
  }

  Place large_source() {
    constexpr std::uint64_t widths[] = {256 * KiB,   512 * KiB - 1, 512 * KiB,    2 * MiB,
                                        2 * MiB + 1, 16 * MiB,      16 * MiB + 1, 17 * MiB};
    return {heap, widths[draw(8)], 1, false, Named::of_host};
  }
  static Place of_width(Place place, std::uint64_t width) {
    place.width = width;
    return place;
  }

  void work_without_stream() {
    const char* call = "cuMemsetD8_v2";
    std::vector<Place> places{in_device(true)};
    switch (draw(5)) {
    case 0:
    case 1: {
      constexpr const char* uploads[] = {"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2", "cuMemcpy2D_v2", "cuMemcpy",
                                         "cuMemcpy2DUnaligned_v2"};
      call = uploads[draw(5)];
      places = {large_source(), places[0]};
      if (draw(4) == 0) places[0].begin = host_slot + slot_size * draw(2);
      if (draw(6) == 0) places[1] = {host_slot + slot_size * draw(2), 64, 1, true};
      places[1].width = places[0].width;
      if (std::strcmp(call, "cuMemcpy") == 0) places[0].named = places[1].named = Named::by_address;
      break;
    }
    case 2:
      call = "cuMemcpyDtoH_v2";
      places = {in_device(false), in_host(true)};
      break;
    case 3:
      call = draw(2) == 0 ? "cuMemcpyDtoD_v2" : "cuMemcpy2D_v2";
      places = {in_device(false), places[0]};
      if (std::strcmp(call, "cuMemcpy2D_v2") == 0) {
        if (draw(2) == 0) places[0] = {heap, 2 * KiB, 1, false, Named::of_host};
        for (Place& place : places) {
          place.width = 2 * KiB;
          place.rows = 512; // of 1 MiB
        }
      }
      break;
    default:
      break;
    }
    find(places);
    const Node node = node_of(places);
    const bool is_copy = std::string(call).starts_with("cuMemcpy");
    const bool is_of_thread = is_copy && draw(4) == 0;
    const bool is_upload = is_copy && std::strcmp(call, "cuMemcpy2DUnaligned_v2") != 0;
    submit(is_of_thread ? of_thread : legacy, {node}, learnt_from(places, false, is_upload));
    for (const Place& place : places)
      see(place);
    marks_ = is_of_thread ? watch::per_thread : 0;
    see(call, {});
    marks_ = 0;
  }

  /// Gets the begins of two slots.
  void launch_kernel(unsigned stream) {
    Node node;
    node.by_kernel = true;
    std::uint64_t words[2]{};
    Learnt learnt;
    for (std::uint64_t& word : words) {
      word = draw(6) == 0 ? host_slot : any_slot();
      const auto block = block_at(word);
      const Hole* const hole = hole_at(word);
      if (block && blocks_[*block].begin == word) {
        const Block& in = blocks_[*block];
        if (in.kind >= Block::pinned) learnt = {true, true};
        node.uses.emplace_back(Place{word, in.size, 1, true}, block);
      } else if (!block && hole != nullptr && hole->begin == word &&
                 blocks_[hole->block].kind != Block::pinned) {
        node.uses.emplace_back(Place{word, 1, 1, true}, hole->block);
      }
    }
    submit(stream, {node}, learnt);
    see(MemoryPart::pointers, words[0], words[1]);
    see("cuLaunchKernel", {handle(stream), 0x5000});
  }

  void capture() {
    const unsigned stream = draw(stream_count), number = draw(2);
    see("cuStreamBeginCapture_v2", {handle(stream), CU_STREAM_CAPTURE_MODE_RELAXED});
    SearchedGraph made;
    for (unsigned i = 1 + draw(3); i > 0; --i) {
      const Drawn drawn = draw_work();
      const bool has_pageable = std::ranges::any_of(
          drawn.places, [this](const Place& place) { return kind_of(place) == Seen::pageable; });
      if (has_pageable) continue;
      const Learnt learnt = learnt_from(drawn.places, true);
      made.stores = made.stores || learnt.begins;
      made.ends = made.ends || learnt.ends;
      made.nodes.push_back(node_of(drawn.places));
      if (uses_freed(made.nodes.back())) expected_[watch::Rule::freed_while_used] += 1;
      for (const Place& place : drawn.places)
        see(place);
      see(drawn.call, {handle(stream)});
    }
    see("cuStreamEndCapture", {handle(stream), graph + number});
    see("cuGraphInstantiateWithFlags", {exec + number, graph + number, 0});
    graphs_[number] = made;
  }

  /// Waits for the last launch of the graph.
  void launch_graph(unsigned stream) {
    const auto found = graphs_.find(draw(2));
    if (found == graphs_.end()) return;
    SearchedGraph& launched = found->second;
    if (draw(8) == 0) { // it fails, or the process ends in it
      for (const Node& node : launched.nodes)
        if (uses_freed(node)) expect(watch::Rule::freed_while_used);
      return see("cuGraphLaunch", {exec + found->first, handle(stream), 1}, CUDA_ERROR_INVALID_VALUE);
    }
    if (launched.last_launch) past_[stream] |= *launched.last_launch;
    submit(stream, launched.nodes, {launched.stores, launched.ends});
    launched.last_launch = past_[stream];
    see("cuGraphLaunch", {exec + found->first, handle(stream), 1});
  }

  void order_streams(unsigned stream) {
    const unsigned number = draw(event_count);
    if (draw(2) == 0) {
      events_[number] = past_[stream] | host_;
      return see("cuEventRecord", {event + number, handle(stream)});
    }
    if (!events_.contains(number)) return;
    if (draw(6) == 0) {
      host_ |= events_[number];
      return see("cuEventSynchronize", {event + number});
    }
    past_[stream] |= events_[number];
    see("cuStreamWaitEvent", {handle(stream), event + number, 0});
  }

  void step() {
    const unsigned stream = draw(stream_count);
    switch (draw(20)) {
    case 0:
      return make_plain();
    case 1:
      return make_pinned();
    case 2:
    case 3:
      return make_in_order(stream);
    case 4:
    case 5:
      return free_in_order(stream);
    case 6:
      return free_at_once();
    case 7:
    case 8:
      return work_without_stream();
    case 9:
      return launch_kernel(stream);
    case 10:
      return capture();
    case 11:
    case 12:
      return launch_graph(stream);
    case 13:
    case 14:
    case 15:
      return order_streams(stream);
    case 16:
      if (draw(3) != 0) return;
      host_ |= past_[stream];
      return see("cuStreamSynchronize", {handle(stream)});
    default:
      return work(stream);
    }
  }

  std::string difference() const {
    std::string text;
    for (const auto rule : {watch::Rule::freed_while_used, watch::Rule::unordered_copies}) {
      const auto count = [rule](const auto& in) { return in.contains(rule) ? in.at(rule) : 0; };
      if (count(found_) != count(expected_))
        text += std::string(text.empty() ? "" : ", ") + watch::page_of(rule).name + " found " +
                std::to_string(count(found_)) + " times instead of " + std::to_string(count(expected_));
    }
    return text.empty() ? "another rule has found something" : text;
  }

  std::mt19937 random_;
  watch::World world_;
  watch::OrderBlindness blind_;
  std::map<watch::Rule, unsigned long> found_, expected_; // by the last operation
  std::string last_;                                      // its call
  std::uint8_t marks_ = 0;                                // of the next call
  std::size_t count_ = 0;                                 // of operations
  std::vector<Set> before_, past_;                        // each operation's, and what each stream gets next
  Set host_, host_then_;                                  // what the host knows to be done
  std::vector<Block> blocks_;
  std::vector<bool> live_; // whether the block has its addresses
  std::vector<Hole> holes_;
  std::map<unsigned, SearchedGraph> graphs_;
  std::map<unsigned, Set> events_;
  unsigned long unknown_ = 0;
};

} // namespace

int main(int argc, char** argv) {
  const unsigned count = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 3000;
  const unsigned first = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  for (unsigned seed = first; seed < first + count; ++seed)
    if (const std::string wrong = Program(seed).run(); !wrong.empty()) {
      std::printf("program %u: %s\n", seed, wrong.c_str());
      return 1;
    }
  std::printf("%u programs, no difference\n", count);
  return 0;
}
