// SPDX-License-Identifier: MIT
// Streams of other devices, captured streams, and full launch queues.
#include "situations.hpp"

#include "../processes/children/filler.hpp"
#include "../processes/children/scenario.hpp"

#include <cuevent/capture.hpp>
#include <gpu.hpp>

#include <chrono>
#include <thread>

namespace situations {

namespace {

using namespace cuevent;
using process::expect;

bool submits(const Class& row) {
  World w(World::primary());
  for (const Operation& each : row.make(w)->operations())
    if (each.does == Does::submits) return true;
  return false;
}

const char* needs_streams(const Class& row) { return submits(row) ? nullptr : "it takes no stream"; }

void stream_of_another_device(const Class& row) {
  World w(World::primary()), of_other(World::primary(1));
  const auto subject = row.make(w);
  w.target = of_other.stream;
  subject->check_all(In::other_device);
  w.target = w.stream;
  subject->check_all(In::working);
}

const char* needs_names(const Class& row) {
  World w(World::primary());
  for (const Operation& each : row.make(w)->operations())
    if (each.expected(In::misnamed).not_called == nullptr) return nullptr;
  return "it takes no stream with its context";
}

void named_with_another_context(const Class& row) {
  World w(World::primary()), of_other(World::primary(1));
  const auto subject = row.make(w);
  const auto misname = [&](const Context& name, CUstream stream) {
    w.name = name;
    w.target = stream;
    subject->check_all(In::misnamed);
    w.name.reset();
    w.target = w.stream;
  };
  misname(of_other.context, w.stream);
  misname(w.context, of_other.stream);
  subject->check_all(In::working);
  w.name = w.context;
  subject->check_all(In::working);
}

/// Each operation gets a capture of its own, because some of them break it.
template <class Begin>
void check_beside_captures(const Class& row, In in, Begin begin) {
  World w(World::primary());
  const std::size_t count = row.make(w)->operations().size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto subject = row.make(w);
    const Operation operation = subject->operations()[i];
    const Answer answer = operation.expected(in);
    if (answer.not_called != nullptr) continue;
    check(operation, operation.expected(In::working));
    w.synchronize();
    for (const bool throwing : {false, true}) {
      if (throwing ? !operation.call : !operation.attempt) continue;
      Operation once = operation;
      if (throwing)
        once.attempt = nullptr;
      else
        once.call = nullptr;
      begin(w, once, answer);
    }
  }
}

void expect_harm(const Operation& operation, const Answer& answer, CaptureStatus status) {
  const CaptureStatus expected = answer.breaks_capture ? CaptureStatus::invalidated : CaptureStatus::active;
  expect(status == expected, std::string("the capture is ") +
                                 (answer.breaks_capture ? "broken" : "unharmed") + " by " + operation.name);
}

void captured_stream(const Class& row) {
  check_beside_captures(row, In::captured, [](World& w, const Operation& operation, const Answer& answer) {
    CUstream const captured = w.make_stream();
    {
      const StreamCapture capture(w.context, captured);
      w.target = captured;
      check(operation, answer);
      w.target = w.stream;
      expect_harm(operation, answer, capture_status(w.context, captured));
    }
    w.context.driver().table().cuStreamDestroy_v4000(captured);
  });
}

void another_capture(const Class& row) {
  check_beside_captures(row, In::capturing, [](World& w, const Operation& operation, const Answer& answer) {
    CUstream const captured = w.make_stream();
    const DriverTable& table = w.context.driver().table();
    // Another thread begins the capture, as a library does, and nobody tells cuevent.
    std::thread([&] {
      table.cuStreamBeginCapture_v10010(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
      std::thread([&] {
        check(operation, answer);
        expect_harm(operation, answer, capture_status(w.context, captured));
      }).join();
      CUgraph graph = nullptr;
      table.cuStreamEndCapture_v10000(captured, &graph);
      if (graph != nullptr) table.cuGraphDestroy_v10000(graph);
    }).join();
    table.cuStreamDestroy_v4000(captured);
  });
}

void full_launch_queue(const Class& row) {
  World w(World::primary());
  const gpu::Gpu gpu(w.context.driver());
  const gpu::Stream full = gpu.stream();
  const process::Kernel kernel(gpu, "step");
  kernel.launch(w.stream); // loads the kernel
  w.synchronize();
  const auto subject = row.make(w);
  subject->check_all(In::working);
  w.synchronize();
  {
    gpu::Gate gate(gpu, full);
    const process::Filler filler(kernel, full);
    struct Opened { // opens the gate before the filler is joined
      gpu::Gate& gate;
      ~Opened() { gate.open(); }
    } const opened{gate};
    expect(filler.blocks(std::chrono::milliseconds(100)), "a stream takes a limited number of submissions");
    subject->check_all(In::full_queue);
    process::step("the end of a full queue");
  }
}

} // namespace

std::vector<Situation> situations_of_streams() {
  return {
      {.name = "other device",
       .in = In::other_device,
       .alone = Alone::no,
       .what = "The operations get a stream of another device.",
       .rule =
           "Refused with INVALID_HANDLE, which is thrown as ContextMismatch. Afterwards the object works.",
       .run = stream_of_another_device,
       .impossible = needs_streams,
       .devices = 2},
      {.name = "named with another context",
       .in = In::misnamed,
       .alone = Alone::no,
       .what = "The operations get a stream together with a context that it does not belong to: a stream of "
               "the object's context with another device's context, and the reverse.",
       .rule = "What keeps the stream or records on it refuses it with INVALID_HANDLE, which is thrown as "
               "ContextMismatch. Afterwards the object works, with the stream's own context and without one.",
       .run = named_with_another_context,
       .impossible = needs_names,
       .devices = 2},
      {.name = "captured stream",
       .in = In::captured,
       .alone = Alone::no,
       .what = "The operations get a stream that this thread captures, and the others run on the capturing "
               "thread.",
       .rule = "A submission is refused with STREAM_CAPTURE_UNSUPPORTED. Everything else works. The capture "
               "is unharmed.",
       .run = captured_stream},
      {.name = "somebody else's capture",
       .in = In::capturing,
       .alone = Alone::no,
       .what = "Another thread captures another stream in the global mode, by plain driver calls.",
       .rule = "Everything works, and the capture is unharmed.",
       .run = another_capture},
      {.name = "full launch queue",
       .in = In::full_queue,
       .alone = Alone::yes,
       .what = "Another thread is blocked in the driver, because the launch queue of its stream is full. The "
               "operations use another stream.",
       .rule = "The operation returns at once, except where its header says that it can wait.",
       .run = full_launch_queue,
       // Streams that share a hardware queue with the full one would wait, too.
       .setting = "CUDA_DEVICE_MAX_CONNECTIONS=8"},
  };
}

} // namespace situations
