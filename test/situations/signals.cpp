// SPDX-License-Identifier: MIT
// Signal handlers.
#include "situations.hpp"

#include "../processes/children/scenario.hpp"

#include <cuevent/flight_recorder.hpp>

#include <atomic>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace situations {

namespace {

using namespace cuevent;
using process::expect;

const FlightRecorder* dumped = nullptr;
const std::vector<Operation>* safe = nullptr; // what is promised to be async-signal-safe
int nowhere = -1;
std::atomic<int> handled{0}, refused{0};

void handle(int) {
  dumped->dump(nowhere);
  for (const Operation& each : *safe)
    if (each.attempt() != CUDA_SUCCESS) ++refused;
  ++handled;
}

/// Interrupts this thread every 0.1 ms.
class Interruptions {
public:
  Interruptions() {
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, &before_);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR2;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    timer_create(CLOCK_MONOTONIC, &event, &timer_);
    constexpr itimerspec often{{0, 100'000}, {0, 100'000}};
    timer_settime(timer_, 0, &often, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;
  ~Interruptions() {
    timer_delete(timer_);
    sigaction(SIGUSR2, &before_, nullptr);
  }

private:
  timer_t timer_{};
  struct sigaction before_ {};
};

void inside_a_signal_handler(const Class& row) {
  World w(World::primary());
  CUstream const marked = w.make_stream();
  {
    FlightRecorder recorder(w.context, {.marks_per_stream = 8});
    recorder.mark(marked, "mark");
    const auto subject = row.make(w);
    subject->check_all(In::working);
    std::vector<Operation> promised;
    for (Operation& each : subject->operations())
      if (each.expected(In::interrupted).not_called == nullptr) promised.push_back(std::move(each));
    dumped = &recorder;
    safe = &promised;
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    handled = refused = 0;
    {
      const Interruptions interruptions;
      for (int rounds = 0; rounds < 3 || handled < 20; ++rounds) {
        recorder.mark(marked, "mark");
        recorder.report();
        subject->check_all(In::working);
      }
    }
    expect(refused == 0, "what is async-signal-safe works in a signal handler");
    close(nowhere);
  }
  w.synchronize();
  w.context.driver().table().cuStreamDestroy_v4000(marked);
}

} // namespace

std::vector<Situation> situations_of_signals() {
  return {
      {.name = "inside a signal handler",
       .in = In::interrupted,
       .alone = Alone::no,
       .what = "A timer's signal interrupts the thread every 0.1 ms, wherever it is: in the operations, in a "
               "`FlightRecorder` of the same context, or in the driver. The handler calls "
               "`FlightRecorder::dump` and what is listed here.",
       .rule = "The operations work as without signals. A handler may call what its header calls "
               "async-signal-safe: this uses nothing of the driver's table, takes no lock and allocates "
               "nothing.",
       .run = inside_a_signal_handler,
       .setting = "CUEVENT_SIM_MODE=stepped"}, // its clock takes a lock; tests of the recorder run both modes
  };
}

} // namespace situations
