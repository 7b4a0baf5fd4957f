// SPDX-License-Identifier: MIT
// What the host reads or writes before a copy to it is done, and what looks like it and is right.
#include "order_programs.hpp"

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr const char* with_host = "--order=host";
constexpr std::size_t pages = 16 * block;
constexpr char copied = 7;

void check(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(3);
}

/// A copy to the host behind three kernels of a tenth of a second: time for the auditor to ask about it, also
/// on a busy machine. At the end, the copy must have been right, whatever the host did meanwhile.
struct LateDownload {
  const Gpu& gpu;
  CUdeviceptr told = on_device(), memory = on_device(pages);
  char* target = pinned(pages);
  CUfunction spin = kernel("_Z4spinPjy");

  explicit LateDownload(const Gpu& used) : gpu(used) {
    zero(told, gpu.a);
    expect(cuMemsetD8Async(memory, copied, pages, gpu.a));
    finish(gpu.a);
    std::memset(target, 1, pages);
  }
  LateDownload(const LateDownload&) = delete;
  LateDownload& operator=(const LateDownload&) = delete;
  ~LateDownload() {
    finish(gpu.a);
    check(target == nullptr || std::count(target, target + pages, copied) == pages, "the copy is wrong");
  }
  void keep_busy() const {
    CUdeviceptr until = told;
    unsigned long long bound = 100'000'000;
    void* arguments[] = {&until, &bound};
    for (int i = 0; i < 3; ++i)
      expect(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, gpu.a, arguments, nullptr));
  }
  void copy() const { expect(cuMemcpyDtoHAsync(target, memory, pages, gpu.a)); }
  /// What the host sees, which cannot be predicted in a mistake.
  char read() const { return const_cast<volatile char*>(target)[pages / 2]; }
};

void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

MISTAKE("used-before-copied", read_before_copied, "the host reads the target, and then waits for the copy",
        with_host) {
  const LateDownload late(gpu);
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  if (corrected) finish(gpu.a);
  const char seen = const_cast<volatile char*>(late.target)[pages / 2]; //!
  check(!corrected || seen == copied, "the corrected program reads old bytes");
}

MISTAKE("used-before-copied", written_before_copied, "the host writes to the target before the copy is done",
        with_host) {
  const LateDownload late(gpu);
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  if (corrected) finish(gpu.a);
  const_cast<volatile char*>(late.target)[pages / 2] = corrected ? copied : 2; //!
}

MISTAKE("used-before-copied", event_before_the_copy,
        "the event that the host waits for comes before the copy", with_host) {
  const LateDownload late(gpu);
  const CUevent event = gpu.event();
  late.keep_busy();
  if (!corrected) {
    zero(late.told, gpu.b);
    record(event, gpu.b);
  }
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  if (corrected) record(event, gpu.a);
  expect(cuEventSynchronize(event));
  const char seen = const_cast<volatile char*>(late.target)[pages / 2]; //!
  check(!corrected || seen == copied, "the corrected program reads old bytes");
}

MISTAKE("used-before-copied", asked_once, "the host asks whether the copy is done, and goes on in any case",
        with_host) {
  const LateDownload late(gpu);
  const CUevent event = gpu.event();
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  record(event, gpu.a);
  while (cuEventQuery(event) != CUDA_SUCCESS && corrected)
    usleep(1000);
  const char seen = const_cast<volatile char*>(late.target)[pages / 2]; //!
  check(!corrected || seen == copied, "the corrected program reads old bytes");
}

MISTAKE("used-before-copied", written_to_a_file, "the kernel reads the target in a system call", with_host) {
  const LateDownload late(gpu);
  int ends[2];
  check(pipe(ends) == 0, "there is no pipe");
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  if (corrected) finish(gpu.a);
  const ssize_t written = write(ends[1], late.target + block, block); //!
  check(written == static_cast<ssize_t>(block), "the system call has failed");
  close(ends[0]);
  close(ends[1]);
}

MISTAKE("used-before-copied", read_with_signals_blocked,
        "the thread that reads the target blocks all signals", with_host) {
  const LateDownload late(gpu);
  std::atomic<bool> is_submitted{false};
  std::thread reader([&] {
    block_all_signals();
    while (!is_submitted)
      usleep(100);
    if (corrected) expect(cuCtxSetCurrent(gpu.context)), finish(gpu.a);
    static_cast<void>(late.read());
  });
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  is_submitted = true;
  reader.join();
}

MISTAKE("used-before-copied", registered_target,
        "the target is memory of the program, and has other data next to it", with_host) {
  LateDownload late(gpu);
  expect(cuMemFreeHost(late.target));
  const std::unique_ptr<char[]> bytes(new char[pages + 2 * block]());
  late.target = bytes.get() + 1;
  expect(cuMemHostRegister(late.target, pages, CU_MEMHOSTREGISTER_PORTABLE));
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  bytes[0] = 1;                                                      // on a page with bytes of the target
  bytes[pages + 1] = 1;                                              // the same
  if (corrected) finish(gpu.a);
  static_cast<void>(const_cast<volatile char*>(late.target)[pages / 2]); //!
  finish(gpu.a);
  check(std::count(late.target, late.target + pages, copied) == pages, "the copy is wrong");
  expect(cuMemHostUnregister(late.target));
  late.target = nullptr;
}

MISTAKE("used-before-copied", read_between_two_copies,
        "two copies write the target, and the host waits for the first", with_host) {
  const LateDownload late(gpu);
  const CUevent event = gpu.event();
  late.copy();
  record(event, gpu.a);
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  if (corrected) record(event, gpu.a);
  expect(cuEventSynchronize(event));
  static_cast<void>(const_cast<volatile char*>(late.target)[pages / 2]); //!
}

MISTAKE("source-changed", source_written_here, "the host writes to the source: the finding shows where",
        with_host) {
  const LateDownload late(gpu);
  char* const source = pinned(pages);
  std::memset(source, copied, pages);
  late.keep_busy();
  expect(cuMemcpyHtoDAsync(late.memory, source, pages, gpu.a)); //!
  if (corrected) finish(gpu.a);
  const_cast<volatile char*>(source)[pages / 2 + 3] = copied; // the looks at the bytes cannot see this write
  late.copy();
}

// ---- The program's own signals ----

sigjmp_buf back;
volatile std::sig_atomic_t handled = 0;

void on_fault(int, siginfo_t* info, void*) {
  handled = info->si_addr == nullptr && info->si_code == SEGV_MAPERR ? 1 : 2;
  siglongjmp(back, 1);
}

void fault() {
  if (sigsetjmp(back, 1) == 0) *static_cast<volatile char*>(nullptr) = 1;
}

MISTAKE("used-before-copied", own_handler, "the program has a handler of SIGSEGV, which gets what is its own",
        with_host) {
  struct sigaction action {
  }, asked{};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO;
  check(sigaction(SIGSEGV, &action, nullptr) == 0, "there is no handler");
  {
    const LateDownload late(gpu);
    late.keep_busy();
    expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
    if (corrected) finish(gpu.a);
    static_cast<void>(const_cast<volatile char*>(late.target)[pages / 2]); //!
  }
  check(handled == 0, "the handler has got what is not its own");
  check(sigaction(SIGSEGV, nullptr, &asked) == 0 && asked.sa_sigaction == &on_fault,
        "the handler is another one");
  fault();
  check(handled == 1, "the handler has not got its own");
  handled = 0;
  fault();
  check(handled == 1, "the handler has not got its own again");
}

MISTAKE("used-before-copied", later_handler, "the program sets a handler while a copy is pending",
        with_host) {
  const LateDownload late(gpu);
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, gpu.a)); //!
  check(std::signal(SIGSEGV, [](int) { _exit(4); }) == SIG_DFL, "there was a handler");
  if (corrected) finish(gpu.a);
  static_cast<void>(const_cast<volatile char*>(late.target)[pages / 2]); //!
  check(std::signal(SIGSEGV, SIG_DFL) != SIG_DFL, "the handler is gone");
}

// ---- What is right ----

HARMLESS(read_by_a_host_function, "a host function behind the copy reads the target", with_host) {
  const LateDownload late(gpu);
  late.keep_busy();
  late.copy();
  expect(cuLaunchHostFunc(
      gpu.a, [](void* target) { check(static_cast<volatile char*>(target)[block] == copied, "old bytes"); },
      late.target));
}

HARMLESS(read_after_a_flag, "the stream tells the host by a store that the copy is done", with_host) {
  const LateDownload late(gpu);
  auto* const flag = reinterpret_cast<unsigned*>(pinned());
  *flag = 0;
  late.keep_busy();
  late.copy();
  expect(cuStreamWriteValue32(gpu.a, reinterpret_cast<std::uintptr_t>(flag), 1, 0));
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0)
    usleep(100);
  check(late.read() == copied, "old bytes");
}

HARMLESS(read_by_a_child, "a forked child has the target, and reads it", with_host) {
  const LateDownload late(gpu);
  late.keep_busy();
  late.copy();
  const pid_t child = fork();
  if (child == 0) {
    const char seen = late.read();
    _exit(seen == 1 || seen == copied ? 0 : 3);
  }
  int status = 1;
  check(waitpid(child, &status, 0) == child && status == 0, "the child has failed");
}

HARMLESS(freed_target, "the target is freed, which waits for the copy", with_host) {
  LateDownload late(gpu);
  late.keep_busy();
  late.copy();
  expect(cuMemFreeHost(late.target));
  late.target = nullptr;
  std::memset(pinned(pages), 7, pages);
}

HARMLESS(protected_by_the_program, "the program has protected its memory, and keeps it so", with_host) {
  LateDownload late(gpu);
  expect(cuMemFreeHost(late.target));
  late.target =
      static_cast<char*>(mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(late.target, 1, pages);
  expect(cuMemHostRegister(late.target, pages, CU_MEMHOSTREGISTER_PORTABLE));
  late.keep_busy();
  late.copy();
  check(mprotect(late.target, pages, PROT_READ | PROT_WRITE) == 0, "the protection cannot be changed");
  check(late.read() != 0, "the protection of the program is not as it wants");
  finish(gpu.a);
  expect(cuMemHostUnregister(late.target));
}

HARMLESS(small_target, "a part of a page is never guarded", with_host) {
  const LateDownload late(gpu);
  late.keep_busy();
  expect(cuMemcpyDtoHAsync(late.target + 1, late.memory + 1, block - 2, gpu.a));
  static_cast<void>(late.target[2]);
  late.copy();
}

HARMLESS(many_copies, "many streams copy, and other threads wait for them and read", with_host) {
  const LateDownload late(gpu);
  std::vector<CUstream> streams(4);
  std::vector<std::thread> threads;
  for (CUstream& own : streams) { // the auditor makes its events while no other thread submits
    own = gpu.stream();
    expect(cuMemcpyDtoHAsync(late.target, late.memory, pages, own));
    finish(own);
  }
  for (const CUstream own : streams)
    threads.emplace_back([&gpu, &late, own, target = pinned(pages)] {
      expect(cuCtxSetCurrent(gpu.context));
      const CUevent event = gpu.event();
      for (int turn = 0; turn < 50; ++turn) {
        std::memset(target, 1, pages);
        expect(cuMemcpyDtoHAsync(target, late.memory, pages, own));
        record(event, own);
        expect(cuEventSynchronize(event));
        check(std::count(target, target + pages, copied) == pages, "old bytes");
      }
    });
  for (std::thread& each : threads)
    each.join();
  late.copy();
}

HARMLESS(pending_at_the_exit, "the process ends while the copy is pending", with_host) {
  LateDownload late(gpu);
  late.keep_busy();
  late.copy();
  std::exit(0);
}

} // namespace
