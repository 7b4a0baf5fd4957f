// SPDX-License-Identifier: MIT
// Forks, ends of the process, and ends of another process.
#include "situations.hpp"

#include "../processes/children/scenario.hpp"
#include "allocations.hpp"
#include "driver_under_test.hpp"
#include "faults.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/driver_event.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/measure.hpp>
#include <cuevent/text.hpp>
#include <cuevent/time_limit.hpp>
#include <cuevent/timeline_participant.h>
#include <cuevent/timeline_semaphore.hpp>
#include <gpu.hpp>
#include <send_descriptor.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace situations {

namespace {

using namespace cuevent;
using namespace std::chrono_literals;
using process::expect;

// More if the other thread uses the same object, because then a moment of some 100 ns can matter.
#ifdef SANITIZED
constexpr int forks_beside_another_object = 0, forks_beside_the_object = 0;
constexpr std::size_t allocations_of_an_operation = 0;
#else
constexpr int forks_beside_another_object = 6, forks_beside_the_object = 25;
constexpr std::size_t allocations_of_an_operation = 20;
#endif
// The other thread rests if the next fork is late: the object may grow with each call, and every child
// destroys all of it. The pauses between forks are shorter, so nearly all forks find the thread at work.
constexpr auto longest_work = 2ms;

enum class Child { uses, destroys, exits };

void fork_here(std::unique_ptr<Subject>& subject, Child child, const std::string& where) {
  process::step("fork, while another thread works");
  const auto run = [&] {
    process::step("a use in the child");
    if (child == Child::uses) subject->check_all(In::forked);
    process::step("a destructor in the child");
    if (child == Child::destroys) subject.reset();
  };
  expect(child_succeeds(run, child == Child::exits), "the child of a fork inside " + where + " ends well");
}

/// Forks while another thread is inside the k-th driver call of what it does with the class. A lock that is
/// held during a driver call, and that a fork handler takes, stops the fork here. A lock that no fork
/// handler takes stops the child. Returns false if the thread makes fewer calls.
bool fork_inside_call(const Class& row, World& w, std::unique_ptr<Subject>& subject, int k, Child child) {
  std::atomic<int> at{0}; // 1: inside the call, 2: it made fewer calls
  std::atomic<bool> forked{false};
  test::FaultPlan plan({.call = k, .meanwhile = [&] {
                          at = 1;
                          at.notify_all();
                          forked.wait(false);
                        }});
  std::thread busy([&] {
    World its(w.context), of_another(w.context);
    const std::unique_ptr<Subject> own = row.concurrent ? nullptr : row.make(its);
    Subject& used = own != nullptr ? *own : *subject;
    {
      const test::FaultScope scope(plan);
      const auto another = row.make(of_another);
      used.check_all(In::working);
      another->check_all(In::working);
    }
    if (at == 0) at = 2;
    at.notify_all();
  });
  at.wait(0);
  const bool inside = at == 1;
  if (inside) fork_here(subject, child, std::string(plan.struck()));
  forked = true;
  forked.notify_all();
  process::step("the parent after a fork");
  busy.join();
  return inside && !process::disappointed();
}

/// Forks while another thread is inside the k-th allocation of one operation, perhaps with a lock. That lock
/// may stop the fork until the thread goes on, but not the child. Returns false if there are fewer.
bool fork_inside_allocation(const Class& row, World& w, std::unique_ptr<Subject>& subject, std::size_t which,
                            std::size_t k, Child child) {
  std::atomic<int> at{0}; // 1: inside the allocation, 2: it made fewer
  std::atomic<bool> forked{false};
  std::thread busy([&] {
    World its(w.context);
    const std::unique_ptr<Subject> own = row.concurrent ? nullptr : row.make(its);
    const Operation operation = (own != nullptr ? *own : *subject).operations()[which];
    {
      const test::InsideAllocation inside(k, [&] {
        at = 1;
        at.notify_all();
        const auto begin = std::chrono::steady_clock::now();
        while (!forked && std::chrono::steady_clock::now() - begin < 20ms)
          std::this_thread::sleep_for(100us);
      });
      check(operation, operation.expected(In::working));
    }
    if (at == 0) at = 2;
    at.notify_all();
  });
  at.wait(0);
  const bool inside = at == 1;
  if (inside) fork_here(subject, child, "an allocation");
  forked = true;
  process::step("the parent after a fork");
  busy.join();
  return inside && !process::disappointed();
}

/// Forks while another thread repeats one operation, wherever it is at that moment.
void fork_anywhere(const Class& row, World& w, std::unique_ptr<Subject>& subject, Child child) {
  const std::vector<Operation> operations = subject->operations();
  const int forks = row.concurrent ? forks_beside_the_object : forks_beside_another_object;
  for (std::size_t i = 0; i < operations.size() && !process::disappointed(); ++i) {
    std::atomic<bool> stop{false}, runs{false};
    using Clock = std::chrono::steady_clock;
    std::atomic<Clock::time_point> last_fork{Clock::now()};
    std::thread busy([&] {
      World its(w.context);
      const std::unique_ptr<Subject> own = row.concurrent ? nullptr : row.make(its);
      const Operation operation = (own != nullptr ? *own : *subject).operations()[i];
      while (!stop) {
        if (runs && Clock::now() - last_fork.load() > longest_work) {
          std::this_thread::yield();
          continue;
        }
        check(operation, operation.expected(In::working));
        runs = true;
      }
    });
    while (!runs)
      std::this_thread::yield();
    for (int k = 0; k < forks && !process::disappointed(); ++k) {
      fork_here(subject, child, operations[i].name);
      last_fork = Clock::now();
      std::this_thread::sleep_for(std::chrono::microseconds(37 * k));
    }
    stop = true;
    process::step("the parent after forks");
    busy.join();
  }
}

// Ends with the process, and in a child that exits.
std::unique_ptr<World> world_at_exit;
std::unique_ptr<Subject> early; // built before cuInit, so destroyed after the driver's exit handler

template <Child child>
void forked(const Class& row) {
  World::primary();
  world_at_exit = std::make_unique<World>(World::primary());
  World& w = *world_at_exit;
  early = row.make(w);
  early->check_all(In::working);
  for (int k = 1; k < 60 && fork_inside_call(row, w, early, k, child); ++k) {
  }
  for (std::size_t i = 0; row.concurrent && i < early->operations().size(); ++i)
    for (std::size_t k = 1; !process::disappointed() && k <= allocations_of_an_operation &&
                            fork_inside_allocation(row, w, early, i, k, child);
         ++k) {
    }
  if (!process::disappointed()) fork_anywhere(row, w, early, child);
  early->check_all(In::working); // the parent goes on
  early.reset();
  world_at_exit.reset();
  expect(take_reports() == 0, "nothing is reported");
}

/// Forks in the first call of the work, in a later call that is held, and between two samples.
void forked_in_measurement() {
  enum class Where { first_call, later_call, between };
  for (const Where where : {Where::first_call, Where::later_call, Where::between})
    for (const bool throwing : {false, true}) {
      const World w(World::primary());
      bool is_child = false;
      pid_t child = -1;
      int calls = 0, ended = -1;
      const auto fork_once = [&] {
        if (child != -1) return;
        child = fork();
        is_child = child == 0;
        if (is_child)
          alarm(10);
        else
          waitpid(child, &ended, 0);
      };
      const auto work = [&](CUstream on) {
        ++calls;
        if (where == Where::between || calls != (where == Where::first_call ? 1 : 3)) return;
        fork_once();
        if (is_child || where == Where::first_call) return; // otherwise the stream is held
        std::this_thread::sleep_for(2ms);
        const auto query = w.context.driver().entry_point<PFN_cuStreamQuery_v2000>("cuStreamQuery", 2000);
        expect(query(on) == CUDA_ERROR_NOT_READY, "the child does not let the parent's context go");
      };
      MeasureOptions options;
      options.hold_limit = 15s; // longer than the child lives
      options.least_samples = options.most_samples = 3;
      options.time_limit = TimeLimit();
      if (where == Where::between) options.between = [&](CUstream) { fork_once(); };
      Measurement found;
      const Operation measuring(
          "measure", Does::makes, [&] { return try_measure(found, w.context, w.stream, work, options); },
          [&] { found = measure(w.context, w.stream, work, options); });
      process::step("measured work that forks");
      const CUresult result = result_of(measuring, throwing);
      expect(result == (is_child ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS),
             "measure() fails in the child only, and not with " + to_string(result));
      expect(take_reports() == 0, "nothing is reported");
      if (is_child) _exit(process::disappointed());
      expect(found.unheld == 0, "the process that forked goes on to hold the context");
      expect(ended == 0, "the child ends well");
    }
}

/// Forks inside a callback of a class. What is left runs in the child.
void forked_in_callback(const Class& row) {
  const std::string_view name = row.name;
  if (name == "measure") return forked_in_measurement();
  World w(World::primary());
  std::vector<CUresult> results;
  if (name == "CompletionQueue") {
    enum class Where { poll, last_poll, destructor };
    for (const Where where : {Where::poll, Where::last_poll, Where::destructor}) {
      results.clear();
      bool is_child = false;
      pid_t child = -1;
      {
        const gpu::Gpu gpu(w.context.driver());
        std::optional<gpu::Gate> gate;
        if (where == Where::destructor) {
          gate.emplace(gpu, w.stream);
          DriverEvent behind(w.context);
          behind.record(w.stream);
          behind.wait(w.other);
        }
        CompletionQueue queue(w.context);
        for (int i = 0; i < 4; ++i)
          queue.when_complete(i % 2 == 0 ? w.stream : w.other, [&](CUresult result) {
            results.push_back(result);
            if (results.size() == 1) {
              child = fork();
              is_child = child == 0;
              if (is_child) alarm(10);
            }
          });
        if (!gate) w.synchronize();
        process::step("a callback that forks");
        while (where == Where::poll && queue.pending() != 0)
          queue.poll();
        queue = CompletionQueue();
      }
      const CUresult first = where == Where::destructor ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
      const CUresult rest = is_child ? CUDA_ERROR_NOT_INITIALIZED : first;
      const std::vector<CUresult> expected{first, rest, rest, rest};
      constexpr const char* places[] = {"poll()", "the last poll of ~CompletionQueue", "~CompletionQueue"};
      expect(results == expected, std::string("the results of a fork in ") + places[static_cast<int>(where)]);
      if (is_child) _exit(process::disappointed());
      int status = 0;
      expect(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
    }
    return;
  }
  // Graph: when_destroyed() and destroy_retired().
  int ran = 0;
  bool is_child = false;
  pid_t child = -1;
  {
    Graph graph(w.context);
    for (int i = 0; i < 3; ++i)
      graph.when_destroyed([&] {
        if (++ran != 1) return;
        child = fork();
        is_child = child == 0;
        if (is_child) alarm(10);
      });
  }
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (ran < 3 && std::chrono::steady_clock::now() < deadline)
    destroy_retired();
  expect(ran == 3, "each callback of when_destroyed() runs once, also in the child");
  if (is_child) _exit(process::disappointed());
  int status = 0;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
}

const char* needs_callbacks(const Class& row) {
  const std::string_view name = row.name;
  return name == "CompletionQueue" || name == "Graph" || name == "measure" ? nullptr : "it runs no callbacks";
}

/// The exit code of a handler is lost, so a disappointed one ends the process.
void end_if_disappointed() {
  expect(take_reports() == 0, "nothing is reported while the process exits");
  if (process::disappointed()) _exit(1);
}

void exit_handler(const Class& row) {
  std::atexit([] { // registered before cuInit, so it runs after the driver has begun to unload
    process::step("a use after the driver has unloaded");
    early->check_all(In::exited);
    process::step("a destructor after the driver has unloaded");
    early.reset();
    end_if_disappointed();
  });
  world_at_exit = std::make_unique<World>(World::primary());
  early = row.make(*world_at_exit);
  early->check_all(In::working);
  static std::unique_ptr<Subject> late;
  late = row.make(*world_at_exit);
  std::atexit([] {
    process::step("a use while the process exits");
    late->check_all(In::working);
    early->check_all(In::working);
    late.reset();
    end_if_disappointed();
  });
}

void static_destruction(const Class& row) {
  std::atexit([] { end_if_disappointed(); });
  world_at_exit = std::make_unique<World>(World::primary());
  early = row.make(*world_at_exit);
  early->check_all(In::working);
  static std::unique_ptr<Subject> late; // destroyed before the driver unloads
  late = row.make(*world_at_exit);
  static thread_local std::unique_ptr<Subject> of_thread;
  of_thread = row.make(*world_at_exit);
}

const char* needs_a_scope(const Class& row) {
  return row.scoped ? "it belongs to a scope, and is never static" : nullptr;
}

/// plugin.cpp has the same classes with another copy of the library.
void unloaded_plugin(const Class& row) {
  char program[4096] = "";
  expect(readlink("/proc/self/exe", program, sizeof program - 1) > 0, "the program is known");
  const std::string path = std::string(program, std::strrchr(program, '/') + 1) + "libsituations_plugin.so";
  for (const bool on_a_thread : {false, true}) {
    const auto use = [&] {
      void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      expect(plugin != nullptr, path + " is found");
      if (plugin == nullptr) return;
      process::step("the plugin");
      const auto use_class = reinterpret_cast<bool (*)(const char*)>(dlsym(plugin, "use_class"));
      expect(use_class(row.name), "everything works in the plugin");
      dlclose(plugin);
    };
    process::step("the end of the plugin");
    on_a_thread ? std::thread(use).join() : use();
  }
  std::this_thread::sleep_for(120ms); // a thread that is left looks once
  process::step("a fork after the plugin");
  expect(child_succeeds([] {}), "the child ends well");
  World w(World::primary());
  row.make(w)->check_all(In::working);
}

enum class Peer { killed, ends_at_once, exits_at_once, exits_behind_stream };

/// Runs in the other process: joins, signals, leaves, and ends as told. Before any driver call of the
/// parent, so both may use the driver.
void run_peer(bool with_driver, int socket, Peer how) {
  alarm(20);
  const int descriptor = receive_descriptor(socket);
  if (with_driver) {
    World w(World::primary());
    TimelineSemaphore semaphore = TimelineSemaphore::import(w.context, descriptor);
    if (how == Peer::exits_behind_stream) {
      const gpu::Gpu gpu(w.context.driver());
      gpu::Gate gate(gpu, w.stream);
      semaphore.signal(w.stream, 1);
      semaphore = TimelineSemaphore(); // the signal is pending
      gate.open();
      w.synchronize();
      std::exit(0);
    }
    semaphore.signal(w.stream, 1);
    expect(semaphore.wait_for(1, 10s), "the other process's signal is reached");
    if (how == Peer::killed) kill(getpid(), SIGKILL);
    semaphore = TimelineSemaphore();
    if (how == Peer::ends_at_once) _exit(0);
    std::exit(0); // before the streams are destroyed, which would take a while
  }
  cuevent_timeline timeline{};
  if (cuevent_timeline_open(&timeline, descriptor) != 0) _exit(1);
  cuevent_timeline_signal(timeline.page, 1);
  if (how == Peer::killed) kill(getpid(), SIGKILL);
  cuevent_timeline_close(&timeline);
  if (how == Peer::ends_at_once) _exit(0);
  std::exit(0);
}

void with_peer(const Class& row, Peer how) {
  const bool with_driver = std::string_view(row.name) == "TimelineSemaphore";
  int sockets[2];
  expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, "a socket");
  const pid_t peer = fork();
  if (peer == 0) {
    close(sockets[0]);
    run_peer(with_driver, sockets[1], how);
  }
  close(sockets[1]);
  World w(World::primary());
  TimelineSemaphore semaphore(w.context);
  const int handle = semaphore.export_handle();
  send_descriptor(sockets[0], handle);
  close(handle);
  close(sockets[0]);
  process::step("the signal of another process");
  expect(semaphore.wait_for(1, 10s), "the signal of the other process arrives");
  int status = 0;
  waitpid(peer, &status, 0);
  if (how == Peer::killed) {
    expect(WIFSIGNALED(status), "the other process was killed");
    expect(semaphore.status() == TimelineStatus::participant_died, "the death shows");
    semaphore.abandon_on_death();
    process::step("a wait for a dead process");
    expect(semaphore.try_wait_for(2, 10s) == CUDA_ERROR_ILLEGAL_STATE, "the death ends a wait");
  } else {
    expect(status == 0, "the other process ends well");
    expect(semaphore.status() == TimelineStatus::active, "a process that has left is not dead");
    semaphore.signal(w.stream, 2);
    expect(semaphore.wait_for(2, 10s), "the semaphore works on");
  }
}

void peer_killed(const Class& row) { with_peer(row, Peer::killed); }

void peer_ends(const Class& row) {
  const std::pair<Peer, const char*> all[] = {{Peer::ends_at_once, "_exit()"},
                                              {Peer::exits_at_once, "exit()"},
                                              {Peer::exits_behind_stream, "exit() behind a pending signal"}};
  for (int i = 0; i < 3 && !process::disappointed(); ++i)
    for (const auto& [how, name] : all)
      expect(child_succeeds([&, how = how] { with_peer(row, how); }),
             std::string("with another process that ends by ") + name);
}

const char* needs_a_peer(const Class& row) {
  const std::string_view name = row.name;
  if (name == "TimelineSemaphore" || name == "timeline_participant.h") return nullptr;
  if (name == "IpcHandle")
    return "the behaviour of an imported event is undefined once the exporting process has ended";
  return "no other process takes part in it";
}

} // namespace

std::vector<Situation> situations_of_processes() {
  return {
      {.name = "fork, child uses",
       .in = In::forked,
       .alone = Alone::yes,
       .what = "The process forks while another thread is inside each driver call of each operation in turn, "
               "inside each allocation, and while another thread repeats an operation. The other thread uses "
               "the same object if the class allows that, or another one. The child runs the operations.",
       .rule = "fork() returns at once. In the child, an operation that needs the driver is refused with "
               "NOT_INITIALIZED. The parent goes on.",
       .run = forked<Child::uses>},
      {.name = "fork, child destroys",
       .in = In::working,
       .alone = Alone::yes,
       .what = "The same, and the child destroys the object.",
       .rule = "The destructor is silent.",
       .run = forked<Child::destroys>},
      {.name = "fork, child exits",
       .in = In::working,
       .alone = Alone::yes,
       .what = "The same, and the child calls exit(), which destroys the object.",
       .rule = "The child ends silently. A real driver may crash while it is unloaded, after all objects are "
               "gone.",
       .run = forked<Child::exits>,
       .impossible = needs_a_scope},
      {.name = "fork in a callback",
       .in = In::working,
       .alone = Alone::yes,
       .what = "A callback forks, in poll(), in ~CompletionQueue, in destroy_retired(), in measured work and "
               "between its samples.",
       .rule = "In the child, the callbacks that are left run once, with NOT_INITIALIZED. measure() fails "
               "with NOT_INITIALIZED at once.",
       .run = forked_in_callback,
       .impossible = needs_callbacks},
      {.name = "exit handler",
       .in = In::exited,
       .alone = Alone::yes,
       .what = "One exit handler runs before the driver unloads and one after. Both run the operations, and "
               "destroy an object.",
       .rule = "Before, everything works. After, an operation that needs the driver is refused with "
               "DEINITIALIZED. Destructors are silent.",
       .run = exit_handler,
       .impossible = needs_a_scope},
      {.name = "static destruction",
       .in = In::working,
       .alone = Alone::yes,
       .what =
           "Static objects end before and after the driver unloads, and a thread_local object of the main "
           "thread.",
       .rule = "The process ends silently.",
       .run = static_destruction,
       .impossible = needs_a_scope},
      {.name = "unloaded plugin",
       .in = In::working,
       .alone = Alone::yes,
       .what = "A plugin with a copy of cuevent makes an object, runs the operations, destroys the object, "
               "and is "
               "unloaded at once. Then the program forks, uses the driver, and exits.",
       .rule = "The code is unloaded, or stays loaded as docs/lifetime.md says. Nothing calls it after it is "
               "gone.",
       .run = unloaded_plugin},
      {.name = "other process killed",
       .in = In::working,
       .alone = Alone::yes,
       .what = "Another process signals, and is killed while it has the object.",
       .rule = "status() reports the death, and abandon_on_death() ends the waits.",
       .run = peer_killed,
       .impossible = needs_a_peer},
      {.name = "other process ends at once",
       .in = In::working,
       .alone = Alone::yes,
       .what =
           "Another process signals everything, destroys its object, and ends at once: by exit() or _exit() "
           "if everything was reached before the destructor, by exit() if a stream reached it after.",
       .rule = "The process has left: it does not count as dead.",
       .run = peer_ends,
       .impossible = needs_a_peer},
  };
}

} // namespace situations
