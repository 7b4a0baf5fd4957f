// SPDX-License-Identifier: MIT
// What the auditing library of `cuevent watch` adds to the launch of a kernel, in instructions and in lines
// of code of 64 bytes: between two launches, a program uses the caches for other things, so each line counts.
// Runs itself under the library, and steps through one launch at a time.
//
// Usage: watch_instructions LIBRARY
// Exits with 1 if a bound is exceeded, and with 77 if the system does not allow it to step.

#include <cuda.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

namespace {

constexpr std::size_t rounds = 5;
/// The library keeps the stacks of calls in sets. Which of them share one depends on their addresses, and
/// each that is compared in vain takes some instructions. So the cheapest of several processes counts.
constexpr std::size_t processes = 4;
constexpr std::size_t fewest_instructions = 100; // of a launch that is recorded
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

/// The watched program. It stops before and after each launch that is counted.
int launch() {
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
    require(launch_one()); // the next one is like the last one
    kill(getpid(), SIGSTOP);
    const CUresult launched = launch_one();
    kill(getpid(), SIGSTOP);
    require(launched);
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

/// The median of the rounds. Nothing if the system does not allow to step, and zeros if something fails.
std::optional<Count> count_launch(const char* program, const std::string& library,
                                  const Variables& variables) {
  const pid_t process = fork();
  if (process == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(skipped);
    setenv("LD_AUDIT", library.c_str(), 1);
    for (const auto& [name, value] : variables)
      setenv(name, value.c_str(), 1);
    execl(program, program, nullptr);
    _exit(2);
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
std::optional<Count> least_of_launches(const char* program, const std::string& library,
                                       const Variables& variables) {
  std::optional<Count> least = count_launch(program, library, variables);
  for (std::size_t process = 1; process < processes && least; ++process)
    if (const std::optional<Count> other = count_launch(program, library, variables);
        !other || other->instructions < least->instructions)
      least = other;
  return least;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) return launch();
  const std::string library = std::filesystem::canonical(argv[1]);
  std::string folder = std::filesystem::temp_directory_path() / "watch-instructions-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 2;
  const struct {
    const char* name;
    Variables variables;
    Count bound;
  } modes[] = {
      {"default options", {{"CUEVENT_WATCH", folder}}, {150, 16}},
      {"quiet mode", {{"CUEVENT_WATCH", "quiet"}, {"CUEVENT_WATCH_COMMAND", "/bin/false"}}, {270, 28}},
      {"--order", {{"CUEVENT_WATCH", folder}, {"CUEVENT_WATCH_FEATURES", "8"}}, {750, 65}},
  };
  int code = 0;
  for (const auto& mode : modes) {
    const std::optional<Count> count = least_of_launches(argv[0], library, mode.variables);
    if (!count) {
      std::printf("the system does not allow to step through a launch\n");
      code = skipped;
      break;
    }
    const bool unwatched = count->instructions < fewest_instructions;
    const bool over = count->instructions > mode.bound.instructions || count->lines > mode.bound.lines;
    std::printf("%-16s %3zu instructions, at most %zu; %2zu lines of code, at most %zu%s\n", mode.name,
                count->instructions, mode.bound.instructions, count->lines, mode.bound.lines,
                unwatched ? "  NOT WATCHED"
                : over    ? "  OVER"
                          : "");
    if (unwatched || over) code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
