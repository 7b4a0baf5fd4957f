// SPDX-License-Identifier: MIT
#include "workers.hpp"

#include <algorithm>
#include <memory>
#include <poll.h>
#include <vector>

namespace conformance {

void run_seeds(const RunOptions& options,
               const std::function<void(std::uint64_t, const std::string&)>& sink) {
  const auto deadline = std::chrono::steady_clock::now() + options.time_limit;
  auto next = options.seeds.begin();
  std::vector<std::unique_ptr<Worker>> workers;
  const auto start = [&](std::unique_ptr<Worker>& worker) {
    worker = next != options.seeds.end() ? std::make_unique<Worker>(options.library) : nullptr;
    if (worker) worker->ask({*next++, {}});
  };
  for (int i = 0; i < options.jobs; ++i)
    start(workers.emplace_back());

  while (std::chrono::steady_clock::now() < deadline) {
    std::erase(workers, nullptr);
    if (workers.empty()) return;
    std::vector<pollfd> ready;
    ready.reserve(workers.size());
    for (const auto& worker : workers)
      ready.push_back({worker->pipe(), POLLIN, 0});
    poll(ready.data(), ready.size(), 200);
    for (auto& worker : workers) {
      const std::uint64_t seed = worker->asked().seed;
      switch (worker->read_news()) {
      case Worker::News::none:
        break;
      case Worker::News::answers:
        sink(seed, worker->answers());
        if (next != options.seeds.end())
          worker->ask({*next++, {}});
        else
          worker.reset();
        break;
      case Worker::News::last_answers:
        sink(seed, worker->answers());
        start(worker);
        break;
      case Worker::News::death:
        sink(seed, run_alone(options.library, {seed, {}}));
        start(worker);
        break;
      }
    }
  }
}

} // namespace conformance
