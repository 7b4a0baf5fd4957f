// SPDX-License-Identifier: MIT
// Settings of core dumps, and checkpoints of processes.
#include "death.hpp"
#include "fixture.hpp"

#include <csignal>
#include <cstring>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#if CUDA_VERSION >= 12080

namespace {

constexpr auto generation_flags = static_cast<CUcoredumpSettings>(7); // CU_COREDUMP_GENERATION_FLAGS

struct Dumps : Fixture {
#define FIND(name, version) cu.find<PFN_##name##_v##version>(#name, version)
  Dumps()
      : get(FIND(cuCoredumpGetAttribute, 12010)), set(FIND(cuCoredumpSetAttribute, 12010)),
        get_global(FIND(cuCoredumpGetAttributeGlobal, 12010)),
        set_global(FIND(cuCoredumpSetAttributeGlobal, 12010)),
        state(FIND(cuCheckpointProcessGetState, 12080)), lock(FIND(cuCheckpointProcessLock, 12080)) {}
#undef FIND

  void enable(CUcoredumpSettings setting) const {
    unsigned char yes = 1;
    std::size_t size = 1;
    OK(set_global(setting, &yes, &size));
  }
  int byte_of_process(CUcoredumpSettings setting) const {
    unsigned char found = 7;
    std::size_t size = 1;
    OK(get_global(setting, &found, &size));
    return found;
  }

  PFN_cuCoredumpGetAttribute_v12010 get;
  PFN_cuCoredumpSetAttribute_v12010 set;
  PFN_cuCoredumpGetAttributeGlobal_v12010 get_global;
  PFN_cuCoredumpSetAttributeGlobal_v12010 set_global;
  PFN_cuCheckpointProcessGetState_v12080 state;
  PFN_cuCheckpointProcessLock_v12080 lock;
};

} // namespace

TEST_CASE("a context has settings of core dumps of its own") {
  Dumps f;
  unsigned char yes = 1, found = 7;
  std::size_t size = 1;
  OK(f.set(CU_COREDUMP_LIGHTWEIGHT, &yes, &size));
  OK(f.get(CU_COREDUMP_LIGHTWEIGHT, &found, &size));
  CHECK(found == 1);
  OK(f.get_global(CU_COREDUMP_LIGHTWEIGHT, &found, &size));
  CHECK(found == 0);
  unsigned flags = 0;
  size = sizeof flags;
  OK(f.get(generation_flags, &flags, &size));
  CHECK(flags == 0x2f);
  OK(f.get(CU_COREDUMP_FILE, nullptr, &size));
  CHECK(size == 1024);
  CHECK(f.get(CU_COREDUMP_TRIGGER_HOST, &found, &size) == CUDA_ERROR_INVALID_VALUE); // another size
  size = 1;
  CHECK(f.get(CU_COREDUMP_ENABLE_USER_TRIGGER, &found, &size) == CUDA_ERROR_INVALID_VALUE);
  OK(f.get_global(CU_COREDUMP_ENABLE_USER_TRIGGER, &found, &size));
  CHECK(found == 0);
}

TEST_CASE("the size of a file's name counts for a context and not for the process") {
  Dumps f;
  char name[] = "a_file", found[1024];
  std::size_t size = 3, room = sizeof found;
  OK(f.set(CU_COREDUMP_FILE, name, &size));
  OK(f.get(CU_COREDUMP_FILE, found, &room));
  CHECK(std::strcmp(found, "a_f") == 0);
  OK(f.set_global(CU_COREDUMP_FILE, name, &size));
  OK(f.get_global(CU_COREDUMP_FILE, found, &room));
  CHECK(std::strcmp(found, "a_file") == 0);
}

TEST_CASE("the process has a pipe for core dumps, whose name cannot change any more") {
  Dumps f;
  char name[1024] = {};
  unsigned char yes = 1;
  std::size_t size = 1;
  OK(f.set_global(CU_COREDUMP_ENABLE_USER_TRIGGER, &yes, &size));
  size = sizeof name;
  OK(f.get_global(CU_COREDUMP_PIPE, name, &size));
  CHECK(std::string(name).ends_with("_" + std::to_string(getpid())));
  CHECK(f.set_global(CU_COREDUMP_PIPE, name, &size) == CUDA_ERROR_NOT_SUPPORTED);
  size = 4;
  CHECK(f.get_global(CU_COREDUMP_PIPE, name, &size) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a pipe has the name that was chosen before, and comes with dumps on exceptions") {
  Dumps f;
  char name[1024] = {};
  std::size_t room = sizeof name, size = 7;
  OK(f.get_global(CU_COREDUMP_PIPE, name, &room));
  CHECK(name[0] == '\0');
  char chosen[] = "a_pipe";
  OK(f.set_global(CU_COREDUMP_PIPE, chosen, &size));
  f.enable(CU_COREDUMP_ENABLE_USER_TRIGGER);
  OK(f.get_global(CU_COREDUMP_PIPE, name, &room));
  CHECK(std::string(name) == "a_pipe");
  CHECK(f.byte_of_process(CU_COREDUMP_ENABLE_ON_EXCEPTION) == 1);
}

TEST_CASE("what a core dump leaves out is told in two ways") {
  Dumps f;
  const auto told = [&f](unsigned flags) {
    std::size_t size = sizeof flags;
    OK(f.set_global(generation_flags, &flags, &size));
    return std::pair(f.byte_of_process(CU_COREDUMP_TRIGGER_HOST), f.byte_of_process(CU_COREDUMP_LIGHTWEIGHT));
  };
  CHECK(told(0) == std::pair(1, 0));
  CHECK(told(0x10) == std::pair(0, 0));
  CHECK(told(0x2f) == std::pair(1, 1));
  CHECK(told(0x3f) == std::pair(0, 1));
  f.enable(CU_COREDUMP_TRIGGER_HOST);
  unsigned flags = 0;
  std::size_t size = sizeof flags;
  OK(f.get_global(generation_flags, &flags, &size));
  CHECK(flags == 0x2f);
}

TEST_CASE("a core dump is lightweight if it lacks all parts that a lightweight one lacks") {
  Dumps f;
  for (unsigned flags : {0x1u, 0x2eu, 0x40u, 0x80000000u}) {
    std::size_t size = sizeof flags;
    OK(f.set_global(generation_flags, &flags, &size));
    unsigned found = 0;
    OK(f.get_global(generation_flags, &found, &size));
    CHECK(found == flags); // also unknown ones
    CHECK(f.byte_of_process(CU_COREDUMP_LIGHTWEIGHT) == 0);
  }
}

TEST_CASE("a new context has the settings of core dumps that the process has") {
  Dumps f;
  f.enable(CU_COREDUMP_LIGHTWEIGHT);
  std::size_t size = 1;
  unsigned char found = 7;
  OK(f.get(CU_COREDUMP_LIGHTWEIGHT, &found, &size));
  CHECK(found == 0);
  CUcontext made = nullptr;
  OK(f.cu.context_create(&made, 0, 0)); // and makes it current
  OK(f.get(CU_COREDUMP_LIGHTWEIGHT, &found, &size));
  CHECK(found == 1);
  unsigned char two = 2; // dumps on exceptions keep the byte
  OK(f.set(CU_COREDUMP_ENABLE_ON_EXCEPTION, &two, &size));
  OK(f.get(CU_COREDUMP_ENABLE_ON_EXCEPTION, &found, &size));
  CHECK(found == 2);
}

TEST_CASE("a wrong setting of core dumps is refused before the context is looked at") {
  Dumps f;
  unsigned char value = 0;
  std::size_t size = 1;
  OK(f.cu.context_pop(nullptr));
  CHECK(f.get(static_cast<CUcoredumpSettings>(0), &value, &size) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.get(CU_COREDUMP_LIGHTWEIGHT, &value, &size) == CUDA_ERROR_INVALID_CONTEXT);
  OK(f.get_global(CU_COREDUMP_LIGHTWEIGHT, &value, &size));
}

TEST_CASE("a setting of core dumps of the process can be read before cuInit, and not changed") {
  const Death death = death_of([] {
    const cuevent::sim::Machine machine;
    RawDriver cu;
    unsigned char value = 7;
    std::size_t size = 1;
    const auto get = cu.find<PFN_cuCoredumpGetAttributeGlobal_v12010>("cuCoredumpGetAttributeGlobal", 12010);
    const auto set = cu.find<PFN_cuCoredumpSetAttributeGlobal_v12010>("cuCoredumpSetAttributeGlobal", 12010);
    if (get(CU_COREDUMP_TRIGGER_HOST, &value, &size) == CUDA_SUCCESS && value == 1)
      set(CU_COREDUMP_TRIGGER_HOST, &value, &size);
  });
  CHECK(death.crashed);
  CHECK(death.says("before cuInit"));
}

TEST_CASE("a process runs, and has no state if it does not exist or has no driver") {
  Dumps f;
  auto state = CU_PROCESS_STATE_FAILED;
  OK(f.state(getpid(), &state));
  CHECK(state == CU_PROCESS_STATE_RUNNING);
  CHECK(f.state(0, &state) == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(f.state(-1, &state) == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(f.state(999999999, &state) == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(f.state(0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.lock(0, nullptr) == CUDA_ERROR_OPERATING_SYSTEM);
  const char* const words[] = {"sleep", "60", nullptr};
  pid_t other = 0;
  REQUIRE(posix_spawnp(&other, "sleep", nullptr, nullptr, const_cast<char**>(words), nullptr) == 0);
  CHECK(f.state(other, &state) == CUDA_ERROR_NOT_INITIALIZED);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}

#endif
