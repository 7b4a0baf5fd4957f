// SPDX-License-Identifier: MIT
// Checkpoints of processes, as far as a driver refuses them. None is made.

#include "api.hpp"

#if CUDA_VERSION >= 12080
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

namespace cuevent::sim {

namespace {

bool exists(int pid) { return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM); }

/// Whether the process has loaded a driver. A device finds none in a process whose maps nobody may read.
bool uses_a_driver(int pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libcuda.so") != std::string::npos) return true;
  return false;
}

/// Refuses what a device refuses about a process, also before cuInit. What other processes with a driver do
/// is not known here.
void check_process(int pid, const Process& here) {
  refuse_if(!exists(pid), CUDA_ERROR_OPERATING_SYSTEM);
  const bool is_here = pid == getpid();
  refuse_if(is_here ? !here.initialized || here.forked : !uses_a_driver(pid), CUDA_ERROR_NOT_INITIALIZED);
  if (is_here) return;
  not_modelled("a checkpoint of another process");
}

/// Nothing may be in the reserved words.
template <class Words>
void check_reserved(const Words& words) {
  refuse_if(std::any_of(std::begin(words), std::end(words), [](auto word) { return word != 0; }),
            CUDA_ERROR_INVALID_VALUE);
}

} // namespace

CUresult Api::cuCheckpointProcessGetState(int pid, CUprocessState* state) {
  refuse_if(state == nullptr, CUDA_ERROR_INVALID_VALUE);
  check_process(pid, process_);
  *state = CU_PROCESS_STATE_RUNNING;
  return CUDA_SUCCESS;
}

/// A driver names a thread of its own. The simulator has none, and names the first one of the process.
CUresult Api::cuCheckpointProcessGetRestoreThreadId(int pid, int* thread) {
  refuse_if(thread == nullptr, CUDA_ERROR_INVALID_VALUE);
  check_process(pid, process_);
  *thread = getpid();
  return CUDA_SUCCESS;
}

CUresult Api::cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* arguments) {
  if (arguments != nullptr) {
    refuse_if(arguments->reserved0 != 0, CUDA_ERROR_INVALID_VALUE);
    check_reserved(arguments->reserved1);
  }
  check_process(pid, process_);
  not_modelled("a process that locks itself");
}

CUresult Api::cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs* arguments) {
  if (arguments != nullptr) check_reserved(arguments->reserved);
  check_process(pid, process_);
  refuse(CUDA_ERROR_ILLEGAL_STATE); // it is not locked
}

CUresult Api::cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs* arguments) {
  if (arguments != nullptr) check_reserved(arguments->reserved);
  check_process(pid, process_);
  refuse(CUDA_ERROR_ILLEGAL_STATE); // nobody has taken a checkpoint
}

CUresult Api::cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs* arguments) {
  if (arguments != nullptr) check_reserved(arguments->reserved);
  check_process(pid, process_);
  refuse(CUDA_ERROR_ILLEGAL_STATE);
}

} // namespace cuevent::sim
#endif
