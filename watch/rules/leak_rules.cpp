// SPDX-License-Identifier: MIT
// What a program leaks: objects that it creates and never destroys, counted by the stack that created them.
#include "rules/number_text.hpp"
#include "rules/rules.hpp"

#include <set>
#include <tuple>

namespace watch {

namespace {

class LeakRules : public Observer {
public:
  LeakRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  /// The program may mean to destroy the objects with the context. The CUDA runtime may also release a
  /// primary context when the program ends, which is not known here: the finding has the call.
  void before(const Call& call) override {
    const Handle context = world_.context_ended_by(call);
    if (context == 0) return;
    for_each_left([&](Kind kind, const Object& object) {
      if (kind == Kind::context || object.context != context) return;
      settled_.insert(object.number);
      if (call.verb() != Verb::context_destroy) leak(kind, *object.created, call);
    });
  }

  void forget(std::uint64_t number) override { settled_.erase(number); }

  void end(bool by_itself) override;

private:
  enum class Kind : std::uint8_t { event, stream, graph, exec, context };

  /// Objects of one kind and one stack.
  struct Leak {
    Call created;                 // the first of them
    std::optional<Call> released; // their primary context, before they were destroyed
    unsigned long count = 0;
  };
  /// The kind, the stack that created them, and the stack that released their context.
  using LeakKey = std::tuple<Kind, std::uint32_t, std::uint32_t>;

  /// Calls it with each object that the program could still destroy.
  template <class See>
  void for_each_left(See see) const {
    const auto look = [&](Kind kind, const auto& objects) {
      for (const auto& [handle, object] : objects)
        if (object.created && object.is_alive() && !settled_.contains(object.number)) see(kind, object);
    };
    look(Kind::event, world_.events());
    look(Kind::stream, world_.streams());
    look(Kind::graph, world_.graphs());
    look(Kind::exec, world_.execs());
    look(Kind::context, world_.contexts());
  }

  void leak(Kind kind, const Call& created, const std::optional<Call>& released) {
    Leak& place = leaks_[{kind, created.stack, released ? released->stack : 0}];
    if (place.count++ > 0 && place.created.time <= created.time) return;
    place.created = created;
    place.released = released;
  }

  const World& world_;
  const Report report_;
  std::map<LeakKey, Leak> leaks_;
  std::set<std::uint64_t> settled_; // objects whose context has ended, by number
};

void LeakRules::end(bool by_itself) {
  if (!by_itself) return;
  for_each_left([&](Kind kind, const Object& object) { leak(kind, *object.created, std::nullopt); });
  static constexpr const char* one[] = {"an event", "a stream", "a graph", "an executable graph",
                                        "a context"};
  static constexpr const char* many[] = {" events", " streams", " graphs", " executable graphs", " contexts"};
  for (const auto& [key, place] : leaks_) {
    const auto kind = static_cast<std::size_t>(std::get<0>(key));
    std::string sentence = place.count == 1 ? one[kind] : number_text(place.count).append(many[kind]);
    sentence += place.count == 1 ? " that was created here was never destroyed"
                                 : " that were created here were never destroyed";
    std::vector<Earlier> earlier;
    add(earlier, "the primary context was released here", place.released);
    report_({Rule::leaked, std::move(sentence), place.created, std::move(earlier), place.count});
  }
}

} // namespace

Rules leak_rules(const World& world, Report report) {
  return std::make_shared<LeakRules>(world, std::move(report));
}

} // namespace watch
