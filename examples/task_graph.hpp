// SPDX-License-Identifier: MIT
// The tasks that examples/scheduler.cpp runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace scheduler {

using namespace std::chrono_literals;

inline constexpr std::size_t tiles = 16; // in each direction

struct Task {
  enum class Where { host, device } where;
  std::chrono::nanoseconds duration;
  std::vector<std::size_t> successors{};
  std::size_t dependencies = 0;
};

/// A graph of tasks. Each task reads and writes one tile, and reads others. It depends on the tasks that last
/// wrote these tiles.
class TaskGraph {
public:
  const std::vector<Task>& tasks() const noexcept { return tasks_; }

  /// The factorisation of the lower triangle, tile by tile.
  static TaskGraph cholesky() {
    TaskGraph graph;
    for (std::size_t k = 0; k < tiles; ++k) {
      graph.add({Task::Where::host, 20us}, {k, k}, {}); // factorise the tile on the diagonal,
      for (std::size_t i = k + 1; i < tiles; ++i)
        graph.add({Task::Where::device, 30us}, {i, k}, {{k, k}}); // solve the column below it,
      for (std::size_t i = k + 1; i < tiles; ++i)
        for (std::size_t j = k + 1; j <= i; ++j)
          graph.add({Task::Where::device, 20us}, {i, j}, {{i, k}, {j, k}}); // update the tiles to the right
    }
    return graph;
  }
  static TaskGraph one_kernel(std::chrono::nanoseconds duration) {
    TaskGraph graph;
    graph.add({Task::Where::device, duration}, {0, 0}, {});
    return graph;
  }

private:
  struct Tile {
    std::size_t row, column;
  };
  static constexpr std::size_t nobody = ~std::size_t{0};

  void add(Task task, Tile written, std::vector<Tile> read) {
    const std::size_t number = tasks_.size();
    read.push_back(written);
    for (const Tile& tile : read) {
      const std::size_t writer = last_writer_[tile.row][tile.column];
      if (writer == nobody) continue;
      std::vector<std::size_t>& successors = tasks_[writer].successors;
      if (!successors.empty() && successors.back() == number) continue; // two reads of one tile
      successors.push_back(number);
      ++task.dependencies;
    }
    tasks_.push_back(std::move(task));
    last_writer_[written.row][written.column] = number;
  }

  std::vector<Task> tasks_;
  std::vector<std::vector<std::size_t>> last_writer_{tiles, std::vector<std::size_t>(tiles, nobody)};
};

} // namespace scheduler
