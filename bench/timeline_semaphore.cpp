// SPDX-License-Identifier: MIT
// Semaphores that two processes share, next to interprocess events and pipes. `timeline_semaphore 20` divides
// all counts by 20. CUEVENT_DRIVER can name the simulated driver, which only shows that it works.
#include "bare_word.hpp"
#include "part_of.hpp"

#include <exit_code.hpp>
#include <gpu.hpp>
#include <second_process.hpp>
#include <shared_memory.hpp>

#include <cuevent/ipc.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <optional>
#include <thread>
#include <vector>

namespace {

using namespace cuevent;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int hops = 10; // of a sample, one after the other without a host
constexpr auto limit = 20s;

/// What the second process inherits: handles of the three semaphores, the ends of two pipes, and memory.
enum : int {
  there_handle = SecondProcess::first_descriptor,
  back_handle,
  ready_handle,
  in_pipe,
  out_pipe,
  words_memory
};

struct Semaphores {
  TimelineSemaphore there, back, ready; // ready: the samples that the second process has submitted
};

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

double print(const char* what, const std::vector<double>& samples, double from = 0, double divisor = 1) {
  std::printf("%-66s", what);
  for (const double part : {0.5, 0.9, 0.99})
    std::printf(" %8.2f", (part_of(samples, part) - from) / divisor);
  std::printf("\n");
  std::fflush(stdout);
  return median(samples);
}

std::uint64_t value_of(int sample, int hop) {
  return static_cast<std::uint64_t>(sample) * hops + static_cast<std::uint64_t>(hop);
}

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// Keeps the device busy with kernels of 100 us on a stream of its own.
class Load {
public:
  explicit Load(const gpu::Gpu& gpu) : gpu_(gpu), stream_(gpu.stream()), kernel_(gpu) {}
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load() {
    stopped_ = true;
    thread_.join();
  }

private:
  void run() const {
    const ContextGuard current(gpu_.context);
    const gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize(gpu_.driver, "cuStreamSynchronize", 2000);
    while (!stopped_) {
      for (int i = 0; i < 20; ++i)
        kernel_.launch(100us, stream_);
      synchronize(stream_);
    }
  }

  const gpu::Gpu& gpu_;
  const gpu::Stream stream_;
  const gpu::BusyKernel kernel_;
  std::atomic<bool> stopped_ = false;
  std::thread thread_{[this] { run(); }};
};

void read_byte() {
  char byte = 0;
  expect(read(in_pipe, &byte, 1) == 1, "the first process is there");
}
void write_byte() { expect(write(out_pipe, "x", 1) == 1, "the first process reads"); }

/// The second process answers until the first one closes a pipe or signals no more.
void answer_on_stream(const gpu::Gpu& gpu, Semaphores& shared, int samples) {
  const gpu::Stream stream = gpu.stream();
  for (int sample = 0; sample < samples; ++sample) {
    for (int hop = 1; hop <= hops; ++hop) {
      const auto value = value_of(sample, hop);
      shared.there.wait(stream, value, WaitOrder::before_signal);
      shared.back.signal(stream, value);
    }
    const auto done = value_of(0, sample + 1);
    shared.ready.signal(done);
    expect(shared.back.wait_for(done * hops, limit), "the first process signals");
  }
}

/// `there` and `back` are semaphores, or the words in their place.
template <class Point>
void answer_on_host(Semaphores& shared, const Point& there, Point& back, int samples) {
  for (int sample = 0; sample < samples; ++sample) {
    shared.ready.signal(value_of(0, sample + 1));
    for (int hop = 1; hop <= hops; ++hop) {
      const auto value = value_of(sample, hop);
      while (!there.reached(value)) {
      }
      back.signal(value);
    }
  }
}

void answer_by_words(const gpu::Gpu& gpu, Semaphores& shared, int samples) {
  const gpu::SharedMemory memory(gpu, words_memory, BareWord::bytes);
  BareWord there(gpu, memory, 0), back(gpu, memory, 1);
  answer_on_host(shared, there, back, samples);
}

void answer_by_pipe(const gpu::Gpu& gpu, Semaphores& shared, int samples) {
  const gpu::Stream stream = gpu.stream();
  const gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize(gpu.driver, "cuStreamSynchronize", 2000);
  for (int i = 1; i <= samples * hops; ++i) {
    read_byte();
    shared.back.signal(stream, static_cast<std::uint64_t>(i));
    synchronize(stream);
    write_byte();
  }
}

/// An interprocess event of each process. The handles go through the pipes.
struct Events {
  Events(const gpu::Gpu& gpu, int to, int from) : own(gpu.context, EventFlags::interprocess) {
    const IpcHandle handle = own.ipc_handle();
    IpcHandle theirs;
    expect(write(to, &handle, sizeof handle) == sizeof handle, "the other process reads");
    expect(read(from, &theirs, sizeof theirs) == sizeof theirs, "the other process is there");
    other = DriverEvent::from_ipc_handle(gpu.context, theirs);
  }
  DriverEvent own, other;
};

void answer_by_event(const gpu::Gpu& gpu, int samples) {
  const gpu::Stream stream = gpu.stream();
  Events events(gpu, out_pipe, in_pipe);
  for (int i = 0; i < samples * hops; ++i) {
    read_byte();
    events.other.wait(stream);
    events.own.record(stream);
    write_byte();
  }
  events.own.synchronize();
  read_byte(); // the first process is done with the event
}

int second_process(const std::string& role, int samples) {
  const gpu::Gpu gpu;
  Semaphores shared{TimelineSemaphore::import(gpu.context, there_handle),
                    TimelineSemaphore::import(gpu.context, back_handle),
                    TimelineSemaphore::import(gpu.context, ready_handle)};
  std::optional<Load> load;
  if (role == "busy") load.emplace(gpu);
  if (role == "stream" || role == "busy") answer_on_stream(gpu, shared, samples);
  if (role == "host") answer_on_host(shared, shared.there, shared.back, samples);
  if (role == "words") answer_by_words(gpu, shared, samples);
  if (role == "pipe") answer_by_pipe(gpu, shared, samples);
  if (role == "event") answer_by_event(gpu, samples);
  return 0;
}

/// The first process, with a second one in its role.
class Pair {
public:
  Pair(const gpu::Gpu& gpu, const std::string& program, const std::string& role, int samples)
      : gpu_(gpu), samples_(samples), shared_{TimelineSemaphore(gpu.context), TimelineSemaphore(gpu.context),
                                              TimelineSemaphore(gpu.context)} {
    int to[2], from[2];
    expect(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0, "there are pipes");
    to_ = to[1];
    from_ = from[0];
    for (TimelineSemaphore* each : {&shared_.there, &shared_.back, &shared_.ready})
      each->abandon_on_death(); // so that a failed run ends
    second_.emplace(program, role + " " + std::to_string(samples),
                    std::initializer_list<int>{shared_.there.export_handle(), shared_.back.export_handle(),
                                               shared_.ready.export_handle(), to[0], from[1],
                                               fcntl(words_, F_DUPFD_CLOEXEC, 0)});
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    if (std::uncaught_exceptions() == 0) second_->wait();
    close(to_);
    close(from_);
    close(words_);
    for (TimelineSemaphore* each : {&shared_.there, &shared_.back, &shared_.ready})
      each->abandon();
  }

  std::vector<double> by_semaphores(int hops_here) {
    TimelineSemaphore gate(gpu_.context), done(gpu_.context);
    return by_points(shared_.there, shared_.back, gate, done, hops_here);
  }

  std::vector<double> by_words(int hops_here) {
    const gpu::SharedMemory memory(gpu_, words_, BareWord::bytes);
    const auto word = [&](int line) { return BareWord(gpu_, memory, line); };
    BareWord there = word(0), back = word(1), gate = word(2), done = word(3);
    return by_points(there, back, gate, done, hops_here);
  }
  std::vector<double> by_pipe() {
    const gpu::Stream stream = gpu_.stream();
    const gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize(gpu_.driver, "cuStreamSynchronize", 2000);
    return turns([&](int turn) {
      shared_.there.signal(stream, static_cast<std::uint64_t>(turn));
      synchronize(stream);
    });
  }

  std::vector<double> by_event() {
    const gpu::Stream stream = gpu_.stream();
    Events events(gpu_, to_, from_);
    std::vector<double> times = turns([&](int turn) {
      if (turn > 1) events.other.wait(stream);
      events.own.record(stream);
    });
    events.own.synchronize();
    expect(write(to_, "x", 1) == 1, "the second process reads");
    return times;
  }

private:
  /// The time of a sample: from a store of this host, by all hops, until this host sees the last one.
  template <class Point>
  std::vector<double> by_points(Point& there, const Point& back, Point& gate, Point& done, int hops_here) {
    const gpu::Stream stream = gpu_.stream();
    std::vector<double> times;
    for (int sample = 0; sample < samples_; ++sample) {
      const auto round = value_of(0, sample + 1);
      gate.wait(stream, round, WaitOrder::before_signal);
      for (int hop = 1; hop <= hops_here; ++hop) {
        const auto value = value_of(sample, hop);
        there.signal(stream, value);
        back.wait(stream, value, WaitOrder::before_signal);
      }
      done.signal(stream, round);
      if (hops_here != 0) expect(shared_.ready.wait_for(round, limit), "the second process submits");
      const auto start = Clock::now();
      gate.signal(round);
      while (!done.reached(round)) {
      }
      times.push_back(microseconds(Clock::now() - start));
    }
    return times;
  }

  template <class Turn>
  std::vector<double> turns(Turn turn) {
    std::vector<double> times;
    for (int i = 1; i <= samples_ * hops; ++i) {
      const auto start = Clock::now();
      turn(i);
      char byte = 0;
      expect(write(to_, "x", 1) == 1 && read(from_, &byte, 1) == 1, "the second process answers");
      times.push_back(microseconds(Clock::now() - start));
    }
    return times;
  }

  const gpu::Gpu& gpu_;
  const int samples_;
  Semaphores shared_;
  int to_ = -1, from_ = -1, words_ = gpu::SharedMemory::create(BareWord::bytes);
  std::optional<SecondProcess> second_;
};

int first_process(const std::string& program, int divisor) {
  const gpu::Gpu gpu;
  std::printf("%s, driver %d, %u processors\n", gpu.name().c_str(), gpu.driver.version(),
              std::thread::hardware_concurrency());
  const int samples = std::max(5, 1000 / divisor);
  std::printf("%-66s %8s %8s %8s\n", "us", "p50", "p90", "p99");
  const double nothing = print("a host signals a stream, which signals the host",
                               Pair(gpu, program, "none", samples).by_semaphores(0));
  print("stream to stream of the other process, idle GPU",
        Pair(gpu, program, "stream", samples).by_semaphores(hops), nothing, 2 * hops);
  {
    const Load load(gpu);
    print("the same with kernels in both processes",
          Pair(gpu, program, "busy", samples / 10 + 1).by_semaphores(hops), 0, 2 * hops);
  }
  print("stream to host of the other process, and its answer to the stream",
        Pair(gpu, program, "host", samples).by_semaphores(hops), nothing, hops);
  const double bare = print("bare words: a host stores for a stream, which stores for the host",
                            Pair(gpu, program, "none", samples).by_words(0));
  print("bare words: stream to host of the other process, and its answer",
        Pair(gpu, program, "words", samples).by_words(hops), bare, hops);
  print("stream, host, pipe, host and stream of the other process",
        Pair(gpu, program, "pipe", samples).by_pipe(), 0, 2);
  if (gpu.simulated())
    std::puts("interprocess events: not between two processes on a simulated device");
  else
    print("stream to stream by interprocess events, and a pipe that tells of them",
          Pair(gpu, program, "event", samples).by_event(), 0, 2);
  return 0;
}

} // namespace

int main(int count, char** arguments) {
  alarm(240); // a hang must not hold the device
  const std::string role = count > 1 ? arguments[1] : "";
  return exit_code([&] {
    if (const std::size_t space = role.find(' '); space != std::string::npos)
      return second_process(role.substr(0, space), std::atoi(role.c_str() + space));
    return first_process(arguments[0], std::max(1, std::atoi(role.c_str())));
  });
}
