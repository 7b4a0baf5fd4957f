// SPDX-License-Identifier: MIT
// An event loop of one thread. The thread sleeps in epoll until a client asks for work through a socket, a
// timer ticks, or the device has completed work. No other thread waits for the device.
#include "../support/descriptor.hpp"
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"

#include <cuevent/completion_queue.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;

namespace {

/// The processor time that this thread has used.
double processor_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// A client sends the number of its request, which is also the length of the work in units of 100 us. The
/// answer says what became of the work.
struct Answer {
  std::uint32_t request;
  CUresult result;
};
constexpr std::uint32_t requests = 40;

/// The client, on a thread of its own, has up to four open requests at a time. Counts the right answers.
void ask(int socket, std::uint32_t& right) {
  std::uint32_t sent = 0;
  for (std::uint32_t answered = 0; answered < requests; ++answered) {
    std::this_thread::sleep_for(500us);
    for (; sent < requests && sent < answered + 4; ++sent)
      send(socket, &sent, sizeof sent, MSG_NOSIGNAL);
    Answer answer{};
    if (recv(socket, &answer, sizeof answer, 0) != sizeof answer) return; // the server has failed
    right += answer.request == answered && answer.result == CUDA_SUCCESS ? 1 : 0;
  }
  shutdown(socket, SHUT_WR);
}

class Server {
public:
  Server(const gpu::Gpu& gpu, int socket)
      : stream_(gpu.stream()), kernel_(gpu), socket_(socket), queue_(gpu.context) {
    const itimerspec every_ms{{0, 1'000'000}, {0, 1'000'000}};
    checked(timerfd_settime(timer_, 0, &every_ms, nullptr));
    for (const int descriptor : {socket_, int(timer_), queue_.native_handle()}) {
      epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
      checked(epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event));
    }
  }

  /// Returns when the client has no more requests.
  void run() {
    while (open_) {
      const bool armed = queue_.arm(); // false: something can be polled, so this thread must not sleep
      std::array<epoll_event, 3> events{};
      const int count = checked(epoll_wait(epoll_, events.data(), 3, armed ? -1 : 0));
      sleeps += armed ? 1 : 0;
      for (int i = 0; i < count; ++i) {
        const int readable = events[static_cast<std::size_t>(i)].data.fd;
        if (readable == socket_) receive();
        if (std::uint64_t expired = 0; readable == timer_ && read(timer_, &expired, sizeof expired) > 0)
          ticks += expired;
      }
      queue_.poll(); // runs the callbacks
    }
  }

  std::size_t sleeps = 0, ticks = 0;

private:
  void receive() {
    std::uint32_t request = 0;
    open_ = recv(socket_, &request, sizeof request, 0) == sizeof request;
    if (!open_) return;
    kernel_.launch(request * 100us, stream_);
    queue_.when_complete(stream_, [this, request](CUresult result) {
      const Answer answer{request, result};
      send(socket_, &answer, sizeof answer, MSG_NOSIGNAL);
    });
  }

  gpu::Stream stream_;
  gpu::BusyKernel kernel_;
  int socket_;
  bool open_ = true;
  Descriptor timer_{timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  Descriptor epoll_{epoll_create1(EPOLL_CLOEXEC)};
  cuevent::CompletionQueue queue_; // the last: at its end it runs the callbacks that are pending
};

int run() {
  const gpu::Gpu gpu;
  std::array<int, 2> pair{};
  checked(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()));
  const Descriptor theirs(pair[1]);
  std::uint32_t right = 0;
  std::jthread client(ask, int(theirs), std::ref(right));
  const Descriptor ours(pair[0]);
  Server server(gpu, ours);
  const double used_before = processor_ms();
  server.run();
  const double used = processor_ms() - used_before;
  client.join();
  std::printf("%u of %u requests were answered on %s, and the timer ticked %zu times\n"
              "The thread slept %zu times, and used %.1f ms of processor time\n",
              right, requests, gpu.name().c_str(), server.ticks, server.sleeps, used);
  return right == requests && server.ticks != 0 ? 0 : 1;
}

} // namespace

int main() { return exit_code(run); }
