// SPDX-License-Identifier: MIT
// What the marks of a FlightRecorder cost the host and the device, and how long a report takes. Runs on the
// simulated driver too, where the times mean nothing. Exits with 1 if a bound is exceeded on a device.
#include "gpu_at_hand.hpp"
#include "part_of.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/flight_recorder.hpp>
#include <cuevent/graph_exec.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace cuevent;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t batch = 500; // fewer submissions than a launch queue takes
constexpr std::size_t threads = 16;
constexpr double most_over_record = 30;   // ns, of as many events
constexpr double longest_report = 10'000; // us

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

void wait_for(CUstream stream) {
  DriverEvent done(gpu_at_hand().context);
  done.record(stream);
  done.synchronize();
}

/// One stream, with the events for bare records.
struct OneStream {
  gpu::Stream stream = gpu_at_hand().stream();
  std::vector<DriverEvent> events;
  OneStream() {
    for (std::size_t i = 0; i < 1024; ++i)
      events.emplace_back(gpu_at_hand().context);
  }
};

/// The ways to submit one batch. Each returns ns per submission.
enum Way { one_event, events_in_turn, question_and_record, question_clock_and_record, mark, ways };
constexpr std::array<const char*, ways> names{
    "record, one event", "record, 1,024 events in turn", "capture question and record, 1,024 events",
    "capture question, coarse clock and record, 1,024 events", "**mark**"};

double submit(Way way, OneStream& its, FlightRecorder& recorder) {
  const DriverTable& table = gpu_at_hand().driver.table();
  CUstream const stream = its.stream;
  CUstreamCaptureStatus status{};
  CUresult result = CUDA_SUCCESS;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < batch && result == CUDA_SUCCESS; ++i) {
    if (way == mark) {
      result = recorder.try_mark(stream, "all_reduce 17");
      continue;
    }
    if (way == question_and_record || way == question_clock_and_record)
      result = table.cuStreamIsCapturing_v10000(stream, &status);
    timespec now{};
    if (way == question_clock_and_record) clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const DriverEvent& event = its.events[way == one_event ? 0 : i % its.events.size()];
    result = table.cuEventRecord_v2000(event.native_handle(), stream);
  }
  const double time = nanoseconds_since(start) / batch;
  if (result != CUDA_SUCCESS) gpu_at_hand().driver.fail(result, names[way]);
  wait_for(stream);
  recorder.report(); // which finds room in the ring
  return time;
}

/// The median of ns per submission for each way, with that many threads, each with its own stream.
std::array<double, ways> host_costs(std::vector<std::unique_ptr<OneStream>>& streams, std::size_t count,
                                    std::size_t rounds) {
  FlightRecorder recorder(gpu_at_hand().context);
  for (std::size_t i = 0; i < count; ++i)
    recorder.add_stream(streams[i]->stream);
  std::array<std::vector<double>, ways> times;
  std::array<Way, ways> order{one_event, events_in_turn, question_and_record, question_clock_and_record,
                              mark};
  std::mt19937 random(20);
  for (std::size_t round = 0; round <= rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const Way way : order) {
      std::vector<double> each(count);
      std::vector<std::thread> others;
      for (std::size_t i = 1; i < count; ++i)
        others.emplace_back([&, i] {
          const ContextGuard current(gpu_at_hand().context);
          each[i] = submit(way, *streams[i], recorder);
        });
      each[0] = submit(way, *streams[0], recorder);
      for (std::thread& thread : others)
        thread.join();
      if (round != 0) times[way].push_back(median(each)); // the first round warms the caches
    }
  }
  std::array<double, ways> medians{};
  for (std::size_t i = 0; i < ways; ++i)
    medians[i] = median(times[i]);
  return medians;
}

/// The times of a graph of 200 kernels that do nothing, in us.
struct GraphTimes {
  double device = 0; // of one replay
  double host = 0;   // of one launch, while nothing else is in flight
};

/// With a mark after each kernel, or without a recorder.
GraphTimes graph_times(CUstream stream, FlightRecorder* recorder, std::size_t rounds) {
  const gpu::Gpu& gpu = gpu_at_hand();
  const gpu::BusyKernel kernel(gpu);
  kernel.launch(std::chrono::nanoseconds(0), stream); // loads it
  StreamCapture capture(gpu.context, stream, CaptureMode::relaxed);
  if (recorder != nullptr) recorder->name_capture(stream, "kernels");
  for (int i = 0; i < 200; ++i) {
    kernel.launch(std::chrono::nanoseconds(0), stream);
    if (recorder != nullptr) recorder->mark(stream, "kernel");
  }
  const Graph graph = capture.end();
  GraphExec exec = graph.instantiate();
  DriverEvent begin(gpu.context, EventFlags::timing), end(gpu.context, EventFlags::timing);
  std::vector<double> device, host;
  for (std::size_t round = 0; round <= rounds; ++round) {
    begin.record(stream);
    const Clock::time_point start = Clock::now();
    exec.launch(stream);
    const double launch = nanoseconds_since(start) / 1e3;
    end.record(stream);
    end.synchronize();
    if (round == 0) continue;
    host.push_back(launch);
    device.push_back(1e3 * double{begin.elapsed_time(end).count()});
  }
  return {median(device), median(host)};
}

/// The device's time for 400 small memsets, in us, with a mark after each one or without.
double device_time(OneStream& its, FlightRecorder* recorder, CUdeviceptr memory) {
  const gpu::Gpu& gpu = gpu_at_hand();
  DriverEvent begin(gpu.context, EventFlags::timing), end(gpu.context, EventFlags::timing);
  gpu::Gate gate(gpu, its.stream); // the device finds all the work submitted
  begin.record(its.stream);
  for (int i = 0; i < 400; ++i) {
    gpu.fill(memory, 0, 4096, its.stream);
    if (recorder != nullptr) recorder->mark(its.stream, "memset");
  }
  end.record(its.stream);
  gate.open();
  end.synchronize();
  return 1e3 * double{begin.elapsed_time(end).count()};
}

/// The median of us for a report of 10,000 marks on ten streams.
double report_time(const std::vector<std::unique_ptr<OneStream>>& all, std::size_t rounds) {
  const gpu::Gpu& gpu = gpu_at_hand();
  std::vector<CUstream> streams;
  for (std::size_t i = 0; i < 10; ++i)
    streams.push_back(all[i]->stream);
  FlightRecorder recorder(gpu.context);
  DriverEvent opened(gpu.context);
  gpu::Gate gate(gpu, streams[0]);
  recorder.record(opened, streams[0]);
  for (CUstream const stream : streams) {
    for (int i = 0; i < 1000; ++i) {
      recorder.mark(stream, "step " + std::to_string(i));
      if (i == 500) recorder.wait(opened, stream);
    }
  }
  std::vector<double> times;
  for (std::size_t round = 0; round < rounds; ++round) {
    const Clock::time_point start = Clock::now();
    const FlightReport report = recorder.report();
    times.push_back(nanoseconds_since(start) / 1e3);
    if (report.streams.size() != streams.size()) gpu.driver.fail(CUDA_ERROR_UNKNOWN, "report");
  }
  gate.open();
  for (CUstream const stream : streams)
    wait_for(stream);
  return median(times);
}

} // namespace

int main() try {
  const gpu::Gpu& gpu = gpu_at_hand();
  const std::size_t rounds = gpu.simulated() ? 2 : 101;
  std::printf("%s, driver %d, %u processors; medians of %zu rounds\n\n", gpu.name().c_str(),
              gpu.driver.version(), std::thread::hardware_concurrency(), rounds);
  std::vector<std::unique_ptr<OneStream>> streams;
  for (std::size_t i = 0; i < threads; ++i)
    streams.push_back(std::make_unique<OneStream>());

  const std::array<double, ways> alone = host_costs(streams, 1, rounds),
                                 together = host_costs(streams, threads, std::min<std::size_t>(rounds, 11));
  std::printf("| ns per submission | 1 thread | %zu threads |\n| --- | ---: | ---: |\n", threads);
  for (std::size_t i = 0; i < ways; ++i)
    std::printf("| %s | %.1f | %.0f |\n", names[i], alone[i], together[i]);

  const gpu::DeviceMemory memory = gpu.device_memory(4096);
  FlightRecorder recorder(gpu.context);
  std::vector<double> bare, marked;
  for (std::size_t i = 0; i < std::min<std::size_t>(rounds, 31); ++i) {
    bare.push_back(device_time(*streams[0], nullptr, memory));
    marked.push_back(device_time(*streams[0], &recorder, memory));
  }
  std::printf("\n400 memsets of 4 KiB on the device: %.1f us; with a mark after each: %.1f us\n",
              median(bare), median(marked));
  FlightRecorder with_memory(gpu.context, {.graph_marks = GraphMarks::events_and_memory});
  std::puts("\n| graph of 200 kernels | device, us | launch, us |\n| --- | ---: | ---: |");
  for (const auto& [name, its] : {std::pair<const char*, FlightRecorder*>{"no marks", nullptr},
                                  {"a mark after each kernel", &recorder},
                                  {"the same with memory", &with_memory}}) {
    const GraphTimes times = graph_times(streams[0]->stream, its, rounds);
    std::printf("| %s | %.1f | %.1f |\n", name, times.device, times.host);
  }
  const double report = report_time(streams, rounds);
  std::printf("\na report of 10,000 marks on 10 streams: %.0f us\n", report);
  if (gpu.simulated()) return 0;
  const bool good = alone[mark] - alone[events_in_turn] <= most_over_record && report <= longest_report;
  if (!good) std::puts("A bound is exceeded.");
  return good ? 0 : 1;
} catch (const DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
