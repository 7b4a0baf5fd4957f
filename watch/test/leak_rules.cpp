// SPDX-License-Identifier: MIT
#include "written_calls.hpp"

using namespace watch;

namespace {

constexpr Handle event = 0x100, stream = 0x200, context = 0x400, graph = 0x600, exec = 0x700;

struct Process : WrittenProcess {
  Process() : WrittenProcess(leak_rules) {}
};

/// The ways to create an object, what they create, and the call that destroys it.
struct Creation {
  const char* symbol;
  std::vector<std::uint64_t> words;
  const char* object;
  const char* destruction;
  Handle handle;
};

const Creation creations[] = {
    {"cuEventCreate", {event, 2}, "an event", "cuEventDestroy_v2", event},
    {"cuIpcOpenEventHandle", {event}, "an event", "cuEventDestroy_v2", event},
    {"cuStreamCreate", {stream, 1}, "a stream", "cuStreamDestroy_v2", stream},
    {"cuStreamCreateWithPriority", {stream, 1, 0}, "a stream", "cuStreamDestroy_v2", stream},
    {"cuGreenCtxStreamCreate", {stream, 0x600, 1, 0}, "a stream", "cuStreamDestroy_v2", stream},
    {"cuGraphCreate", {graph, 0}, "a graph", "cuGraphDestroy", graph},
    {"cuGraphClone", {graph, 0x601}, "a graph", "cuGraphDestroy", graph},
    {"cuStreamEndCapture", {stream, graph}, "a graph", "cuGraphDestroy", graph},
    {"cuGraphInstantiateWithFlags", {exec, 0x601}, "an executable graph", "cuGraphExecDestroy", exec},
    {"cuCtxCreate_v4", {context, 0, 0}, "a context", "cuCtxDestroy_v2", context},
};

} // namespace

TEST_CASE("an object that is never destroyed is a leak", "[watch][leaks]") {
  for (const Creation& creation : creations) {
    INFO(creation.symbol);
    Process process;
    process.see(creation.symbol, creation.words);
    CHECK(process.end() ==
          std::string("leaked 1: ") + creation.object + " that was created here was never destroyed");
  }
}

TEST_CASE("an object that is destroyed, or was never made, is no leak", "[watch][leaks]") {
  for (const Creation& creation : creations) {
    INFO(creation.symbol);
    Process process;
    process.see(creation.symbol, creation.words);
    process.see(creation.destruction, {creation.handle});
    auto nothing = creation.words;
    nothing[creation.symbol == std::string("cuStreamEndCapture") ? 1 : 0] = 0;
    process.see(creation.symbol, nothing, CUDA_ERROR_INVALID_VALUE);
    CHECK(process.end().empty());
  }
}

TEST_CASE("the objects of one stack are one finding", "[watch][leaks]") {
  Process process;
  for (Handle made = 0; made < 1200; ++made)
    process.see("cuEventCreate", {0x1000 + made, 2});
  process.see("cuEventDestroy_v2", {0x1000});
  process.stack = 2;
  process.see("cuEventCreate", {event, 2});
  CHECK(process.end() == "leaked 1199: 1,199 events that were created here were never destroyed\n"
                         "leaked 1: an event that was created here was never destroyed");
}

TEST_CASE("a context takes its objects with it", "[watch][leaks]") {
  Process process;
  process.see("cuCtxCreate_v4", {context, 0, 0});
  process.see("cuEventCreate", {event, 2});
  process.see("cuStreamCreate", {stream, 1});
  process.context = 0x401;
  process.see("cuGraphCreate", {graph, 0});
  process.see("cuCtxDestroy_v2", {context});
  CHECK(process.end() == "leaked 1: a graph that was created here was never destroyed");
}

TEST_CASE("a context outlives the one that was current when it was created", "[watch][leaks]") {
  Process process;
  process.see("cuCtxCreate_v4", {0x401, 0, 0});
  process.see("cuCtxDestroy_v2", {context});
  CHECK(process.end() == "leaked 1: a context that was created here was never destroyed");
}

TEST_CASE("objects of a released primary context are reported with the release", "[watch][leaks]") {
  Process process;
  process.see("cuDevicePrimaryCtxRetain", {context, 0});
  process.see("cuDevicePrimaryCtxRetain", {context, 0});
  process.see("cuEventCreate", {event, 2});
  process.see("cuDevicePrimaryCtxRelease_v2", {0});
  process.stack = 2;
  process.see("cuDevicePrimaryCtxRelease_v2", {0});
  process.see("cuDevicePrimaryCtxRetain", {context, 0}); // a new one
  process.stack = 1;
  process.see("cuEventCreate", {event, 2});
  CHECK(process.end() ==
        "leaked 1: an event that was created here was never destroyed\n"
        "leaked 1: an event that was created here was never destroyed; the primary context was "
        "released here");
}

TEST_CASE("a reset ends the primary context of its device only", "[watch][leaks]") {
  Process process;
  process.see("cuDevicePrimaryCtxRetain", {context, 0});
  process.see("cuDevicePrimaryCtxRetain", {0x401, 1});
  process.see("cuEventCreate", {event, 2});
  process.see("cuDevicePrimaryCtxReset_v2", {1});
  process.see("cuDevicePrimaryCtxReset_v2", {2}); // nobody knows it
  CHECK(process.end() == "leaked 1: an event that was created here was never destroyed");
}

TEST_CASE("a capture into a graph creates no graph", "[watch][leaks]") {
  Process process;
  process.see("cuGraphCreate", {graph, 0});
  process.see("cuStreamBeginCaptureToGraph", {stream, graph, 0});
  process.see("cuStreamEndCapture", {stream, graph});
  process.see("cuStreamBeginCaptureToGraph", {stream, 0x601, 0}); // the body of a conditional node
  process.see("cuStreamEndCapture", {stream, 0x601});
  process.see("cuGraphDestroy", {graph});
  CHECK(process.end().empty());
}

TEST_CASE("a primary context is no leak", "[watch][leaks]") {
  Process process;
  process.see("cuDevicePrimaryCtxRetain", {context, 0});
  CHECK(process.end().empty());
}
