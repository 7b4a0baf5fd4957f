// SPDX-License-Identifier: MIT
// Two GPUs sum numbers with NCCL, in a stream and in a graph that is replayed. Then the second GPU leaves out
// one sum, so the first one waits for it forever. A flight recorder names the stuck collective within a
// second. Exit code 1: it named something else, or too late; 77: there are fewer than two GPUs.
#include "../support/gpu.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/graph_exec.hpp>

#include <nccl.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

using namespace cuevent;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t count = 1 << 20; // numbers
constexpr int steps = 16;              // before the one that hangs

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result));
}

/// A GPU with its stream, its numbers and its graph of one sum. Used with its context current.
struct Rank {
  Rank(int device, ncclComm_t its) : gpu(Driver::instance(), device), comm(its) {}

  void all_reduce() {
    void* const sums = reinterpret_cast<void*>( // NOLINT(performance-no-int-to-ptr): NCCL's type for it
        static_cast<CUdeviceptr>(numbers));
    check(ncclAllReduce(sums, sums, count, ncclUint32, ncclSum, comm, stream), "ncclAllReduce");
  }

  gpu::Gpu gpu;
  ncclComm_t comm;
  gpu::Stream stream = gpu.stream();
  gpu::DeviceMemory numbers = gpu.device_memory(count);
  std::optional<GraphExec> exec;
  FlightGraph graph{};
};

using Ranks = std::array<std::unique_ptr<Rank>, 2>;

/// Calls `submit` for both ranks, as one NCCL group.
template <class Submit>
void for_both(Ranks& ranks, const Submit& submit) {
  check(ncclGroupStart(), "ncclGroupStart");
  for (std::unique_ptr<Rank>& rank : ranks) {
    const ContextGuard current(rank->gpu.context);
    submit(*rank);
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

/// Each rank captures a sum with a mark before it and after it.
void capture_graphs(Ranks& ranks, FlightRecorder& recorder) {
  std::array<std::optional<StreamCapture>, 2> captures;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    captures[i].emplace(ranks[i]->gpu.context, ranks[i]->stream, CaptureMode::relaxed);
    ranks[i]->graph = recorder.name_capture(ranks[i]->stream, "step");
    recorder.mark(ranks[i]->stream, "forward");
  }
  for_both(ranks, [](Rank& rank) { rank.all_reduce(); });
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    recorder.mark(ranks[i]->stream, "all_reduce");
    ranks[i]->exec = captures[i]->end().instantiate();
  }
}

/// Whether a report says this within a second.
bool names(const FlightRecorder& recorder, std::string_view cause) {
  const Clock::time_point start = Clock::now();
  FlightReport report = recorder.report();
  const auto is_named = [&] {
    return !report.findings.empty() && report.findings[0].text.starts_with(cause);
  };
  while (!is_named() && Clock::now() < start + 1s) {
    std::this_thread::sleep_for(10ms);
    report = recorder.report();
  }
  std::printf("%s\nafter %.0f ms\n\n", to_text(report).c_str(),
              std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  return is_named();
}

} // namespace

int main(int argc, char** argv) try {
  const bool in_graph = argc > 1 && std::string_view(argv[1]) == "graph";
  const Driver& driver = Driver::instance();
  int devices = 0;
  gpu::Call<PFN_cuDeviceGetCount_v2000>(driver, "cuDeviceGetCount", 2000)(&devices);
  if (devices < 2 || gpu::Gpu().simulated()) {
    std::puts("skipped: this needs two GPUs");
    return 77;
  }
  std::array<ncclComm_t, 2> comms{};
  check(ncclCommInitAll(comms.data(), static_cast<int>(comms.size()), nullptr), "ncclCommInitAll");
  Ranks ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    ranks[i] = std::make_unique<Rank>(static_cast<int>(i), comms[i]);

  FlightRecorder recorder(ranks[0]->gpu.context);
  recorder.add_stream({ranks[0]->gpu.context, ranks[0]->stream}, "rank 0");
  recorder.add_stream({ranks[1]->gpu.context, ranks[1]->stream}, "rank 1");
  const auto all_reduce = [&](Rank& rank, int step) {
    if (in_graph)
      recorder.launch(*rank.exec, rank.stream, rank.graph);
    else
      rank.all_reduce();
    recorder.mark(rank.stream, "step " + std::to_string(step));
  };
  for_both(ranks, [](Rank& rank) { rank.all_reduce(); }); // makes the connections
  if (in_graph) capture_graphs(ranks, recorder);
  for (int step = 1; step <= steps; ++step) {
    if (in_graph) {
      for (std::unique_ptr<Rank>& rank : ranks)
        all_reduce(*rank, step);
    } else {
      for_both(ranks, [&](Rank& rank) { rank.all_reduce(); });
      for (std::unique_ptr<Rank>& rank : ranks)
        recorder.mark(rank->stream, "step " + std::to_string(step));
    }
    for (std::unique_ptr<Rank>& rank : ranks) {
      DriverEvent done(rank->gpu.context);
      done.record(rank->stream);
      done.synchronize();
    }
  }
  {
    const ContextGuard current(ranks[0]->gpu.context);
    all_reduce(*ranks[0], steps + 1); // and the other rank does not
  }
  const bool good =
      names(recorder, in_graph ? "stream 'rank 0 in replay 17 of step' has not reached 'all_reduce'"
                               : "stream 'rank 0' has not reached 'step 17'");
  std::puts(good ? "The report named the cause." : "The report did NOT name the cause.");
  std::fflush(stdout);
  std::_Exit(good ? 0 : 1); // the sum never ends
} catch (const DriverUnavailable& error) {
  std::puts(error.what());
  return 77;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  std::_Exit(1);
}
