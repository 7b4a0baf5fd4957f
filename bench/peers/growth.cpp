// SPDX-License-Identifier: MIT
// How the cost of a call grows with the number of live events, streams and threads.
#include "operations.hpp"

#include <cuevent/event_pool.hpp>
#include <cuevent/timeline_fence.hpp>

#include <array>
#include <random>

namespace peers {

namespace {

using cuevent::DriverEvent;
using cuevent::TimelineFence;

struct Size {
  std::size_t events, streams; // per thread
  bool operator==(const Size&) const = default;
};

/// Events leased from a pool. Each was recorded once on a stream, which other events may share.
class Crowd {
public:
  Crowd(const Testbed& place, Size its_size)
      : size(its_size), driver(place.driver.table()), context(place.borrowed),
        pool(place.borrowed, cuevent::EventFlags::none, cuevent::FreshLease::refuses,
             its_size.events + 1'024),
        testbed_(place) {
    for (std::size_t i = 0; i < size.streams; ++i) {
      streams.push_back(place.make_stream());
      fences.emplace_back(place.borrowed, streams.back());
    }
    pool.reserve(size.events);
    leases_.reserve(size.events);
    events.reserve(size.events);
    for (std::size_t i = 0; i < size.events; ++i) {
      leases_.push_back(pool.acquire());
      events.push_back(DriverEvent::borrow(place.borrowed, leases_.back().event().native_handle(),
                                           cuevent::EventFlags::none));
      events.back().record(stream_of(i));
      if (i % 512 == 511) drain();
    }
    tickets.resize(size.streams);
    for (std::size_t i = 0; i < size.streams; ++i)
      tickets[i] = fences[i].signal();
    drain();
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    drain();
    fences.clear();
    for (CUstream stream : streams)
      testbed_.destroy(stream);
  }

  CUstream stream_of(std::size_t event) const { return streams[event % size.streams]; }
  void drain() const {
    for (CUstream stream : streams)
      testbed_.synchronize(stream);
  }

  const Size size;
  const cuevent::DriverTable& driver;
  const cuevent::Context& context;
  std::vector<CUstream> streams;
  cuevent::EventPool pool;
  std::vector<DriverEvent> events;
  std::vector<TimelineFence> fences; // one per stream
  std::vector<std::uint64_t> tickets;

private:
  const Testbed& testbed_;
  std::vector<cuevent::PooledEvent> leases_;
};

/// The crowd of the thread, kept for the next round.
Crowd& crowd_of(const Lane& lane, Size size) {
  static auto& crowds = *new std::array<std::unique_ptr<Crowd>, most_threads>;
  std::unique_ptr<Crowd>& crowd = crowds[static_cast<std::size_t>(&lane - lane.testbed.lanes.data())];
  if (crowd == nullptr || crowd->size != size) {
    crowd.reset();
    crowd = std::make_unique<Crowd>(lane.testbed, size);
  }
  return *crowd;
}

thread_local Size size_now; // of the running benchmark

/// The events picked in a turn. Together with the lead-in, they are fewer than a stream's queue takes.
constexpr int most_calls = 512;

struct Pick {
  std::size_t event, stream;
};

/// One for all workloads, so that no two of them pick the same events.
thread_local std::minstd_rand random_number(2026);

/// Runs `call` for one pick after another.
template <void (*call)(Crowd&, Pick)>
class OfCrowd : public Workload {
public:
  explicit OfCrowd(Lane& lane) : crowd_(crowd_of(lane, size_now)) {}
  /// Picks new events each time, so that a large crowd comes from memory and not from the caches.
  void prepare() override {
    for (Pick& pick : picks_) {
      pick.event = random_number() % crowd_.size.events;
      pick.stream = pick.event % crowd_.size.streams;
    }
  }
  void run(int count) override {
    for (int i = 0; i < count; ++i)
      call(crowd_, picks_[static_cast<std::size_t>(i)]);
  }
  void finish() override { crowd_.drain(); }

private:
  Crowd& crowd_;
  std::array<Pick, most_calls> picks_;
};

void check(CUresult result) { expect(result == CUDA_SUCCESS, "the driver refused a call"); }

void raw_create(Crowd& crowd, Pick) {
  CUevent event = nullptr;
  check(crowd.driver.cuEventCreate_v2000(&event, CU_EVENT_DISABLE_TIMING));
  check(crowd.driver.cuEventDestroy_v4000(event));
}
void create(Crowd& crowd, Pick) {
  DriverEvent event(crowd.context);
  hide(event);
}
void raw_record(Crowd& crowd, Pick pick) {
  check(
      crowd.driver.cuEventRecord_v2000(crowd.events[pick.event].native_handle(), crowd.streams[pick.stream]));
}
void record(Crowd& crowd, Pick pick) { crowd.events[pick.event].record(crowd.streams[pick.stream]); }
void raw_query(Crowd& crowd, Pick pick) {
  check(crowd.driver.cuEventQuery_v2000(crowd.events[pick.event].native_handle()));
}
void query(Crowd& crowd, Pick pick) {
  expect(crowd.events[pick.event].query(), "a completed event is pending");
}
void pool(Crowd& crowd, Pick) {
  cuevent::PooledEvent lease = crowd.pool.acquire();
  hide(lease);
}
void reached(Crowd& crowd, Pick pick) {
  expect(crowd.fences[pick.stream].reached(crowd.tickets[pick.stream]), "a ticket is not reached");
}
void signal(Crowd& crowd, Pick pick) { crowd.tickets[pick.stream] = crowd.fences[pick.stream].signal(); }

void grow(benchmark::State& state) {
  static const std::vector<Contestant> contestants = {
      {"raw_create", make<OfCrowd<raw_create>>}, {"create", make<OfCrowd<create>>},
      {"raw_record", make<OfCrowd<raw_record>>}, {"record", make<OfCrowd<record>>},
      {"raw_query", make<OfCrowd<raw_query>>},   {"query", make<OfCrowd<query>>},
      {"pool", make<OfCrowd<pool>>, most_calls}, {"reached", make<OfCrowd<reached>>, most_calls},
      {"signal", make<OfCrowd<signal>>},
  };
  size_now = {static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1))};
  compete(state, contestants,
          state.threads() == 1 ? most_calls : 64); // a call takes much longer with many threads
}

} // namespace

void register_growth() {
  auto* const growth = benchmark::RegisterBenchmark("growth", grow);
  growth->ArgNames({"events", "streams"})->Iterations(6)->UseManualTime();
  growth->Args({1, 1});
  for (int events = 10; events <= 1'000'000; events *= 10)
    growth->Args({events, 1});
  for (int streams = 4; streams <= 1'024; streams *= 4)
    growth->Args({streams, streams});
  auto* const threads = benchmark::RegisterBenchmark("growth", grow);
  threads->ArgNames({"events", "streams"})->Args({1, 1})->Iterations(6)->UseManualTime();
  for (int count = 2; count <= static_cast<int>(most_threads); count *= 2)
    threads->Threads(count);
}

} // namespace peers
