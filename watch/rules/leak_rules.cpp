// SPDX-License-Identifier: MIT
#include "rules/leak_rules.hpp"

#include "rules/number_text.hpp"

namespace watch {

void LeakRules::see(const Call& call) {
  if (!call.succeeded()) return;
  if (const Handle context = contexts_.ended_by(call); context != 0) end_context(call, context);
  const auto words = call.words;
  switch (call.verb()) {
  case Verb::event_create:
  case Verb::event_open:
    return create(Kind::event, words[0], call);
  case Verb::event_destroy:
    return destroy(Kind::event, words[0]);
  case Verb::stream_create:
  case Verb::stream_create_green:
    return create(Kind::stream, words[0], call);
  case Verb::stream_destroy:
    return destroy(Kind::stream, words[0]);
  case Verb::graph_create:
  case Verb::graph_clone:
    return create(Kind::graph, words[0], call);
  case Verb::capture_into_graph:
    captured_graphs_.insert(words[1]);
    return;
  case Verb::capture_end:
    if (captured_graphs_.erase(words[1]) == 0) create(Kind::graph, words[1], call);
    return;
  case Verb::graph_destroy:
    captured_graphs_.erase(words[0]);
    return destroy(Kind::graph, words[0]);
  case Verb::graph_instantiate:
    return create(Kind::exec, words[0], call);
  case Verb::exec_destroy:
    return destroy(Kind::exec, words[0]);
  case Verb::context_create:
    return create(Kind::context, words[0], call);
  default:
    return;
  }
}

void LeakRules::create(Kind kind, Handle handle, const Call& call) {
  if (handle != 0) objects_[{kind, handle}] = call;
}

/// The program may mean to destroy the objects with the context. The CUDA runtime may also release a primary
/// context when the program ends, which is not known here: the finding has the call.
void LeakRules::end_context(const Call& call, Handle context) {
  destroy(Kind::context, context);
  std::erase_if(objects_, [&](const auto& object) {
    if (object.second.context != context || object.first.first == Kind::context) return false;
    if (call.verb() != Verb::context_destroy) leak(object.first.first, object.second, call);
    return true;
  });
}

void LeakRules::leak(Kind kind, const Call& created, const std::optional<Call>& released) {
  Leak& place = leaks_[{kind, created.stack, released ? released->stack : 0}];
  if (place.count++ > 0) return;
  place.created = created;
  place.released = released;
}

void LeakRules::end() {
  for (const auto& [object, created] : objects_)
    leak(object.first, created, std::nullopt);
  objects_.clear();
  static constexpr const char* one[] = {"an event", "a stream", "a graph", "an executable graph",
                                        "a context"};
  static constexpr const char* many[] = {" events", " streams", " graphs", " executable graphs", " contexts"};
  for (const auto& [key, place] : leaks_) {
    const auto kind = static_cast<std::size_t>(std::get<0>(key));
    std::string sentence = place.count == 1 ? one[kind] : number_text(place.count).append(many[kind]);
    sentence += place.count == 1 ? " that was created here was never destroyed"
                                 : " that were created here were never destroyed";
    std::vector<Earlier> earlier;
    if (place.released) earlier.push_back({"the primary context was released here", *place.released});
    report_({Rule::leaked, std::move(sentence), place.created, std::move(earlier), place.count});
  }
  leaks_.clear();
}

} // namespace watch
