// SPDX-License-Identifier: MIT
// The other process of the tests: joins the semaphore that it inherits, and plays the role of its argument.
#include "participant.h"
#include "send_descriptor.hpp"

#include <gpu.hpp>
#include <shared_memory.hpp>

#include <cuevent/timeline_semaphore.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// The test may go on. Another participant may have signalled already.
void ready(TimelineSemaphore& semaphore) { static_cast<void>(semaphore.try_signal(1)); }

[[noreturn]] void sleep_until_killed() {
  std::this_thread::sleep_for(30s);
  std::_Exit(5);
}

/// On the device: waits for 2n + 1, copies the end of the data, signals 2n + 2.
void consume(const gpu::Gpu& gpu, TimelineSemaphore& semaphore, CUdeviceptr data) {
  const gpu::Stream stream = gpu.stream();
  const gpu::PinnedMemory copies = gpu.pinned_memory(rounds);
  for (int i = 0; i < rounds; ++i) {
    const auto value = static_cast<std::uint64_t>(2 * i);
    semaphore.wait(stream, value + 1, WaitOrder::before_signal);
    gpu.copy_to_host(copies + i, data + data_bytes - sizeof(int), sizeof(int), stream);
    semaphore.signal(stream, value + 2);
  }
  require(semaphore.wait_for(2 * rounds, 20s), "the last signal");
  for (int i = 0; i < rounds; ++i)
    require(copies[i] == 0x01010101 * (i + 1), "the data that was written before the signal");
}

void consume_host_memory(const gpu::Gpu& gpu, TimelineSemaphore& semaphore) {
  const gpu::SharedMemory data(gpu, data_descriptor, data_bytes);
  consume(gpu, semaphore, data.address());
}

/// The data is memory of the first process's device. The shared memory has the handle.
void consume_device_memory(const gpu::Gpu& gpu, TimelineSemaphore& semaphore) {
  const gpu::SharedMemory shared(gpu, data_descriptor, data_bytes);
  const gpu::Call<PFN_cuIpcOpenMemHandle_v11000> open(gpu.driver, "cuIpcOpenMemHandle", 11000);
  const gpu::Call<PFN_cuIpcCloseMemHandle_v4010> close(gpu.driver, "cuIpcCloseMemHandle", 4010);
  CUipcMemHandle handle;
  std::memcpy(&handle, shared.memory(), sizeof handle);
  CUdeviceptr data = 0;
  open(&data, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  consume(gpu, semaphore, data);
  close(data);
}

/// Two processes wait for each other. The first one finds out and abandons the semaphore.
void deadlock(const gpu::Gpu& gpu, TimelineSemaphore& semaphore) {
  const gpu::Stream stream = gpu.stream();
  ready(semaphore);
  semaphore.wait(stream, 3, WaitOrder::before_signal); // the other process has signalled 2 at most
  semaphore.signal(stream, 4);
  gpu::Call<PFN_cuStreamSynchronize_v2000>(gpu.driver, "cuStreamSynchronize", 2000)(stream);
  require(semaphore.status() == TimelineStatus::abandoned, "the stream was released");
}

/// All streams share one connection, so the stream that waits may hold up the one that signals. Nobody
/// waits forever, because the semaphore is abandoned. Answers with 2 if the signal came, and else with 3.
void share_a_connection(const gpu::Gpu& gpu, TimelineSemaphore& answers) {
  const gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize(gpu.driver, "cuStreamSynchronize", 2000);
  TimelineSemaphore semaphore(gpu.context), safe(gpu.context);
  const gpu::Stream waiting = gpu.stream(), signalling = gpu.stream();
  // The host signals, or the wait is deferred: neither can hang.
  safe.wait(waiting, 1, WaitOrder::before_signal);
  safe.signal(1);
  CUresult deferred = CUDA_ERROR_UNKNOWN;
  std::thread consumer([&] { deferred = safe.try_wait_when_submitted(waiting, 2, 20s); });
  safe.signal(signalling, 2);
  consumer.join();
  require(deferred == CUDA_SUCCESS && safe.wait_for(2, 20s), "the safe ways do not hang");
  synchronize(waiting);

  semaphore.wait(waiting, 1, WaitOrder::before_signal);
  semaphore.signal(signalling, 1);
  const bool signalled = semaphore.wait_for(1, 500ms);
  semaphore.abandon();
  synchronize(waiting);
  synchronize(signalling);
  answers.signal(signalled ? 2 : 3);
}

/// Signals on the device without end, and waits for nobody.
void signal_on(const gpu::Gpu& gpu, TimelineSemaphore& semaphore) {
  const gpu::Stream stream = gpu.stream();
  for (std::uint64_t value = 2;; ++value) {
    semaphore.signal(stream, value);
    static_cast<void>(semaphore.wait_for(value, 1s));
  }
}

/// A child of a fork lives on.
void fork_and_sleep(TimelineSemaphore& semaphore) {
  const pid_t child = fork();
  if (child == 0) {
    require(semaphore.value() <= 1, "the child can still read the value");
    require(semaphore.status() == TimelineStatus::active, "the child knows of no death");
    close(STDOUT_FILENO); // the test waits for the end of the parent's output
    close(STDERR_FILENO);
    std::this_thread::sleep_for(5s);
    std::_Exit(0);
  }
  ready(semaphore);
  sleep_until_killed();
}

/// Its thread is blocked in the driver when the other process dies.
void synchronize(const gpu::Gpu& gpu, TimelineSemaphore& semaphore) {
  const gpu::Stream stream = gpu.stream();
  semaphore.abandon_on_death();
  semaphore.wait(stream, 1000, WaitOrder::before_signal);
  ready(semaphore);
  const gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize(gpu.driver, "cuStreamSynchronize", 2000);
  synchronize(stream);
  require(semaphore.status() == TimelineStatus::abandoned, "the stream was released by the death");
}

/// Makes the semaphore, and sends it over the socket that it inherited.
void export_and_signal(const gpu::Gpu& gpu) {
  TimelineSemaphore semaphore(gpu.context);
  const int handle = semaphore.export_handle();
  require(send_descriptor(handle_descriptor, handle), "the test receives the handle");
  close(handle);
  signal_on(gpu, semaphore);
}

constexpr int not_possible = 77; // an exit code

/// Goes on as process 1 of another PID namespace with its own /proc, as in a container.
void enter_a_pid_namespace() {
  constexpr int spaces = CLONE_NEWPID | CLONE_NEWNS;
  if (unshare(spaces) != 0 && unshare(CLONE_NEWUSER | spaces) != 0) std::_Exit(not_possible);
  const pid_t child = fork();
  require(child >= 0, "the process forks");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // the test kills the parent
    if (mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("proc", "/proc", "proc", 0, nullptr) != 0)
      std::_Exit(not_possible);
    return;
  }
  close(handle_descriptor);
  int status = 0;
  waitpid(child, &status, 0);
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void play(const std::string& role, int device) {
  const auto is = [&role](const char* name) { return role == name; };
  if (is("share-a-connection")) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  if (is("sleep-in-a-namespace")) enter_a_pid_namespace();
  const gpu::Gpu gpu(Driver::instance(), device);
  if (is("export")) return export_and_signal(gpu);
  TimelineSemaphore semaphore = TimelineSemaphore::import(gpu.context, handle_descriptor);
  if (is("consume")) return consume_host_memory(gpu, semaphore);
  if (is("consume-device-memory")) return consume_device_memory(gpu, semaphore);
  if (is("deadlock")) return deadlock(gpu, semaphore);
  if (is("share-a-connection")) return share_a_connection(gpu, semaphore);
  if (is("signal-on")) return signal_on(gpu, semaphore);
  if (is("fork")) return fork_and_sleep(semaphore);
  if (is("synchronize")) return synchronize(gpu, semaphore);
  ready(semaphore);
  if (is("leave")) return;
  if (is("exit-without-leaving")) std::_Exit(0);
  if (is("exec")) {
    execl("/bin/sleep", "sleep", "30", nullptr);
    throw std::runtime_error("no exec");
  }
  require(is("sleep") || is("sleep-in-a-namespace"), "unknown role");
  sleep_until_killed();
}

} // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const std::string role = argv[1]; // "consume", or "consume/1" on device 1
  const std::size_t end = role.find('/');
  play(role.substr(0, end), end == std::string::npos ? 0 : std::stoi(role.substr(end + 1)));
  return 0;
} catch (const OperatingSystem& error) { // a driver that cannot start in a namespace
  std::fprintf(stderr, "%s\n", error.what());
  return not_possible;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
