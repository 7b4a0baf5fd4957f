// SPDX-License-Identifier: MIT
// A function on several threads at the same time.
#pragma once

#include <barrier>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace test {

/// Calls work(0) to work(count - 1), each on a thread of its own. All calls begin together. Returns when all
/// have returned. Rethrows the exception of one of them.
template <class Work>
void on_threads(std::size_t count, const Work& work) {
  std::barrier begin(static_cast<std::ptrdiff_t>(count));
  std::mutex mutex;
  std::exception_ptr thrown;
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < count; ++t)
    running.emplace_back([&, t] {
      begin.arrive_and_wait();
      try {
        work(t);
      } catch (...) {
        const std::lock_guard lock(mutex);
        thrown = std::current_exception();
      }
    });
  for (std::thread& thread : running)
    thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

} // namespace test
