// SPDX-License-Identifier: MIT
// Where does the time of a graph go? A fork and join over three streams is captured once, with an external
// event before and after each branch. The graph is instantiated once and launched a hundred times. Each
// launch has its own events, so that no launch has to wait until the times of the previous launch have been
// read.
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <vector>

using cuevent::DriverEvent;
using cuevent::EventFlags;
using cuevent::EventRecordNode;
using cuevent::EventRef;
using cuevent::RecordFlags;

namespace {

constexpr std::size_t launches = 100;
constexpr std::size_t mebi = 1 << 20;

enum Part : std::size_t { upload, download, fill, whole, parts };
constexpr std::array<const char*, parts> names{"copy 16 MiB to the device", "copy 4 MiB to the host",
                                               "fill 64 MiB", "the graph"};
constexpr std::array<std::size_t, whole> bytes{16 * mebi, 4 * mebi, 64 * mebi};

/// The two events around each part of one launch: the start of part p is events[2 * p], its end the next.
class Timing {
public:
  explicit Timing(const cuevent::Context& context) {
    for (DriverEvent& event : events_)
      event = DriverEvent(context, EventFlags::timing);
  }

  EventRef start(Part part) const { return events_[2 * part]; }
  EventRef end(Part part) const { return events_[2 * part + 1]; }
  std::span<const DriverEvent> events() const { return events_; }

  double microseconds(Part part) const {
    return 1000.0 * static_cast<double>(events_[2 * part].elapsed_time(events_[2 * part + 1]).count());
  }

private:
  std::array<DriverEvent, 2 * parts> events_;
};

/// The work: a branch on each of three streams, which start together and end together.
class ForkJoin {
public:
  explicit ForkJoin(const gpu::Gpu& gpu) : gpu_(gpu) {}

  CUstream origin() const { return streams_[upload]; }

  /// The plain records and waits become the edges of the graph (fork and join). The external records become
  /// nodes that time the work between them.
  cuevent::Graph capture(Timing& timing) {
    cuevent::StreamCapture capture(gpu_.context, origin());
    timing.start(whole).record(origin(), RecordFlags::external);
    fork_.record(origin());
    for (const Part part : {download, fill}) {
      fork_.wait(streams_[part]);
      submit(part, timing);
    }
    submit(upload, timing);
    for (const Part part : {download, fill}) {
      join_.record(streams_[part]);
      join_.wait(origin());
    }
    timing.end(whole).record(origin(), RecordFlags::external);
    return capture.end();
  }

private:
  void submit(Part part, Timing& timing) {
    CUstream const stream = streams_[part];
    timing.start(part).record(stream, RecordFlags::external);
    if (part == upload) gpu_.copy_to_device(uploaded_, input_, bytes[upload], stream);
    if (part == download) gpu_.copy_to_host(output_, downloaded_, bytes[download], stream);
    if (part == fill) gpu_.fill(filled_, 1, bytes[fill], stream);
    timing.end(part).record(stream, RecordFlags::external);
  }

  const gpu::Gpu& gpu_;
  gpu::DeviceMemory uploaded_ = gpu_.device_memory(bytes[upload] / sizeof(int));
  gpu::DeviceMemory downloaded_ = gpu_.device_memory(bytes[download] / sizeof(int));
  gpu::DeviceMemory filled_ = gpu_.device_memory(bytes[fill] / sizeof(int));
  gpu::PinnedMemory input_ = gpu_.pinned_memory(bytes[upload] / sizeof(int));
  gpu::PinnedMemory output_ = gpu_.pinned_memory(bytes[download] / sizeof(int));
  DriverEvent fork_{gpu_.context}, join_{gpu_.context};
  std::array<gpu::Stream, whole> streams_{gpu_.stream(), gpu_.stream(), gpu_.stream()};
};

/// The nodes that record the events of `timing`, in their order.
std::vector<EventRecordNode> nodes_of(const cuevent::Graph& graph, const Timing& timing) {
  const std::vector<EventRecordNode> all = graph.event_nodes().records;
  std::vector<EventRecordNode> nodes;
  for (const DriverEvent& event : timing.events()) {
    const auto records_it = [&](EventRecordNode node) { return graph.event(node) == event.native_handle(); };
    const auto node = std::find_if(all.begin(), all.end(), records_it);
    if (node == all.end())
      cuevent::throw_error(CUDA_ERROR_NOT_FOUND, "nodes_of", "no node of the graph records the event");
    nodes.push_back(*node);
  }
  return nodes;
}

/// The smallest of the sorted times that `percent` of them do not exceed.
double percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

bool report(const std::vector<Timing>& timings) {
  std::printf("\n%zu launches of one graph\n  %-28s %12s %12s\n", timings.size(), "", "p50", "p99");
  bool plausible = true;
  double longest_branch = 0;
  for (const Part part : {upload, download, fill, whole}) {
    std::vector<double> times;
    times.reserve(timings.size());
    for (const Timing& timing : timings)
      times.push_back(timing.microseconds(part));
    std::sort(times.begin(), times.end());
    const double p50 = percentile(times, 50);
    std::printf("  %-28s %9.1f us %9.1f us\n", names[part], p50, percentile(times, 99));
    plausible &= p50 > 0 && (part != whole || p50 >= longest_branch);
    longest_branch = std::max(longest_branch, p50);
  }
  return plausible;
}

int run() {
  const gpu::Gpu gpu;
  std::printf("Running on %s%s\n", gpu.name().c_str(),
              gpu.simulated() ? ": no device, so all times are modelled, not measured" : "");
  ForkJoin work(gpu);
  Timing captured(gpu.context);
  std::vector<Timing> timings;
  for (std::size_t i = 0; i < launches; ++i)
    timings.emplace_back(gpu.context);

  // The graph refers to events that it does not own: they are made before it and outlive it.
  const cuevent::Graph graph = work.capture(captured);
  const std::vector<EventRecordNode> nodes = nodes_of(graph, captured);
  cuevent::GraphExec exec = graph.instantiate();
  exec.launch(work.origin()); // once with the events of the capture, to warm up
  for (const Timing& timing : timings) {
    for (std::size_t i = 0; i < nodes.size(); ++i)
      exec.set_event(nodes[i],
                     timing.events()[i]); // in the graph executable only: earlier launches keep theirs
    exec.launch(work.origin());
  }
  timings.back().end(whole).synchronize();

  if (report(timings)) return 0;
  std::puts("WRONG: a branch took no time, or took longer than the whole graph.");
  return 1;
}

} // namespace

int main() { return exit_code(run); }
