// SPDX-License-Identifier: MIT
// What a watched process says about itself now: how far its streams are, and which calls its threads are in.
#pragma once

#include "report/reader.hpp"
#include "rules/moment.hpp"

#include <string>
#include <unordered_map>

namespace watch {

class ProcessState {
public:
  explicit ProcessState(const CallFile& file) : file_(file), region_(file.region()) {}

  /// The next look records a probe on the stream in this place, unless one is pending there.
  void want_probe(std::uint32_t place) { region_.streams[place].probe_wanted.store(1); }

  /// Asks the process to look how far its streams are. It does so within milliseconds, unless it is stopped.
  void request_look();

  /// Whether the last look is done, at most after this time.
  bool wait_for_look(std::chrono::nanoseconds limit);

  /// When the streams were last looked at. Zero: never.
  std::chrono::nanoseconds last_look() const { return last_look_; }

  watch::Moment moment() const;

  /// "spin(int)", or empty.
  std::string kernel_name(watch::Handle function) const;

private:
  const CallFile& file_;
  watch::Region& region_;
  std::chrono::nanoseconds last_look_{};
};

} // namespace watch
