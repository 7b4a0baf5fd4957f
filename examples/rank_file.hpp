// SPDX-License-Identifier: MIT
// The report of a rank as a file that is useful at any moment, also if the job is killed.
#pragma once

#include <cuevent/rank_report.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace ranks {

/// mpirun ends the other ranks with SIGTERM if a rank dies.
class RankFile {
public:
  /// Keeps SIGTERM for the thread of a RankFile. Call this first, because other threads inherit it.
  static void hold_signals() {
    const sigset_t held = held_signals();
    pthread_sigmask(SIG_BLOCK, &held, nullptr);
  }

  RankFile(const std::string& folder, const cuevent::RankIdentity& identity, const std::string& device)
      : rank_(identity.rank), path_(folder + "/rank" + std::to_string(rank_) + ".json"),
        report_(identity, device), file_(path_) {
    if (!file_) throw std::runtime_error(path_ + " cannot be written: name a folder that exists");
    terminated_ = std::thread([this] {
      const sigset_t held = held_signals();
      int signal = 0;
      sigwait(&held, &signal);
      if (signal != over) fail("the launcher ended the job, for example because another rank was lost");
    });
  }
  RankFile(const RankFile&) = delete;
  RankFile& operator=(const RankFile&) = delete;
  ~RankFile() {
    pthread_kill(terminated_.native_handle(), over);
    terminated_.join();
  }

  template <class Part>
  void add(const Part& part) {
    const std::lock_guard lock(mutex_);
    report_.add(part);
    file_ << report_.take() << std::flush;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    report_.end();
    file_ << report_.take() << std::flush;
  }
  /// Ends the process. Destructors would wait for work that waits for the lost rank.
  [[noreturn]] void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    report_.end(why);
    file_ << report_.take() << std::flush;
    std::fprintf(stderr, "rank %u: %s; what was measured is in %s\n", rank_, why.c_str(), path_.c_str());
    std::_Exit(1);
  }

private:
  static constexpr int over = SIGUSR1; // ends the thread
  static sigset_t held_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, over);
    return signals;
  }

  const unsigned rank_;
  const std::string path_;
  std::mutex mutex_;
  cuevent::RankReport report_;
  std::ofstream file_;
  std::thread terminated_; // waits for SIGTERM
};

} // namespace ranks
