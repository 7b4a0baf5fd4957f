// SPDX-License-Identifier: MIT
// Communicators of the simulator's NCCL, between threads and between processes: nccl_calls NAME. There are
// eight devices.
#include "../nccl/nccl.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace std::chrono_literals;

#define CHECK(holds)                                                                                         \
  ((holds) ? void()                                                                                          \
           : (std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #holds, ncclGetLastError(nullptr)),        \
              std::exit(1)))

/// Of the case. Each has the device of its number.
int ranks = 2;
int after(int rank) { return (rank + 1) % ranks; }
int before(int rank) { return (rank + ranks - 1) % ranks; }

/// A device with a stream and memory. Its context is current for the thread.
struct Device {
  explicit Device(int ordinal) {
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CUdevice device = 0;
    CHECK(cuDeviceGet(&device, ordinal) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    use();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&memory, 1 << 16) == CUDA_SUCCESS);
  }
  void use() const { CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS); }
  void* at(std::size_t offset = 0) const { return reinterpret_cast<void*>(memory + offset); }
  bool is_done() const { return cuStreamQuery(stream) == CUDA_SUCCESS; }
  void synchronize() const { CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS); }

  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
};

struct Rank : Device {
  Rank(const ncclUniqueId& id, int rank) : Device(rank) {
    CHECK(ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess);
  }
  ncclResult_t reduce(std::size_t count = 64) const {
    return ncclAllReduce(at(), at(), count, nccl_float32, nccl_sum, comm, stream);
  }
  ncclComm_t comm = nullptr;
};

ncclUniqueId new_id() {
  ncclUniqueId id{};
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  return id;
}

std::string path_of(const ncclUniqueId& id) {
  return "/dev/shm/cuevent-nccl-" + std::string(std::strchr(id.internal, ':') + 1);
}
bool exists(const ncclUniqueId& id) { return access(path_of(id).c_str(), F_OK) == 0; }

/// The ranks are threads of this process.
void on_threads(const std::function<void(const ncclUniqueId&, int)>& run) {
  const ncclUniqueId id = new_id();
  std::vector<std::thread> others;
  for (int rank = 1; rank < ranks; ++rank)
    others.emplace_back([&run, id, rank] { run(id, rank); });
  run(id, 0);
  for (std::thread& other : others)
    other.join();
  CHECK(!exists(id));
}

/// Each other rank than 0 is a process of its own, which has to end with success.
void on_processes(const std::function<void(const ncclUniqueId&, int)>& run) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    children.push_back(fork()); // before the driver is initialised
    if (children.back() != 0) continue;
    ncclUniqueId id{};
    CHECK(read(ends[0], &id, sizeof id) == sizeof id);
    run(id, rank);
    _exit(0);
  }
  const ncclUniqueId id = new_id();
  for (std::size_t i = 0; i < children.size(); ++i)
    CHECK(write(ends[1], &id, sizeof id) == sizeof id);
  run(id, 0);
  for (const pid_t child : children) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK(!exists(id));
}

void all_collectives(const ncclUniqueId& id, int number) {
  const Rank rank(id, number);
  int value = -1;
  CHECK(ncclCommCount(rank.comm, &value) == ncclSuccess && value == ranks);
  CHECK(ncclCommUserRank(rank.comm, &value) == ncclSuccess && value == number);
  CHECK(ncclCommCuDevice(rank.comm, &value) == ncclSuccess && value == number);
  const auto run = [&] {
    void *const to = rank.at(), *const from = rank.at(4096);
    const int f32 = nccl_float32;
    CHECK(ncclAllReduce(from, to, 64, f32, nccl_sum, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclReduce(from, to, 64, f32, nccl_sum, 1, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclBroadcast(from, to, 64, f32, 1, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclBcast(to, 64, f32, 0, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclReduceScatter(from, to, 64, f32, 2, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclAllGather(from, to, 64, f32, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclAlltoAll(from, to, 64, f32, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclGather(from, to, 64, f32, 1, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclScatter(from, to, 64, f32, 0, rank.comm, rank.stream) == ncclSuccess);
    int made = 0;
    float scalar = 2;
    CHECK(ncclRedOpCreatePreMulSum(&made, &scalar, f32, 1, rank.comm) == ncclSuccess);
    CHECK(ncclAllReduce(from, to, 64, f32, made, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclRedOpDestroy(made, rank.comm) == ncclSuccess);
    CHECK(ncclSend(from, 64, f32, after(number), rank.comm, rank.stream) == ncclSuccess);
  };
  for (int i = 0; i < 50; ++i) {
    CHECK(ncclGroupStart() == ncclSuccess);
    run();
    CHECK(ncclRecv(rank.at(), 64, nccl_float32, before(number), rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclGroupEnd() == ncclSuccess);
  }
  rank.synchronize();
  CHECK(ncclCommFinalize(rank.comm) == ncclSuccess);
  CHECK(ncclCommDestroy(rank.comm) == ncclSuccess);
  CHECK(rank.reduce() == ncclInvalidArgument);
}

int number_at(const Device& device, std::size_t offset) {
  int found = 0;
  CHECK(cuMemcpyDtoH(&found, device.memory + offset, sizeof found) == CUDA_SUCCESS);
  return found;
}

void set(const Device& device, std::size_t offset, int number) {
  CHECK(cuMemsetD32Async(device.memory + offset, static_cast<unsigned>(number), 1, device.stream) ==
        CUDA_SUCCESS);
}

/// PyTorch compares the shapes of parameters by an all-gather, and exchanges sizes by an all-to-all.
void copies(const ncclUniqueId& id, int number) {
  const Rank rank(id, number);
  for (int i = 0; i < 20; ++i) {
    const int own = 100 * i + number, root = i % ranks;
    set(rank, 0, own);
    CHECK(ncclAllGather(rank.at(), rank.at(64), 1, nccl_float32, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclBroadcast(rank.at(), rank.at(128), 1, nccl_float32, root, rank.comm, rank.stream) ==
          ncclSuccess);
    CHECK(ncclGroupStart() == ncclSuccess);
    CHECK(ncclSend(rank.at(), 1, nccl_float32, after(number), rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclRecv(rank.at(192), 1, nccl_float32, before(number), rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclGroupEnd() == ncclSuccess);
    for (unsigned to = 0; to < static_cast<unsigned>(ranks); ++to)
      set(rank, 256 + 4 * to, 1000 * own + static_cast<int>(to));
    CHECK(ncclAlltoAll(rank.at(256), rank.at(320), 1, nccl_float32, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclGather(rank.at(), rank.at(384), 1, nccl_float32, root, rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclScatter(rank.at(256), rank.at(448), 1, nccl_float32, root, rank.comm, rank.stream) ==
          ncclSuccess);
    rank.synchronize();
    for (int each = 0; each < ranks; ++each) {
      const std::size_t place = 4 * static_cast<std::size_t>(each);
      CHECK(number_at(rank, 64 + place) == 100 * i + each);
      CHECK(number_at(rank, 320 + place) == 1000 * (100 * i + each) + number);
      CHECK(number != root || number_at(rank, 384 + place) == 100 * i + each);
    }
    CHECK(number_at(rank, 128) == 100 * i + root);
    CHECK(number_at(rank, 192) == 100 * i + before(number));
    CHECK(number_at(rank, 448) == 1000 * (100 * i + root) + number);
  }

  // A kernel with many transfers to one rank moves none, and neither does a wrong pointer.
  set(rank, 0, 5);
  set(rank, 64, 6);
  CHECK(ncclGroupStart() == ncclSuccess);
  for (int i = 0; i < 30; ++i) {
    CHECK(ncclSend(rank.at(), 1, nccl_float32, after(number), rank.comm, rank.stream) == ncclSuccess);
    CHECK(ncclRecv(rank.at(64), 1, nccl_float32, before(number), rank.comm, rank.stream) == ncclSuccess);
  }
  CHECK(ncclGroupEnd() == ncclSuccess);
  rank.synchronize();
  CHECK(number_at(rank, 64) == 6);
  void* const wrong = reinterpret_cast<void*>(8);
  CHECK(ncclBroadcast(number == 0 ? rank.at() : nullptr, number == 0 ? rank.at(64) : wrong, 1, nccl_float32,
                      0, rank.comm, rank.stream) == ncclSuccess);
  CHECK(ncclBroadcast(wrong, rank.at(64), 1, nccl_float32, 1, rank.comm, rank.stream) == ncclSuccess);
  CHECK(ncclAllGather(rank.at(), wrong, 1, nccl_float32, rank.comm, rank.stream) == ncclSuccess);
  rank.synchronize();
  CHECK(number_at(rank, 64) == (number == 0 ? 5 : 6));
  CHECK(ncclCommDestroy(rank.comm) == ncclSuccess);
}

/// A collective ends only when the last rank has begun it, on the device.
void ends_together(const ncclUniqueId& id, int number) {
  const auto begin = std::chrono::steady_clock::now(); // before any rank can be the last one's
  const Rank rank(id, number);
  const bool is_last = number == ranks - 1;
  if (is_last) std::this_thread::sleep_for(300ms);
  CHECK(rank.reduce() == ncclSuccess);
  rank.synchronize();
  CHECK(is_last || std::chrono::steady_clock::now() - begin > 200ms);
  CHECK(ncclCommDestroy(rank.comm) == ncclSuccess);
}

/// The ranks do different things, which never end until they are aborted.
void never_ends(const ncclUniqueId& id, int number, const std::function<void(const Rank&)>& wrong) {
  const Rank rank(id, number);
  CHECK(rank.reduce() == ncclSuccess);
  rank.synchronize();
  wrong(rank);
  std::this_thread::sleep_for(300ms);
  CHECK(!rank.is_done());
  ncclResult_t error = ncclInternalError;
  CHECK(ncclCommGetAsyncError(rank.comm, &error) == ncclSuccess && error == ncclSuccess);
  CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
  rank.synchronize();
  CHECK(rank.reduce() == ncclInvalidArgument);
}

void skips(const ncclUniqueId& id, int number) {
  never_ends(id, number, [&](const Rank& rank) {
    if (number != 1) CHECK(rank.reduce() == ncclSuccess);
    CHECK(ncclAllGather(rank.at(), rank.at(), 64, nccl_float32, rank.comm, rank.stream) == ncclSuccess);
  });
}
void counts_differ(const ncclUniqueId& id, int number) {
  never_ends(id, number, [&](const Rank& rank) { CHECK(rank.reduce(number == 1 ? 63 : 64) == ncclSuccess); });
}
void no_receiver(const ncclUniqueId& id, int number) {
  never_ends(id, number, [&](const Rank& rank) {
    CHECK(ncclSend(rank.at(), 64, nccl_float32, after(number), rank.comm, rank.stream) == ncclSuccess);
  });
}

/// The other process ends without a word.
void dead_rank(const ncclUniqueId& id, int number) {
  const Rank rank(id, number);
  if (number == 1) _exit(0);
  std::this_thread::sleep_for(50ms);
  CHECK(rank.reduce() == ncclSuccess);
  std::this_thread::sleep_for(300ms);
  CHECK(!rank.is_done());
  ncclComm_t part = nullptr;
  CHECK(ncclCommSplit(rank.comm, 0, 0, &part, nullptr) == ncclRemoteError);
  CHECK(ncclCommAbort(part) == ncclSuccess);
  CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
  rank.synchronize();
}

/// The third rank never comes, and the second one has ended.
void dead_before_all_came(const ncclUniqueId& id, int number) {
  const Device device(number);
  ncclComm_t comm = nullptr;
  if (number == 1) {
    std::thread([] {
      std::this_thread::sleep_for(500ms);
      _exit(0);
    }).detach();
    CHECK(ncclCommInitRank(&comm, 3, id, 1) != ncclSuccess);
    return;
  }
  std::this_thread::sleep_for(200ms); // rank 1 is there
  CHECK(ncclCommInitRank(&comm, 3, id, 0) == ncclRemoteError);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
  CHECK(unlink(path_of(id).c_str()) == 0); // at the end of the process otherwise
}

/// What a process leaves that was killed goes when another one makes an id.
void killed_maker() {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const ncclUniqueId id = new_id();
    CHECK(write(ends[1], &id, sizeof id) == sizeof id);
    raise(SIGKILL);
  }
  ncclUniqueId left{};
  CHECK(read(ends[0], &left, sizeof left) == sizeof left);
  CHECK(waitpid(child, nullptr, 0) == child);
  const ncclUniqueId own = new_id();
  CHECK(exists(left)); // its maker may be about to lock it
  const timespec hour_ago[] = {{std::time(nullptr) - 3600, 0}, {std::time(nullptr) - 3600, 0}};
  for (const ncclUniqueId& id : {left, own})
    CHECK(utimensat(AT_FDCWD, path_of(id).c_str(), hour_ago, 0) == 0);
  new_id();
  CHECK(!exists(left) && exists(own));
}

void splits(const ncclUniqueId& id, int number) {
  const Rank rank(id, number);
  for (int i = 0; i < 3; ++i) {
    ncclComm_t all = nullptr, alone = nullptr, none = nullptr, part = nullptr;
    int value = -1;
    CHECK(ncclCommSplit(rank.comm, 5, -number, &all, nullptr) == ncclSuccess); // in the opposite order
    CHECK(ncclCommUserRank(all, &value) == ncclSuccess && value == ranks - 1 - number);
    CHECK(ncclAllReduce(rank.at(), rank.at(), 64, nccl_float32, nccl_sum, all, rank.stream) == ncclSuccess);
    CHECK(ncclCommSplit(rank.comm, number, 0, &alone, nullptr) == ncclSuccess);
    CHECK(ncclCommCount(alone, &value) == ncclSuccess && value == 1);
    CHECK(cuMemsetD32Async(rank.memory, static_cast<unsigned>(1000 + number), 64, rank.stream) ==
          CUDA_SUCCESS);
    CHECK(ncclAllReduce(rank.at(), rank.at(4096), 64, nccl_float32, nccl_sum, alone, rank.stream) ==
          ncclSuccess);
    CHECK(ncclCommSplit(rank.comm, number == 0 ? 0 : nccl_no_color, 0, &none, nullptr) == ncclSuccess);
    CHECK((none == nullptr) == (number != 0));
    CHECK(ncclCommSplit(rank.comm, number % 2, number, &part, nullptr) == ncclSuccess);
    CHECK(ncclCommCount(part, &value) == ncclSuccess && value == ranks / 2);
    CHECK(ncclCommUserRank(part, &value) == ncclSuccess && value == number / 2);
    CHECK(ncclAllReduce(rank.at(), rank.at(), 64, nccl_float32, nccl_sum, part, rank.stream) == ncclSuccess);
    rank.synchronize();
    int copied = 0;
    CHECK(cuMemcpyDtoH(&copied, rank.memory + 4096, sizeof copied) == CUDA_SUCCESS &&
          copied == 1000 + number);
    for (const ncclComm_t each : {all, alone, none, part})
      CHECK(ncclCommDestroy(each) == ncclSuccess);
  }
}

void replays(const ncclUniqueId& id, int number) {
  const Rank rank(id, number);
  CUstream other = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(rank.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  CHECK(cuEventRecord(event, rank.stream) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(other, event, 0) == CUDA_SUCCESS);
  CHECK(rank.reduce() == ncclSuccess);
  CHECK(ncclAllGather(rank.at(), rank.at(), 64, nccl_float32, rank.comm, other) == ncclSuccess);
  CHECK(ncclAlltoAll(rank.at(), rank.at(), 8, nccl_float32, rank.comm, rank.stream) == ncclSuccess);
  CHECK(cuEventRecord(event, other) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(rank.stream, event, 0) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(rank.stream, &graph) == CUDA_SUCCESS);
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i) {
    CHECK(cuGraphLaunch(exec, rank.stream) == CUDA_SUCCESS);
    CHECK(rank.reduce() == ncclSuccess);
  }
  rank.synchronize();
  if (number == 0) CHECK(cuGraphLaunch(exec, rank.stream) == CUDA_SUCCESS);
  std::this_thread::sleep_for(200ms);
  CHECK(rank.is_done() == (number == 1));
  CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
  rank.synchronize();
}

/// One thread has all ranks.
void one_thread() {
  const Device devices[] = {Device(0), Device(1)};
  ncclComm_t comms[2] = {};
  CHECK(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  const auto reduce = [&](int rank) {
    return ncclAllReduce(devices[rank].at(), devices[rank].at(), 64, nccl_float32, nccl_sum, comms[rank],
                         devices[rank].stream);
  };
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(0) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  std::this_thread::sleep_for(50ms);
  CHECK(devices[0].is_done()); // nothing was submitted: the outer group has not ended
  CHECK(reduce(1) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  for (const Device& device : devices)
    device.synchronize();
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(0) == ncclSuccess);
  CHECK(ncclSend(devices[0].at(), 1, nccl_float32, 7, comms[0], devices[0].stream) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument); // and nothing was submitted
  std::this_thread::sleep_for(50ms);
  CHECK(devices[0].is_done());
  for (const ncclComm_t each : comms)
    CHECK(ncclCommDestroy(each) == ncclSuccess);
}

void nonblocking() {
  const ncclUniqueId id = new_id();
  ncclConfig_t config{sizeof config, nccl_config_magic, 23203, 0};
  const Device devices[] = {Device(0), Device(1)};
  ncclComm_t comms[2] = {};
  ncclResult_t state = ncclSuccess;
  devices[0].use();
  CHECK(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config) == ncclInProgress);
  CHECK(ncclCommGetAsyncError(comms[0], &state) == ncclSuccess && state == ncclInProgress);
  int value = 0;
  CHECK(ncclCommCount(comms[0], &value) == ncclInvalidArgument);
  devices[1].use();
  CHECK(ncclCommInitRankScalable(&comms[1], 2, 1, 1, const_cast<ncclUniqueId*>(&id), &config) ==
        ncclInProgress);
  for (const ncclComm_t each : comms)
    for (state = ncclInProgress; state == ncclInProgress; std::this_thread::sleep_for(1ms))
      CHECK(ncclCommGetAsyncError(each, &state) == ncclSuccess);
  CHECK(state == ncclSuccess);
  for (const ncclComm_t each : comms)
    CHECK(ncclCommAbort(each) == ncclSuccess);
  CHECK(ncclCommInitRankConfig(&comms[0], 2, new_id(), 0, &config) == ncclInProgress);
  CHECK(ncclCommAbort(comms[0]) == ncclSuccess); // the other rank never comes
}

void refused() {
  const Device device(0);
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = new_id();
  CHECK(ncclCommInitRank(nullptr, 2, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 9, id, 0) == ncclInvalidUsage);
  for (const int rank : {-1, 2})
    CHECK(ncclCommInitRank(&comm, 2, id, rank) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 2, ncclUniqueId{}, 0) == ncclInvalidArgument);
  ncclUniqueId long_id{};
  std::memset(long_id.internal, '7', sizeof long_id.internal);
  CHECK(ncclCommInitRank(&comm, 2, long_id, 0) == ncclInvalidArgument);
  ncclConfig_t config{};
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInvalidArgument);
  CHECK(ncclCommCount(nullptr, nullptr) == ncclInvalidArgument);
  const int twice[] = {0, 0};
  ncclComm_t comms[2] = {};
  CHECK(ncclCommInitAll(comms, 2, twice) == ncclInvalidUsage);
  CHECK(std::strstr(ncclGetLastError(nullptr), "Duplicate GPU") != nullptr);
  CHECK(ncclCommInitRank(&comm, 1, new_id(), 0) == ncclSuccess);
  const auto reduce = [&](int type, int reduction) {
    return ncclAllReduce(device.at(), device.at(), 1, type, reduction, comm, device.stream);
  };
  CHECK(reduce(99, 0) == ncclInvalidArgument && reduce(-1, 0) == ncclInvalidArgument);
  CHECK(reduce(7, 5) == ncclInvalidArgument && reduce(7, -1) == ncclInvalidArgument);
  CHECK(ncclBroadcast(device.at(), device.at(), 1, 7, 1, comm, device.stream) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(comm) == ncclSuccess && ncclCommDestroy(comm) == ncclInvalidArgument);

  // Files that no communicator made
  const std::string path = path_of(id);
  const auto join = [&] { return ncclCommInitRank(&comm, 1, id, 0); };
  CHECK(chmod(path.c_str(), 0666) == 0 && join() == ncclSystemError);
  CHECK(chmod(path.c_str(), 0600) == 0 && truncate(path.c_str(), 64) == 0 && join() == ncclSystemError);
  CHECK(unlink(path.c_str()) == 0 && join() == ncclSystemError);
  CHECK(mkfifo(path.c_str(), 0600) == 0 && join() == ncclSystemError && unlink(path.c_str()) == 0);
  const ncclUniqueId other = new_id();
  CHECK(symlink(path_of(other).c_str(), path.c_str()) == 0 && join() == ncclSystemError);
  CHECK(unlink(path.c_str()) == 0);
  CHECK(ncclCommInitRank(&comm, 1, other, 0) == ncclSuccess && !exists(other));
}

struct Case {
  const char* name;
  std::function<void()> run;
};

std::function<void()> of_eight(std::function<void()> run) {
  return [run] {
    ranks = 8;
    run();
  };
}

} // namespace

int main(int argc, char** argv) {
  const Case cases[] = {
      {"threads", [] { on_threads(all_collectives); }},
      {"processes", [] { on_processes(all_collectives); }},
      {"copies", [] { on_processes(copies); }},
      {"eight-threads", of_eight([] {
         on_threads(all_collectives);
         on_threads(copies);
         on_threads(splits);
       })},
      {"eight-processes", of_eight([] { on_processes(all_collectives); })},
      {"eight-processes-copy", of_eight([] { on_processes(copies); })},
      {"eight-processes-split", of_eight([] { on_processes(splits); })},
      {"eight-processes-end-together", of_eight([] { on_processes(ends_together); })},
      {"one-of-eight-threads-skips", of_eight([] { on_threads(skips); })},
      {"one-of-eight-processes-skips", of_eight([] { on_processes(skips); })},
      {"threads-end-together", [] { on_threads(ends_together); }},
      {"processes-end-together", [] { on_processes(ends_together); }},
      {"skips", [] { on_processes(skips); }},
      {"counts-differ", [] { on_threads(counts_differ); }},
      {"no-receiver", [] { on_threads(no_receiver); }},
      {"dead-rank", [] { on_processes(dead_rank); }},
      {"dead-before-all-came", [] { on_processes(dead_before_all_came); }},
      {"splits", [] { on_processes(splits); }},
      {"replays", [] { on_processes(replays); }},
      {"one-thread", one_thread},
      {"nonblocking", nonblocking},
      {"refused", refused},
      {"killed-maker", killed_maker},
  };
  for (const Case& each : cases)
    if (argc == 2 && each.name == std::string(argv[1])) {
      each.run();
      return 0;
    }
  for (const Case& each : cases)
    std::puts(each.name);
  return 2;
}
