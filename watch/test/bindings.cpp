// SPDX-License-Identifier: MIT
// Ways in which programs reach the driver. Each makes the same mistake, a wait for an event that was never
// recorded, with the driver's functions from where its name says: `watch_bindings WAY LIBCUDA`.

#include <cuda.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <functional>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(3);
}

using Find = std::function<void*(const char*)>;

template <class Function>
Function get(const Find& find, const char* name) {
  const auto function = reinterpret_cast<Function>(find(name));
  require(function != nullptr, name);
  return function;
}

/// The functions of one copy of the driver.
struct Driver {
  explicit Driver(const Find& find)
      : init(get<CUresult (*)(unsigned)>(find, "cuInit")),
        retain(get<CUresult (*)(CUcontext*, CUdevice)>(find, "cuDevicePrimaryCtxRetain")),
        set_current(get<CUresult (*)(CUcontext)>(find, "cuCtxSetCurrent")),
        create_stream(get<CUresult (*)(CUstream*, unsigned)>(find, "cuStreamCreate")),
        create(get<CUresult (*)(CUevent*, unsigned)>(find, "cuEventCreate")),
        record(get<CUresult (*)(CUevent, CUstream)>(find, "cuEventRecord")),
        wait(get<CUresult (*)(CUstream, CUevent, unsigned)>(find, "cuStreamWaitEvent")),
        query(get<CUresult (*)(CUevent)>(find, "cuEventQuery")),
        destroy(get<CUresult (*)(CUevent)>(find, "cuEventDestroy_v2")) {}

  void start() {
    CUcontext context = nullptr;
    require(init(0) == CUDA_SUCCESS, "cuInit");
    require(retain(&context, 0) == CUDA_SUCCESS, "cuDevicePrimaryCtxRetain");
    require(set_current(context) == CUDA_SUCCESS, "cuCtxSetCurrent");
    require(create_stream(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "cuStreamCreate");
  }
  CUevent event() {
    CUevent made = nullptr;
    require(create(&made, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS, "cuEventCreate");
    return made;
  }
  void make_mistake() { require(wait(stream, event(), 0) == CUDA_SUCCESS, "cuStreamWaitEvent"); }

  CUresult (*init)(unsigned);
  CUresult (*retain)(CUcontext*, CUdevice);
  CUresult (*set_current)(CUcontext);
  CUresult (*create_stream)(CUstream*, unsigned);
  CUresult (*create)(CUevent*, unsigned);
  CUresult (*record)(CUevent, CUstream);
  CUresult (*wait)(CUstream, CUevent, unsigned);
  CUresult (*query)(CUevent);
  CUresult (*destroy)(CUevent);
  CUstream stream = nullptr;
};

void* library(const char* path, int flags = RTLD_NOW) {
  void* const opened = dlopen(path, flags);
  if (opened == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  require(opened != nullptr, "dlopen");
  return opened;
}

Find by_dlsym(void* library) {
  return [library](const char* name) { return dlsym(library, name); };
}

/// The two versions of cuGetProcAddress, reached through each other as the CUDA runtime does.
Find by_lookup(void* library, bool second_version) {
  using First = CUresult (*)(const char*, void**, int, cuuint64_t);
  using Second = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  if (!second_version) {
    const auto exported = reinterpret_cast<First>(dlsym(library, "cuGetProcAddress"));
    void* found = nullptr;
    require(exported("cuGetProcAddress", &found, 11030, 0) == CUDA_SUCCESS, "cuGetProcAddress");
    const auto function = reinterpret_cast<First>(found);
    return [function](const char* name) {
      void* pointer = nullptr;
      // The name is without the version here.
      const std::string plain = std::string(name).substr(0, std::strcspn(name, "_"));
      return function(plain.c_str(), &pointer, 12000, 0) == CUDA_SUCCESS ? pointer : nullptr;
    };
  }
  const auto exported = reinterpret_cast<Second>(dlsym(library, "cuGetProcAddress_v2"));
  void* found = nullptr;
  require(exported("cuGetProcAddress", &found, 12000, 0, nullptr) == CUDA_SUCCESS, "cuGetProcAddress");
  const auto function = reinterpret_cast<Second>(found);
  return [function](const char* name) {
    void* pointer = nullptr;
    const std::string plain = std::string(name).substr(0, std::strcspn(name, "_"));
    const cuuint64_t flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return function(plain.c_str(), &pointer, 13000, flags, nullptr) == CUDA_SUCCESS ? pointer : nullptr;
  };
}

void mistake_by(const Find& find) {
  Driver driver(find);
  driver.start();
  driver.make_mistake();
}

/// A filter of calls of the kernel, as sandboxes have them: those that only the auditor needs are forbidden.
void forbid_calls(unsigned action) {
  std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long call :
       {SYS_flock, SYS_fallocate, SYS_renameat, SYS_prlimit64, SYS_memfd_create, SYS_getcwd, SYS_unlinkat}) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, action));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) std::exit(77);
}

/// Functions that are not watched are the driver's own, however they are looked up.
void untouched(void* cuda) {
  const Find lookup = by_lookup(cuda, true);
  require(lookup("cuMemGetInfo") == dlsym(cuda, "cuMemGetInfo_v2"), "cuMemGetInfo is the driver's own");
  require(lookup("cuEventQuery") == dlsym(cuda, "cuEventQuery"), "both ways lead to one function");
  require(lookup("cuNoSuchFunction") == nullptr, "an unknown name is not found");
}

/// A child that was forked from a process with threads reports its own calls.
void forked(void* cuda) {
  Driver driver(by_dlsym(cuda));
  driver.query(nullptr); // a first call of the simulated driver during the fork would leave it half started
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      while (!stop)
        driver.query(nullptr); // so that locks of the auditor are taken at the moment of the fork
    });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      driver.start();
      driver.make_mistake();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(status == 0, "a forked child");
  }
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
}

/// Leaves a child behind that calls the driver all the time.
int with_busy_child(void* cuda) {
  Driver driver(by_dlsym(cuda));
  driver.start();
  if (fork() == 0) {
    for (int descriptor = 0; descriptor < 3; ++descriptor)
      close(descriptor); // so that nobody waits for the end of its output
    for (const time_t end = time(nullptr) + 5; time(nullptr) < end;)
      driver.query(nullptr);
    _exit(0);
  }
  usleep(100'000);
  return 7;
}

void threads(void* cuda) {
  Driver driver(by_dlsym(cuda));
  driver.start();
  CUcontext context = nullptr;
  require(driver.retain(&context, 0) == CUDA_SUCCESS, "cuDevicePrimaryCtxRetain");
  std::vector<std::thread> threads;
  for (int i = 0; i < 300; ++i)
    threads.emplace_back([&] {
      require(driver.set_current(context) == CUDA_SUCCESS, "cuCtxSetCurrent");
      for (int round = 0; round < 20; ++round) {
        const CUevent event = driver.event();
        require(driver.record(event, driver.stream) == CUDA_SUCCESS, "cuEventRecord");
        require(driver.wait(driver.stream, event, 0) == CUDA_SUCCESS, "cuStreamWaitEvent");
        require(driver.destroy(event) == CUDA_SUCCESS, "cuEventDestroy");
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  driver.make_mistake();
}

/// 5,000 threads live at the same time, and each makes one call. Prints how long that takes, in seconds.
int with_many_threads(void* cuda) {
  Driver driver(by_dlsym(cuda));
  driver.start();
  const CUevent event = driver.event();
  std::atomic<bool> stop = false;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  int code = 0;
  try {
    for (int i = 0; i < 5'000; ++i) {
      threads.emplace_back([&] {
        driver.query(event);
        ++done;
        stop.wait(false);
      });
    }
  } catch (const std::system_error&) {
    code = 77; // this machine allows fewer
  }
  while (static_cast<std::size_t>(done) < threads.size())
    usleep(100);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  stop = true;
  stop.notify_all();
  for (std::thread& thread : threads)
    thread.join();
  std::printf("%f\n", took.count());
  return code;
}

/// The main thread ends, and another one goes on for longer than the command looks away.
void without_main_thread(void* cuda) {
  std::thread([cuda] {
    usleep(400'000);
    mistake_by(by_dlsym(cuda));
    std::exit(0);
  }).detach();
  pthread_exit(nullptr);
}

/// A static object that uses the driver at exit.
struct AtExit {
  Driver& driver;
  ~AtExit() { driver.make_mistake(); }
};

} // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 2 ? argv[1] : "";
  const char* const path = argc > 2 ? argv[2] : "libcuda.so.1";
  if (way == "dlsym")
    mistake_by(by_dlsym(library(path)));
  else if (way == "deepbind")
    mistake_by(by_dlsym(library(path, RTLD_NOW | RTLD_DEEPBIND)));
  else if (way == "lookup")
    mistake_by(by_lookup(library(path), false));
  else if (way == "lookup-v2")
    mistake_by(by_lookup(library(path), true));
  else if (way == "dlmopen") { // next to the copy in the program's own namespace, whose calls are right
    Driver right(by_dlsym(library(path)));
    right.start();
    require(right.query(right.event()) == CUDA_SUCCESS, "cuEventQuery");
    void* const other = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    require(other != nullptr, "dlmopen");
    mistake_by(by_dlsym(other));
  } else if (way == "dlclose") {
    for (int i = 0; i < 6; ++i) { // more often than copies of libcuda can be watched
      void* const opened = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
      require(opened != nullptr, "dlmopen");
      require(dlsym(opened, "cuEventQuery") != nullptr, "dlsym");
      require(dlclose(opened) == 0, "dlclose");
    }
    mistake_by(by_dlsym(library(path)));
  } else if (way == "untouched")
    untouched(library(path));
  else if (way == "fork")
    forked(library(path));
  else if (way == "main-ends")
    without_main_thread(library(path));
  else if (way == "busy-child")
    return with_busy_child(library(path));
  else if (way == "many-threads")
    return with_many_threads(library(path));
  else if (way == "threads")
    threads(library(path));
  else if (way == "exec") {
    mistake_by(by_dlsym(library(path)));
    execl(argv[0], argv[0], "dlsym", path, static_cast<char*>(nullptr));
    return 4;
  } else if (way == "exit") {
    static Driver driver(by_dlsym(library(path)));
    driver.start();
    static AtExit at_exit{driver}; // made after cuInit, so the driver still works when it is destroyed
  } else if (way == "silent" || way == "confined" || way == "confined-later") {
    if (way == "confined") forbid_calls(SECCOMP_RET_ERRNO | EPERM);
    Driver driver(by_dlsym(library(path)));
    driver.start();
    if (way == "confined-later") forbid_calls(SECCOMP_RET_KILL_PROCESS);
    const CUevent event = driver.event();
    std::thread([&] { driver.query(event); }).join();
    driver.destroy(event);
    if (argc > 3) usleep(static_cast<unsigned>(std::atoi(argv[3])) * 1000); // so that the command sees it
    std::puts("the output of the program");
    std::fputs("its errors\n", stderr);
    return 42;
  } else if (way == "killed") {
    mistake_by(by_dlsym(library(path)));
    std::abort();
  } else {
    return 2;
  }
  return 0;
}
