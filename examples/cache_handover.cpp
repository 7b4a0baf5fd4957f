// SPDX-License-Identifier: MIT
// Two engines, one process each, hand over key-value caches: the
// prefill engine fills a buffer of a pool, and the decode engine reads it. Each buffer has a
// semaphore. Its value is even while the buffer is free, and odd while it is filled.
//
// Each engine survives the death of the other. Here the decode engine kills itself after half of
// the requests. The prefill engine finds its semaphores abandoned, drops the pool, starts another
// decode engine with a new pool, and repeats the requests that have no answer.
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"
#include "../support/second_process.hpp"
#include "../support/shared_memory.hpp"

#include <cuevent/timeline_semaphore.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <vector>

using cuevent::SemaphoreAbandoned;
using cuevent::TimelineSemaphore;

namespace {

using namespace std::chrono_literals;

constexpr int buffers = 3, requests = 60;
constexpr std::size_t cache_bytes = 64 << 10;

/// What the decode engine inherits: the memory, the end of a pipe, and a handle for each buffer.
enum : int { memory_handle = SecondProcess::first_descriptor, pipe_handle, first_semaphore };

/// What the prefill engine tells the decode engine: the caches themselves stay on the device.
struct Message {
  int request, buffer;
  std::uint64_t filled; // the value to wait for
};

struct Pool {
  Pool(const gpu::Gpu& gpu, const gpu::SharedMemory& memory) : caches(memory) {
    for (int i = 0; i < buffers; ++i)
      semaphores.emplace_back(gpu.context);
  }
  Pool(const gpu::SharedMemory& memory, std::vector<TimelineSemaphore> imported)
      : caches(memory), semaphores(std::move(imported)) {}

  CUdeviceptr cache(int buffer) const {
    return caches.address() + static_cast<std::size_t>(buffer) * cache_bytes;
  }

  const gpu::SharedMemory& caches;
  std::vector<TimelineSemaphore> semaphores;
};

/// Serves the requests from `first` on, and returns the first that was not answered.
int serve(const std::string& program, const char* role, int first) {
  const gpu::Gpu gpu;
  const int descriptor = gpu::SharedMemory::create(buffers * cache_bytes);
  const gpu::SharedMemory memory(gpu, descriptor, buffers * cache_bytes);
  Pool pool(gpu, memory);
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<TimelineSemaphore>& semaphores = pool.semaphores;
  SecondProcess decode(program, role,
                       {descriptor, pipes[0], semaphores[0].export_handle(), semaphores[1].export_handle(),
                        semaphores[2].export_handle()});
  for (TimelineSemaphore& each : semaphores)
    each.abandon_on_death();

  int answered = first;
  try {
    const gpu::Stream stream = gpu.stream();
    for (int request = first; request < requests; ++request) {
      const int buffer = request % buffers;
      const auto use = static_cast<std::uint64_t>((request - first) / buffers);
      TimelineSemaphore& semaphore = semaphores[static_cast<std::size_t>(buffer)];
      // The buffer is free again: the answer to its last request is there. A death ends the wait.
      if (!semaphore.wait_for(2 * use, 20s)) throw std::runtime_error("the decode engine is stuck");
      if (use > 0) answered = request - buffers + 1;
      gpu.fill(pool.cache(buffer), static_cast<unsigned char>(request), cache_bytes, stream);
      semaphore.signal(stream, 2 * use + 1);
      const Message message{request, buffer, 2 * use + 1};
      if (write(pipes[1], &message, sizeof message) < 0) break; // the engine is gone
    }
    for (TimelineSemaphore& each : semaphores)
      if (!each.wait_for((each.submitted() + 1) / 2 * 2, 20s)) throw std::runtime_error("no last answer");
    answered = requests;
  } catch (const SemaphoreAbandoned&) { // no stream of this process waits any more
  }
  close(pipes[1]);
  const std::string end = decode.wait();
  std::printf("requests %d to %d are answered; the decode engine %s\n", first, answered - 1, end.c_str());
  return answered;
}

/// Decodes until the pipe ends. The engine that is to die does so while caches are in flight.
int decode(bool dies) {
  const gpu::Gpu gpu;
  const gpu::SharedMemory memory(gpu, memory_handle, buffers * cache_bytes);
  std::vector<TimelineSemaphore> imported;
  imported.reserve(buffers);
  for (int i = 0; i < buffers; ++i)
    imported.push_back(TimelineSemaphore::import(gpu.context, first_semaphore + i));
  Pool pool(memory, std::move(imported));
  for (TimelineSemaphore& each : pool.semaphores)
    each.abandon_on_death(); // the prefill engine may die as well

  const gpu::PinnedMemory token = gpu.pinned_memory(1);
  const gpu::Stream stream = gpu.stream();
  for (Message message; read(pipe_handle, &message, sizeof message) == sizeof message;) {
    TimelineSemaphore& semaphore = pool.semaphores[static_cast<std::size_t>(message.buffer)];
    if (dies && message.request == requests / 2) raise(SIGKILL);
    // The signal was submitted before the message was sent, so the stream may wait for it.
    semaphore.wait(stream, message.filled);
    gpu.copy_to_host(token, pool.cache(message.buffer), sizeof(int), stream);
    semaphore.signal(stream, message.filled + 1); // the buffer is free
    if (!semaphore.wait_for(message.filled + 1, 20s)) return 1;
    if ((*token & 0xff) != message.request) return 1; // the cache of another request
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  return exit_code([&] {
    if (argc > 1) return decode(std::strcmp(argv[1], "decode-and-die") == 0);
    const int answered = serve(argv[0], "decode-and-die", 0);
    return answered < requests && serve(argv[0], "decode", answered) == requests ? 0 : 1;
  });
}
