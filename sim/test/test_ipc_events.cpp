// SPDX-License-Identifier: MIT
// Events of two processes of the system: a forked process begins a session of its own.
#include "death.hpp"
#include "fixture.hpp"

#include "../src/event_page.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;
namespace sim = cuevent::sim;

namespace {

constexpr unsigned shared = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
constexpr sim::Options running{.mode = sim::Mode::running};

struct Exporting : Fixture {
  explicit Exporting(const sim::Options& options) : Fixture(options) { OK(cu.ipc_export(&handle, exported)); }
  CUevent exported = event(shared);
  CUipcEventHandle handle{};
};

void must(bool holds) {
  if (!holds) std::abort();
}

} // namespace

TEST_CASE("an event orders the work of two processes of the system") {
  skip_without_threads_in_children();
  Exporting f(running);
  sim::set_kernel("work", {300ms});
  OK(f.work(f.stream));
  OK(f.cu.event_record(f.exported, f.stream));
  const Death death = death_of([&] {
    Fixture g(running);
    CUevent opened = nullptr, again = nullptr;
    must(g.cu.ipc_open(&opened, f.handle) == CUDA_SUCCESS);
    must(g.cu.ipc_open(&again, f.handle) == CUDA_SUCCESS);
    must(g.cu.event_query(opened) == CUDA_ERROR_NOT_READY);
    must(g.cu.event_query(again) == CUDA_ERROR_NOT_READY);
    must(g.cu.context_synchronize() == CUDA_SUCCESS); // it is not work of this process
    must(g.cu.event_query(opened) == CUDA_ERROR_NOT_READY);
    must(g.cu.stream_wait(g.stream, opened, 0) == CUDA_SUCCESS);
    must(g.cu.stream_query(g.stream) == CUDA_ERROR_NOT_READY);
    must(g.cu.event_synchronize(again) == CUDA_SUCCESS);
    must(g.cu.stream_synchronize(g.stream) == CUDA_SUCCESS);
    must(g.cu.event_record(opened, g.stream) == CUDA_SUCCESS);
    must(g.cu.event_synchronize(again) == CUDA_SUCCESS);
  });
  CHECK(death.report == "");
  CHECK_FALSE(death.aborted);
  OK(f.cu.event_query(f.exported)); // also for the record of the other process
  OK(f.cu.event_record(f.exported, f.stream));
  OK(f.cu.event_synchronize(f.exported));
}

TEST_CASE("a record waits for the record of another process of the system") {
  Exporting f(running);
  sim::hold(f.stream);
  OK(f.cu.event_record(f.exported, f.stream));
  const Death death = death_of([&] {
    Fixture g(running);
    CUevent opened = nullptr;
    must(g.cu.ipc_open(&opened, f.handle) == CUDA_SUCCESS);
    must(g.cu.event_record(opened, g.stream) == CUDA_SUCCESS);
    usleep(20'000);
    must(g.cu.event_query(opened) == CUDA_ERROR_NOT_READY);
  });
  CHECK_FALSE(death.aborted);
  sim::release(f.stream);
}

TEST_CASE("two processes of the system with a clock of their own share no event") {
  const Exporting f(running);
  const auto open = [&](const sim::Options& options) {
    return death_of([&] {
      Fixture g(options);
      CUevent opened = nullptr;
      g.cu.ipc_open(&opened, f.handle);
    });
  };
  CHECK(open({}).says("in stepped mode"));
  CHECK_FALSE(open(running).aborted);
}

TEST_CASE("an event of a process in stepped mode is not opened by another process of the system") {
  const Exporting f({});
  const Death death = death_of([&] {
    Fixture g(running);
    CUevent opened = nullptr;
    g.cu.ipc_open(&opened, f.handle);
  });
  CHECK(death.says("in stepped mode"));
}

TEST_CASE("whether a record of a process that was killed completes is not modelled") {
  skip_without_threads_in_children();
  Fixture f({.mode = sim::Mode::running, .unmodelled = sim::Unmodelled::error});
  std::array<int, 2> up{};
  REQUIRE(pipe(up.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    Exporting g(running);
    sim::hold(g.stream);
    must(g.cu.event_record(g.exported, g.stream) == CUDA_SUCCESS);
    must(write(up[1], &g.handle, sizeof g.handle) == sizeof g.handle);
    pause();
    _exit(1);
  }
  close(up[1]); // a child that has ended is not waited for
  CUipcEventHandle handle;
  REQUIRE(read(up[0], &handle, sizeof handle) == sizeof handle);
  CUevent opened = nullptr, late = nullptr;
  OK(f.cu.ipc_open(&opened, handle));
  CHECK(f.cu.event_query(opened) == CUDA_ERROR_NOT_READY);
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(f.cu.event_query(opened) == CUDA_ERROR_NOT_SUPPORTED);
  OK(f.cu.event_destroy(opened));
  OK(f.cu.ipc_open(&late, handle)); // as on a device
  OK(f.cu.event_query(late));
  CHECK(f.cu.event_record(late, f.stream) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK_FALSE(sim::take_unmodelled().empty());
  close(up[0]);
}

TEST_CASE("a thousand exported events take no more descriptors than one") {
  Fixture f(running);
  const auto next_descriptor = [] {
    const int next = dup(0);
    close(next);
    return next;
  };
  int before = 0;
  for (int i = 0; i < 1000; ++i) {
    const CUevent event = f.event(shared);
    CUipcEventHandle handle;
    OK(f.cu.ipc_export(&handle, event));
    OK(f.cu.event_destroy(event));
    if (i == 0) before = next_descriptor();
  }
  CHECK(next_descriptor() == before);
}

TEST_CASE("a page says which records are complete") {
  const auto page = sim::EventPage::make(3, 2);
  REQUIRE(page);
  const auto opened = sim::EventPage::open(page->file());
  REQUIRE(opened);
  CHECK(opened->last() == 3);
  CHECK(opened->is_complete(2));
  CHECK_FALSE(opened->is_complete(3));
  page->end_record(3);
  CHECK(opened->is_complete(3));
  CHECK(opened->begin_record() == 4);
  CHECK_FALSE(page->is_complete(page->last()));
  CHECK(page->recorder() == sim::this_os_process());
  opened->end_record(4);
  opened->end_record(2); // late
  CHECK(page->is_complete(4));
}
