// SPDX-License-Identifier: MIT
// What the auditing library of `cuevent watch` adds to the launch of a kernel, and to a block of PyTorch's
// allocator, in instructions and in lines of code of 64 bytes: between two launches, a program uses the
// caches for other things, so each line counts. Runs itself under the library, and steps through one launch,
// or one block, at a time, and through the same call in many lines of a Python program.
//
// Usage: watch_instructions LIBRARY [PYTHON]
// Exits with 1 if a bound is exceeded, and with 77 if the system does not allow it to step.

#include "torch_allocator.hpp"

#include <cuda.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

void CUDAPluggableAllocator::init(int) {}
bool CUDAPluggableAllocator::initialized() { return true; }
void CUDAPluggableAllocator::emptyCache() {}
void CUDAPluggableAllocator::attachAllocatorTraceTracker(c10::cuda::CUDACachingAllocator::Tracker) {}

namespace {

constexpr std::size_t rounds = 5;
/// The library keeps the stacks of calls in sets. Which of them share one depends on their addresses, and
/// each that is compared in vain takes some instructions. So the cheapest of several processes counts.
constexpr std::size_t own_processes = 4;
constexpr std::size_t fewest_instructions = 100; // of what is recorded
/// What the watched program does between its stops: a launch, unless this variable is set.
constexpr const char* counts_block = "WATCH_INSTRUCTIONS_BLOCK";
constexpr int skipped = 77;

constexpr char kernel[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry step(.param .u64 to, .param .u64 from, .param .u64 other, .param .u32 count) { ret; }
)";

void require(CUresult result) {
  if (result != CUDA_SUCCESS) std::exit(2);
}

/// One line for each call. The stacks of the calls differ in their Python frames only.
constexpr char python_program[] = R"(
import ctypes, os, signal, sys
cuda = ctypes.CDLL(sys.argv[1])
context, stream, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
def require(result):
    if result != 0: sys.exit(2)
require(cuda.cuInit(0))
require(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
require(cuda.cuCtxSetCurrent(context))
require(cuda.cuStreamCreate(ctypes.byref(stream), 1))
require(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)))
call = " cuda.cuMemsetD8Async(memory, 0, ctypes.c_size_t(64), stream)\n"
exec("def step():\n" + 24 * call)
for round in range(5):
    for _ in range(10): step()
    os.kill(os.getpid(), signal.SIGSTOP)
    step()
    os.kill(os.getpid(), signal.SIGSTOP)
    require(cuda.cuStreamSynchronize(stream))
)";

/// What is counted is like what came before it.
template <class Action>
void stop_around(const Action& counted) {
  counted();
  kill(getpid(), SIGSTOP);
  counted();
  kill(getpid(), SIGSTOP);
}

/// PyTorch's allocator gives blocks away again.
void count_blocks() {
  static c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator allocator;
  CUdeviceptr segment = 0;
  allocator.init(1);
  c10::cuda::CUDACachingAllocator::allocator = &allocator;
  require(cuMemAlloc(&segment, 1 << 20));
  allocator.use(segment, 4096);
  for (std::size_t round = 0; round < rounds; ++round)
    stop_around([] { allocator.free(allocator.allocate()); });
}

/// The watched program. It stops before and after each launch, or each block, that is counted.
int run_watched() {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUmodule module = nullptr;
  CUfunction step = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  unsigned count = 0;
  require(cuInit(0));
  require(cuDevicePrimaryCtxRetain(&context, 0));
  require(cuCtxSetCurrent(context));
  require(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  require(cuModuleLoadData(&module, kernel));
  require(cuModuleGetFunction(&step, module, "step"));
  if (std::getenv(counts_block) != nullptr) {
    count_blocks();
    return 0;
  }
  require(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  require(cuMemAlloc(&memory, 4096));
  void* arguments[] = {&memory, &memory, &memory, &count};
  const auto launch_one = [&] {
    return cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  };
  for (std::size_t round = 0; round < rounds; ++round) {
    // Records use up the probes of the time to come, so that none is recorded during the launch. In a thread
    // of their own: nobody reads here, and a thread's own records have room for 256 launches.
    std::thread([&] {
      require(cuCtxSetCurrent(context));
      for (int i = 0; i < 300; ++i) {
        require(launch_one());
        require(cuEventRecord(event, stream));
        require(cuStreamSynchronize(stream)); // without it, too many probes may be under way for one more
      }
    }).join();
    stop_around([&] { require(launch_one()); });
  }
  return 0;
}

struct Range {
  std::uintptr_t begin, end;
};

/// Where the process has mapped a file with this name.
std::vector<Range> ranges_of(pid_t process, const std::string& file) {
  std::vector<Range> ranges;
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (Range range{};
        line.ends_with(file) && std::sscanf(line.c_str(), "%lx-%lx", &range.begin, &range.end) == 2)
      ranges.push_back(range);
  return ranges;
}

/// The address of the next instruction.
std::uintptr_t place_of(pid_t process) {
  user_regs_struct registers{};
  ptrace(PTRACE_GETREGS, process, nullptr, &registers);
  return registers.rip;
}

/// Lets the process go on until it stops or ends. Returns its status.
int go_on(__ptrace_request how, pid_t process) {
  int status = 0;
  if (ptrace(how, process, nullptr, nullptr) != 0) kill(process, SIGKILL);
  waitpid(process, &status, 0);
  return status;
}

bool was_stopped_by(int status, int signal) { return WIFSTOPPED(status) && WSTOPSIG(status) == signal; }

struct Count {
  std::size_t instructions = 0, lines = 0;
};

/// Of the library, until the process stops.
Count step_through(pid_t process, const std::vector<Range>& library) {
  Count count;
  std::set<std::uintptr_t> lines;
  do {
    const std::uintptr_t place = place_of(process);
    const auto holds = [place](const Range& range) { return place >= range.begin && place < range.end; };
    if (std::any_of(library.begin(), library.end(), holds)) {
      ++count.instructions;
      lines.insert(place / 64);
    }
  } while (was_stopped_by(go_on(PTRACE_SINGLESTEP, process), SIGTRAP));
  count.lines = lines.size();
  return count;
}

using Variables = std::vector<std::pair<const char*, std::string>>;
using Command = std::vector<const char*>; // ends with null

/// The median of the rounds. Nothing if the system does not allow to step, and zeros if something fails.
std::optional<Count> count_once(const Command& command, const std::string& library,
                                const Variables& variables) {
  const pid_t process = fork();
  if (process == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(skipped);
    setenv("LD_AUDIT", library.c_str(), 1);
    for (const auto& [name, value] : variables)
      setenv(name, value.c_str(), 1);
    execvp(command[0], const_cast<char**>(command.data()));
    _exit(skipped);
  }
  int status = 0;
  waitpid(process, &status, 0); // it stops when it runs the program
  if (WIFEXITED(status) && WEXITSTATUS(status) == skipped) return std::nullopt;
  std::vector<Count> counts;
  for (status = go_on(PTRACE_CONT, process); was_stopped_by(status, SIGSTOP);
       status = go_on(PTRACE_CONT, process))
    counts.push_back(step_through(process, ranges_of(process, library)));
  if (WIFSTOPPED(status)) { // it crashes
    kill(process, SIGKILL);
    waitpid(process, &status, 0);
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || counts.size() != rounds) return Count{};
  std::sort(counts.begin(), counts.end(),
            [](const Count& a, const Count& b) { return a.instructions < b.instructions; });
  return counts[counts.size() / 2];
}

/// Of the processes. Zeros if one of them failed.
std::optional<Count> least_of_processes(const Command& command, const std::string& library,
                                        const Variables& variables, std::size_t processes) {
  std::optional<Count> least = count_once(command, library, variables);
  for (std::size_t process = 1; process < processes && least; ++process)
    if (const std::optional<Count> other = count_once(command, library, variables);
        !other || other->instructions < least->instructions)
      least = other;
  return least;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) return run_watched();
  const std::string library = std::filesystem::canonical(argv[1]);
  std::string folder = std::filesystem::temp_directory_path() / "watch-instructions-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 2;
  Dl_info driver{};
  if (dladdr(reinterpret_cast<void*>(&cuInit), &driver) == 0) return 2;
  const Command own{argv[0], nullptr};
  const struct {
    const char* name;
    Variables variables;
    Count bound;
    Command command = {};
  } modes[] = {
      {"default options", {{"CUEVENT_WATCH", folder}}, {150, 16}},
      {"quiet mode", {{"CUEVENT_WATCH", "quiet"}, {"CUEVENT_WATCH_COMMAND", "/bin/false"}}, {270, 28}},
      {"--order", {{"CUEVENT_WATCH", folder}, {"CUEVENT_WATCH_FEATURES", "8"}}, {750, 65}},
      {"--order, a block",
       {{"CUEVENT_WATCH", folder}, {"CUEVENT_WATCH_FEATURES", "8"}, {counts_block, "1"}},
       {540, 30}}, // its allocation and its free
      {"--order, 24 lines of Python",
       {{"CUEVENT_WATCH", folder}, {"CUEVENT_WATCH_FEATURES", "8"}},
       {24'000, 120},
       {argc > 2 ? argv[2] : "python3", "-c", python_program, driver.dli_fname, nullptr}},
  };
  int code = 0;
  for (const auto& mode : modes) {
    const std::optional<Count> count =
        least_of_processes(mode.command.empty() ? own : mode.command, library, mode.variables,
                           mode.command.empty() ? own_processes : 1);
    if (!count) {
      std::printf("the system does not allow to step through a program\n");
      code = skipped;
      break;
    }
    const bool unwatched = count->instructions < fewest_instructions;
    const bool over = count->instructions > mode.bound.instructions || count->lines > mode.bound.lines;
    std::printf("%-27s %5zu instructions, at most %zu; %2zu lines of code, at most %zu%s\n", mode.name,
                count->instructions, mode.bound.instructions, count->lines, mode.bound.lines,
                unwatched ? "  NOT WATCHED"
                : over    ? "  OVER"
                          : "");
    if (unwatched || over) code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
