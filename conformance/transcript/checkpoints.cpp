// SPDX-License-Identifier: MIT
// Checkpoints of processes: of none, of one without a driver, and of this one.

#include "everywhere.hpp"

#include <csignal>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace transcript {
namespace {

#if CUDA_VERSION >= 12080
// A process that has loaded no driver. It ends with this object.
class Sleeper {
public:
  Sleeper() {
    const char* const words[] = {"sleep", "60", nullptr};
    if (posix_spawnp(&pid_, "sleep", nullptr, nullptr, const_cast<char**>(words), nullptr) != 0) pid_ = 0;
  }
  ~Sleeper() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  pid_t pid() const { return pid_; }

private:
  pid_t pid_ = 0;
};

void queries(Lab& lab, const std::string& name, int pid) {
  const Api& cu = lab.cu;
  auto state = number<CUprocessState>(77);
  int thread = -7;
  const CUresult got = cu.CheckpointProcessGetState(pid, &state);
  lab.is(name + ".state", got);
  if (got == CUDA_SUCCESS) lab.shows(name + ".state.is", static_cast<int>(state));
  lab.is(name + ".state.nowhere", cu.CheckpointProcessGetState(pid, nullptr));
  lab.is(name + ".thread", cu.CheckpointProcessGetRestoreThreadId(pid, &thread));
  lab.is(name + ".thread.nowhere", cu.CheckpointProcessGetRestoreThreadId(pid, nullptr));
}

void refusals(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CheckpointProcessGetState == nullptr) return;
  const Sleeper sleeper;
  const std::pair<const char*, int> processes[] = {
      {"zero", 0}, {"minus_one", -1}, {"missing", 999999999}, {"without_driver", sleeper.pid()}};
  for (const auto& [process, pid] : processes) {
    const std::string name = process;
    queries(lab, name, pid);
    lab.is(name + ".unlock", cu.CheckpointProcessUnlock(pid, nullptr));
    lab.is(name + ".restore", cu.CheckpointProcessRestore(pid, nullptr));
    lab.is(name + ".checkpoint", cu.CheckpointProcessCheckpoint(pid, nullptr));
    CUcheckpointLockArgs soon{};
    soon.timeoutMs = 100;
    lab.is(name + ".lock", cu.CheckpointProcessLock(pid, &soon));
  }
  queries(lab, "self", getpid());
}

// A process that is not locked cannot be unlocked, or taken a checkpoint of. It cannot lock itself either.
void self(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.CheckpointProcessGetState == nullptr) return;
  int thread = 0;
  cu.CheckpointProcessGetRestoreThreadId(getpid(), &thread);
  lab.shows("thread.is_the_first", thread == getpid());
  lab.is("unlock", cu.CheckpointProcessUnlock(getpid(), nullptr));
  lab.is("restore", cu.CheckpointProcessRestore(getpid(), nullptr));
  lab.is("checkpoint", cu.CheckpointProcessCheckpoint(getpid(), nullptr));
  CUcheckpointLockArgs soon{};
  soon.timeoutMs = 100;
  lab.is("lock", cu.CheckpointProcessLock(getpid(), &soon));
}

// Before cuInit.
void early(Lab& lab) {
  if (lab.cu.CheckpointProcessGetState == nullptr) return;
  const Sleeper sleeper;
  for (const auto& [process, pid] :
       {std::pair("missing", 999999999), std::pair("without_driver", int(sleeper.pid())),
        std::pair("self", int(getpid()))}) {
    const std::string name = process;
    queries(lab, name, pid);
    lab.is(name + ".unlock", lab.cu.CheckpointProcessUnlock(pid, nullptr));
  }
}
#else
void refusals(Lab&) {}
void self(Lab&) {}
void early(Lab&) {}
#endif

} // namespace

std::vector<Scenario> checkpoints_scenarios() {
  return {{"checkpoints.refusals", refusals, Place::child},
          {"checkpoints.self", self, Place::alone},
          {"checkpoints.early", early, Place::bare}};
}

} // namespace transcript
