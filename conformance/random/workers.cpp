// SPDX-License-Identifier: MIT
#include "workers.hpp"

#include <algorithm>
#include <memory>
#include <poll.h>
#include <set>
#include <vector>

namespace conformance {

void run_seeds(const RunOptions& options,
               const std::function<void(std::uint64_t, const std::string&)>& sink) {
  const auto deadline = std::chrono::steady_clock::now() + options.time_limit;
  auto next = options.seeds.begin();
  std::set<std::uint64_t> died;     // seeds that have ended a process
  std::vector<std::uint64_t> again; // those that have not run in a process of their own yet
  std::vector<std::unique_ptr<Worker>> workers;
  const auto left = [&] { return !again.empty() || next != options.seeds.end(); };
  const auto start = [&] {
    std::uint64_t seed = 0;
    if (again.empty()) {
      seed = *next++;
    } else {
      seed = again.back();
      again.pop_back();
    }
    workers.push_back(std::make_unique<Worker>(options.library));
    workers.back()->ask({seed, {}});
  };
  const auto read = [&](std::unique_ptr<Worker>& worker) {
    const std::uint64_t seed = worker->asked().seed;
    const Worker::News news = worker->read_news();
    if (news == Worker::News::none) return;
    if (news == Worker::News::death && died.insert(seed).second)
      again.push_back(seed);
    else
      sink(seed, worker->answers());
    if (news == Worker::News::answers && next != options.seeds.end())
      worker->ask({*next++, {}});
    else
      worker.reset();
  };

  while (std::chrono::steady_clock::now() < deadline) {
    // Contexts are created one after another in any case, so the first worker need not wait for the others.
    const bool all_prepared =
        std::all_of(workers.begin(), workers.end(), [](const auto& worker) { return worker->prepared(); });
    if (all_prepared && left() && workers.size() < static_cast<std::size_t>(options.jobs)) start();
    if (workers.empty()) return;
    std::vector<pollfd> ready;
    ready.reserve(workers.size());
    for (const auto& worker : workers)
      ready.push_back({worker->pipe(), POLLIN, 0});
    poll(ready.data(), ready.size(), 20);
    for (auto& worker : workers)
      read(worker);
    std::erase(workers, nullptr);
  }
}

} // namespace conformance
