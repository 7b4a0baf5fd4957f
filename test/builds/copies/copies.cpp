// SPDX-License-Identifier: MIT
// Three copies of cuevent in one process: two libraries contain one each, and the program uses libcuevent.so.
// The loader keeps one definition of each inline function and template, so the objects of one copy meet the
// code of another.
#include "copy.hpp"

#include <catch2/catch_session.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <array>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern "C" {
MakeCopy make_first, make_second, make_own;
}

namespace {

using namespace cuevent;

struct Copies {
  Context context = Context::primary(0);
  std::array<std::unique_ptr<Copy>, 3> all{std::unique_ptr<Copy>(make_first(context.native_handle())),
                                           std::unique_ptr<Copy>(make_second(context.native_handle())),
                                           std::unique_ptr<Copy>(make_own(context.native_handle()))};

  /// Each pool has exactly the events that it made.
  void check_idle(std::size_t count) {
    for (const auto& copy : all) {
      const EventPool::Counters counters = copy->counters();
      CHECK(counters.created == count);
      CHECK(counters.idle == count);
    }
  }
};

} // namespace

TEST_CASE_METHOD(Copies, "a lease returns to its pool, whichever code ends it") {
  const bool on_a_thread = GENERATE(false, true), by_its_copy = GENERATE(false, true);
  const auto use = [&] {
    for (int round = 0; round < 3; ++round)
      for (const auto& copy : all) {
        copy->lease(100);
        if (by_its_copy)
          copy->give_back();
        else
          copy->leases.clear();
      }
  };
  if (on_a_thread)
    std::thread(use).join();
  else
    use();
  check_idle(100);
}

TEST_CASE_METHOD(Copies, "a pool can be acquired from by any code") {
  for (const auto& copy : all) {
    for (int i = 0; i < 100; ++i)
      copy->leases.push_back(copy->pool->acquire());
    copy->give_back();
    for (int i = 0; i < 100; ++i)
      copy->leases.push_back(copy->pool->acquire());
    copy->leases.clear();
  }
  check_idle(100);
}

TEST_CASE_METHOD(Copies, "a pool that other code has ended is gone from the fork handlers of its copy") {
  const bool by_its_copy = GENERATE(false, true);
  for (const auto& copy : all) {
    copy->lease(10);
    copy->give_back();
    by_its_copy ? copy->end_pool() : copy->pool.reset();
    copy->pool.emplace(context); // takes the place of the old one
    copy->lease(10);
  }
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  for (const auto& copy : all)
    copy->give_back();
  check_idle(10);
}

TEST_CASE_METHOD(Copies, "a guard that one copy began and another ended leaves the stack as it was") {
  const Context other = Context::create(0);
  for (const auto& copy : all) {
    const ContextGuard current(other);
    { const auto guard = copy->guard(); }
    CHECK(Context::current().native_handle() == other.native_handle());
  }
}

int main(int count, char** arguments) { return Catch::Session().run(count, arguments); }
