// SPDX-License-Identifier: MIT
// Compares watch/order with a search: order_search PROGRAMS [SEED]. A program is a random sequence of
// streams, submissions, records, waits and host waits. The search knows only which operation waits for which,
// and shares no code with what it checks. Prints the first difference and returns 1.
#include "order/order.hpp"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>

namespace {

/// An operation that another one comes after, certainly or perhaps.
struct Edge {
  std::size_t earlier;
  bool is_certain = true;
};

struct Node {
  std::vector<Edge> after;
};

struct SearchedStream {
  watch::Order::Kind kind;
  unsigned group;
  std::uint32_t number;           // in watch::Order
  std::vector<std::size_t> nodes; // of this stream
};

struct SearchedEvent {
  std::optional<std::size_t> node; // of its last record
  watch::OrderMark mark;
};

class Program {
public:
  explicit Program(unsigned seed) : random_(seed) {}

  /// What went wrong, or null.
  const char* run() {
    const unsigned streams = 2 + draw(5);
    for (unsigned i = 0; i < streams; ++i)
      add_stream();
    events_.resize(1 + draw(4));
    const unsigned operations = 10 + draw(60);
    for (unsigned i = 0; i < operations; ++i)
      if (const char* wrong = step()) return wrong;
    return nullptr;
  }

private:
  using Kind = watch::Order::Kind;

  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

  void add_stream() {
    const unsigned group = draw(4) == 0 ? 0 : 1 + draw(2); // 0 may be any
    Kind kind = std::vector{Kind::independent, Kind::blocking, Kind::legacy}[draw(3)];
    for (const SearchedStream& other : streams_)
      if (kind == Kind::legacy && other.kind == kind && other.group == group) kind = Kind::blocking;
    streams_.push_back({kind, group, order_.add_stream(kind, group), {}});
  }

  static bool are_a_pair(const SearchedStream& one, const SearchedStream& other) {
    const bool kinds = (one.kind == Kind::legacy && other.kind == Kind::blocking) ||
                       (one.kind == Kind::blocking && other.kind == Kind::legacy);
    return kinds && (one.group == 0 || other.group == 0 || one.group == other.group);
  }

  static bool are_surely_a_pair(const SearchedStream& one, const SearchedStream& other) {
    return one.group == other.group && one.group != 0;
  }

  /// A new operation of the stream. Default streams add edges to everything that is there.
  std::size_t add_node(SearchedStream& stream) {
    Node node;
    for (const std::size_t earlier : stream.nodes)
      node.after.push_back({earlier});
    for (const SearchedStream& other : streams_)
      if (are_a_pair(stream, other))
        for (const std::size_t earlier : other.nodes)
          node.after.push_back({earlier, are_surely_a_pair(stream, other)});
    for (const std::size_t wait : host_waits_)
      node.after.push_back({wait});
    nodes_.push_back(node);
    stream.nodes.push_back(nodes_.size() - 1);
    return nodes_.size() - 1;
  }

  bool comes_after(std::size_t later, std::size_t earlier, bool certainly = false) const {
    std::vector<bool> seen(nodes_.size());
    std::vector<std::size_t> left{later};
    while (!left.empty()) {
      const std::size_t node = left.back();
      left.pop_back();
      if (node == earlier) return true;
      for (const auto& [before, is_certain] : nodes_[node].after)
        if (!seen[before] && (is_certain || !certainly)) {
          seen[before] = true;
          left.push_back(before);
        }
    }
    return false;
  }

  void host_wait(std::size_t node, bool is_certain = true) {
    nodes_.push_back({{{node, is_certain}}});
    host_waits_.push_back(nodes_.size() - 1);
  }

  void wait_for_group(unsigned group) {
    std::vector<Edge> last;
    for (SearchedStream& each : streams_)
      if (group == 0 || each.group == 0 || each.group == group)
        last.push_back({add_node(each), group == 0 || each.group == group});
    for (const auto& [node, is_certain] : last)
      host_wait(node, is_certain);
    order_.host_wait(order_.record_group(group));
  }

  const char* access(SearchedStream& stream) {
    const std::size_t node = add_node(stream);
    const watch::Point point = order_.submit(stream.number);
    for (const auto& access : accesses_) {
      const std::size_t earlier = access.first;
      const watch::Point& place = access.second;
      if (order_.is_before(place, stream.number) != comes_after(node, earlier))
        return comes_after(node, earlier) ? "work counts as unordered, and is not"
                                          : "work counts as ordered, and is not";
      const auto is_known = [&] {
        for (const std::size_t wait : host_waits_)
          if (comes_after(wait, earlier)) return true;
        return false;
      };
      if (order_.is_known_by_host(place) != is_known()) return "what the host knows is wrong";
      if (const char* wrong = compare(node, earlier, place, stream.number)) return wrong;
    }
    accesses_.emplace_back(node, point);
    return nullptr;
  }

  /// The answers that tell certain from unknown.
  const char* compare(std::size_t node, std::size_t earlier, const watch::Point& place,
                      std::uint32_t number) {
    using watch::Ordered;
    const Ordered order = comes_after(node, earlier, true)              ? Ordered::before
                          : comes_after(node, earlier) || is_held(node) ? Ordered::unknown
                                                                        : Ordered::not_before;
    if (order_.compare(place, order_.next(number)) != order) return "what is certain is wrong";
    Ordered host = Ordered::not_before;
    for (const std::size_t wait : host_waits_) {
      if (comes_after(wait, earlier, true)) host = Ordered::before;
      if (host == Ordered::not_before && comes_after(wait, earlier)) host = Ordered::unknown;
    }
    return order_.compare_with_host(place) == host ? nullptr : "what the host certainly knows is wrong";
  }

  /// Whether an operation that the host has not waited for holds this one.
  bool is_held(std::size_t node) const {
    for (const std::size_t hold : holds_) {
      bool is_over = false;
      for (const std::size_t wait : host_waits_)
        is_over = is_over || comes_after(wait, hold);
      if (!is_over && comes_after(node, hold)) return true;
    }
    return false;
  }

  /// Asking about what the stream would get next leaves no operation behind.
  const char* check_hold(SearchedStream& stream) {
    const std::vector<Node> nodes = nodes_;
    const std::size_t node = add_node(stream);
    const bool held = is_held(node);
    stream.nodes.pop_back();
    nodes_ = nodes;
    return order_.is_held(stream.number) == held ? nullptr : "a stream is held, or is not";
  }

  static watch::Surety surety(bool is_certain) {
    return is_certain ? watch::Surety::certain : watch::Surety::possible;
  }

  const char* step() {
    SearchedStream& stream = streams_[draw(static_cast<unsigned>(streams_.size()))];
    SearchedEvent& event = events_[draw(static_cast<unsigned>(events_.size()))];
    bool is_certain = true;
    switch (draw(20)) {
    case 0:
    case 1:
    case 2:
      event.node = add_node(stream);
      event.mark = order_.record(stream.number);
      return nullptr;
    case 3:
    case 4:
    case 5:
      if (!event.node) return nullptr;
      is_certain = draw(4) != 0;
      nodes_[add_node(stream)].after.push_back({*event.node, is_certain});
      order_.wait(stream.number, event.mark, surety(is_certain));
      return nullptr;
    case 6:
      if (event.node) {
        is_certain = draw(4) != 0;
        host_wait(*event.node, is_certain);
        order_.host_wait(event.mark, surety(is_certain));
      }
      return nullptr;
    case 7: // of a stream, or of all that may be in its group
      if (draw(3) == 0) {
        host_wait(add_node(stream));
        order_.host_wait(order_.record(stream.number));
      } else if (draw(8) == 0) {
        wait_for_group(draw(3) == 0 ? 0 : stream.group);
      }
      return nullptr;
    case 8:
      if (draw(4) == 0) {
        holds_.push_back(add_node(stream));
        order_.hold(stream.number);
      }
      return nullptr;
    case 9:
      return check_hold(stream);
    case 10:
      if (draw(4) == 0) order_.remove_stream(stream.number); // its work goes on
      if (streams_.size() < 9) add_stream();
      return nullptr;
    default:
      return access(stream);
    }
  }

  std::mt19937 random_;
  watch::Order order_;
  std::vector<SearchedStream> streams_;
  std::vector<SearchedEvent> events_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> host_waits_, holds_;
  std::vector<std::pair<std::size_t, watch::Point>> accesses_;
};

} // namespace

int main(int argc, char** argv) {
  const unsigned count = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 3000;
  const unsigned first = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  for (unsigned seed = first; seed < first + count; ++seed)
    if (const char* wrong = Program(seed).run()) {
      std::printf("program %u: %s\n", seed, wrong);
      return 1;
    }
  std::printf("%u programs, no difference\n", count);
  return 0;
}
