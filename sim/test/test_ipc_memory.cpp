// SPDX-License-Identifier: MIT
#include "death.hpp"
#include "fixture.hpp"

#include "../src/os_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sim = cuevent::sim;

namespace {

constexpr unsigned lazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
constexpr std::size_t bytes = 10000;

/// Process 0 exports memory, and process 1 opens it.
struct SharedMemory : Fixture {
  explicit SharedMemory(const sim::Options& options = {}) : Fixture(options) {
    OK(other.init(0));
    OK(other.context_create(&their_context, 0, 0));
    OK(other.stream_create(&their_stream, CU_STREAM_NON_BLOCKING));
    OK(cu.allocate(&memory, bytes));
    OK(cu.fill_8(memory, 17, bytes));
    OK(cu.ipc_export_memory(&handle, memory));
  }
  CUdeviceptr open() const {
    CUdeviceptr opened = 0;
    OK(other.ipc_open_memory(&opened, handle, lazy));
    return opened;
  }
  static int at(const RawDriver& driver, CUdeviceptr address) {
    unsigned char value = 0;
    OK(driver.copy(reinterpret_cast<CUdeviceptr>(&value), address, 1));
    return value;
  }

  RawDriver other{sim::get_proc_address_of(1)};
  CUcontext their_context = nullptr;
  CUstream their_stream = nullptr;
  CUdeviceptr memory = 0;
  CUipcMemHandle handle{};
};

} // namespace

TEST_CASE("two processes see what the other one writes to exported memory") {
  SharedMemory f;
  const CUdeviceptr opened = f.open();
  CHECK(opened != f.memory);
  CHECK(f.at(f.other, opened + bytes - 1) == 17);
  OK(f.other.fill_8(opened, 33, 1));
  CHECK(f.at(f.cu, f.memory) == 33);
  OK(f.cu.fill_8(f.memory, 49, 1));
  CHECK(f.at(f.other, opened) == 49);
  OK(f.other.ipc_close_memory(opened));
  CHECK(f.at(f.cu, f.memory) == 49);
  OK(f.cu.free(f.memory));
}

TEST_CASE("opened memory outlives its free and the end of its process") {
  SharedMemory f;
  const CUdeviceptr opened = f.open();
  OK(f.cu.free(f.memory));
  CHECK(f.at(f.other, opened) == 17);
  CHECK(f.open() == opened);
  sim::end_process(0);
  CHECK(f.at(f.other, opened) == 17);
  OK(f.other.ipc_close_memory(opened));
  OK(f.other.ipc_close_memory(opened));
  CHECK(f.other.ipc_close_memory(opened) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr late = 0;
  CHECK(f.other.ipc_open_memory(&late, f.handle, lazy) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("memory that was freed cannot be opened") {
  SharedMemory f;
  OK(f.cu.free(f.memory));
  CUdeviceptr late = 7;
  CHECK(f.other.ipc_open_memory(&late, f.handle, lazy) == CUDA_ERROR_INVALID_VALUE);
  CHECK(late == 7);
}

TEST_CASE("memory that a stream frees cannot be opened any more") {
  SharedMemory f;
  OK(f.cu.free_on(f.memory, f.stream));
  CUdeviceptr late = 0;
  CHECK(f.other.ipc_open_memory(&late, f.handle, lazy) == CUDA_ERROR_INVALID_VALUE);
  OK(f.cu.stream_synchronize(f.stream));
}

TEST_CASE("opened memory is not freed, registered or unregistered") {
  const SharedMemory f;
  const CUdeviceptr opened = f.open();
  void* const pointer = reinterpret_cast<void*>(opened);
  CHECK(f.other.free(opened) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.other.host_register(pointer, 4096, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.other.host_unregister(pointer) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.at(f.other, opened) == 17);
}

TEST_CASE("a fill of memory that was closed before it runs ends with a fault") {
  SharedMemory f;
  CUcontext second = nullptr;
  CUstream stream = nullptr;
  const CUdeviceptr opened = f.open();
  OK(f.other.context_create(&second, 0, 0)); // the close does not wait for its work
  OK(f.other.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  sim::hold(stream);
  OK(f.other.fill_32(opened, 1, 1, stream));
  OK(f.other.ipc_close_memory(opened));
  sim::release(stream);
  CHECK(f.other.stream_synchronize(stream) == CUDA_ERROR_LAUNCH_FAILED);
}

TEST_CASE("a handle with any changed byte is refused") {
  const SharedMemory f;
  for (std::size_t i = 0; i < sizeof f.handle.reserved; ++i) {
    CUipcMemHandle changed = f.handle;
    changed.reserved[i] = static_cast<char>(changed.reserved[i] ^ 1);
    CUdeviceptr opened = 7;
    CHECK(f.other.ipc_open_memory(&opened, changed, lazy) == CUDA_ERROR_INVALID_VALUE);
    CHECK(opened == 7);
  }
}

TEST_CASE("what nobody has measured about memory of other processes is not modelled") {
  SharedMemory f({.devices = 2, .unmodelled = sim::Unmodelled::error});
  CUdeviceptr opened = 0;
  CHECK(f.other.ipc_open_memory(&opened, f.handle, lazy | 4) == CUDA_ERROR_NOT_SUPPORTED);
  CUcontext context = nullptr;
  OK(f.other.context_create(&context, 0, 1));
  CHECK(f.other.ipc_open_memory(&opened, f.handle, lazy) == CUDA_ERROR_NOT_SUPPORTED);
  OK(f.other.context_destroy(context));
  OK(f.cu.context_create(&context, 0, 0));
  OK(f.cu.ipc_export_memory(&f.handle, f.memory));
  CHECK(f.other.ipc_open_memory(&opened, f.handle, lazy) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK_FALSE(sim::take_unmodelled().empty());
}

TEST_CASE("a thousand exports take no more descriptors than one") {
  SharedMemory f;
  const int before = dup(0);
  close(before);
  for (int i = 0; i < 1000; ++i) {
    CUdeviceptr memory = 0;
    OK(f.cu.allocate(&memory, 1));
    OK(f.cu.ipc_export_memory(&f.handle, memory));
    OK(f.other.ipc_close_memory(f.open()));
    OK(f.cu.free(memory));
  }
  const int after = dup(0);
  close(after);
  CHECK(after == before);
}

// Files of other processes

namespace {

sim::OfferedFile offer(int file, std::size_t size) {
  return {sim::this_os_process(), file, sim::inode_of(file), size};
}

int error_of_open(const sim::OfferedFile& offered) {
  errno = 0;
  const int file = sim::open_offered_file("memory", offered);
  if (file < 0) return errno;
  close(file);
  return 0;
}

} // namespace

TEST_CASE("only the file that was offered is opened") {
  const int file = sim::make_offered_file("memory", 4096), other_kind = sim::make_offered_file("event", 4096);
  const sim::OfferedFile good = offer(file, 4096);
  CHECK(error_of_open(good) == 0);
  sim::OfferedFile wrong = good;
  wrong.inode += 1;
  CHECK(error_of_open(wrong) == ENOENT);
  wrong = good;
  wrong.bytes = 8192;
  CHECK(error_of_open(wrong) == ENOENT);
  CHECK(error_of_open(offer(other_kind, 4096)) == ENOENT);
  CHECK(ftruncate(file, 0) != 0); // nobody can make a mapping of it end
  close(other_kind);
  close(file);
  CHECK(error_of_open(good) != 0);
}

TEST_CASE("a file whose size can change is not opened") {
  const int file = memfd_create("cuevent-sim-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(file, 4096) == 0);
  CHECK(error_of_open(offer(file, 4096)) == ENOENT);
  close(file);
}

TEST_CASE("a pipe is not waited for") {
  std::array<int, 2> pipe_ends{};
  REQUIRE(pipe(pipe_ends.data()) == 0);
  CHECK(error_of_open(offer(pipe_ends[0], 0)) == ENOENT);
  for (const int end : pipe_ends)
    close(end);
}

TEST_CASE("a process lives until it has ended, whether or not somebody has waited for it") {
  CHECK(sim::lives(sim::this_os_process()));
  sim::OsProcess younger = sim::this_os_process();
  younger.start += 1;
  CHECK_FALSE(sim::lives(younger));
  std::array<int, 2> up{};
  REQUIRE(pipe(up.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const sim::OsProcess self = sim::this_os_process();
    const bool told = write(up[1], &self, sizeof self) == sizeof self;
    pause();
    _exit(told ? 0 : 1);
  }
  close(up[1]); // a child that has ended is not waited for
  sim::OsProcess self;
  REQUIRE(read(up[0], &self, sizeof self) == sizeof self);
  CHECK(self.id == child);
  CHECK(sim::lives(self));
  REQUIRE(kill(child, SIGKILL) == 0);
  siginfo_t ended{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(sim::lives(self));
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK_FALSE(sim::lives(self));
  close(up[0]);
}
