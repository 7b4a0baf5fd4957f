// SPDX-License-Identifier: MIT
// Two processes that take turns on one GPU. Each waits on the device for the other's event. Neither waits
// on the host for the device: the pipes carry only the message "I have recorded".
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"

#include <cuevent/ipc.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

using cuevent::DriverEvent;
using cuevent::EventFlags;
using cuevent::IpcHandle;

namespace {

constexpr int rounds = 1000;

/// Takes 20 us, and then counts on from `expected` if it is its turn. If not, no turn follows.
constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64

.visible .entry take_turn(.param .u64 count, .param .u32 expected) {
  .reg .pred %again, %other;
  .reg .b32 %expected, %value;
  .reg .b64 %count, %start, %now;

  mov.u64 %start, %globaltimer;
spin:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %again, %now, 20000;
  @%again bra spin;

  ld.param.u32 %expected, [expected];
  ld.param.u64 %count, [count];
  cvta.to.global.u64 %count, %count;
  ld.volatile.global.u32 %value, [%count];
  setp.ne.u32 %other, %value, %expected;
  @%other ret;
  add.u32 %value, %value, 1;
  st.volatile.global.u32 [%count], %value;
  ret;
}
)";

/// The other process, at the other end of two pipes.
class Peer {
public:
  Peer(int from, int to) : from_(from), to_(to) {}

  template <class Value>
  void send(const Value& value) const {
    if (write(to_, &value, sizeof value) != ssize_t(sizeof value))
      throw std::runtime_error("the other process is gone");
  }
  template <class Value>
  Value receive() const {
    Value value;
    if (read(from_, &value, sizeof value) != ssize_t(sizeof value))
      throw std::runtime_error("the other process is gone");
    return value;
  }

private:
  int from_, to_; // a message fits into the pipe, so each read and write is complete
};

/// Takes the turns `first`, `first` + 2, ... on a stream of its own.
void take_turns(const gpu::Gpu& gpu, CUdeviceptr count, int first, const Peer& peer) {
  const gpu::Stream stream = gpu.stream();
  const gpu::Module module = gpu.module(ptx);
  CUfunction kernel = nullptr;
  gpu.module_get_function(&kernel, module, "take_turn");

  DriverEvent mine(gpu.context, EventFlags::interprocess);
  peer.send(mine.ipc_handle());
  const DriverEvent others = DriverEvent::from_ipc_handle(gpu.context, peer.receive<IpcHandle>());

  for (int turn = first; turn < 2 * rounds; turn += 2) {
    if (turn > 0) {
      peer.receive<char>(); // the other has recorded its event: only now can it be waited for
      others.wait(stream);
    }
    void* arguments[] = {&count, &turn};
    gpu.launch_kernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
    mine.record(stream);
    peer.send('r');
  }
  mine.synchronize();
  peer.send('e'); // both events exist until both processes are done
  while (peer.receive<char>() != 'e') {
  }
}

/// The second process, with this one as its peer.
pid_t start_second(const char* program, int from, int to) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, from, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
  char name[] = "ipc_ping", second[] = "second";
  char* arguments[] = {name, second, nullptr};
  pid_t child = -1;
  const int failed = posix_spawn(&child, program, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error(std::string("the second process: ") + std::strerror(failed));
  return child;
}

int first_process() {
  const gpu::Gpu gpu;
  if (gpu.simulated()) {
    std::fputs("a simulated device is not shared by two processes\n", stderr);
    return 77;
  }
  int to_child[2], from_child[2];
  if (pipe(to_child) != 0 || pipe(from_child) != 0) throw std::runtime_error("no pipes");
  const pid_t child = start_second("/proc/self/exe", to_child[0], from_child[1]);
  close(to_child[0]);
  close(from_child[1]);
  const Peer peer(from_child[0], to_child[1]);

  const gpu::DeviceMemory count = gpu.device_memory(1);
  const int zero = 0;
  const gpu::Call<PFN_cuMemcpyHtoD_v3020> set(gpu.driver, "cuMemcpyHtoD", 3020);
  set(count, &zero, sizeof zero);
  const gpu::Call<PFN_cuIpcGetMemHandle_v4010> export_memory(gpu.driver, "cuIpcGetMemHandle", 4010);
  CUipcMemHandle memory;
  export_memory(&memory, count);
  peer.send(memory);

  const auto start = std::chrono::steady_clock::now();
  take_turns(gpu, count, 0, peer);
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;

  int counted = 0;
  const gpu::Call<PFN_cuMemcpyDtoH_v3020> copy(gpu.driver, "cuMemcpyDtoH", 3020);
  copy(&counted, count, sizeof counted);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%d of %d turns were taken in order, in %.1f us each. The kernel takes 20 us of this.\n",
              counted, 2 * rounds, time.count() / (2 * rounds));
  return counted == 2 * rounds && status == 0 ? 0 : 1;
}

int second_process() {
  const gpu::Gpu gpu;
  const Peer peer(STDIN_FILENO, STDOUT_FILENO);
  const gpu::Call<PFN_cuIpcOpenMemHandle_v11000> open_memory(gpu.driver, "cuIpcOpenMemHandle", 11000);
  const gpu::Call<PFN_cuIpcCloseMemHandle_v4010> close_memory(gpu.driver, "cuIpcCloseMemHandle", 4010);
  CUdeviceptr count = 0;
  open_memory(&count, peer.receive<CUipcMemHandle>(), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  take_turns(gpu, count, 1, peer);
  close_memory(count);
  return 0;
}

} // namespace

int main(int argc, char**) {
  std::signal(SIGPIPE, SIG_IGN);
  return exit_code(argc > 1 ? second_process : first_process);
}
