// SPDX-License-Identifier: MIT
// Objects and callbacks that graphs keep: Graph::retain and Graph::when_destroyed.
#include <cuevent/graph.hpp>

#include "recording_fixture.hpp"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

template <class Object>
concept CanBeRetained = requires(Graph& graph, Object object) {
  graph.retain(static_cast<Object>(object));
};
static_assert(CanBeRetained<DriverEvent&&> && CanBeRetained<std::unique_ptr<int>&&> &&
              CanBeRetained<std::string&&>);
static_assert(!CanBeRetained<DriverEvent&> && !CanBeRetained<const DriverEvent&>);

/// Counts how many objects that hold something have ended.
struct Counted {
  explicit Counted(int& count) : ended(&count) {}
  Counted(Counted&& other) noexcept : ended(std::exchange(other.ended, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (ended != nullptr) ++*ended;
  }
  int* ended;
};

} // namespace

TEST_CASE_METHOD(RecordingFixture, "a graph keeps an object until destroy_retired after its end") {
  int ended = 0;
  {
    Graph graph(context);
    Counted object(ended);
    recording.calls();
    graph.retain(std::move(object));
    CHECK(object.ended == nullptr);
    CHECK(recording.calls() == Names{"cuUserObjectCreate", "cuGraphRetainUserObject"});
    CHECK(retired_events() == 0);
  }
  CHECK(destroy_retired() == 0); // an exec may still have it
  recording.calls();
  recording.end_user_objects(); // as on the driver's thread
  CHECK(ended == 0);
  CHECK(retired_events() == 1);
  { const Graph other(context); } // destroys events only
  CHECK(ended == 0);
  CHECK(destroy_retired() == 1);
  CHECK(ended == 1);
  CHECK(retired_events() == 0);
  CHECK(destroy_retired() == 0);
}

TEST_CASE_METHOD(RecordingFixture, "kept objects may be of any movable type") {
  Graph graph = Graph::borrow(context, graph_handle(1));
  auto shared = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = shared;
  graph.retain(std::move(shared));
  graph.retain(std::make_unique<std::string>("text"));
  graph.retain(std::vector<DriverEvent>(3));
  graph.retain(timed());
  CHECK_FALSE(watched.expired());
  end_graphs();
  CHECK(watched.expired());
}

TEST_CASE_METHOD(RecordingFixture, "an object's destructor may retire events and destroy retired ones") {
  struct Nested {
    explicit Nested(DriverEvent&& its) : event(std::move(its)) {}
    Nested(Nested&&) = default;
    Nested& operator=(Nested&&) = default;
    ~Nested() {
      if (!event) return;
      retire(std::move(event));
      destroy_retired();
    }
    DriverEvent event;
  };
  Graph graph = Graph::borrow(context, graph_handle(1));
  graph.retain(Nested(timed()));
  recording.end_user_objects();
  destroy_retired();
  CHECK(RecordingDriver::live_events() == events_before);
}

TEST_CASE_METHOD(RecordingFixture,
                 "a callback is called once, by destroy_retired, after the graph has ended") {
  int calls = 0;
  Graph graph = Graph::borrow(context, graph_handle(1));
  graph.when_destroyed([&calls] { ++calls; });
  auto owner = std::make_unique<int>(5);
  graph.when_destroyed([&calls, owner = std::move(owner)] { calls += *owner; });
  const auto copied = [&calls] { ++calls; };
  graph.when_destroyed(copied);
  CHECK(destroy_retired() == 0);
  recording.calls();
  recording.end_user_objects();
  CHECK(calls == 0);
  CHECK(recording.calls().empty());
  CHECK(destroy_retired() == 3);
  CHECK(calls == 7);
  CHECK(destroy_retired() == 0);
  CHECK(calls == 7);
}

TEST_CASE_METHOD(RecordingFixture,
                 "a callback's exception goes to the error hook, and the others are called") {
  HookedErrors hooked;
  int calls = 0;
  Graph graph = Graph::borrow(context, graph_handle(1));
  graph.when_destroyed([&calls] { ++calls; });
  graph.when_destroyed([] { throw std::runtime_error("a callback"); });
  recording.end_user_objects();
  CHECK(destroy_retired() == 2);
  CHECK(hooked.take() == CUDA_ERROR_UNKNOWN);
  graph.when_destroyed([] { throw InvalidValue("a callback"); });
  graph.when_destroyed([&calls] { ++calls; });
  recording.end_user_objects();
  CHECK(destroy_retired() == 2);
  CHECK(hooked.take() == CUDA_ERROR_INVALID_VALUE);
  CHECK(calls == 2);
}

TEST_CASE_METHOD(RecordingFixture, "the caller keeps an object or callback that a graph refuses") {
  int ended = 0;
  Counted object(ended);
  auto pointer = std::make_unique<int>(1);
  auto callback = [&ended, pointer = std::move(pointer)] { ended += 100; };
  Graph graph = Graph::borrow(context, graph_handle(1));
  for (const char* const call : {"cuUserObjectCreate", "cuGraphRetainUserObject"}) {
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_THAT(refusal<OutOfMemory>([&] { graph.retain(std::move(object)); }), ContainsSubstring(call));
    CHECK(object.ended == &ended);
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    refusal<OutOfMemory>([&] { graph.when_destroyed(std::move(callback)); });
  }
  const Graph moved = std::move(graph);
  CHECK_THAT(refusal<InvalidHandle>([&] { graph.retain(std::move(object)); }),
             ContainsSubstring("the graph is empty"));
  refusal<InvalidHandle>([&] { graph.when_destroyed(std::move(callback)); });
  CHECK(recording.calls().back() == "cuUserObjectRelease");
  CHECK(retired_events() == 0); // empty entries count as nothing
  CHECK(destroy_retired() == 0);
  CHECK(ended == 0);
  callback();
  CHECK(ended == 100); // its pointer is still there
}

TEST_CASE_METHOD(RecordingFixture, "an object whose move throws leaves an empty entry") {
  struct Throwing {
    Throwing() = default;
    Throwing(Throwing&&) { throw std::runtime_error("the move"); }
    Throwing& operator=(Throwing&&) = default;
    ~Throwing() {} // NOLINT(modernize-use-equals-default): what has a trivial one owns nothing
  };
  Graph graph = Graph::borrow(context, graph_handle(1));
  Throwing object;
  CHECK_THROWS_AS(graph.retain(std::move(object)), std::runtime_error);
  recording.end_user_objects();
  CHECK(destroy_retired() == 0);
}

TEST_CASE_METHOD(RecordingFixture, "a null callback is refused before any driver call") {
  Graph graph = Graph::borrow(context, graph_handle(1));
  using Function = void (*)();
  const Function null = nullptr;
  recording.calls();
  CHECK_THAT(refusal<InvalidValue>([&] { graph.when_destroyed(null); }), ContainsSubstring("null"));
  refusal<InvalidValue>([&] { graph.when_destroyed(std::function<void()>()); });
  CHECK(graph.try_when_destroyed(null) == CUDA_ERROR_INVALID_VALUE);
  CHECK(graph.try_when_destroyed(std::function<void()>()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(recording.calls().empty());
  graph.when_destroyed([] {}); // can be compared with null, but is none
  graph.when_destroyed(+[] {});
  graph.when_destroyed(std::function<void()>([] {}));
  recording.end_user_objects();
  CHECK(destroy_retired() == 3);
}
