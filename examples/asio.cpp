// SPDX-License-Identifier: MIT
// Coroutines of Asio that wait for the device: `co_await device.completion(stream)`. One thread runs a server
// with four clients and a timer. It sleeps in Asio, which waits for the descriptor of the completion queue as
// it does for sockets.
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"

#include <cuevent/completion_queue.hpp>

#include <asio.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <unistd.h>
#include <utility>

using namespace std::chrono_literals;
using Socket = asio::local::stream_protocol::socket;

namespace {

/// A completion queue whose callbacks resume operations of Asio. Use it on the thread of its io_context only.
class AsyncQueue {
public:
  AsyncQueue(asio::io_context& io, const cuevent::Context& context)
      : io_(io), queue_(context), readable_(io, dup(queue_.native_handle())) { // Asio closes the duplicate
    poll_and_sleep();
  }
  AsyncQueue(const AsyncQueue&) = delete;
  AsyncQueue& operator=(const AsyncQueue&) = delete;

  /// Waits for the work that was submitted to `stream` so far. The result is a CUresult.
  template <class Token = asio::use_awaitable_t<>>
  auto completion(CUstream stream, Token&& token = Token()) {
    const auto start = [this, stream](auto handler) {
      auto kept = std::make_shared<decltype(handler)>(std::move(handler)); // a callback has at most 48 bytes
      const auto done = [this, kept](CUresult result) {
        const auto executor = asio::get_associated_executor(*kept, io_.get_executor());
        asio::post(executor, [handler = std::move(*kept), result]() mutable { handler(result); });
      };
      const CUresult refused = queue_.try_when_complete(stream, done);
      if (refused != CUDA_SUCCESS) done(refused);
    };
    return asio::async_initiate<Token, void(CUresult)>(start, token);
  }

  /// No more operations follow, so the io_context may end.
  void close() { readable_.close(); }
  std::size_t sleeps() const noexcept { return sleeps_; }

private:
  void poll_and_sleep() {
    if (!readable_.is_open()) return;
    queue_.poll();
    if (!queue_.arm()) { // something can be polled: other handlers run first
      asio::post(io_, [this] { poll_and_sleep(); });
      return;
    }
    ++sleeps_;
    readable_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](asio::error_code) { poll_and_sleep(); });
  }

  asio::io_context& io_;
  cuevent::CompletionQueue queue_;
  asio::posix::stream_descriptor readable_;
  std::size_t sleeps_ = 0;
};

constexpr std::uint32_t requests = 10; // of each client

/// Reads lengths of work in us, and answers each with the result of the work.
asio::awaitable<void> serve(const gpu::Gpu& gpu, const gpu::BusyKernel& kernel, AsyncQueue& device,
                            Socket& socket) {
  const gpu::Stream stream = gpu.stream();
  for (std::uint32_t i = 0; i < requests; ++i) {
    std::uint32_t length = 0;
    co_await asio::async_read(socket, asio::buffer(&length, sizeof length), asio::use_awaitable);
    kernel.launch(length * 1us, stream);
    const CUresult result = co_await device.completion(stream); // the other clients are served meanwhile
    co_await asio::async_write(socket, asio::buffer(&result, sizeof result), asio::use_awaitable);
  }
}

/// Sends requests one after another, and counts the right answers.
asio::awaitable<void> ask(Socket& socket, std::uint32_t& right) {
  for (std::uint32_t i = 1; i <= requests; ++i) {
    const std::uint32_t length = 200 * i;
    co_await asio::async_write(socket, asio::buffer(&length, sizeof length), asio::use_awaitable);
    CUresult answer = CUDA_ERROR_UNKNOWN;
    co_await asio::async_read(socket, asio::buffer(&answer, sizeof answer), asio::use_awaitable);
    right += answer == CUDA_SUCCESS ? 1 : 0;
  }
}

/// Ticks every millisecond until all requests are answered.
asio::awaitable<void> tick(AsyncQueue& device, const std::uint32_t& right, std::uint32_t expected) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  std::size_t ticks = 0;
  for (; right < expected && ticks < 30'000; ++ticks) {
    timer.expires_after(1ms);
    co_await timer.async_wait(asio::use_awaitable);
  }
  std::printf("The timer ticked %zu times\n", ticks);
  device.close();
}

void rethrow(const std::exception_ptr& error) {
  if (error) std::rethrow_exception(error);
}

int run() {
  const gpu::Gpu gpu;
  const gpu::BusyKernel kernel(gpu);
  asio::io_context io;
  AsyncQueue device(io, gpu.context);
  constexpr std::size_t clients = 4;
  std::array<std::unique_ptr<Socket>, 2 * clients> sockets;
  std::uint32_t right = 0;
  for (std::size_t i = 0; i < clients; ++i) {
    Socket& ours = *(sockets[2 * i] = std::make_unique<Socket>(io));
    Socket& theirs = *(sockets[2 * i + 1] = std::make_unique<Socket>(io));
    asio::local::connect_pair(ours, theirs);
    asio::co_spawn(io, serve(gpu, kernel, device, ours), rethrow);
    asio::co_spawn(io, ask(theirs, right), rethrow);
  }
  asio::co_spawn(io, tick(device, right, requests * clients), rethrow);
  io.run();
  std::printf("%u of %zu requests were answered on %s; the thread slept %zu times for the device\n", right,
              requests * clients, gpu.name().c_str(), device.sleeps());
  return right == requests * clients ? 0 : 1;
}

} // namespace

int main() { return exit_code(run); }
